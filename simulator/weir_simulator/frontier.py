"""What an objective costs: the cheapest known way to meet each bound, for each share of misses.

A *candidate* is a way to run: the policy plans for some bound, with some emphasis on violations. It
is simulated with every seed, and its response times are compared with every bound, not only the one
that it planned for; bounds of single sinks stay as they are. The price of an objective (a bound,
and the percentage of slots that may miss it) is that of the cheapest candidate that meets it with
every seed. A looser objective therefore never costs more: whatever meets the tighter one meets it
too. The price is an upper limit; more candidates can only lower it.

A bound is impossible if the fastest deployment itself misses it too often. An operator is fastest
with all its replicas on the fastest node type that it may run on: each gets the fewest records and
processes them soonest, whatever the rule of sharing. With uneven keys, it is so at the parallelism
at which they are parted best. Everything that could only make it worse is left out: backlog, lost
replicas, and limits of pools, which may make another deployment the fastest. So a bound that it
misses is missed by every deployment of replicas with nominal speed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from weir_policies.errors import WeirPolicyError
from weir_policies.model.arrays import Floats
from weir_policies.model.node_types import NOWHERE
from weir_policies.model.queueing import predict
from weir_policies.policy import OperatorModel
from weir_simulator.arrivals import arrival_rates
from weir_simulator.beliefs import true_models
from weir_simulator.comparison import Interval, estimate
from weir_simulator.errors import SimulatorError
from weir_simulator.experiment import Experiment
from weir_simulator.goals import find_late, take_statistics
from weir_simulator.processes import run_in_processes
from weir_simulator.run import simulate


def unavoidable_violations(experiment: Experiment, bounds: Sequence[float]) -> tuple[float, ...]:
    """Return percent of the slots in which even the fastest deployment exceeds each bound.

    Args:
        experiment: Gives operators, node types and traffic.
        bounds: Seconds from source to sink.

    Raises:
        TraceError: The trace cannot be read.
    """
    times = _least_times(experiment)
    return tuple(float(100 * np.mean(times > bound)) for bound in bounds)


def _least_times(experiment: Experiment) -> Floats:
    """Return the least response time from source to sink, as bounded, s, shape `(slots,)`."""
    dataflow = experiment.dataflow
    rates = _rates(experiment)
    shares = dataflow.spread_rates(dict.fromkeys(dataflow.sources, 1.0))
    # A node type that is faster for a while is taken to be so throughout.
    gain = max(
        (factor for each in experiment.world.changes for factor in each.speedups.values()),
        default=1.0,
    )
    behind: dict[str, Floats] = {}  # mean, variance and constant part by operator, `(3, slots)`
    reached = np.zeros(rates.size)
    for model in sorted(true_models(experiment), key=lambda it: dataflow.order.index(it.name)):
        quick = replace(model, service_mean=model.service_mean / max(gain, 1.0))
        speeds = [0.0 if each.pool == NOWHERE else each.speedup for each in model.node_types]
        rate = rates * shares[model.name]
        constant = np.full(rate.size, model.network_time)
        never = np.full(rate.size, np.inf)
        here = np.stack([never, never, constant])
        for size in _sizes_that_may_be_fastest(model):
            rows = np.zeros((rate.size, len(model.node_types)), dtype=np.int64)
            rows[:, int(np.argmax(speeds))] = size
            found = predict(quick, rows, rate)
            there = np.stack([found.response_time, found.variance, constant])
            here = np.where(there[0] < here[0], there, here)
        slowest = np.zeros_like(here)
        for edge in dataflow.into(model.name):
            above = behind[edge.source]
            slowest = np.where(above[0] > slowest[0], above, slowest)
        behind[model.name] = slowest + here
        times = take_statistics(behind[model.name], experiment.objective.statistic)
        reached = np.maximum(reached, times)
    return reached


def _sizes_that_may_be_fastest(model: OperatorModel) -> Sequence[int]:
    """Return the largest parallelism, or all where one more replica may have more to do."""
    return range(1 if model.fullest else model.max_replicas, model.max_replicas + 1)


def _rates(experiment: Experiment) -> Floats:
    """Return the records/s of each slot at a source, changes on the way included."""
    rates = np.array(arrival_rates(experiment.trace), dtype=float)
    factors = np.ones(rates.size)
    for change in sorted(experiment.world.changes, key=lambda each: each.slot):
        if change.rate is not None:
            factors[change.slot :] = change.rate
    return rates * factors


EMPHASES = (0.1, 0.3, 1.0, 3.0)
"""Factors of the weight of violations that candidates are made with: a policy that minimises cost
misses more where misses weigh less, and that is what a loose objective can sell."""
BOUNDS = (0.25, 0.5, 0.75, 1.0, 1.5, 2.5)
"""Parts of the experiment's own bound that are priced where none are named; prices rise where the
bound comes near to the service times."""
DAY = 86_400.0
"""Seconds."""


@dataclass(frozen=True, kw_only=True, slots=True)
class FrontierOrder:
    """What to find out."""

    experiment: Experiment
    policy: str
    bounds: tuple[float, ...]
    """Response-time bounds to price, s, ascending."""
    allowed: tuple[float, ...]
    """Percent of slots that may miss the bound, ascending."""
    seeds: tuple[int, ...]

    @property
    def runs(self) -> int:
        """Simulations that this takes."""
        return len(self.bounds) * len(EMPHASES) * len(self.seeds)


@dataclass(frozen=True, kw_only=True, slots=True)
class SeededCandidate:
    """One simulation to make: a candidate with a seed."""

    experiment: Experiment
    """With the bound that is planned for, and the emphasis."""
    policy: str
    seed: int
    emphasis: float
    bounds: tuple[float, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Tried:
    """What a simulation gave, or why it could not be made."""

    trial: SeededCandidate
    price: float = 0.0
    """Mean price of what is paid, per hour."""
    restarts: float = 0.0
    """Per day."""
    missed: tuple[float, ...] = ()
    """Percent of slots above each bound."""
    replicas: Mapping[str, float] | None = None
    """Mean number by node type; `None` where the run was refused."""
    refusal: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class FrontierCandidate:
    """A way to run, and what it does over the seeds."""

    planned: float
    """Bound that the policy plans for, s."""
    emphasis: float
    price: Interval
    """Currency per hour."""
    restarts: Interval
    """Per day."""
    missed: tuple[Interval, ...]
    """Percent of slots above each bound of the order."""
    most_missed: tuple[float, ...]
    """The same with the worst seed."""
    replicas: Mapping[str, float]


@dataclass(frozen=True, kw_only=True, slots=True)
class FrontierPoint:
    """An objective, and the cheapest way found to keep it."""

    bound: float
    """s"""
    allowed: float
    """Percent of slots."""
    chosen: FrontierCandidate | None
    """`None` where nothing that was tried keeps it."""
    missed: Interval | None
    """Percent of slots above the bound, of the one chosen."""
    unavoidable: float
    """Percent of slots above the bound in the fastest deployment."""

    @property
    def impossible(self) -> bool:
        """Whether no deployment keeps it."""
        return self.unavoidable > self.allowed


@dataclass(frozen=True, kw_only=True, slots=True)
class Frontier:
    """The price of every objective that was asked about."""

    order: FrontierOrder
    points: tuple[FrontierPoint, ...]
    """Bounds ascending, and for each the allowed shares ascending."""
    refusals: tuple[str, ...]
    """Why some candidates were not made, each sentence once."""

    def at(self, bound: float, allowed: float) -> FrontierPoint:
        """Return the point of an objective that was asked about."""
        row = self.order.bounds.index(bound)
        return self.points[row * len(self.order.allowed) + self.order.allowed.index(allowed)]


def default_bounds(experiment: Experiment) -> tuple[float, ...]:
    """Return the bounds around an experiment's own that are worth pricing, s."""
    # Rounded to six digits: 0.15, not 0.15000000000000002, is what people ask for next.
    return tuple(float(f"{part * experiment.objective.response_time:.6g}") for part in BOUNDS)


def find_frontier(order: FrontierOrder, *, on_finished: Callable[[Tried], None]) -> Frontier:
    """Simulate all candidates in parallel processes and price every objective.

    Raises:
        SimulatorError: No candidate could be run at all, or a process was killed from outside.
    """
    unavoidable = unavoidable_violations(order.experiment, order.bounds)
    tried = run_in_processes(run_trial, plan_trials(order), on_finished=on_finished)
    refusals = tuple(dict.fromkeys(each.refusal for each in tried if each.refusal))
    candidates = gather_candidates(tried)
    if not candidates:
        raise SimulatorError(f"Policy {order.policy} cannot run this: {'; '.join(refusals)}")
    return Frontier(
        order=order,
        points=price_objectives(candidates, order.bounds, order.allowed, unavoidable),
        refusals=refusals,
    )


def plan_trials(order: FrontierOrder) -> list[SeededCandidate]:
    """Return every simulation: bounds by emphases by seeds."""
    return [
        SeededCandidate(
            experiment=with_emphasis(with_bound(order.experiment, bound), emphasis),
            policy=order.policy,
            seed=seed,
            emphasis=emphasis,
            bounds=order.bounds,
        )
        for bound in order.bounds
        for emphasis in EMPHASES
        for seed in order.seeds
    ]


def with_bound(experiment: Experiment, bound: float) -> Experiment:
    """Return the experiment with another response-time bound, s.

    Budgets that the file grants grow or shrink with it: they are parts of the bound.
    """
    scale = bound / experiment.objective.response_time
    operators = tuple(
        each if each.budget is None else each.model_copy(update={"budget": each.budget * scale})
        for each in experiment.operators
    )
    objective = experiment.objective.model_copy(update={"response_time": bound})
    return experiment.model_copy(update={"objective": objective, "operators": operators})


def with_emphasis(experiment: Experiment, factor: float) -> Experiment:
    """Return the experiment with the weight of violations multiplied."""
    weights = experiment.weights
    heavier = replace(weights, violation=weights.violation * factor)
    return experiment.model_copy(update={"weights": heavier})


def run_trial(trial: SeededCandidate) -> Tried:
    """Make one simulation and hold its response times against every bound."""
    try:
        result = simulate(trial.experiment, seed=trial.seed, policy=trial.policy, history=True)
    except (WeirPolicyError, SimulatorError) as error:
        return Tried(trial=trial, refusal=str(error))
    return Tried(
        trial=trial,
        price=result.resources,
        restarts=result.reconfigurations / 100 * DAY / trial.experiment.slot,
        missed=tuple(
            float(100 * find_late(result.history, bound).mean()) for bound in trial.bounds
        ),
        replicas=result.replicas,
    )


def gather_candidates(tried: Sequence[Tried]) -> tuple[FrontierCandidate, ...]:
    """Return the candidates that ran with every seed."""
    groups: dict[tuple[float, float], list[Tried]] = {}
    for each in tried:
        planned = each.trial.experiment.objective.response_time
        groups.setdefault((planned, each.trial.emphasis), []).append(each)
    return tuple(
        _summarise(planned, emphasis, runs)
        for (planned, emphasis), runs in groups.items()
        if not any(run.refusal for run in runs)
    )


def price_objectives(
    candidates: Sequence[FrontierCandidate],
    bounds: Sequence[float],
    allowed: Sequence[float],
    unavoidable: Sequence[float],
) -> tuple[FrontierPoint, ...]:
    """Return the cheapest candidate of each objective.

    Args:
        candidates: What was tried.
        bounds: Those that the candidates were held against, s, shape `(n,)`.
        allowed: Percent of slots that may miss the bound, shape `(m,)`.
        unavoidable: Percent of slots above each bound in the fastest deployment, shape `(n,)`.

    Returns:
        `n * m` points, all allowed shares of the first bound first.
    """
    points = []
    for place, bound in enumerate(bounds):
        for share in allowed:
            keeping = [each for each in candidates if each.most_missed[place] <= share]
            chosen = min(keeping, key=lambda each: each.price.mean, default=None)
            points.append(
                FrontierPoint(
                    bound=bound,
                    allowed=share,
                    chosen=chosen,
                    missed=None if chosen is None else chosen.missed[place],
                    unavoidable=unavoidable[place],
                )
            )
    return tuple(points)


def _summarise(planned: float, emphasis: float, runs: Sequence[Tried]) -> FrontierCandidate:
    shares = list(zip(*(run.missed for run in runs), strict=True))
    deployments = [run.replicas for run in runs if run.replicas is not None]
    return FrontierCandidate(
        planned=planned,
        emphasis=emphasis,
        price=estimate([run.price for run in runs]),
        restarts=estimate([run.restarts for run in runs]),
        missed=tuple(estimate(each) for each in shares),
        most_missed=tuple(max(each) for each in shares),
        replicas={
            name: float(np.mean([each[name] for each in deployments])) for name in deployments[0]
        },
    )
