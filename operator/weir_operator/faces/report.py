"""The HTML report of a run: was the promise kept, at what cost, and why each change was made."""

from __future__ import annotations

import math
import statistics
from datetime import UTC, datetime

from weir_operator.faces import run_charts, wording
from weir_operator.faces.page import (
    Block,
    Cell,
    Chart,
    Charts,
    Column,
    Key,
    Prose,
    Section,
    Table,
    Tile,
    Tiles,
    Tone,
    render_page,
)
from weir_operator.faces.run_record import (
    OperatorTick,
    RescaleRecord,
    Run,
    RunSummary,
)


def render_report(run: Run) -> str:
    """Return the report of a run as one self-contained HTML page.

    Works on what there is: a run without a summary was not ended cleanly and is reported so, a run
    without ticks has no charts.
    """
    sections = [Section(title="", blocks=_outcome(run))]
    if run.ticks:
        sections += _chart_sections(run)
    sections += [
        Section(title="Changes of the deployment", blocks=[_changes(run)]),
        Section(title="Decisions", blocks=[_decisions(run)]),
    ]
    if run.events:
        sections.append(Section(title="Events", blocks=[_events(run)]))
    title = run.ticks[-1].app if run.ticks else run.summary.app if run.summary else "Weir"
    return render_page(title, sections, subtitle=_subtitle(run))


def _subtitle(run: Run) -> str:
    if not run.ticks:
        return "No control interval was recorded."
    first, last = run.ticks[0], run.ticks[-1]
    # Fixed operators have none, and a tick that held has none of any: look at all ticks.
    used = (operator.policy for tick in run.ticks for operator in tick.operators)
    policies = ", ".join(dict.fromkeys(policy for policy in used if policy)) or "none decided"
    return (
        f"{datetime.fromtimestamp(first.time, UTC):%d %B %Y, %H:%M:%S} to "
        f"{wording.time_of_day(last.time)} UTC · mode {last.mode} · policy {policies} · "
        f"objective: {last.objective.statistic} response time at most "
        f"{wording.seconds(last.objective.bound)}"
    )


def _outcome(run: Run) -> list[Block]:
    if run.summary is None:
        sentence = "This run has no summary: it goes on, or was not ended cleanly."
        return [Prose(sentence, tone="warn")]
    return [Tiles(_tiles(run.summary, run))]


def _tiles(summary: RunSummary, run: Run) -> list[Tile]:
    kept = 1 - summary.violation_share
    broken = summary.violations > 0
    gaps = summary.gaps
    tiles = [
        Tile(
            label="Within the bound",
            value=wording.UNKNOWN if math.isnan(kept) else f"{100 * kept:.1f} %",
            note=f"{summary.violations} of {summary.intervals} intervals exceeded it",
            tone="" if math.isnan(kept) else "bad" if kept < 0.9 else "" if broken else "good",
        ),
        Tile(
            label="Response time",
            value=wording.seconds(summary.response_mean),
            note=f"mean; p95 {wording.seconds(summary.response_p95)}",
        ),
        Tile(
            label="Cost",
            value=wording.money(summary.cost),
            note=f"over {wording.clock(summary.finished - summary.started)}",
        ),
        Tile(
            label="Restarts",
            value=str(summary.restarts),
            note=f"beside {wording.counted(summary.resizes, 'resize')} in place",
        ),
        Tile(
            label="Longest gap",
            value=wording.seconds(max(gaps)) if gaps else wording.UNKNOWN,
            note=(
                f"without output; median {wording.seconds(statistics.median(gaps))}"
                if gaps
                else "no gap was measured"
            ),
        ),
        _ledger(summary),
    ]
    return tiles


def _ledger(summary: RunSummary) -> Tile:
    if summary.lost is None or summary.doubled is None:
        return Tile(label="Lost / doubled", value=wording.UNKNOWN, note="cannot be proven here")
    received = "" if summary.received is None else f"of {summary.received:,} records"
    whole = summary.lost == 0 and summary.doubled == 0
    return Tile(
        label="Lost / doubled",
        value=f"{summary.lost} / {summary.doubled}",
        note=received,
        tone="good" if whole else "bad",
    )


def _chart_sections(run: Run) -> list[Section]:
    colours = run_charts.node_type_colours(run)
    operators = dict.fromkeys(each.name for tick in run.ticks for each in tick.operators)
    return [
        Section(
            title="Load and response",
            blocks=[
                Key(
                    [
                        ("var(--series-1)", "rate, mean response time"),
                        ("var(--series-2)", "95th percentile"),
                        ("var(--bound)", "bound, and intervals that exceeded it"),
                        ("var(--accent)", "▼ rescale, ◆ resize; red where it did not last"),
                    ]
                ),
                Charts(
                    [
                        Chart(title="Arrival rate", figure=run_charts.rate_figure(run)),
                        Chart(title="Response time", figure=run_charts.response_figure(run)),
                    ]
                ),
            ],
        ),
        Section(
            title="Replicas",
            blocks=[
                Key([(colour, name) for name, colour in colours.items()]),
                Charts(
                    [
                        Chart(
                            title=name,
                            figure=run_charts.replicas_figure(run, name, colours),
                            height=210,
                        )
                        for name in operators
                    ]
                ),
            ],
        ),
        Section(
            title="Cost",
            blocks=[
                Charts(
                    [
                        Chart(
                            title="Cost per hour",
                            figure=run_charts.cost_rate_figure(run),
                            height=210,
                        ),
                        Chart(
                            title="Accumulated cost",
                            figure=run_charts.cost_figure(run),
                            height=210,
                        ),
                    ]
                )
            ],
        ),
    ]


def _changes(run: Run) -> Table:
    return Table(
        columns=[
            Column("Time", "short"),
            Column("Kind", "short"),
            Column("Change", "wide"),
            Column("Outcome", "short"),
            Column("No output", "number"),
            Column("Took", "number"),
            Column("Steps", "wide"),
        ],
        rows=[
            [
                Cell(wording.time_of_day(change.started)),
                Cell(change.kind),
                Cell(wording.change(change.before, change.after)),
                Cell(wording.outcome(change), "good" if change.outcome == "done" else "warn"),
                Cell(wording.seconds(change.gap)),
                Cell(
                    wording.UNKNOWN
                    if change.finished is None
                    else wording.seconds(change.finished - change.started)
                ),
                Cell(_steps(change), "quiet"),
            ]
            for change in run.rescales
        ],
        empty="The deployment was never changed.",
    )


def _steps(change: RescaleRecord) -> str:
    """Return how long each step took: until the next one, the last until the end.

    The end is a step too, which takes no time.
    """
    ends = [step.time for step in change.steps[1:]]
    if change.finished is not None:
        ends.append(change.finished)
    return ", ".join(
        f"{step.name} {wording.seconds(end - step.time)}"
        for step, end in zip(change.steps, ends, strict=False)
        if end > step.time
    )


def _decisions(run: Run) -> Table:
    rows = []
    for index, tick in enumerate(run.ticks):
        for operator in tick.operators:
            if operator.target is None:
                continue
            measured = _measured_at(run, index, operator)
            rows.append(
                [
                    Cell(wording.time_of_day(tick.time)),
                    Cell(operator.name),
                    Cell(
                        f"{wording.replicas(operator.replicas)} → "
                        f"{wording.replicas(operator.target)}"
                    ),
                    Cell(operator.reason),
                    Cell(operator.verdict),
                    Cell(wording.seconds(operator.predicted)),
                    Cell(wording.seconds(measured), "quiet" if math.isnan(measured) else ""),
                ]
            )
    return Table(
        columns=[
            Column("Time", "short"),
            Column("Operator", "short"),
            Column("Proposal"),
            Column("Reason", "wide"),
            Column("Verdict"),
            Column("Expected", "number"),
            Column("Measured", "number"),
        ],
        rows=rows,
        empty="No operator ever asked for another deployment.",
    )


def _measured_at(run: Run, index: int, decided: OperatorTick) -> float:
    """Return the operator's median response time under the target, s; NaN if it never ran.

    The first interval with the target holds the restart itself and is left out, where there are
    more; those that follow count until the deployment changes again, five at most.
    """
    times: list[float] = []
    for tick in run.ticks[index + 1 :]:
        now = next((each for each in tick.operators if each.name == decided.name), None)
        runs_target = now is not None and now.replicas == decided.target
        if now is not None and runs_target and math.isfinite(now.response_time):
            times.append(now.response_time)
        if (times and not runs_target) or len(times) > 5:
            break
        if not times and now is not None and now.target not in (None, decided.target):
            break  # another decision came first
    return statistics.median(times[1:] or times) if times else math.nan


def _events(run: Run) -> Table:
    tones: dict[str, Tone] = {"info": "", "warning": "warn", "error": "bad"}
    return Table(
        columns=[
            Column("Time", "short"),
            Column("Level", "short"),
            Column("What happened", "wide"),
        ],
        rows=[
            [
                Cell(wording.time_of_day(event.time)),
                Cell(event.level, tones[event.level]),
                Cell(event.message),
            ]
            for event in run.events
        ],
        empty="Nothing happened.",
    )
