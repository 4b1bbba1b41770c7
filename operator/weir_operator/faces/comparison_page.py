"""The HTML page of a comparison: which policy does best, what its cost is made of, and how soon."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from weir_operator.faces import comparison_charts, wording
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
    render_page,
)
from weir_simulator.comparison import Interval, Measured, Row, by_cost, rank

_BAR, _BARS_AROUND = 30, 70
"""Pixels of a bar with its gap, and of what stands around the bars."""


def render_comparison_page(rows: Sequence[Row]) -> str:
    """Return a page with a table and charts for each experiment."""
    styles = comparison_charts.policy_styles(rows)
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


def _blocks(rows: Sequence[Row], styles: Mapping[str, comparison_charts.Style]) -> list[Block]:
    measured = {row.policy: row.measured for row in rows if row.measured is not None}
    blocks: list[Block] = [_table(rows)]
    blocks += [
        Prose(f"{row.policy} was refused: {row.refusal}", "warn") for row in rows if row.refusal
    ]
    if measured:
        blocks += [
            Key([(colour, part) for part, colour in comparison_charts.PARTS]),
            Key([(styles[name].colour, styles[name].mark + name) for name in measured]),
            Charts(_charts(measured, styles)),
        ]
    return blocks


def _charts(
    measured: Mapping[str, Measured], styles: Mapping[str, comparison_charts.Style]
) -> list[Chart]:
    height = 320
    return [
        Chart(
            title="Cost, by what caused it",
            figure=comparison_charts.cost_bars(measured),
            height=max(height, _BARS_AROUND + _BAR * len(measured)),
        ),
        Chart(
            title="Cost over time, learning included",
            figure=comparison_charts.cost_curves(measured, styles),
            height=height,
        ),
        Chart(
            title="Price against violations",
            figure=comparison_charts.cost_against_violations(measured, styles),
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
