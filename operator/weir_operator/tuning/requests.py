"""Translates a tuning's request and result between the managers and the simulator. Pure.

The simulator has only the scaled operators. The time of the others is part of the first ones' there
(`fitting.description`), so it is added to their budgets in the request and subtracted from the
result.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass, field
from pathlib import Path

from pydantic import JsonValue

from weir_operator.runtime.protocol import Deployments
from weir_operator.tuning.protocol import TuningLostError
from weir_policies.model.objective import Statistic
from weir_policies.model.season import Season
from weir_policies.policy import CostWeights, Tuning
from weir_simulator.experiment import (
    Experiment,
    Objective,
    PolicyChoice,
    find_overfull,
    initial_counts,
)
from weir_simulator.fitting.description import contract
from weir_simulator.fitting.fit import Fit
from weir_simulator.fitting.refit import with_seasons
from weir_simulator.tuning.order import Constraints, TuningRequest, TuningResult
from weir_simulator.tuning.warm_starts import adapt_tuning

TRACE = Path("trace.txt")
"""Stands for the rates that go with the request; the worker writes them where it likes."""
WARM_STARTS = 3
"""Points besides the incumbent that a search begins with."""
ALIKE = 0.05
"""Difference of a weight, and relative one of a budget, that measurements do not distinguish."""
RESTARTS_SHOWN = 10
"""Restarts for which a trace must have room: of fewer, one more or less is most of what is allowed,
and a tuning on it promises what it cannot know."""
LONGEST_WAIT = 0.5
"""Times all that is ever fitted to, the longest that a tuning waits for such a trace: where hardly
a restart is allowed, it would never be there."""
TRAINED_FOR = 20_000
"""Slots that policies which learn by trying are trained for."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Terms:
    """What does not change from tuning to tuning."""

    policy: str
    objective: Objective
    """Of the manifest."""
    parameters: Mapping[str, JsonValue] = field(default_factory=dict)
    constraints: Constraints = field(default_factory=Constraints)
    evaluations: int = 25
    deadline: float = 600.0
    """Seconds after which the best so far is the answer."""
    watch: int = 60
    """Intervals of a trial."""


def make_request(
    fit: Fit,
    terms: Terms,
    *,
    tail: float,
    weights: CostWeights,
    budgets: Mapping[str, float],
    deployments: Deployments,
    known: Sequence[Tuning],
    training: bool,
    similar: Sequence[Tuning],
    seasons: Mapping[str, Season],
) -> TuningRequest:
    """Return what one tuning is asked for.

    Args:
        fit: A good one.
        terms: What is asked for.
        tail: How many times the mean the bounded statistic is, as it was measured.
        weights: Those in force.
        budgets: Seconds that the operators have now; fixed ones may be among them.
        deployments: What runs now.
        known: Points that were found for this job, oldest first.
        training: Whether the policies are to be trained besides.
        similar: Points that were found for similar jobs, newest first.
        seasons: What usually arrives, by operator; as far as that is known.

    Raises:
        FitError: The simulator cannot have such a job.
    """
    experiment = fit.to_experiment(
        objective=_with_tail(terms.objective, tail),
        trace=TRACE,
        weights=weights,
        policy=PolicyChoice(name=terms.policy, parameters=dict(terms.parameters)),
    )
    experiment = experiment.model_copy(update={"initial": begin_with(deployments, experiment)})
    experiment = with_seasons(experiment, seasons, begin=fit.begin)
    names = [operator.name for operator in experiment.operators]
    incumbent = None
    if all(math.isfinite(budgets.get(name, math.nan)) for name in names):
        folded = _shift({name: budgets[name] for name in names}, fit, sign=1)
        incumbent = Tuning(weights=weights, budgets=folded)
    return TuningRequest(
        experiment=experiment,
        constraints=terms.constraints,
        evaluations=terms.evaluations,
        workers=1,  # the job itself may run on the same machine
        deadline=terms.deadline,
        incumbent=incumbent,
        warm_starts=_warm_starts(experiment, incumbent, known, similar),
        # Four digits: no rate is measured better, and the trace is most of what is sent.
        rates=tuple(float(f"{rate:.4g}") for rate in fit.rates),
        watch=min(terms.watch, len(fit.rates)),
        train=TRAINED_FOR if training else 0,
    )


def _with_tail(objective: Objective, tail: float) -> Objective:
    """Return an objective whose budgets are divided by the measured ratio, as by the managers."""
    mean = objective.statistic is Statistic.MEAN
    return objective.model_copy(update={"tail": None if mean else tail})


def _warm_starts(
    experiment: Experiment,
    incumbent: Tuning | None,
    known: Sequence[Tuning],
    similar: Sequence[Tuning],
) -> tuple[Tuning, ...]:
    """Return a search's starting points besides the incumbent: the job's own, newest first.

    Those of similar jobs fill what room is left, for they know less of it.
    """
    names = {operator.name for operator in experiment.operators}
    own = [point for point in reversed(known) if point.budgets.keys() == names]
    starts: list[Tuning] = []
    for point in (*own, *(adapt_tuning(each, experiment) for each in similar)):
        told = [*starts, incumbent] if incumbent is not None else starts
        if not any(resembles(point, each) for each in told):
            starts.append(point)
    return tuple(starts[:WARM_STARTS])


def find_shortness(request: TuningRequest, *, most_intervals: int) -> str:
    """Return why a trace is too short to tune on, one sentence; empty where it is long enough.

    That depends on how many restarts the request allows. `most_intervals` are the most intervals
    that such a job is ever fitted to.
    """
    allowed, slots = request.constraints.max_reconfigurations, len(request.rates)
    longest = LONGEST_WAIT * most_intervals
    minimum = math.ceil(min(RESTARTS_SHOWN / allowed, longest)) if allowed else 0
    if slots >= minimum:
        return ""
    return (
        f"The job was measured for {slots} intervals; it takes {minimum} to see "
        "whether a tuning causes so few restarts per day; the current settings "
        "stay until then"
    )


def begin_with(deployments: Deployments, experiment: Experiment) -> dict[str, int] | None:
    """Return what each operator of a simulation begins with; `None` is the least there can be.

    A job that is fitted to runs already. Begun with the least, the simulated one would first have
    to work off what it cannot serve, which in a short trace is most of what is seen. All operators
    begin with the same of each type that they may run on, so it is what suffices for each. A type
    that none runs on is not named, so that whoever edits the file may take it away.
    """
    running = [deployments.get(each.name, {}) for each in experiment.operators]
    maximum = {
        each.name: count
        for each in experiment.node_types
        if (count := max(counts.get(each.name, 0) for counts in running))
    }
    begun = initial_counts(experiment.operators, experiment.node_types, maximum)
    fits = find_overfull(begun, experiment.node_types) is None and all(
        1 <= sum(counts.values()) <= each.max_replicas
        for each, counts in zip(experiment.operators, begun, strict=True)
    )
    return maximum if fits else None


def check_answer(result: TuningResult, request: TuningRequest) -> None:
    """Refuse a result that cannot be the request's, whoever wrote it.

    Raises:
        TuningLostError: The best has budgets for other operators, one that no point of this request
            may have, or weights that are not finite or add up to nothing.
    """
    best, experiment = result.best, request.experiment
    names = {operator.name for operator in experiment.operators}
    if best.budgets.keys() != names:
        raise TuningLostError(
            f"Expected the result of a tuning to have budgets for {sorted(names)}, "
            f"got {sorted(best.budgets)}"
        )
    given = (request.incumbent, *request.warm_starts)
    known = [budget for point in given if point is not None for budget in point.budgets.values()]
    longest = max(experiment.objective.response_time, *known, 0.0)
    if max(best.budgets.values()) > longest:
        raise TuningLostError(
            f"Expected the result of a tuning to have budgets of at most {longest:g} s, "
            f"got {max(best.budgets.values()):g} s"
        )
    if not 0 < sum(astuple(best.weights)) < math.inf:
        raise TuningLostError(
            "Expected the result of a tuning to have weights with a sum above 0, "
            f"got {astuple(best.weights)}"
        )


def unfold(budgets: Mapping[str, float], fit: Fit) -> dict[str, float]:
    """Return tuned budgets in the managers' terms, seconds by operator."""
    return _shift(budgets, fit, sign=-1)


def resembles(one: Tuning, other: Tuning) -> bool:
    """Return whether measurements would hardly distinguish two points."""
    if one.budgets.keys() != other.budgets.keys():
        return False
    mine, its = (astuple(each.weights.normalised()) for each in (one, other))
    return all(abs(a - b) <= ALIKE for a, b in zip(mine, its, strict=True)) and all(
        abs(one.budgets[name] / budget - 1) <= ALIKE for name, budget in other.budgets.items()
    )


def _shift(budgets: Mapping[str, float], fit: Fit, *, sign: int) -> dict[str, float]:
    calibration = fit.calibration
    first = contract(calibration.dataflow, calibration.structure.fixed).sources
    unmodelled_latency = sign * calibration.unmodelled_latency
    # What is left of a budget below zero fits nothing, and is then not made use of.
    return {
        name: budget + (unmodelled_latency if name in first else 0.0)
        for name, budget in budgets.items()
    }
