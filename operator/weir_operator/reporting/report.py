"""The report of a run: whether it met the objective, its cost, and why each change was made.

Charts share one time axis, with the same marks: a triangle and a thin line for each change of the
deployment (its tooltip says what changed, and for how long there was no output), and a shade over
the intervals that exceeded the bound. Missing measurements are gaps in a line, never zeros.
"""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from weir_operator.loop.run_record import (
    OperatorTick,
    RecordedRun,
    RescaleRecord,
    RunSummary,
    TickRecord,
)
from weir_operator.metrics.keys import KeyReport
from weir_operator.reporting.keys_view import describe_shares
from weir_simulator.reports import wording
from weir_simulator.reports.page import (
    Block,
    Cell,
    Fact,
    Facts,
    Heading,
    Line,
    LineChart,
    Mark,
    ShareChart,
    Table,
    Text,
    Tone,
    render_page,
)


def render_report(run: RecordedRun) -> str:
    """Return the report of a run as one self-contained HTML page.

    Works on what there is: a run without a summary was not ended cleanly and is reported so, a run
    without ticks has no charts.
    """
    blocks: list[Block] = []
    if run.summary is None:
        sentence = "There is no summary: this run has not ended, or it was killed."
        blocks.append(Text(sentence, tone="warn"))
    else:
        blocks.append(Facts(_facts(run.summary)))
    if run.ticks:
        blocks += draw_charts(run)
    if keys := _last_keys(run):
        blocks += draw_keys(keys)
    blocks += [Heading("Changes of the deployment"), _changes(run)]
    blocks += [Heading("Decisions"), _decisions(run)]
    if run.events:
        blocks += [Heading("Events"), _events(run)]
    title = run.ticks[-1].app if run.ticks else run.summary.app if run.summary else "Weir"
    return render_page(title, blocks, subtitle=_subtitle(run))


def _subtitle(run: RecordedRun) -> str:
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


def _facts(summary: RunSummary) -> list[Fact]:
    kept = 1 - summary.violation_share
    broken = summary.violations > 0
    gaps = summary.gaps
    return [
        Fact(
            label="Within the bound",
            value=wording.UNKNOWN if math.isnan(kept) else f"{100 * kept:.1f} %",
            note=f"{summary.violations} of {summary.intervals} intervals exceeded it",
            tone="" if math.isnan(kept) else "bad" if kept < 0.9 else "" if broken else "good",
        ),
        Fact(
            label="Response time",
            value=wording.seconds(summary.response_mean),
            note=f"mean; p95 {wording.seconds(summary.response_p95)}",
        ),
        Fact(
            label="Cost",
            value=wording.money(summary.cost),
            note=f"over {wording.clock(summary.finished - summary.started)}",
        ),
        Fact(
            label="Restarts",
            value=str(summary.restarts),
            note=f"beside {wording.counted(summary.resizes, 'resize')} in place",
        ),
        Fact(
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


def _ledger(summary: RunSummary) -> Fact:
    if summary.lost is None or summary.doubled is None:
        return Fact(label="Lost / duplicated", value=wording.UNKNOWN, note="cannot be proven here")
    received = "" if summary.received is None else f"of {summary.received:,} records"
    whole = summary.lost == 0 and summary.doubled == 0
    return Fact(
        label="Lost / duplicated",
        value=f"{summary.lost} / {summary.doubled}",
        note=received,
        tone="good" if whole else "bad",
    )


def draw_charts(run: RecordedRun) -> Iterator[Block]:
    """Yield the charts of a run with one tick at least."""
    times = [tick.time for tick in run.ticks]
    changes = [_mark(change) for change in run.rescales]
    violations = _violations(run)

    def line(name: str, value: Callable[[TickRecord], float], *, colour: int = 0) -> Line:
        return Line(name=name, x=times, y=[value(tick) for tick in run.ticks], colour=colour)

    def chart(title: str, unit: str, lines: Sequence[Line], **settings: Any) -> LineChart:
        return LineChart(
            title=title, unit=unit, lines=lines, marks=changes, shades=violations, **settings
        )

    yield Heading("Load and response")
    yield Text(
        "▼ rescale, ◆ resize; red if it did not succeed. Shaded: intervals over the bound, which "
        "is dashed.",
        "quiet",
    )
    yield chart("Arrival rate", "records/s", [line("rate", lambda tick: tick.rate)])
    yield chart(
        "Response time",
        "s",
        [
            line("mean", lambda tick: tick.response_time.mean),
            line("95th percentile", lambda tick: tick.response_time.p95, colour=1),
        ],
        limit=run.ticks[-1].objective.bound,
        is_wide=True,
    )
    yield Heading("Replicas")
    used = {name for tick in run.ticks for each in tick.operators for name in each.replicas}
    colours = {name: number for number, name in enumerate(sorted(used))}
    for operator in dict.fromkeys(each.name for tick in run.ticks for each in tick.operators):
        lines = [
            line(name, partial(_replicas_at, operator=operator, node_type=name), colour=colour)
            for name, colour in colours.items()
        ]
        yield chart(
            operator, "replicas", [each for each in lines if any(each.y)], shape="stack", height=210
        )
    yield Heading("Cost")
    yield chart(
        "Cost per hour",
        "currency",
        [line("per hour", lambda tick: tick.cost_per_hour, colour=3)],
        shape="steps",
        height=210,
    )
    yield chart(
        "Accumulated cost",
        "currency",
        [line("paid", lambda tick: tick.cost, colour=3)],
        height=210,
    )


def _last_keys(run: RecordedRun) -> dict[str, KeyReport]:
    return {each.name: each.keys for tick in run.ticks for each in tick.operators if each.keys}


def draw_keys(keys: Mapping[str, KeyReport]) -> Iterator[Block]:
    """Yield how the keys of each operator share its records, as a sentence and as bars."""
    yield Heading("Keys")
    yield Text(
        "As last counted. Dashed: the mean, which each replica would get of even keys.", "quiet"
    )
    for name, report in keys.items():
        yield Text(f"{name}: {describe_shares(report)}")
    for name, report in keys.items():
        if len(report.replicas) > 1:
            yield ShareChart(
                title=name, unit="part of the records", over="subtask", shares=report.replicas
            )


def _replicas_at(tick: TickRecord, *, operator: str, node_type: str) -> float:
    return sum(each.replicas.get(node_type, 0) for each in tick.operators if each.name == operator)


def _violations(run: RecordedRun) -> list[tuple[float, float]]:
    """Return the spans of intervals on end that exceeded the bound."""
    spans: list[tuple[float, float]] = []
    # An interval begins with the tick before; when the first one began is not known.
    for before, tick in zip((run.ticks[0], *run.ticks), run.ticks, strict=False):
        if not tick.violated:
            continue
        if spans and before.violated:
            spans[-1] = (spans[-1][0], tick.time)
        else:
            spans.append((before.time, tick.time))
    return spans


def _mark(change: RescaleRecord) -> Mark:
    gap = "" if change.gap is None else f", no output for {wording.seconds(change.gap)}"
    what = wording.change(change.before, change.after).replace("; ", "\n")
    return Mark(
        time=change.started,
        text=f"{change.kind} {wording.outcome(change.outcome)}{gap}\n{what}",
        symbol="triangle-down" if change.kind == "rescale" else "diamond",
        is_bad=change.outcome not in ("done", "running"),
    )


def _changes(run: RecordedRun) -> Table:
    return Table(
        columns={
            "Time": "short",
            "Kind": "short",
            "Change": "wide",
            "Outcome": "short",
            "No output": "number",
            "Took": "number",
            "Steps": "wide",
        },
        rows=[
            [
                wording.time_of_day(change.started),
                change.kind,
                wording.change(change.before, change.after),
                Cell(
                    wording.outcome(change.outcome),
                    "good" if change.outcome == "done" else "warn",
                ),
                wording.seconds(change.gap),
                wording.seconds(
                    None if change.finished is None else change.finished - change.started
                ),
                Cell(_steps(change), "quiet"),
            ]
            for change in run.rescales
        ],
        empty="The deployment never changed.",
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


def _decisions(run: RecordedRun) -> Table:
    rows: list[list[str | Cell]] = []
    for index, tick in enumerate(run.ticks):
        for operator in tick.operators:
            if operator.target is None:
                continue
            rows.append(
                [
                    wording.time_of_day(tick.time),
                    operator.name,
                    f"{wording.replicas(operator.replicas)} → {wording.replicas(operator.target)}",
                    operator.reason,
                    operator.verdict,
                    wording.seconds(operator.predicted),
                    wording.seconds(_measured_at(run, index, operator)),
                ]
            )
    return Table(
        columns={
            "Time": "short",
            "Operator": "short",
            "Proposal": "text",
            "Reason": "wide",
            "Verdict": "text",
            "Expected": "number",
            "Measured": "number",
        },
        rows=rows,
        empty="No operator ever asked for another deployment.",
    )


def _measured_at(run: RecordedRun, index: int, decided: OperatorTick) -> float:
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


def _events(run: RecordedRun) -> Table:
    tones: dict[str, Tone] = {"info": "", "warning": "warn", "error": "bad"}
    return Table(
        columns={"Time": "short", "Level": "short", "What happened": "wide"},
        rows=[
            [
                wording.time_of_day(event.time),
                Cell(event.level, tones[event.level]),
                event.message,
            ]
            for event in run.events
        ],
        empty="Nothing happened.",
    )


def write_figures(summary: RunSummary, path: Path, *, most_violations: float) -> None:
    """Write `[{figure, value, unit, goal, holds}]`; what was not measured is null.

    Folders are made. `most_violations` is the share of intervals that may exceed the bound.
    """
    rows = [
        _at_most("records lost", summary.lost, "records", 0),
        _at_most("records doubled", summary.doubled, "records", 0),
        _at_most("intervals over the bound", summary.violation_share, "share", most_violations),
        _plain("intervals", summary.intervals, "intervals"),
        _plain("mean response time", summary.response_mean, "s"),
        _plain("cost", summary.cost, "currency"),
        _plain("restarts", summary.restarts, "restarts"),
        _plain("resizes", summary.resizes, "resizes"),
        _plain("longest output gap", max(summary.gaps, default=math.nan), "s"),
        _plain("records received", summary.received, "records"),
    ]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")


Row = dict[str, str | float | bool | None]


def _plain(figure: str, value: float | None, unit: str) -> Row:
    known = value is not None and math.isfinite(value)
    return {
        "figure": figure,
        "value": value if known else None,
        "unit": unit,
        "goal": None,
        "holds": None,
    }


def _at_most(figure: str, value: float | None, unit: str, limit: float) -> Row:
    known = value is not None and math.isfinite(value)
    holds = value <= limit if value is not None and known else None
    return {**_plain(figure, value, unit), "goal": f"at most {limit:g}", "holds": holds}
