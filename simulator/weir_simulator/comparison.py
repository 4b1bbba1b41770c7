"""Runs every experiment with every policy and seed, and summarises the results.

`plan_runs` lists the runs, `run_all` runs them in several processes. If a policy cannot run an
experiment (its table would be too large, for example), its error message is the result, and the
others continue. `summarise` makes a row for each policy in an experiment, with an interval over
seeds; `rank` says which policy is best over experiments.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from weir_policies import registry
from weir_policies.errors import WeirPolicyError
from weir_policies.model.arrays import Counts, Floats
from weir_simulator.errors import SimulatorError
from weir_simulator.experiment import Experiment
from weir_simulator.processes import run_in_processes
from weir_simulator.result import Result
from weir_simulator.run import simulate

CONFIDENCE = 0.95


@dataclass(frozen=True, kw_only=True, slots=True)
class PlannedRun:
    """One run to make."""

    name: str
    """What to call the experiment."""
    experiment: Experiment
    policy: str
    seed: int


@dataclass(frozen=True, kw_only=True, slots=True)
class FinishedRun:
    """A run that was made, or refused."""

    planned: PlannedRun
    result: Result | None
    refusal: str = ""
    """Why there is no result, in a sentence."""


def plan_runs(
    experiments: Mapping[str, Experiment], policies: Sequence[str] = ()
) -> list[PlannedRun]:
    """Return every run: experiments by policies by seeds."""
    for policy in policies:
        registry.find(policy)  # refuses an unknown name before anything runs
    return [
        PlannedRun(name=name, experiment=experiment, policy=policy, seed=seed)
        for name, experiment in experiments.items()
        for policy in dict.fromkeys(policies or [experiment.policy.name])
        for seed in experiment.seeds
    ]


def run_all(
    planned: Sequence[PlannedRun], *, on_finished: Callable[[FinishedRun], None]
) -> list[FinishedRun]:
    """Make the runs, one per processor at once, and return them in order.

    Raises:
        SimulatorError: A process was killed from outside, for example for lack of memory.
    """
    return run_in_processes(run_one, planned, on_finished=on_finished)


def run_one(planned: PlannedRun) -> FinishedRun:
    """Make one run, or say why it cannot be made."""
    try:
        result = simulate(planned.experiment, seed=planned.seed, policy=planned.policy)
    except (WeirPolicyError, SimulatorError) as error:
        return FinishedRun(planned=planned, result=None, refusal=str(error))
    return FinishedRun(planned=planned, result=result)


@dataclass(frozen=True, slots=True)
class Interval:
    """A mean over seeds, and the half-width of its confidence interval."""

    mean: float
    half_width: float | None
    """Of the 95 % confidence interval, by Student's t; `None` where there is one seed only."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Parts:
    """The parts of a slot's mean cost, weighted; the three add up to it."""

    violations: float
    resources: float
    reconfigurations: float


@dataclass(frozen=True, kw_only=True, slots=True)
class PolicyResult:
    """What a policy did in an experiment, over its seeds."""

    cost: Interval
    """Mean cost of a slot."""
    violations: Interval
    """Percent of the slots."""
    reconfigurations: Interval
    """Percent of the slots."""
    resources: Interval
    """Price of the deployments, mean per slot."""
    parts: Parts
    replicas: Mapping[str, float]
    """Mean number by node type, over all operators."""
    slots: int
    slots_per_second: float
    curve_slots: Counts
    """Slots after which the mean cost so far was noted, shape `(c,)`."""
    curve: Floats
    """Mean cost so far, mean over seeds, shape `(c,)`."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Row:
    """A policy in an experiment."""

    name: str
    """Of the experiment."""
    policy: str
    seeds: tuple[int, ...]
    measured: PolicyResult | None
    refusal: str = ""
    """Why nothing was measured."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Standing:
    """How a policy does over several experiments."""

    policy: str
    relative_cost: float
    """Geometric mean, over the experiments that it took, of its cost divided by the lowest one."""
    lowest_in: int
    """Experiments in which no policy has a lower cost."""
    taken: int
    """Experiments that it was not refused in."""


def summarise(finished: Sequence[FinishedRun]) -> list[Row]:
    """Return one row per experiment and policy, in the order of the runs."""
    groups: dict[tuple[str, str], list[FinishedRun]] = {}
    for run in finished:
        groups.setdefault((run.planned.name, run.planned.policy), []).append(run)
    return [
        Row(
            name=name,
            policy=policy,
            seeds=tuple(run.planned.seed for run in runs),
            measured=_measure(runs),
            refusal=next((run.refusal for run in runs if run.refusal), ""),
        )
        for (name, policy), runs in groups.items()
    ]


def by_cost(rows: Sequence[Row]) -> list[Row]:
    """Return the rows with the lowest cost first, and those that were refused last."""
    return sorted(
        rows, key=lambda row: math.inf if row.measured is None else row.measured.cost.mean
    )


def rank(rows: Sequence[Row]) -> list[Standing]:
    """Return how each policy does over all experiments, the best first."""
    lowest: dict[str, float] = {}
    ratios: dict[str, list[float]] = {row.policy: [] for row in rows}
    for row in by_cost(rows):
        if row.measured is not None:
            cost = row.measured.cost.mean
            best = lowest.setdefault(row.name, cost)
            ratios[row.policy].append(1.0 if cost == best else cost / best if best else math.inf)
    standings = [
        Standing(
            policy=policy,
            relative_cost=float(np.exp(np.mean(np.log(each)))) if each else math.inf,
            lowest_in=each.count(1.0),
            taken=len(each),
        )
        for policy, each in ratios.items()
    ]
    return sorted(standings, key=lambda standing: (-standing.taken, standing.relative_cost))


def _measure(runs: Sequence[FinishedRun]) -> PolicyResult | None:
    """Return what the seeds have in common; nothing where one of them was refused."""
    results = [run.result for run in runs if run.result is not None]
    if len(results) < len(runs):
        return None
    weights = runs[0].planned.experiment.weights
    cost = estimate([result.average_cost for result in results])
    violations = estimate([result.violations for result in results])
    reconfigurations = estimate([result.reconfigurations for result in results])
    violation_part = weights.violation * violations.mean / 100
    reconfiguration_part = weights.reconfiguration * reconfigurations.mean / 100
    return PolicyResult(
        cost=cost,
        violations=violations,
        reconfigurations=reconfigurations,
        resources=estimate([result.resources for result in results]),
        parts=Parts(
            violations=violation_part,
            reconfigurations=reconfiguration_part,
            resources=cost.mean - violation_part - reconfiguration_part,
        ),
        replicas={
            name: float(np.mean([result.replicas[name] for result in results]))
            for name in results[0].replicas
        },
        slots=results[0].slots,
        slots_per_second=float(np.mean([result.slots_per_second for result in results])),
        curve_slots=results[0].curve_slots,
        curve=np.mean([result.curve for result in results], axis=0),
    )


def estimate(values: Sequence[float]) -> Interval:
    """Return the mean of one value per seed, with its 95 % confidence interval."""
    count = len(values)
    mean = float(np.mean(values))
    if count == 1:
        return Interval(mean, None)
    # Imported late, because most runs need no interval; scipy.stats alone would take 50 MiB.
    from scipy.special import stdtrit

    quantile = float(stdtrit(count - 1, (1 + CONFIDENCE) / 2))
    return Interval(mean, quantile * float(np.std(values, ddof=1)) / math.sqrt(count))
