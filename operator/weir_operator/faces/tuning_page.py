"""The HTML page of a tuning: what was gained, how the search went, what is in force now."""

from __future__ import annotations

from weir_operator.faces import tuning_charts, tuning_words, wording
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
from weir_simulator.tuning.order import Evaluation, Point, TuningOrder, TuningResult

_HEIGHT = 320
"""Pixels of a chart."""
_LISTED = 15
"""Most simulations in the table: on a phone each is a card."""
_BAR, _BARS_AROUND = 44, 70
"""Pixels of an operator's two bars with their gap, and of what stands around the bars."""


def render_tuning_page(name: str, order: TuningOrder, result: TuningResult) -> str:
    """Return a page on a tuning.

    Args:
        name: What the experiment is called.
        order: What was asked for.
        result: What came of it.
    """
    sections = [
        Section(title="", blocks=_outcome(order, result)),
        Section(title="Search", blocks=_search(order, result)),
        Section(title="Weights and budgets", blocks=_settings(result)),
        Section(title="Simulations", blocks=_evaluations(order, result)),
    ]
    subtitle = (
        f"{name} · policy {order.experiment.policy.name} · search {result.algorithm} · "
        f"response time at most {wording.seconds(order.experiment.objective.response_time)} · "
        "± is the standard error over stretches of the trace and seeds"
    )
    return render_page("Tuning", sections, subtitle=subtitle)


def _outcome(order: TuningOrder, result: TuningResult) -> list[Block]:
    tone: Tone = "good" if result.better and result.feasible else "warn"
    return [Tiles(_tiles(order, result)), Prose(tuning_words.verdict(order, result), tone)]


def _tiles(order: TuningOrder, result: TuningResult) -> list[Tile]:
    price, missed, restarts = tuning_words.outcomes(order, result)
    after, allowed = result.prediction, order.constraints
    return [
        Tile(
            label="Price per hour",
            value=price.after,
            note=f"before {price.before}; {tuning_words.saving(result):+.1f} %",
        ),
        Tile(
            label="Missed",
            value=f"{missed.after} %",
            note=f"of the slots; before {missed.before}, allowed {missed.allowed}",
            tone="" if after.violations.mean <= allowed.max_violations else "bad",
        ),
        Tile(
            label="Restarts a day",
            value=restarts.after,
            note=f"before {restarts.before}, allowed {restarts.allowed}",
            tone="" if after.reconfigurations.mean <= allowed.max_reconfigurations else "bad",
        ),
        Tile(
            label="Simulated",
            value=f"{result.simulated_slots:,}",
            note=f"slots in {wording.counted(len(result.evaluations), 'simulation')}, "
            f"{wording.seconds(result.seconds)}",
        ),
    ]


def _search(order: TuningOrder, result: TuningResult) -> list[Block]:
    charts = [
        Chart(
            title="Price over the search",
            figure=tuning_charts.convergence(result),
            height=_HEIGHT,
        ),
        Chart(
            title="Price against violations",
            figure=tuning_charts.price_against_violations(order, result),
            height=_HEIGHT,
        ),
        Chart(
            title="Price against restarts",
            figure=tuning_charts.price_against_restarts(order, result),
            height=_HEIGHT,
        ),
    ]
    return [Key(tuning_charts.KEY), Charts(charts)]


def _settings(result: TuningResult) -> list[Block]:
    table = Table(
        columns=[Column("", "short"), Column("Before", "number"), Column("Tuned", "number")],
        rows=[
            [Cell(row.label), Cell(row.before), Cell(row.after)]
            for row in tuning_words.settings(result)
        ],
        empty="Nothing was tuned.",
    )
    chart = Chart(
        title="Latency budgets",
        figure=tuning_charts.budgets(result),
        height=_BARS_AROUND + _BAR * len(result.best.budgets),
    )
    key = Key([(tuning_charts.BEST, "tuned"), ("var(--series-8)", "before")])
    return [table, key, Charts([chart])]


def _evaluations(order: TuningOrder, result: TuningResult) -> list[Block]:
    """Return the simulations that are worth reading: what was kept in full first, by price."""
    ranked = sorted(
        result.evaluations,
        key=lambda each: (not each.feasible, each.fidelity < 1.0, each.money),
    )
    table = Table(
        columns=[
            Column("", "number"),
            Column("Proposed as", "short"),
            Column("Slots", "number"),
            Column("Price per hour", "number"),
            Column("Missed", "number"),
            Column("Restarts a day", "number"),
            Column("Kept", "short"),
            Column("Weights", "short"),
            Column("Budgets", "wide"),
        ],
        rows=[_evaluation(order, each, result.best) for each in ranked[:_LISTED]],
        empty="Nothing was simulated.",
    )
    if len(ranked) <= _LISTED:
        return [table]
    return [
        table,
        Prose(f"The best {_LISTED} of {len(ranked)}; weir tune --json has them all.", "quiet"),
    ]


def _evaluation(order: TuningOrder, each: Evaluation, best: Point) -> list[Cell]:
    tone: Tone = "good" if each.point == best else "" if each.feasible else "quiet"
    weights = each.point.weights
    return [
        Cell(str(each.number + 1), tone),
        Cell(each.origin, tone),
        Cell(f"{each.slots:,}", tone),
        Cell(f"{each.money:.3f}", tone),
        Cell(f"{100 * each.violations:.2f} %", tone),
        Cell(f"{tuning_words.restarts_per_day(order, each.reconfigurations):.1f}", tone),
        Cell("yes" if each.feasible else "no", tone),
        Cell(
            f"{weights.violations:.2f} / {weights.resources:.2f} / {weights.reconfigurations:.2f}",
            tone,
        ),
        Cell(
            ", ".join(f"{name} {wording.seconds(b)}" for name, b in each.point.budgets.items()),
            tone,
        ),
    ]
