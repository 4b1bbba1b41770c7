"""The HTML page of a tuning: what it saves, how the search went, and the current settings.

The texts are the same in the terminal and in the report. Charts are Plotly figures: points that met
the constraints are filled, others are crosses; a short simulation is drawn small, because it shows
less.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate

from weir_policies.policy import Tuning
from weir_simulator.reports import wording
from weir_simulator.reports.page import (
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
from weir_simulator.tuning.order import (
    DAY,
    Estimate,
    Evaluation,
    Prediction,
    TuningRequest,
    TuningResult,
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Row:
    """A quantity before and after."""

    label: str
    before: str
    after: str
    allowed: str = ""


def best_of(evaluations: Sequence[Evaluation]) -> Evaluation | None:
    """Return the cheapest that met the constraints over a full simulation, or `None`."""
    kept = [each for each in evaluations if each.feasible and each.fidelity == 1.0]
    return min(kept, key=lambda each: each.money, default=None)


def best_so_far(order: TuningRequest, evaluations: Sequence[Evaluation]) -> str:
    """Return what has been found, in a few words for a progress bar."""
    best = best_of(evaluations)
    if best is None:
        return f"{wording.counted(len(evaluations), 'simulation')}, none meets the constraints yet"
    return (
        f"Best of {len(evaluations)}: {wording.money(best.money)} per hour, "
        f"{100 * best.violations:.2f} % missed, "
        f"{restarts_per_day(order, best.reconfigurations):.1f} restarts a day"
    )


def restarts_per_day(order: TuningRequest, share: float) -> float:
    """Return the restarts a day of a share of slots with one."""
    return share * DAY / order.experiment.slot


def outcomes(order: TuningRequest, result: TuningResult) -> Iterator[Row]:
    """Yield what is expected, before and after, with what is allowed."""
    before, after, allowed = result.incumbent_prediction, result.prediction, order.constraints

    def restarts(prediction: Prediction) -> str:
        per_day = restarts_per_day(order, 1.0)
        return _estimate(prediction.reconfigurations, per_day, 1)

    yield Row(
        label="price per hour",
        before=_estimate(before.money, 1.0, 3),
        after=_estimate(after.money, 1.0, 3),
    )
    yield Row(
        label="missed, % of slots",
        before=_estimate(before.violations, 100.0, 2),
        after=_estimate(after.violations, 100.0, 2),
        allowed=f"{100 * allowed.max_violations:g}",
    )
    yield Row(
        label="restarts a day",
        before=restarts(before),
        after=restarts(after),
        allowed=f"{restarts_per_day(order, allowed.max_reconfigurations):g}",
    )


def settings(result: TuningResult) -> Iterator[Row]:
    """Yield the weights, as parts of one, and the budgets, before and after."""
    before, after = result.incumbent.weights.normalised(), result.best.weights.normalised()
    for name, old, new in (
        ("violations", before.violation, after.violation),
        ("resources", before.resources, after.resources),
        ("reconfigurations", before.reconfiguration, after.reconfiguration),
    ):
        yield Row(label=f"weight of {name}", before=f"{old:.3f}", after=f"{new:.3f}")
    for operator, budget in result.best.budgets.items():
        yield Row(
            label=f"budget of {operator}",
            before=wording.seconds(result.incumbent.budgets[operator]),
            after=wording.seconds(budget),
        )


def verdict(order: TuningRequest, result: TuningResult) -> str:
    """Return in a sentence or two whether the result should be used."""
    allowed = order.constraints
    ending = {
        "finished": "",
        "stopped": " The search was stopped early.",
        "deadline": " The search ended at its deadline.",
    }[result.ended]
    if not result.feasible:
        return (
            "No simulated settings meet the limits of "
            f"{100 * allowed.max_violations:g} % missed slots and "
            f"{restarts_per_day(order, allowed.max_reconfigurations):g} restarts per "
            "day; this result comes closest. Allow more, or use weir frontier to see "
            f"which objectives can be met.{ending}"
        )
    if result.better:
        return f"Better than before: {_why_better(order, result)}.{ending}"
    return f"Not better with enough confidence: {_why_unsure(result)}.{ending}"


def saving(result: TuningResult) -> float:
    """Return by how much the price differs from before, in percent; below 0 is less."""
    before = result.incumbent_prediction.money.mean
    return 100 * (result.prediction.money.mean / before - 1) if before else 0.0


def _why_better(order: TuningRequest, result: TuningResult) -> str:
    before, allowed = result.incumbent_prediction, order.constraints
    if (
        before.violations.mean > allowed.max_violations
        or before.reconfigurations.mean > allowed.max_reconfigurations
    ):
        return f"it keeps the constraints, which were not kept, and costs {_change(result)}"
    sure = "" if result.certainty is None else f" (probability {result.certainty:.1%})"
    keeping = "" if result.keeping is None else f" (probability {result.keeping:.1%})"
    return f"it costs {_change(result)}{sure} and keeps the constraints{keeping}"


def _why_unsure(result: TuningResult) -> str:
    if result.certainty is None or result.keeping is None:
        return f"{result.doubt}; keep the current settings, or simulate more"
    return (
        f"it costs less with a probability of {result.certainty:.1%} and meets "
        f"the constraints with a probability of {result.keeping:.1%}, and both "
        f"must be at least {result.required:.1%}; keep the current settings, "
        "search longer, or simulate more slots"
    )


def _change(result: TuningResult) -> str:
    change = saving(result)
    return f"{abs(change):.1f} % {'less' if change < 0 else 'more'}"


def _estimate(value: Estimate, factor: float, digits: int) -> str:
    error = None if value.standard_error is None else factor * value.standard_error
    around = error if error is not None and error > 0.5 * 10**-digits else None
    return wording.plus_minus(factor * value.mean, around, digits)


KEPT, BROKEN, BEST = SERIES[0], "var(--bound)", "var(--good)"
KEY = (
    (KEPT, "kept the constraints"),
    (BROKEN, "did not; or the limit itself"),
    (BEST, "the best so far, and the one chosen"),
)
_FULL, _SHORT = 10, 6
"""Pixels of a full simulation's mark, and of a short one's."""


def convergence(result: TuningResult) -> Figure:
    """Return the price per hour of every point, and of the best so far, over simulated slots."""
    used = list(accumulate(each.slots for each in result.evaluations))
    best: list[float | None] = []
    for count in range(1, len(used) + 1):
        found = best_of(result.evaluations[:count])
        best.append(None if found is None else round(found.money, 6))
    line: dict[str, Json] = {
        "type": "scatter",
        "mode": "lines",
        "name": "best so far",
        "x": used,
        "y": best,
        "line": {"color": BEST, "width": 2, "shape": "hv"},
        "hovertemplate": "%{y:.3f} the best so far<extra></extra>",
    }
    points = _points(result.evaluations, used)
    layout = _layout("price per hour, by simulated slots", xaxis={"tickformat": "~s"})
    return {"data": [*points, line], "layout": layout}


def price_against_violations(order: TuningRequest, result: TuningResult) -> Figure:
    """Return what each point pays against how often it misses the bound, with the limit."""
    places = [100 * each.violations for each in result.evaluations]
    limit = 100 * order.constraints.max_violations
    return _trade(
        result, places, 100 * result.prediction.violations.mean, limit,
        unit="price per hour, by % of slots that miss", suffix=" %",
    )  # fmt: skip


def price_against_restarts(order: TuningRequest, result: TuningResult) -> Figure:
    """Return what each point pays against how often it restarts the job, with the limit."""
    per_day = restarts_per_day(order, 1.0)
    places = [per_day * each.reconfigurations for each in result.evaluations]
    limit = per_day * order.constraints.max_reconfigurations
    return _trade(
        result, places, per_day * result.prediction.reconfigurations.mean, limit,
        unit="price per hour, by restarts a day", suffix="",
    )  # fmt: skip


def budgets(result: TuningResult) -> Figure:
    """Return the latency budget of each operator, before and tuned, ms."""
    names = list(result.best.budgets)[::-1]  # Plotly draws the first at the foot
    bars: list[Json] = [
        {
            "type": "bar",
            "orientation": "h",
            "name": name,
            "y": names,
            "x": [round(1000 * point.budgets[each], 3) for each in names],
            "marker": {"color": colour},
            "hovertemplate": "%{x:.4g} ms " + name + "<extra></extra>",
        }
        for name, point, colour in (
            ("tuned", result.best, BEST),
            ("before", result.incumbent, "var(--series-8)"),
        )
    ]
    layout = _layout("budget, ms", xaxis={"showgrid": True}, yaxis={"showgrid": False})
    return {"data": bars, "layout": {**layout, "barmode": "group", "bargap": 0.35}}


def _trade(
    result: TuningResult,
    places: Sequence[float],
    chosen: float,
    limit: float,
    *,
    unit: str,
    suffix: str,
) -> Figure:
    best: dict[str, Json] = {
        "type": "scatter",
        "mode": "markers",
        "name": "chosen",
        "x": [chosen],
        "y": [result.prediction.money.mean],
        "marker": {"color": BEST, "symbol": "star", "size": 15},
        "hovertemplate": "%{x:.2f}" + suffix + ", price %{y:.3f}, on other seeds<extra></extra>",
    }
    line: dict[str, Json] = {
        "type": "line",
        "yref": "paper",
        "x0": limit,
        "x1": limit,
        "y0": 0,
        "y1": 1,
        "line": {"color": BROKEN, "width": 1.5, "dash": "dash"},
    }
    axis: dict[str, Json] = {"showgrid": True, "rangemode": "tozero", "ticksuffix": suffix}
    layout = _layout(unit, xaxis=axis, shapes=[line])
    return {"data": [*_points(result.evaluations, places), best], "layout": layout}


def _points(evaluations: Sequence[Evaluation], places: Sequence[float]) -> list[Json]:
    """Return the points that kept the constraints and those that did not."""
    drawn: list[Json] = []
    for name, feasible, colour, symbol in (
        ("kept", True, KEPT, "circle"),
        ("not kept", False, BROKEN, "x"),
    ):
        chosen = [
            (place, each)
            for place, each in zip(places, evaluations, strict=True)
            if each.feasible is feasible
        ]
        drawn.append(
            {
                "type": "scatter",
                "mode": "markers",
                "name": name,
                "x": [round(place, 6) for place, _ in chosen],
                "y": [round(each.money, 6) for _, each in chosen],
                "text": [f"{each.number + 1}, {each.origin}" for _, each in chosen],
                "marker": {
                    "color": colour,
                    "symbol": symbol,
                    "size": [_FULL if each.fidelity == 1.0 else _SHORT for _, each in chosen],
                    "opacity": 0.8,
                },
                "hovertemplate": "%{text}: price %{y:.3f}<extra></extra>",
            }
        )
    return drawn


def _layout(
    unit: str,
    *,
    xaxis: Mapping[str, Json],
    yaxis: Mapping[str, Json] | None = None,
    shapes: Sequence[Json] = (),
) -> dict[str, Json]:
    # From the least price, not from zero: what is read off is a difference.
    yaxis = yaxis or {"rangemode": "normal"}
    layout = figure_layout(unit=unit, shapes=shapes, xaxis=xaxis, yaxis=yaxis)
    return {**layout, "hovermode": "closest"}


_HEIGHT = 320
"""Pixels of a chart."""
_LISTED = 15
"""Most simulations in the table: on a phone each is a card."""
_BAR, _BARS_AROUND = 44, 70
"""Pixels of an operator's two bars with their gap, and of what stands around the bars."""


def render_tuning_page(name: str, order: TuningRequest, result: TuningResult) -> str:
    """Return a page on a tuning."""
    sections = [
        Section(title="", blocks=_outcome(order, result)),
        Section(title="Search", blocks=_search(order, result)),
        Section(title="Weights and budgets", blocks=_settings(result)),
        Section(title="Simulations", blocks=_evaluations(order, result)),
    ]
    subtitle = (
        f"{name} · policy {order.experiment.policy.name} · search {result.algorithm} · "
        f"response time {wording.objective(order.experiment.objective)} · "
        "± is the standard error over stretches of the trace and seeds"
    )
    return render_page("Tuning", sections, subtitle=subtitle)


def _outcome(order: TuningRequest, result: TuningResult) -> list[Block]:
    tone: Tone = "good" if result.better and result.feasible else "warn"
    return [Tiles(_tiles(order, result)), Prose(verdict(order, result), tone)]


def _tiles(order: TuningRequest, result: TuningResult) -> list[Tile]:
    price, missed, restarts = outcomes(order, result)
    after, allowed = result.prediction, order.constraints
    return [
        Tile(
            label="Price per hour",
            value=price.after,
            note=f"before {price.before}; {saving(result):+.1f} %",
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


def _search(order: TuningRequest, result: TuningResult) -> list[Block]:
    charts = [
        Chart(
            title="Price over the search",
            figure=convergence(result),
            height=_HEIGHT,
        ),
        Chart(
            title="Price against violations",
            figure=price_against_violations(order, result),
            height=_HEIGHT,
        ),
        Chart(
            title="Price against restarts",
            figure=price_against_restarts(order, result),
            height=_HEIGHT,
        ),
    ]
    return [Key(KEY), Charts(charts)]


def _settings(result: TuningResult) -> list[Block]:
    table = Table(
        columns=[
            Column("", "short"),
            Column("Before", "number"),
            Column("Tuned", "number"),
        ],
        rows=[[Cell(row.label), Cell(row.before), Cell(row.after)] for row in settings(result)],
        empty="There is no tuning.",
    )
    chart = Chart(
        title="Latency budgets",
        figure=budgets(result),
        height=_BARS_AROUND + _BAR * len(result.best.budgets),
    )
    key = Key([(BEST, "tuned"), ("var(--series-8)", "before")])
    return [table, key, Charts([chart])]


def _evaluations(order: TuningRequest, result: TuningResult) -> list[Block]:
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
        empty="There are no simulations.",
    )
    if len(ranked) <= _LISTED:
        return [table]
    return [
        table,
        Prose(f"The best {_LISTED} of {len(ranked)}; weir tune --json has them all.", "quiet"),
    ]


def _evaluation(order: TuningRequest, each: Evaluation, best: Tuning) -> list[Cell]:
    tone: Tone = "good" if each.point == best else "" if each.feasible else "quiet"
    weights = each.point.weights
    return [
        Cell(str(each.number + 1), tone),
        Cell(each.origin, tone),
        Cell(f"{each.slots:,}", tone),
        Cell(f"{each.money:.3f}", tone),
        Cell(f"{100 * each.violations:.2f} %", tone),
        Cell(f"{restarts_per_day(order, each.reconfigurations):.1f}", tone),
        Cell("yes" if each.feasible else "no", tone),
        Cell(
            f"{weights.violation:.2f} / {weights.resources:.2f} / {weights.reconfiguration:.2f}",
            tone,
        ),
        Cell(
            ", ".join(f"{name} {wording.seconds(b)}" for name, b in each.point.budgets.items()),
            tone,
        ),
    ]
