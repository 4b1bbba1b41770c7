"""The HTML page of a comparison: the best policy, what its cost consists of, and its course.

Charts are Plotly figures: the parts of the cost, the cost over time, and price against violations.
A policy has the same colour in all charts of a page. Beyond eight, colours repeat with another dash
and another symbol.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from weir_simulator.comparison import Interval, PolicyResult, Row, by_cost, rank
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
    figure_layout,
    render_page,
)

PARTS = (
    ("violations", "var(--series-5)"),
    ("reconfigurations", "var(--series-2)"),
    ("resources", "var(--series-1)"),
)
"""The parts of a cost, and their colours; the first stands at the bar's foot."""

_LOG_FROM = 20.0
"""Ratio of the highest to the lowest cost from which the axis is logarithmic."""
_DASHES = ("solid", "dash", "dot", "dashdot")
_SYMBOLS = (("circle", ""), ("diamond", "◆ "), ("square", "■ "), ("triangle-up", "▲ "))
"""Plotly's symbols, and what stands before a policy's name to tell that it is drawn so."""


@dataclass(frozen=True, slots=True)
class Style:
    """How a policy is drawn."""

    colour: str
    dash: str
    symbol: str
    mark: str
    """Stands before the policy's name in a key."""


def policy_styles(rows: Sequence[Row]) -> dict[str, Style]:
    """Return the style of each policy, in the order of their first appearance."""
    return {
        policy: Style(
            SERIES[number % len(SERIES)],
            _DASHES[number // len(SERIES) % len(_DASHES)],
            *_SYMBOLS[number // len(SERIES) % len(_SYMBOLS)],
        )
        for number, policy in enumerate(dict.fromkeys(row.policy for row in rows))
    }


def cost_bars(measured: Mapping[str, PolicyResult]) -> Figure:
    """Return the mean cost of a slot by policy, divided into its parts; the lowest on top."""
    dearest_first = sorted(measured, key=lambda policy: -measured[policy].cost.mean)
    bars: list[Json] = [
        {
            "type": "bar",
            "orientation": "h",
            "name": part,
            "y": dearest_first,
            "x": [getattr(measured[policy].parts, part) for policy in dearest_first],
            "marker": {"color": colour},
            "hovertemplate": "%{x:.4f} " + part + "<extra></extra>",
        }
        for part, colour in PARTS
    ]
    totals = [measured[policy].cost for policy in dearest_first]
    ends = [total.mean + (total.half_width or 0.0) for total in totals]
    bars += [
        {
            "type": "scatter",
            "mode": "markers",
            "y": dearest_first,
            "x": [total.mean for total in totals],
            "marker": {"color": "rgba(0,0,0,0)", "size": 1},
            "error_x": {
                "type": "data",
                "array": [total.half_width for total in totals],
                "color": "var(--ink)",
                "thickness": 1,
                "width": 3,
            },
            "hoverinfo": "skip",
        },
        {
            "type": "scatter",
            "mode": "text",
            "y": dearest_first,
            "x": ends,
            "text": [f" {total.mean:.4f}" for total in totals],
            "textposition": "middle right",
            "textfont": {"color": "var(--ink)"},
            "cliponaxis": False,
            "hoverinfo": "skip",
        },
    ]
    layout = figure_layout(
        unit="mean cost of a slot",
        # Room for the number behind the longest bar.
        xaxis={"range": [0, 1.25 * max(ends)], "showgrid": True},
        yaxis={"showgrid": False, "tickfont": {"size": 13}},
    )
    layout |= {"hovermode": "closest", "barmode": "stack", "bargap": 0.4}
    return {"data": bars, "layout": layout}


def cost_curves(measured: Mapping[str, PolicyResult], styles: Mapping[str, Style]) -> Figure:
    """Return the mean cost so far over slots, on a logarithmic axis: how fast a policy learns."""
    lines: list[Json] = [
        {
            "type": "scatter",
            "mode": "lines",
            "name": policy,
            "x": what.curve_slots.tolist(),
            "y": what.curve.round(6).tolist(),
            "line": {"color": styles[policy].colour, "dash": styles[policy].dash, "width": 2},
            "hovertemplate": "%{y:.4f}",
        }
        for policy, what in measured.items()
    ]
    seen = [cost for what in measured.values() for cost in what.curve.tolist() if cost > 0]
    layout = figure_layout(
        unit="mean cost so far, by slot",
        xaxis={"type": "log", "dtick": 1, "tickformat": "~s"},
        yaxis=LOGARITHMIC if seen and max(seen) > _LOG_FROM * min(seen) else None,
    )
    return {"data": lines, "layout": layout}


def cost_against_violations(
    measured: Mapping[str, PolicyResult], styles: Mapping[str, Style]
) -> Figure:
    """Return what each policy pays against how often it breaks the bound."""
    points: list[Json] = [
        {
            "type": "scatter",
            "mode": "markers",
            "name": policy,
            "x": [what.violations.mean],
            "y": [what.resources.mean],
            "error_x": _error(what.violations.half_width, styles[policy].colour),
            "error_y": _error(what.resources.half_width, styles[policy].colour),
            "marker": {
                "color": styles[policy].colour,
                "symbol": styles[policy].symbol,
                "size": 11,
            },
            "hovertemplate": "%{x:.2f} % violations, price %{y:.3f}",
        }
        for policy, what in measured.items()
    ]
    layout = figure_layout(
        unit="price of the deployments, by % of slots in violation",
        xaxis={"showgrid": True, "rangemode": "tozero", "ticksuffix": " %"},
    )
    return {"data": points, "layout": layout | {"hovermode": "closest"}}


def _error(half_width: float | None, colour: str) -> dict[str, Json]:
    return {
        "type": "constant",
        "value": half_width,
        "visible": half_width is not None,
        "color": colour,
        "thickness": 1,
        "width": 3,
    }


_BAR, _BARS_AROUND = 30, 70
"""Pixels of a bar with its gap, and of what stands around the bars."""


def render_comparison_page(rows: Sequence[Row]) -> str:
    """Return a page with a table and charts for each experiment."""
    styles = policy_styles(rows)
    experiments = list(dict.fromkeys(row.name for row in rows))
    sections = [
        Section(title=name, blocks=_blocks([row for row in rows if row.name == name], styles))
        for name in experiments
    ]
    if len(experiments) > 1:
        explained = Prose("Cost ÷ lowest is the geometric mean over experiments.", "quiet")
        sections.insert(0, Section(title="All experiments", blocks=[_standings(rows), explained]))
    seeds = max(len(row.seeds) for row in rows)
    subtitle = (
        f"{wording.counted(len(experiments), 'experiment')} · "
        f"{len(styles)} {'policy' if len(styles) == 1 else 'policies'} · "
        f"{wording.counted(seeds, 'seed')} each"
    )
    if seeds > 1:
        subtitle += " · ± is the 95 % confidence interval over seeds"
    return render_page("Comparison of policies", sections, subtitle=subtitle)


def _blocks(rows: Sequence[Row], styles: Mapping[str, Style]) -> list[Block]:
    measured = {row.policy: row.measured for row in rows if row.measured is not None}
    blocks: list[Block] = [_table(rows)]
    blocks += [
        Prose(f"{row.policy} rejects this experiment: {row.refusal}", "warn")
        for row in rows
        if row.refusal
    ]
    if measured:
        blocks += [
            Key([(colour, part) for part, colour in PARTS]),
            Key([(styles[name].colour, styles[name].mark + name) for name in measured]),
            Charts(_charts(measured, styles)),
        ]
    return blocks


def _charts(measured: Mapping[str, PolicyResult], styles: Mapping[str, Style]) -> list[Chart]:
    height = 320
    return [
        Chart(
            title="Cost, by what caused it",
            figure=cost_bars(measured),
            height=max(height, _BARS_AROUND + _BAR * len(measured)),
        ),
        Chart(
            title="Cost over time, learning included",
            figure=cost_curves(measured, styles),
            height=height,
        ),
        Chart(
            title="Price against violations",
            figure=cost_against_violations(measured, styles),
            height=height,
        ),
    ]


def _standings(rows: Sequence[Row]) -> Table:
    return Table(
        columns=[
            Column("Policy", "short"),
            Column("Cost ÷ lowest", "number"),
            Column("Lowest in", "number"),
            Column("Experiments", "number"),
        ],
        rows=[
            [
                Cell(standing.policy),
                Cell(f"{standing.relative_cost:.3f}" if standing.taken else wording.UNKNOWN),
                Cell(f"{standing.lowest_in}"),
                Cell(f"{standing.taken}"),
            ]
            for standing in rank(rows)
        ],
        empty="Nothing was run.",
    )


def _table(rows: Sequence[Row]) -> Table:
    """Return the policies with the lowest cost first, those that were refused last."""
    return Table(
        columns=[
            Column("Policy", "short"),
            Column("Cost", "number"),
            Column("Violations", "number"),
            Column("Reconfigured", "number"),
            Column("Resources", "number"),
            Column("Replicas", "wide"),
            Column("Slots", "number"),
        ],
        rows=[_cells(row) for row in by_cost(rows)],
        empty="Nothing was run.",
    )


def _cells(row: Row) -> list[Cell]:
    if row.measured is None:
        return [Cell(row.policy), Cell("refused", "warn"), *[Cell(wording.UNKNOWN)] * 5]
    what = row.measured
    return [
        Cell(row.policy),
        Cell(_written(what.cost, 4)),
        Cell(f"{_written(what.violations, 2)} %"),
        Cell(f"{_written(what.reconfigurations, 2)} %"),
        Cell(_written(what.resources, 2)),
        Cell(", ".join(f"{mean:.2f} {name}" for name, mean in what.replicas.items())),
        Cell(f"{what.slots:,}"),
    ]


def _written(value: Interval, digits: int) -> str:
    return wording.plus_minus(value.mean, value.half_width, digits)
