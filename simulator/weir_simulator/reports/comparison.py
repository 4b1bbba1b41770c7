"""The report of a comparison: the best policy, what its cost consists of, and its course."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from weir_simulator.comparison import Interval, PolicyResult, Row, by_cost, rank
from weir_simulator.reports import wording
from weir_simulator.reports.page import (
    Block,
    Cell,
    Heading,
    Line,
    LineChart,
    Table,
    Text,
    render_page,
)


def render_comparison(rows: Sequence[Row]) -> str:
    """Return a page with a table and a chart for each experiment."""
    policies = list(dict.fromkeys(row.policy for row in rows))
    # A policy has the same colour in all charts.
    colours = {policy: number for number, policy in enumerate(policies)}
    experiments = list(dict.fromkeys(row.name for row in rows))
    blocks: list[Block] = []
    if len(experiments) > 1:
        explained = Text("Cost ÷ lowest is the geometric mean over experiments.", "quiet")
        blocks += [Heading("All experiments"), _standings(rows), explained]
    for name in experiments:
        blocks += _blocks(name, [row for row in rows if row.name == name], colours)
    seeds = max(len(row.seeds) for row in rows)
    subtitle = (
        f"{wording.counted(len(experiments), 'experiment')} · "
        f"{len(policies)} {'policy' if len(policies) == 1 else 'policies'} · "
        f"{wording.counted(seeds, 'seed')} each"
    )
    if seeds > 1:
        subtitle += " · ± is the 95 % confidence interval over seeds"
    return render_page("Comparison of policies", blocks, subtitle=subtitle)


def _blocks(name: str, rows: Sequence[Row], colours: Mapping[str, int]) -> Iterator[Block]:
    yield Heading(name)
    yield _table(rows)
    for row in rows:
        if row.refusal:
            yield Text(f"{row.policy} rejects this experiment: {row.refusal}", "warn")
    measured = {row.policy: row.measured for row in rows if row.measured is not None}
    if measured:
        yield draw_costs(measured, colours)


def draw_costs(measured: Mapping[str, PolicyResult], colours: Mapping[str, int]) -> LineChart:
    """Return the mean cost so far over slots: how fast a policy learns."""
    return LineChart(
        title="Cost over time, learning included",
        unit="mean cost so far, by slot",
        over="slots",
        is_wide=True,
        height=360,
        lines=[
            Line(
                name=policy,
                x=what.curve_slots.tolist(),
                y=what.curve.round(6).tolist(),
                colour=colours[policy],
            )
            for policy, what in measured.items()
        ],
    )


def _standings(rows: Sequence[Row]) -> Table:
    return Table(
        columns={
            "Policy": "short",
            "Cost ÷ lowest": "number",
            "Lowest in": "number",
            "Experiments": "number",
        },
        rows=[
            [
                standing.policy,
                f"{standing.relative_cost:.3f}" if standing.taken else wording.UNKNOWN,
                f"{standing.lowest_in}",
                f"{standing.taken}",
            ]
            for standing in rank(rows)
        ],
        empty="Nothing was run.",
    )


def _table(rows: Sequence[Row]) -> Table:
    return Table(
        columns={
            "Policy": "short",
            "Cost": "number",
            "Violations + reconfigurations + resources": "number",
            "Violations": "number",
            "Reconfigured": "number",
            "Resources": "number",
            "Replicas": "wide",
            "Slots": "number",
        },
        rows=[_cells(row) for row in by_cost(rows)],
        empty="Nothing was run.",
    )


def _cells(row: Row) -> list[str | Cell]:
    if row.measured is None:
        return [row.policy, Cell("refused", "warn"), *[wording.UNKNOWN] * 6]
    what = row.measured
    parts = (what.parts.violations, what.parts.reconfigurations, what.parts.resources)
    return [
        row.policy,
        _written(what.cost, 4),
        " + ".join(f"{part:.4f}" for part in parts),
        f"{_written(what.violations, 2)} %",
        f"{_written(what.reconfigurations, 2)} %",
        _written(what.resources, 2),
        ", ".join(f"{mean:.2f} {name}" for name, mean in what.replicas.items()),
        f"{what.slots:,}",
    ]


def _written(value: Interval, digits: int) -> str:
    return wording.plus_minus(value.mean, value.half_width, digits)
