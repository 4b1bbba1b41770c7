"""The planner against the best possible course, and against every other policy.

All 24 settings of the 2023 paper's tables. With the exact model, jumps allowed, its cost is divided
by that of the clairvoyant optimum, and compared with every policy that is registered, each moving
as it was made to; then the same with moves of one replica for all. Started from the erroneous
model of QL+PDS+ it has to find out from what is measured. Offline `value-iteration` knows another
month of the same trace beforehand and is no competitor. Policies that refuse their table are left
out. Deep policies take hours for all settings: their published costs are compared.

Besides, `bounds`: the planner under floors and under a limit on cost. `PLANNER_PART=bounds` runs
only these, in a minute.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from benchmarks.figures import Figure, at_least, at_most
from benchmarks.papers.taas2023 import Setting, describe, read_cells, settings
from benchmarks.policies.bounds import measure_caps, measure_floors
from benchmarks.policies.clairvoyant import least_cost
from benchmarks.registry import BenchmarkError
from benchmarks.spawned import map_spawned
from weir_policies import registry
from weir_policies.errors import ParameterError
from weir_simulator.run import simulate

ABOUT = "the planner against the clairvoyant optimum and every other policy, in all 24 settings"
DURATION = "25 min"
DETERMINISTIC = True

SEEDS = range(1, 11)
ERRONEOUS = {"serviceError": [0.05, 0.10], "speedupError": 0.2, "scv": 1.0}
"""What QL+PDS+ starts from: service 5 to 10 % off, speedups up to 20 %, exponential service."""
OFFLINE = ("value-iteration",)
"""Knows the course of another month beforehand, so it is no competitor."""
GOALS = {"taxi": 1.12, "tweets": 1.18}
GOAL_ERRONEOUS = 1.2
OWN, ONE_STEP = "each policy's own moves", "moves of one replica"


@dataclass(frozen=True, kw_only=True, slots=True)
class Run:
    setting: Setting
    policy: str = "planner"
    one_step: bool = False
    erroneous: bool = False
    seed: int = 1


Costs = Mapping[Run, float | None]
"""Mean cost per slot of each run; `None` where the policy refused its table."""


def run() -> list[Figure]:
    bounds = [*measure_floors(), *measure_caps()]
    if os.environ.get("PLANNER_PART") == "bounds":
        return bounds
    columns = list(settings())
    others = competitors()
    costs = _run_all(
        [
            Run(setting=setting, policy=policy, one_step=one_step)
            for setting in columns
            for policy in ("planner", *others)
            for one_step in (False, True)
        ]
        + [Run(setting=each, erroneous=True, seed=seed) for each in columns for seed in SEEDS]
    )
    return [
        *_compare_with_limit(columns, costs),
        *_compare_with_others(columns, others, costs, one_step=False),
        *_compare_with_others(columns, others, costs, one_step=True),
        _compare_with_published(columns, costs),
        *bounds,
    ]


def competitors() -> tuple[str, ...]:
    """Return the policies that learn or decide on line and have a compiled algorithm."""
    return tuple(
        name
        for name in registry.names()
        if name not in ("planner", *OFFLINE) and registry.define(name) is not None
    )


def _run_all(wanted: Sequence[Run]) -> dict[Run, float | None]:
    return dict(zip(wanted, map_spawned(_run_one, wanted, at_once=4), strict=True))


def _run_one(run: Run) -> float | None:
    """Return the mean cost per slot, `None` where the policy refuses."""
    more: dict[str, Any] = {}
    if run.one_step:
        more["step"] = 1
    if run.erroneous:
        more["believed"] = ERRONEOUS
    try:
        experiment = describe(run.setting, **more)
        return simulate(experiment, seed=run.seed, policy=run.policy).average_cost
    except ParameterError:
        return None


def _cost(costs: Costs, run: Run) -> float:
    """Return a cost of the planner, which refuses nothing."""
    cost = costs[run]
    if cost is None:
        raise BenchmarkError(f"Expected a cost of {run}, and the policy refused it")
    return cost


def _compare_with_limit(columns: Sequence[Setting], costs: Costs) -> Iterator[Figure]:
    """Yield costs, ratios to the clairvoyant optimum, and their geometric means."""
    exact: dict[str, list[float]] = {}
    erroneous: dict[str, list[float]] = {}
    for each in columns:
        limit = least_cost(describe(each))
        cost = _cost(costs, Run(setting=each))
        seeds = [_cost(costs, Run(setting=each, erroneous=True, seed=seed)) for seed in SEEDS]
        exact.setdefault(each.workload, []).append(cost / limit)
        erroneous.setdefault(each.workload, []).append(fmean(seeds) / limit)
        yield Figure(f"{each}: clairvoyant optimum", limit)
        yield Figure(f"{each}: planner", cost)
        yield Figure(f"{each}: planner / clairvoyant", cost / limit)
        yield Figure(f"{each}: started from an erroneous model / clairvoyant", fmean(seeds) / limit)
    for workload, ratios in exact.items():
        yield at_most(
            f"{workload}: planner / clairvoyant, geometric mean of 12 columns",
            geometric_mean(ratios),
            GOALS[workload],
        )
        yield at_most(
            f"{workload}: from an erroneous model, geometric mean, {len(SEEDS)} seeds",
            geometric_mean(erroneous[workload]),
            GOAL_ERRONEOUS,
        )


def _compare_with_others(
    columns: Sequence[Setting], others: Sequence[str], costs: Costs, *, one_step: bool
) -> Iterator[Figure]:
    """Yield the next best policy of each column, and in how many the planner costs least."""
    moves = ONE_STEP if one_step else OWN
    lowest = 0
    for each in columns:
        ours = _cost(costs, Run(setting=each, one_step=one_step))
        found = {
            name: cost
            for name in others
            if (cost := costs[Run(setting=each, policy=name, one_step=one_step)]) is not None
        }
        best = min(found, key=found.__getitem__)
        lowest += ours < found[best]
        if one_step:
            yield Figure(f"{each}: planner, {moves}", ours)
        yield Figure(f"{each}: the best of {len(found)} others, {best}, {moves}", found[best])
    yield at_least(f"columns in which the planner costs least, {moves}", lowest, len(columns))


def _compare_with_published(columns: Sequence[Setting], costs: Costs) -> Figure:
    """Return in how many columns it costs less than all that the paper prints, deep ones too."""
    published: dict[Setting, float] = {}
    for cell in read_cells():
        published[cell.setting] = min(published.get(cell.setting, math.inf), float(cell.cost))
    return at_least(
        "columns in which the planner costs less than every published row",
        sum(_cost(costs, Run(setting=each)) < published[each] for each in columns),
        len(columns),
    )


def geometric_mean(ratios: Sequence[float]) -> float:
    return math.exp(fmean(math.log(ratio) for ratio in ratios))
