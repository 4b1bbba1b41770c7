"""What a tuning gives the Operator Managers, adapted to the current measurements. Pure.

A tuning uses the objective and the operators as they were when it began. Since then, the ratio of
the bounded quantile to the mean has been measured again, and so has the minimum time of each
operator. If the tuned budgets exceed the bound, they are moved towards the minimum times by one
common factor. If they are below the minimum, they are not used, and the Application Manager divides
the bound itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from weir_policies.model.dataflow import Dataflow
from weir_policies.policy import CostWeights, Tuning

UNTUNED = Tuning(weights=CostWeights(), budgets={})
"""Operators without a budget get a share of what the others leave."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelState:
    """Whether the simulator is like the job, as far as is known."""

    fitted: bool | None
    """`None` where too little was measured for a fit."""
    reason: str
    """`Fitting`, `Fitted`, `TooFewSamples`, `BadFit`, `CannotFit` or `Drift`."""
    sentence: str


@dataclass(frozen=True, kw_only=True, slots=True)
class TuningView:
    """The state of one StreamApp's tuning, for reports."""

    model: ModelState
    tuned: Tuning
    """What the Operator Managers work with."""
    version: int = 0
    """Number of the tuning that `tuned` comes from; 0 where nothing was tuned."""
    since: float = 0.0
    """Unix time at which `tuned` was taken; 0 where nothing was tuned."""
    expected: str = ""
    """What the simulator expects of it, a sentence; empty where nothing was tuned."""
    in_training: tuple[str, ...] = ()
    """Operators whose policy does not decide yet, because it has not been trained."""
    failure: str = ""
    """Why the last tuning could not be made, a sentence; empty where it could, or none was due."""
    answered: bool = False
    """Whether the tuner has ever answered for the job as it is."""


def fit_budgets(
    wished: Mapping[str, float],
    shared: Mapping[str, float],
    *,
    least: Mapping[str, float],
    dataflow: Dataflow,
    bound: float,
    sink_bounds: Mapping[str, float],
) -> dict[str, float] | None:
    """Return budgets that keep the bounds and are as near to the wished ones as these allow.

    Args:
        wished: Tuned budgets, seconds; operators of the dataflow without one keep their share.
        shared: What the operators get without tuning, seconds.
        least: What each operator needs at least, seconds.
        dataflow: The operators and their paths.
        bound: Seconds of mean response time on every path.
        sink_bounds: Tighter ones of the paths to some sinks.

    Returns:
        Budgets by operator; `None` where a wished one, or its rest within the bounds, is no more
        than the operator needs at least.
    """
    known = {name: wished[name] for name in dataflow.operators if name in wished}
    if any(budget <= least[name] for name, budget in known.items()):
        return None
    budgets = {name: known.get(name, shared[name]) for name in dataflow.operators}
    part = 1.0
    bounded = [(dataflow, bound)]
    bounded += [(dataflow.leading_to(sink), tighter) for sink, tighter in sink_bounds.items()]
    for paths, maximum in bounded:
        longest = paths.response_time({name: budgets[name] for name in paths.operators})
        # What is not tuned stays, so that only the tuned part can give way.
        floor = {name: least[name] if name in known else shared[name] for name in paths.operators}
        shortest = paths.response_time(floor)
        if longest > maximum:
            # The longest path is convex in the factor, so the chord keeps the bound.
            part = min(part, (maximum - shortest) / (longest - shortest))
    if part <= 0:
        return None
    return budgets | {
        name: least[name] + part * (budget - least[name]) for name, budget in known.items()
    }
