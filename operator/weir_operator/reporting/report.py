"""The HTML report of a run: whether it met the objective, its cost, and why each change was made.

Charts are Plotly figures over one common time axis, with the same marks: a triangle and a thin line
for each change of the deployment (its tooltip says what changed, and for how long there was no
output), and a shade over the intervals that exceeded the bound. Missing measurements are gaps in a
line, never zeros.
"""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path

from weir_operator.loop.run_record import (
    OperatorTick,
    RecordedRun,
    RescaleRecord,
    RunSummary,
    TickRecord,
)
from weir_simulator.reports import wording
from weir_simulator.reports.page import (
    LOGARITHMIC,
    SERIES,
    Block,
    Cell,
    Chart,
    Charts,
    Column,
    Figure,
    Json,
    Key,
    Prose,
    Section,
    Table,
    Tile,
    Tiles,
    Tone,
    figure_layout,
    render_page,
)

_LOG_FROM = 20.0
"""Ratio of the highest to the lowest response time from which the axis is logarithmic: below it
a linear one shows the distance to the bound better."""


def node_type_colours(run: RecordedRun) -> dict[str, str]:
    """Return a colour per node type that ran anywhere, in order of their names.

    With more than eight types colours repeat.
    """
    names = {
        name for tick in run.ticks for operator in tick.operators for name in operator.replicas
    }
    return {name: SERIES[number % len(SERIES)] for number, name in enumerate(sorted(names))}


def rate_figure(run: RecordedRun) -> Figure:
    """Return the arrival rate over time."""
    line = _line(run, (tick.rate for tick in run.ticks), name="Rate", colour=SERIES[0])
    line["hovertemplate"] = "%{y:,.0f} records/s"
    return _figure(run, [line], unit="records/s")


def response_figure(run: RecordedRun) -> Figure:
    """Return the response time over time, its mean and 95th percentile, with the bound."""
    times = [tick.response_time for tick in run.ticks]
    bound = run.ticks[-1].objective.bound
    lines = [
        _line(run, (time.p95 for time in times), name="p95", colour=SERIES[1]),
        _line(run, (time.mean for time in times), name="Mean", colour=SERIES[0]),
    ]
    for line in lines:
        line["hovertemplate"] = "%{y:.3f} s"
    limit: dict[str, Json] = {
        "type": "line",
        "xref": "paper",
        "x0": 0,
        "x1": 1,
        "y0": bound,
        "y1": bound,
        "line": {"color": "var(--bound)", "width": 1.5, "dash": "dash"},
    }
    seen = [*(time.mean for time in times), *(time.p95 for time in times), bound]
    finite = [value for value in seen if math.isfinite(value) and value > 0]
    logarithmic = max(finite) > _LOG_FROM * min(finite)
    return _figure(run, lines, unit="s", shapes=[limit], logarithmic=logarithmic)


def replicas_figure(run: RecordedRun, operator: str, colours: dict[str, str]) -> Figure:
    """Return one operator's replicas over time, stacked by node type."""
    deployments = [
        {each.name: each.replicas for each in tick.operators}.get(operator, {})
        for tick in run.ticks
    ]
    lines: list[dict[str, Json]] = []
    for name, colour in colours.items():
        counts = [float(replicas.get(name, 0)) for replicas in deployments]
        if any(counts):
            line = _line(run, counts, name=name, colour=colour)
            line["line"] = {"color": colour, "width": 1, "shape": "hv"}
            line |= {"stackgroup": "replicas", "hovertemplate": "%{y}", "fillcolor": colour}
            lines.append(line)
    maximum = max((sum(replicas.values()) for replicas in deployments), default=0)
    # Few replicas: whole numbers only, or the axis counts in halves.
    return _figure(run, lines, unit="replicas", step=1 if maximum <= 6 else None)


def cost_rate_figure(run: RecordedRun) -> Figure:
    """Return what an hour costs, over time."""
    line = _line(run, (tick.cost_per_hour for tick in run.ticks), name="Per hour", colour=SERIES[3])
    line["line"] = {"color": SERIES[3], "width": 2, "shape": "hv"}
    line |= {"fill": "tozeroy", "hovertemplate": "%{y:.4f} per hour"}
    return _figure(run, [line], unit="per hour")


def cost_figure(run: RecordedRun) -> Figure:
    """Return what has been paid since the run began, over time."""
    line = _line(run, (tick.cost for tick in run.ticks), name="Paid", colour=SERIES[3])
    line["hovertemplate"] = "%{y:.4f}"
    return _figure(run, [line], unit="since the start")


def _figure(
    run: RecordedRun,
    lines: Sequence[dict[str, Json]],
    *,
    unit: str,
    shapes: Sequence[Json] = (),
    logarithmic: bool = False,
    step: int | None = None,
) -> Figure:
    xaxis: dict[str, Json] = {"type": "date"}
    start, end = run.ticks[0].time, run.ticks[-1].time
    if end > start:
        xaxis["range"] = [_moment(start), _moment(end)]
    yaxis = dict(LOGARITHMIC) if logarithmic else {}
    if step is not None:
        yaxis["dtick"] = step
    layout = figure_layout(
        unit=unit,
        shapes=[*_violations(run), *_change_lines(run), *shapes],
        xaxis=xaxis,
        yaxis=yaxis,
    )
    layout["yaxis2"] = {
        "overlaying": "y",
        "range": [0, 1],
        "visible": False,
        "fixedrange": True,
    }
    return {"data": [*lines, *_change_marks(run)], "layout": layout}


def _line(run: RecordedRun, values: Iterable[float], *, name: str, colour: str) -> dict[str, Json]:
    return {
        "type": "scatter",
        "mode": "lines",
        "name": name,
        "x": [_moment(tick.time) for tick in run.ticks],
        # JSON has neither NaN nor infinity; Plotly leaves a hole where a value is null.
        "y": [value if math.isfinite(value) else None for value in values],
        "line": {"color": colour, "width": 2},
        "connectgaps": False,
    }


def _violations(run: RecordedRun) -> list[Json]:
    """Return a shade over each run of intervals that exceeded the bound."""
    spans: list[list[float]] = []
    for before, tick in zip((None, *run.ticks), run.ticks, strict=False):
        if not tick.violated:
            continue
        start = _interval_start(before, tick)
        if spans and before is not None and before.violated:
            spans[-1][1] = tick.time
        else:
            spans.append([start, tick.time])
    return [
        {
            "type": "rect",
            "yref": "paper",
            "y0": 0,
            "y1": 1,
            "x0": _moment(start),
            "x1": _moment(end),
            "fillcolor": "var(--violation)",
            "line": {"width": 0},
            "layer": "below",
        }
        for start, end in spans
    ]


def _interval_start(before: TickRecord | None, tick: TickRecord) -> float:
    """Return when the interval that ends with a tick began; the first one's start is unknown."""
    return tick.time if before is None else before.time


def _change_lines(run: RecordedRun) -> list[Json]:
    return [
        {
            "type": "line",
            "yref": "paper",
            "y0": 0,
            "y1": 1,
            "x0": _moment(change.started),
            "x1": _moment(change.started),
            "line": {"color": "var(--quiet)", "width": 1, "dash": "dot"},
            "layer": "below",
        }
        for change in run.rescales
    ]


def _change_marks(run: RecordedRun) -> list[Json]:
    if not run.rescales:
        return []
    return [
        {
            "type": "scatter",
            "mode": "markers",
            "name": "Change",
            "yaxis": "y2",
            "x": [_moment(change.started) for change in run.rescales],
            "y": [1 for _ in run.rescales],
            "cliponaxis": False,
            "marker": {
                "symbol": [
                    "triangle-down" if change.kind == "rescale" else "diamond"
                    for change in run.rescales
                ],
                "size": 9,
                "color": [
                    "var(--accent)" if change.outcome in ("done", "running") else "var(--bad)"
                    for change in run.rescales
                ],
            },
            "text": [_describe(change) for change in run.rescales],
            "hovertemplate": "%{text}<extra></extra>",
        }
    ]


def _describe(change: RescaleRecord) -> str:
    # Plotly reads a small part of HTML in its texts; names come from the user's manifest.
    what = wording.change(change.before, change.after).replace("<", "&lt;").replace("; ", "<br>")
    gap = "" if change.gap is None else f", no output for {wording.seconds(change.gap)}"
    return f"{change.kind} {wording.outcome(change.outcome)}{gap}<br>{what}"


def _moment(unix: float) -> str:
    # Plotly reads a time without a zone as it stands: UTC here.
    return f"{datetime.fromtimestamp(unix, UTC):%Y-%m-%d %H:%M:%S.%f}"[:-3]


def render_report(run: RecordedRun) -> str:
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


def _outcome(run: RecordedRun) -> list[Block]:
    if run.summary is None:
        sentence = "There is no summary: this run has not ended, or it was killed."
        return [Prose(sentence, tone="warn")]
    return [
        Tiles(_tiles(run.summary, standby=max((each.standby for each in run.ticks), default=0)))
    ]


def _tiles(summary: RunSummary, *, standby: int) -> list[Tile]:
    kept = 1 - summary.violation_share
    broken = summary.violations > 0
    gaps = summary.gaps
    waiting = f", with {wording.counted(standby, 'standby TaskManager')}" if standby else ""
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
            note=f"over {wording.clock(summary.finished - summary.started)}{waiting}",
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
        return Tile(label="Lost / duplicated", value=wording.UNKNOWN, note="cannot be proven here")
    received = "" if summary.received is None else f"of {summary.received:,} records"
    whole = summary.lost == 0 and summary.doubled == 0
    return Tile(
        label="Lost / duplicated",
        value=f"{summary.lost} / {summary.doubled}",
        note=received,
        tone="good" if whole else "bad",
    )


def _chart_sections(run: RecordedRun) -> list[Section]:
    colours = node_type_colours(run)
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
                        ("var(--accent)", "▼ rescale, ◆ resize; red if it did not succeed"),
                    ]
                ),
                Charts(
                    [
                        Chart(title="Arrival rate", figure=rate_figure(run)),
                        Chart(title="Response time", figure=response_figure(run)),
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
                            figure=replicas_figure(run, name, colours),
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
                            figure=cost_rate_figure(run),
                            height=210,
                        ),
                        Chart(
                            title="Accumulated cost",
                            figure=cost_figure(run),
                            height=210,
                        ),
                    ]
                )
            ],
        ),
    ]


def _changes(run: RecordedRun) -> Table:
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
                Cell(
                    wording.outcome(change.outcome),
                    "good" if change.outcome == "done" else "warn",
                ),
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


def write_figures(summary: RunSummary, path: Path, *, most_violations: float) -> None:
    """Write `[{figure, value, unit, goal, holds}]`; what was not measured is null.

    Args:
        summary: The run.
        path: Where to; folders are made.
        most_violations: Share of the intervals that the objective allows over its bound.
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
