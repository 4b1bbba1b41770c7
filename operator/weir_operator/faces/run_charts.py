"""The charts of a run, as Plotly figures over one common axis of time.

Every chart bears the same marks: a triangle and a thin line where the deployment changed (the text
under the pointer says how, and for how long nothing came out), and a shade over the intervals that
exceeded the bound. Missing measurements are holes in a line, never zeros.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

from weir_operator.faces import wording
from weir_operator.faces.page import Figure, Json
from weir_operator.faces.run_record import RescaleRecord, Run, TickRecord

SERIES = tuple(f"var(--series-{number})" for number in range(1, 9))
_LOG_FROM = 20.0
"""Ratio of the highest to the lowest response time from which the axis is logarithmic: below it
a linear one shows the distance to the bound better."""


def node_type_colours(run: Run) -> dict[str, str]:
    """Return a colour per node type that ran anywhere, in order of their names.

    With more than eight types colours repeat.
    """
    names = {
        name for tick in run.ticks for operator in tick.operators for name in operator.replicas
    }
    return {name: SERIES[number % len(SERIES)] for number, name in enumerate(sorted(names))}


def rate_figure(run: Run) -> Figure:
    """Return the arrival rate over time."""
    line = _line(run, (tick.rate for tick in run.ticks), name="Rate", colour=SERIES[0])
    line["hovertemplate"] = "%{y:,.0f} records/s"
    return _figure(run, [line], unit="records/s")


def response_figure(run: Run) -> Figure:
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


def replicas_figure(run: Run, operator: str, colours: dict[str, str]) -> Figure:
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
    most = max((sum(replicas.values()) for replicas in deployments), default=0)
    # Few replicas: whole numbers only, or the axis counts in halves.
    return _figure(run, lines, unit="replicas", step=1 if most <= 6 else None)


def cost_rate_figure(run: Run) -> Figure:
    """Return what an hour costs, over time."""
    line = _line(run, (tick.cost_per_hour for tick in run.ticks), name="Per hour", colour=SERIES[3])
    line["line"] = {"color": SERIES[3], "width": 2, "shape": "hv"}
    line |= {"fill": "tozeroy", "hovertemplate": "%{y:.4f} per hour"}
    return _figure(run, [line], unit="per hour")


def cost_figure(run: Run) -> Figure:
    """Return what has been paid since the run began, over time."""
    line = _line(run, (tick.cost for tick in run.ticks), name="Paid", colour=SERIES[3])
    line["hovertemplate"] = "%{y:.4f}"
    return _figure(run, [line], unit="since the start")


def figure_layout(*, unit: str, shapes: Sequence[Json] = ()) -> dict[str, Json]:
    """Return the layout that every chart of Weir shares."""
    axis: dict[str, Json] = {
        "gridcolor": "var(--grid)",
        "linecolor": "var(--line)",
        "zeroline": False,
        "automargin": True,
        "tickfont": {"size": 12},
    }
    return {
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "font": {"color": "var(--quiet)", "family": "system-ui, sans-serif", "size": 12},
        "margin": {"l": 44, "r": 14, "t": 30, "b": 30},
        "showlegend": False,
        "hovermode": "x unified",
        "uirevision": "kept",  # a redraw in other colours keeps the zoom
        "hoverlabel": {
            "bgcolor": "var(--card)",
            "bordercolor": "var(--line)",
            "font": {"color": "var(--ink)"},
        },
        "xaxis": {**axis, "showgrid": False, "showline": True, "nticks": 6, "tickangle": 0},
        "yaxis": {**axis, "rangemode": "tozero", "fixedrange": True},
        "annotations": [
            {
                "text": unit,
                "xref": "paper",
                "yref": "paper",
                "x": 0,
                "y": 1,
                "xanchor": "left",
                "yanchor": "bottom",
                "yshift": 6,
                "showarrow": False,
            }
        ],
        "shapes": list(shapes),
    }


def _figure(
    run: Run,
    lines: Sequence[dict[str, Json]],
    *,
    unit: str,
    shapes: Sequence[Json] = (),
    logarithmic: bool = False,
    step: int | None = None,
) -> Figure:
    layout = figure_layout(unit=unit, shapes=[*_violations(run), *_change_lines(run), *shapes])
    start, end = run.ticks[0].time, run.ticks[-1].time
    layout["xaxis"] = {**_mapping(layout["xaxis"]), "type": "date"}
    if end > start:
        layout["xaxis"] = {**_mapping(layout["xaxis"]), "range": [_moment(start), _moment(end)]}
    if logarithmic:
        # Ticks at 1, 2 and 5 of each decade, written out rather than as powers or bare digits.
        layout["yaxis"] = {
            **_mapping(layout["yaxis"]),
            "type": "log",
            "dtick": "D2",
            "tickformat": "~g",
            "rangemode": "normal",
        }
    if step is not None:
        layout["yaxis"] = {**_mapping(layout["yaxis"]), "dtick": step}
    layout["yaxis2"] = {
        "overlaying": "y",
        "range": [0, 1],
        "visible": False,
        "fixedrange": True,
    }
    return {"data": [*lines, *_change_marks(run)], "layout": layout}


def _mapping(value: Json) -> dict[str, Json]:
    if not isinstance(value, dict):
        raise TypeError(f"Expected a part of a layout, got {value!r}")
    return value


def _line(run: Run, values: Iterable[float], *, name: str, colour: str) -> dict[str, Json]:
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


def _violations(run: Run) -> list[Json]:
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


def _change_lines(run: Run) -> list[Json]:
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


def _change_marks(run: Run) -> list[Json]:
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
    return f"{change.kind} {wording.outcome(change)}{gap}<br>{what}"


def _moment(unix: float) -> str:
    # Plotly reads a time without a zone as it stands: UTC here.
    return f"{datetime.fromtimestamp(unix, UTC):%Y-%m-%d %H:%M:%S.%f}"[:-3]
