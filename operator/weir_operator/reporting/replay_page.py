"""A replay as one self-contained HTML page with charts. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any

from weir_operator.loop.replay import Replay, ReplayedDecision, ReplayedInterval
from weir_operator.reporting.replay import (
    count_equal,
    describe_choice,
    describe_span,
    differs,
    find_changes,
    list_figures,
    name_sides,
)
from weir_simulator.reports import page, wording
from weir_simulator.reports.page import SERIES, Json, figure_layout

MAX_ROWS_ON_PAGE = 2000
"""Rows of a page's table; a browser takes long over more."""


@dataclass(frozen=True, slots=True)
class _Line:
    """How a line of a chart is named and drawn."""

    name: str
    colour: str
    dashed: bool = False
    width: float = 2


RECORDED = _Line("Recorded", SERIES[0])
# Where both are equal, dashes let the other one be seen.
REPLAYED = _Line("Replayed", SERIES[1], dashed=True)
MEASURED = _Line("Measured", SERIES[2], width=1)
RATE = _Line("Rate", SERIES[2])


def render_replay_page(replay: Replay) -> str:
    """Return the replay as one self-contained HTML page."""
    was, would = name_sides(replay)
    sections = [
        page.Section(
            title="", blocks=[page.Tiles(_tiles(replay)), page.Prose(count_equal(replay) + ".")]
        ),
        *_charts(replay, f"recorded: {was}", f"replayed: {would}"),
        page.Section(title="Totals", blocks=[_totals_table(replay, was, would)]),
        page.Section(title="Decisions", blocks=_decisions(replay)),
        page.Section(
            title="What this replay does not know",
            blocks=[page.Prose(f"{notice}.") for notice in replay.notices],
        ),
    ]
    subtitle = f"{describe_span(replay)} · recorded: {was} · replayed: {would}"
    return page.render_page(f"{replay.app}, replayed", sections, subtitle=subtitle)


def _tiles(replay: Replay) -> list[page.Tile]:
    return [
        page.Tile(
            label=each.label[0].upper() + each.label[1:],
            value=each.would,
            note=f"recorded {each.was}" + (f", {each.change}" if each.change else ""),
        )
        for each in list_figures(replay)
        if each.would != wording.UNKNOWN
    ]


def _totals_table(replay: Replay, was: str, would: str) -> page.Table:
    return page.Table(
        columns=[
            page.Column("", "wide"),
            page.Column(f"Recorded: {was}", "number"),
            page.Column(f"Replayed: {would}", "number"),
        ],
        rows=[
            [page.Cell(each.label), page.Cell(each.was), page.Cell(each.would)]
            for each in list_figures(replay)
        ],
        empty="",
    )


def _charts(replay: Replay, was: str, would: str) -> list[page.Section]:
    intervals = replay.intervals
    sides = [(RECORDED.colour, was), (REPLAYED.colour, would)]
    return [
        page.Section(
            title="Response time and load",
            blocks=[
                page.Key(
                    [
                        *sides,
                        (MEASURED.colour, "measured"),
                        ("var(--bound)", "bound"),
                        ("var(--quiet)", "▲ the model predicts that the deployment cannot keep up"),
                    ]
                ),
                page.Charts(
                    [
                        page.Chart(
                            title="Response time, predicted for both, and measured",
                            figure=response_figure(intervals),
                        ),
                        page.Chart(title="Arrival rate", figure=rate_figure(intervals)),
                    ]
                ),
            ],
        ),
        page.Section(
            title="Replicas",
            blocks=[
                page.Key(sides),
                page.Charts(
                    [
                        page.Chart(title=name, figure=replicas_figure(intervals, name), height=210)
                        for name in _scaled(intervals)
                    ]
                ),
            ],
        ),
        page.Section(
            title="Cost",
            blocks=[
                page.Key(sides),
                page.Charts(
                    [
                        page.Chart(
                            title="Accumulated cost", figure=cost_figure(intervals), height=210
                        )
                    ]
                ),
            ],
        ),
    ]


def _scaled(intervals: Sequence[ReplayedInterval]) -> list[str]:
    """Return the operators that change on either side; all where none does."""
    sides = [side for each in intervals for side in (each.was, each.would)]
    names = list(dict.fromkeys(name for side in sides for name in side.deployments))
    changing = [
        name
        for name in names
        if len({tuple(sorted(side.deployments.get(name, {}).items())) for side in sides}) > 1
    ]
    return changing or names


def response_figure(intervals: Sequence[ReplayedInterval]) -> dict[str, Any]:
    """Return the response time: measured, and predicted for both deployments."""
    was = [each.was.response_time for each in intervals]
    would = [each.would.response_time for each in intervals]
    measured = [each.measured for each in intervals]
    seen = [
        value
        for value in (*was, *would, *measured, *(each.bound for each in intervals))
        if math.isfinite(value) and value > 0
    ]
    figure = _figure(
        [
            _draw(intervals, measured, MEASURED, "s"),
            _draw(intervals, was, RECORDED, "s"),
            _draw(intervals, would, REPLAYED, "s"),
            *_overloads(intervals, was, RECORDED, at=1.0),
            *_overloads(intervals, would, REPLAYED, at=0.95),
        ],
        intervals,
        unit="s",
        shapes=_bounds(intervals),
        logarithmic=max(seen) > 20 * min(seen),
    )
    figure["layout"]["yaxis2"] = {
        "overlaying": "y",
        "range": [0, 1],
        "visible": False,
        "fixedrange": True,
    }
    return figure


def _overloads(
    intervals: Sequence[ReplayedInterval],
    values: Sequence[float],
    line: _Line,
    *,
    at: float,
) -> list[dict[str, Json]]:
    """Return marks where a predicted response time is infinite, which no line can show."""
    times = [
        wording.date_and_time(each.time)
        for each, value in zip(intervals, values, strict=True)
        if math.isinf(value)
    ]
    if not times:
        return []
    return [
        {
            "type": "scatter",
            "mode": "markers",
            "name": line.name,
            "yaxis": "y2",
            "x": times,
            "y": [at] * len(times),
            "cliponaxis": False,
            "marker": {"symbol": "triangle-up", "size": 7, "color": line.colour},
            "hovertemplate": "cannot keep up",
        }
    ]


def rate_figure(intervals: Sequence[ReplayedInterval]) -> dict[str, Any]:
    """Return the arrival rate, which is the same for both."""
    rates = [each.rate for each in intervals]
    line = _draw(intervals, rates, RATE, "records/s")
    return _figure([line], intervals, unit="records/s")


def replicas_figure(intervals: Sequence[ReplayedInterval], name: str) -> dict[str, Any]:
    """Return the replicas of an operator in both deployments; hovering shows where they run."""
    lines = []
    for look, sides in (
        (RECORDED, [each.was for each in intervals]),
        (REPLAYED, [each.would for each in intervals]),
    ):
        counts = [side.deployments.get(name, {}) for side in sides]
        line = _draw(intervals, [float(sum(each.values())) for each in counts], look, "")
        line["line"] = {**_style(look), "shape": "vh"}
        line["text"] = [wording.replicas(each).replace("<", "&lt;") for each in counts]
        line["hovertemplate"] = "%{text}"
        lines.append(line)
    return _figure(lines, intervals, unit="replicas", step=_step(intervals, name))


def cost_figure(intervals: Sequence[ReplayedInterval]) -> dict[str, Any]:
    """Return what both deployments have cost since the beginning."""
    was = accumulate(each.was.cost for each in intervals)
    would = accumulate(each.would.cost for each in intervals)
    return _figure(
        [
            _draw(intervals, list(was), RECORDED, ""),
            _draw(intervals, list(would), REPLAYED, ""),
        ],
        intervals,
        unit="since the beginning",
    )


def _step(intervals: Sequence[ReplayedInterval], name: str) -> int | None:
    """Return the distance of an axis' ticks; few replicas are not counted in halves."""
    maximum = max(
        sum(side.deployments.get(name, {}).values())
        for each in intervals
        for side in (each.was, each.would)
    )
    return 1 if maximum <= 6 else None


def _draw(
    intervals: Sequence[ReplayedInterval],
    values: Sequence[float],
    line: _Line,
    unit: str,
) -> dict[str, Json]:
    return {
        "type": "scatter",
        "mode": "lines",
        "name": line.name,
        "x": [wording.date_and_time(each.time) for each in intervals],
        # JSON has neither NaN nor infinity; Plotly leaves a hole where a value is null.
        "y": [value if math.isfinite(value) else None for value in values],
        "line": _style(line),
        "connectgaps": False,
        "hovertemplate": f"%{{y:.4~g}} {unit}".rstrip(),
    }


def _style(line: _Line) -> dict[str, Json]:
    dash = {"dash": "dash"} if line.dashed else {}
    return {"color": line.colour, "width": line.width, **dash}


def _figure(
    lines: Sequence[dict[str, Json]],
    intervals: Sequence[ReplayedInterval],
    *,
    unit: str,
    shapes: Sequence[Json] = (),
    logarithmic: bool = False,
    step: int | None = None,
) -> dict[str, Any]:
    xaxis: dict[str, Json] = {
        "type": "date",
        "range": [
            wording.date_and_time(intervals[0].time),
            wording.date_and_time(intervals[-1].time),
        ],
    }
    yaxis: dict[str, Json] = dict(page.LOGARITHMIC) if logarithmic else {}
    if step is not None:
        yaxis["dtick"] = step
    return {
        "data": list(lines),
        "layout": figure_layout(unit=unit, shapes=shapes, xaxis=xaxis, yaxis=yaxis),
    }


def _bounds(intervals: Sequence[ReplayedInterval]) -> list[Json]:
    """Return a line for each bound that held, over the time that it did."""
    ends = [
        0,
        *(n + 1 for n, (a, b) in enumerate(pairwise(intervals)) if a.bound != b.bound),
        len(intervals) - 1,
    ]
    return [
        {
            "type": "line",
            "x0": wording.date_and_time(intervals[first].time),
            "x1": wording.date_and_time(intervals[last].time),
            "y0": intervals[first].bound,
            "y1": intervals[first].bound,
            "line": {"color": "var(--bound)", "width": 1.5, "dash": "dash"},
        }
        for first, last in pairwise(ends)
    ]


def _decisions(replay: Replay) -> list[page.Block]:
    changed = find_changes(replay.intervals)
    table = page.Table(
        columns=[
            page.Column("Time", "short"),
            page.Column("Operator", "short"),
            page.Column("Records/s", "number"),
            page.Column("Recorded"),
            page.Column("Reason", "wide"),
            page.Column("Replayed"),
            page.Column("Reason", "wide"),
        ],
        rows=[
            [
                page.Cell(wording.date_and_time(interval.time)),
                page.Cell(each.operator),
                page.Cell(wording.rate(each.rate)),
                page.Cell(describe_choice(each.was), _tone(each)),
                page.Cell(each.was.reason, "quiet"),
                page.Cell(describe_choice(each.would), _tone(each)),
                page.Cell(each.would.reason, "quiet"),
            ]
            for interval, each in changed[-MAX_ROWS_ON_PAGE:]
        ],
        empty="Neither side ever proposed another deployment.",
    )
    if len(changed) <= MAX_ROWS_ON_PAGE:
        return [table]
    return [page.Prose(f"The newest {MAX_ROWS_ON_PAGE:,} of {len(changed):,}."), table]


def _tone(each: ReplayedDecision) -> page.Tone:
    return "" if differs(each) else "quiet"
