"""How a tuning reads, the same in the terminal and in the report."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from weir_operator.faces import wording
from weir_simulator.tuning.order import (
    DAY,
    Estimate,
    Evaluation,
    Prediction,
    TuningOrder,
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
    """Return the cheapest that kept the constraints over a full simulation, if there is one."""
    kept = [each for each in evaluations if each.feasible and each.fidelity == 1.0]
    return min(kept, key=lambda each: each.money, default=None)


def best_so_far(order: TuningOrder, evaluations: Sequence[Evaluation]) -> str:
    """Return what has been found, in a few words for a progress bar."""
    best = best_of(evaluations)
    if best is None:
        return f"{wording.counted(len(evaluations), 'simulation')}, none keeps the constraints yet"
    return (
        f"Best of {len(evaluations)}: {wording.money(best.money)} per hour, "
        f"{100 * best.violations:.2f} % missed, "
        f"{restarts_per_day(order, best.reconfigurations):.1f} restarts a day"
    )


def restarts_per_day(order: TuningOrder, share: float) -> float:
    """Return the restarts a day of a share of slots with one."""
    return share * DAY / order.experiment.slot


def outcomes(order: TuningOrder, result: TuningResult) -> Iterator[Row]:
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
    for name in ("violations", "resources", "reconfigurations"):
        yield Row(
            label=f"weight of {name}",
            before=f"{_part(result, name, incumbent=True):.3f}",
            after=f"{_part(result, name, incumbent=False):.3f}",
        )
    for operator, budget in result.best.budgets.items():
        yield Row(
            label=f"budget of {operator}",
            before=wording.seconds(result.incumbent.budgets[operator]),
            after=wording.seconds(budget),
        )


def verdict(order: TuningOrder, result: TuningResult) -> str:
    """Return in a sentence or two whether the result should be used."""
    allowed = order.constraints
    ending = {
        "finished": "",
        "stopped": " The search was stopped early.",
        "deadline": " The search ended at its deadline.",
    }[result.ended]
    if not result.feasible:
        return (
            "Nothing that was tried keeps at most "
            f"{100 * allowed.max_violations:g} % of the slots missed and "
            f"{restarts_per_day(order, allowed.max_reconfigurations):g} restarts a day; this comes "
            f"nearest. Allow more, or see weir frontier for what can be kept.{ending}"
        )
    if result.better:
        return f"Better than before: {_why_better(order, result)}.{ending}"
    return f"Not surely better than before: {_why_unsure(result)}.{ending}"


def saving(result: TuningResult) -> float:
    """Return by how much the price differs from before, in percent; below 0 is less."""
    before = result.incumbent_prediction.money.mean
    return 100 * (result.prediction.money.mean / before - 1) if before else 0.0


def _why_better(order: TuningOrder, result: TuningResult) -> str:
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
        return f"{result.doubt}; keep what you have, or simulate more"
    return (
        f"it costs less with a probability of {result.certainty:.1%} and keeps the constraints "
        f"with one of {result.keeping:.1%}, and {result.required:.1%} of each would be sure; keep "
        "what you have, search longer, or simulate more slots"
    )


def _change(result: TuningResult) -> str:
    change = saving(result)
    return f"{abs(change):.1f} % {'less' if change < 0 else 'more'}"


def _part(result: TuningResult, name: str, *, incumbent: bool) -> float:
    weights = (result.incumbent if incumbent else result.best).weights
    total = weights.violations + weights.resources + weights.reconfigurations
    value: float = getattr(weights, name)
    return value / total if total else 0.0


def _estimate(value: Estimate, factor: float, digits: int) -> str:
    error = None if value.standard_error is None else factor * value.standard_error
    around = error if error is not None and error > 0.5 * 10**-digits else None
    return wording.plus_minus(factor * value.mean, around, digits)
