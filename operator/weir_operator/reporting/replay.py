"""A replay for people and for programs: the terminal, an HTML page, JSON. Pure.

The terminal shows the decisions where something changes: an operator's proposal or deployment, in
what was done or in the replay. The page and JSON show the intervals, too.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import accumulate, pairwise
from typing import Any

from pydantic import TypeAdapter
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from weir_operator.loop.replay import Choice, Replay, ReplayedDecision, ReplayedInterval
from weir_simulator.reports import page, wording
from weir_simulator.reports.page import SERIES, Json, figure_layout

MOST_ROWS = 40
"""Decisions in the terminal, the newest; the page and JSON have them all."""
MOST_ROWS_ON_PAGE = 2000
"""Rows of a page's table; a browser takes long over more."""
WIDE = 120
"""Columns from which on the two sides of a decision stand beside each other."""
WAS, WOULD = SERIES[0], SERIES[1]

_PLAIN = TypeAdapter(Replay)


def to_plain(replay: Replay) -> object:
    """Return the replay as JSON values; what is unknown is null, what is unlimited "Infinity"."""
    return _without_nan(_PLAIN.dump_python(replay, mode="json"))


def _without_nan(value: object) -> object:
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else "Infinity"
    if isinstance(value, dict):
        return {name: _without_nan(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_without_nan(each) for each in value]
    return value


Changed = tuple[ReplayedInterval, ReplayedDecision]


def find_changes(intervals: Iterable[ReplayedInterval]) -> list[Changed]:
    """Return the decisions that propose a change, without those that only repeat the last one."""
    last: dict[str, tuple[object, ...]] = {}
    found = []
    for interval in intervals:
        for each in interval.decisions:
            key = (
                dict(each.was.deployment),
                dict(each.was.target),
                each.was.granted,
                dict(each.would.deployment),
                dict(each.would.target),
                each.would.granted,
            )
            proposes = each.was.changes or each.would.changes
            if proposes and last.get(each.operator) != key:
                found.append((interval, each))
            last[each.operator] = key
    return found


def render_replay(replay: Replay) -> RenderableType:
    """Return the replay for the terminal."""
    heading = Text.assemble((f"{replay.app}: ", "bold"), _describe_span(replay))
    changed = find_changes(replay.intervals)
    parts: list[RenderableType] = [heading, Text(), _totals(replay), Text()]
    if changed:
        parts.append(_Decisions(changed[-MOST_ROWS:]))
        if len(changed) > MOST_ROWS:
            parts.append(
                Text(
                    f"The newest {MOST_ROWS} of {len(changed):,} decisions that propose another "
                    "change than the one before; --report and --json have all",
                    style="dim",
                )
            )
    else:
        parts.append(Text("Neither side ever proposed another deployment."))
    parts.append(Text())
    notices = Table.grid(padding=(0, 1))
    notices.add_column()
    notices.add_column(overflow="fold")
    for notice in replay.notices:
        notices.add_row("-", notice)
    parts += [Text("What this replay does not know", style="bold"), notices]
    return Group(*parts)


def _describe_span(replay: Replay) -> str:
    return (
        f"{_moment(replay.since)} to {_moment(replay.until)} UTC, "
        f"{wording.counted(replay.totals.intervals, 'interval')}"
    )


def _headings(replay: Replay) -> tuple[str, str]:
    """Return the names of the two sides: policy and objective of each."""
    stat = "" if replay.statistic == "mean" else f" ({replay.statistic})"
    return (
        f"{replay.was_policy or 'nothing decided'}, {wording.seconds(replay.was_bound)}{stat}",
        f"{replay.policy}, {wording.seconds(replay.bound)}{stat}",
    )


@dataclass(frozen=True, slots=True)
class _Figure:
    """A total of both sides."""

    label: str
    was: str
    would: str
    change: str = ""
    """How much of a difference that is."""


def _figures(replay: Replay) -> list[_Figure]:
    totals, was, would = replay.totals, replay.totals.was, replay.totals.would
    bound = wording.seconds(replay.bound)
    change = f"{100 * (would.cost / was.cost - 1):+.1f} %" if was.cost else ""
    return [
        _Figure("cost", wording.money(was.cost), wording.money(would.cost), change),
        _Figure(
            f"intervals over {bound}, predicted",
            _part(was.late, totals.predicted),
            _part(would.late, totals.predicted),
        ),
        _Figure(
            f"intervals over {bound}, measured",
            _part(totals.measured_late, totals.measured),
            wording.UNKNOWN,
        ),
        _Figure("restarts", str(was.restarts), str(would.restarts)),
        _Figure("resizes in place", str(was.resizes), str(would.resizes)),
        _Figure("replicas on average", f"{was.replicas:.1f}", f"{would.replicas:.1f}"),
    ]


def _equal(replay: Replay) -> str:
    """Return how many decisions are the same, one sentence."""
    totals = replay.totals
    if not totals.comparable:
        return "No decision was made in equal deployments"
    return (
        f"In equal deployments, {totals.equal:,} of "
        f"{wording.counted(totals.comparable, 'decision')} are the same"
    )


def _totals(replay: Replay) -> RenderableType:
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("")
    was, would = _headings(replay)
    table.add_column(f"was\n{was}", justify="right", overflow="fold")
    table.add_column(f"would have been\n{would}", justify="right", overflow="fold")
    for each in _figures(replay):
        change = f" ({each.change})" if each.change else ""
        table.add_row(each.label, each.was, f"{each.would}{change}")
    return Group(table, Text(_equal(replay)))


def _part(count: int, of: int) -> str:
    return f"{count:,} of {of:,}"


class _Decisions:
    """The table of decisions, which stands in two lines a decision on a narrow terminal."""

    def __init__(self, changed: Sequence[Changed]) -> None:
        self._changed = changed

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        days = {_moment(interval.time)[:10] for interval, _ in self._changed}
        when: Callable[[float], str] = _moment if len(days) > 1 else wording.time_of_day
        if options.max_width >= WIDE:
            yield self._wide(when)
        else:
            yield self._narrow(when)

    def _wide(self, when: Callable[[float], str]) -> Table:
        table = Table(box=None, pad_edge=False, header_style="bold")
        table.add_column("time", no_wrap=True)
        table.add_column("operator", overflow="fold")
        table.add_column("records/s", justify="right")
        table.add_column("was", ratio=1, overflow="fold")
        table.add_column("would have been", ratio=1, overflow="fold")
        for interval, each in self._changed:
            table.add_row(
                when(interval.time),
                each.operator,
                wording.rate(each.rate),
                _say(each.was),
                _say(each.would),
                style="" if _differs(each) else "dim",
            )
        return table

    def _narrow(self, when: Callable[[float], str]) -> Group:
        lines: list[RenderableType] = []
        for interval, each in self._changed:
            style = "bold" if _differs(each) else "dim"
            lines.append(
                Text(
                    f"{when(interval.time)} {each.operator}, {wording.rate(each.rate)} records/s",
                    style=style,
                )
            )
            grid = Table.grid(padding=(0, 1))
            grid.add_column(width=5)
            grid.add_column(overflow="fold")
            grid.add_row("was", _say(each.was))
            grid.add_row("would", _say(each.would))
            lines.append(Padding(grid, (0, 0, 0, 2)))
        return Group(*lines)


def _differs(each: ReplayedDecision) -> bool:
    return (each.was.deployment, each.was.target, each.was.granted) != (
        each.would.deployment,
        each.would.target,
        each.would.granted,
    )


def _say(choice: Choice) -> str:
    """Return a choice as people read it: 2 small/1 → 3 small/1, or why it was denied."""
    now = wording.replicas(choice.deployment)
    if not choice.changes:
        return f"{now}, stays"
    denied = "" if choice.granted else f"; {choice.verdict or 'not carried out'}"
    return f"{now} → {wording.replicas(choice.target)}{denied}"


def _moment(unix: float) -> str:
    return f"{datetime.fromtimestamp(unix, UTC):%Y-%m-%d %H:%M:%S}"


# -- the page -------------------------------------------------------------------------------------


def render_replay_page(replay: Replay) -> str:
    """Return the replay as one self-contained HTML page."""
    was, would = _headings(replay)
    sections = [
        page.Section(
            title="", blocks=[page.Tiles(_tiles(replay)), page.Prose(_equal(replay) + ".")]
        ),
        *_charts(replay, f"was: {was}", f"would have been: {would}"),
        page.Section(title="Totals", blocks=[_totals_table(replay, was, would)]),
        page.Section(title="Decisions", blocks=_decisions(replay)),
        page.Section(
            title="What this replay does not know",
            blocks=[page.Prose(f"{notice}.") for notice in replay.notices],
        ),
    ]
    subtitle = f"{_describe_span(replay)} · was: {was} · would have been: {would}"
    return page.render_page(f"{replay.app}, replayed", sections, subtitle=subtitle)


def _tiles(replay: Replay) -> list[page.Tile]:
    return [
        page.Tile(
            label=each.label[0].upper() + each.label[1:],
            value=each.would,
            note=f"was {each.was}" + (f", {each.change}" if each.change else ""),
        )
        for each in _figures(replay)
        if each.would != wording.UNKNOWN
    ]


def _totals_table(replay: Replay, was: str, would: str) -> page.Table:
    return page.Table(
        columns=[
            page.Column("", "wide"),
            page.Column(f"Was: {was}", "number"),
            page.Column(f"Would have been: {would}", "number"),
        ],
        rows=[
            [page.Cell(each.label), page.Cell(each.was), page.Cell(each.would)]
            for each in _figures(replay)
        ],
        empty="",
    )


def _charts(replay: Replay, was: str, would: str) -> list[page.Section]:
    intervals = replay.intervals
    sides = [(WAS, was), (WOULD, would)]
    return [
        page.Section(
            title="Response time and load",
            blocks=[
                page.Key(
                    [
                        *sides,
                        (SERIES[2], "measured"),
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
    thin = _line(intervals, measured, "Measured", SERIES[2], "s")
    thin["line"] = {"color": SERIES[2], "width": 1}
    figure = _figure(
        [
            thin,
            _line(intervals, was, "Was", WAS, "s"),
            _line(intervals, would, "Would have been", WOULD, "s"),
            *_overloads(intervals, was, "Was", WAS, at=1.0),
            *_overloads(intervals, would, "Would have been", WOULD, at=0.95),
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
    name: str,
    colour: str,
    *,
    at: float,
) -> list[dict[str, Json]]:
    """Return marks where a predicted response time is infinite, which no line can show."""
    times = [
        _moment(each.time)
        for each, value in zip(intervals, values, strict=True)
        if math.isinf(value)
    ]
    if not times:
        return []
    return [
        {
            "type": "scatter",
            "mode": "markers",
            "name": name,
            "yaxis": "y2",
            "x": times,
            "y": [at] * len(times),
            "cliponaxis": False,
            "marker": {"symbol": "triangle-up", "size": 7, "color": colour},
            "hovertemplate": "cannot keep up",
        }
    ]


def rate_figure(intervals: Sequence[ReplayedInterval]) -> dict[str, Any]:
    """Return the arrival rate, which is the same for both."""
    rates = [each.rate for each in intervals]
    line = _line(intervals, rates, "Rate", SERIES[2], "records/s")
    return _figure([line], intervals, unit="records/s")


def replicas_figure(intervals: Sequence[ReplayedInterval], name: str) -> dict[str, Any]:
    """Return the replicas of an operator in both deployments; hovering shows where they run."""
    lines = []
    for label, colour, sides in (
        ("Was", WAS, [each.was for each in intervals]),
        ("Would have been", WOULD, [each.would for each in intervals]),
    ):
        counts = [side.deployments.get(name, {}) for side in sides]
        line = _line(intervals, [float(sum(each.values())) for each in counts], label, colour, "")
        line["line"] = {**_style(label, colour), "shape": "vh"}
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
            _line(intervals, list(was), "Was", WAS, ""),
            _line(intervals, list(would), "Would have been", WOULD, ""),
        ],
        intervals,
        unit="since the beginning",
    )


def _step(intervals: Sequence[ReplayedInterval], name: str) -> int | None:
    """Return the distance of an axis' ticks; few replicas are not counted in halves."""
    most = max(
        sum(side.deployments.get(name, {}).values())
        for each in intervals
        for side in (each.was, each.would)
    )
    return 1 if most <= 6 else None


def _line(
    intervals: Sequence[ReplayedInterval],
    values: Sequence[float],
    name: str,
    colour: str,
    unit: str,
) -> dict[str, Json]:
    return {
        "type": "scatter",
        "mode": "lines",
        "name": name,
        "x": [_moment(each.time) for each in intervals],
        # JSON has neither NaN nor infinity; Plotly leaves a hole where a value is null.
        "y": [value if math.isfinite(value) else None for value in values],
        "line": _style(name, colour),
        "connectgaps": False,
        "hovertemplate": f"%{{y:.4~g}} {unit}".rstrip(),
    }


def _style(name: str, colour: str) -> dict[str, Json]:
    """Return how a line is drawn: where both are equal, dashes let the other one be seen."""
    dash = {"dash": "dash"} if name == "Would have been" else {}
    return {"color": colour, "width": 2, **dash}


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
        "range": [_moment(intervals[0].time), _moment(intervals[-1].time)],
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
            "x0": _moment(intervals[first].time),
            "x1": _moment(intervals[last].time),
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
            page.Column("Was"),
            page.Column("Reason", "wide"),
            page.Column("Would have been"),
            page.Column("Reason", "wide"),
        ],
        rows=[
            [
                page.Cell(_moment(interval.time)),
                page.Cell(each.operator),
                page.Cell(wording.rate(each.rate)),
                page.Cell(_say(each.was), _tone(each)),
                page.Cell(each.was.reason, "quiet"),
                page.Cell(_say(each.would), _tone(each)),
                page.Cell(each.would.reason, "quiet"),
            ]
            for interval, each in changed[-MOST_ROWS_ON_PAGE:]
        ],
        empty="Neither side ever proposed another deployment.",
    )
    if len(changed) <= MOST_ROWS_ON_PAGE:
        return [table]
    return [page.Prose(f"The newest {MOST_ROWS_ON_PAGE:,} of {len(changed):,}."), table]


def _tone(each: ReplayedDecision) -> page.Tone:
    return "" if _differs(each) else "quiet"
