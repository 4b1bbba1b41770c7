"""What a tuning saves, how its search goes, and whether its result should be used, in words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from weir_simulator.reports import wording
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
    before, after = result.incumbent_prediction.money.mean, result.prediction.money.mean
    change = 100 * (after / before - 1) if before else 0.0
    return f"{abs(change):.1f} % {'less' if change < 0 else 'more'}"


def _estimate(value: Estimate, factor: float, digits: int) -> str:
    error = None if value.standard_error is None else factor * value.standard_error
    around = error if error is not None and error > 0.5 * 10**-digits else None
    return wording.plus_minus(factor * value.mean, around, digits)
