"""Latency budgets: how much of the objective each operator may use.

Budgets are feasible by construction: over no path do they add up to more than the bound.

1. Every operator gets its minimum response time.
2. A quarter of the rest of the bound is shared in equal quotas: each operator gets it
   divided by the number of operators on the longest path through it (longest by count). The rest is
   shared in proportion to the least times, along the path where these add up to most. Where a path
   has no least time at all, everything is shared in equal quotas.
3. Spare time is spread: operators that are on no exhausted path grow by one common factor until
   one more path is exhausted, and so on.

Source: Russo Russo, Cardellini, Lo Presti, ACM TAAS 2023, Algorithm 5: step 2 is its lines 1-4,
step 3 its line 5. Departures: step 1, because with equal quotas alone an objective that could be
kept fails at the one operator whose service takes longer than its quota; and the proportional part
of step 2. Where waiting stretches each service time by a factor that depends on utilisation alone,
equal utilisations cost least, and these need budgets in proportion to the service times. The equal
part spares an operator of microseconds a budget that no measurement resolves. All least times zero
is the paper.

`profile_budgets` is the earlier way: run a deployment that is busy enough, raise the load until the
response time meets the bound, and grant each operator the time that it then takes.

Source: Cardellini, Lo Presti, Nardelli, Russo Russo, Future Generation Computer Systems 2018 (EDF),
section 9. Departures: the model of the queues stands for the measurements, and the load is raised
to where the response time is the bound, not close to it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from weir_policies.errors import InfeasibleObjectiveError, ParameterError
from weir_policies.model.dataflow import Dataflow
from weir_policies.model.queueing import predict_means
from weir_policies.policy import OperatorModel

EQUAL_PART = 0.25
"""Of the spare time, what is shared in equal quotas. Dataflows of unequal operators cost 2 to 5 %
less with a quarter than with a half, and at most 5 % more than with no equal part."""
EXHAUSTED = 1e-9
"""Spare time below this part of the bound is none."""
BUSY = 0.7
"""Utilisation from which an operator is overloaded, EDF's."""
SAME_LOAD = 1e-6
"""Relative difference of two loads below which profiling goes no further."""


def share_budgets(
    dataflow: Dataflow,
    bound: float,
    *,
    least: Mapping[str, float] | None = None,
    sink_bounds: Mapping[str, float] | None = None,
) -> dict[str, float]:
    """Return seconds of response time per operator.

    Args:
        dataflow: The operators and their paths.
        bound: Seconds from source to sink.
        least: Least possible response time per operator, s; `None` is zero for all.
        sink_bounds: Tighter bounds for the paths to some operators, mostly sinks, s.

    Raises:
        ParameterError: A bound is not above 0, or is for what is no operator.
        InfeasibleObjectiveError: The least times alone exceed a bound.
    """
    floors = dict.fromkeys(dataflow.operators, 0.0) if least is None else dict(least)
    budgets = _share(dataflow, bound, floors, of="the objective")
    for sink, tighter in (sink_bounds or {}).items():
        if sink not in dataflow.operators:
            raise ParameterError(f"Expected a bound for one of {dataflow.operators}, got {sink!r}")
        part = _share(dataflow.leading_to(sink), tighter, floors, of=f"the paths to {sink}")
        # The smaller of two budgets keeps both bounds.
        budgets |= {name: min(budgets[name], budget) for name, budget in part.items()}
    return budgets


def share_equally(
    dataflow: Dataflow, bound: float, *, sink_bounds: Mapping[str, float] | None = None
) -> dict[str, float]:
    """Return equal quotas along the longest path through each operator (lines 1-4), s."""
    operators_on_path = dataflow.longest_through(dict.fromkeys(dataflow.operators, 1.0))
    quotas = {name: bound / operators_on_path[name] for name in dataflow.operators}
    for sink, tighter in (sink_bounds or {}).items():
        part = share_equally(dataflow.leading_to(sink), tighter)
        quotas |= {name: min(quotas[name], quota) for name, quota in part.items()}
    return quotas


def profile_budgets(
    dataflow: Dataflow, models: Sequence[OperatorModel], bound: float, *, rate: float
) -> dict[str, float]:
    """Return the time at each operator under the load that brings the dataflow to its bound, s.

    Args:
        dataflow: The operators and their paths.
        models: One per operator.
        bound: Seconds from source to sink.
        rate: Records/s at each source; the replicas are the fewest, on the first node type, with
            which no operator is busier than `BUSY`, or as many as it may have.

    Raises:
        InfeasibleObjectiveError: The response time exceeds the bound without any load.
    """
    replicas = {model.name: _replicas_for(model, dataflow, rate) for model in models}

    def respond(load: float) -> dict[str, float]:
        arriving = _spread(dataflow, load)
        return {
            model.name: _time_at(model, replicas[model.name], arriving[model.name])[0]
            for model in models
        }

    least = dataflow.response_time(respond(0.0))
    if not least < bound:
        raise InfeasibleObjectiveError(
            f"Expected more than {least * 1000:.1f} ms for the objective, the response time "
            f"without any load, got {bound * 1000:.1f} ms",
            least=least,
        )
    low, high = 0.0, rate
    while dataflow.response_time(respond(high)) <= bound:
        low, high = high, 2 * high
    while high - low > SAME_LOAD * high:
        middle = (low + high) / 2
        if dataflow.response_time(respond(middle)) <= bound:
            low = middle
        else:
            high = middle
    return respond(low)


def _replicas_for(model: OperatorModel, dataflow: Dataflow, rate: float) -> int:
    """Return the fewest replicas that are not overloaded, or as many as there may be."""
    arriving = _spread(dataflow, rate)[model.name]
    fitting = (
        count
        for count in range(1, model.max_replicas)
        if _time_at(model, count, arriving)[1] <= BUSY
    )
    return next(fitting, model.max_replicas)


def _spread(dataflow: Dataflow, rate: float) -> dict[str, float]:
    return dataflow.spread_rates(dict.fromkeys(dataflow.sources, rate))


def _time_at(model: OperatorModel, count: int, rate: float) -> tuple[float, float]:
    """Return the mean response time of so many replicas of the first node type, s, and how busy."""
    deployment = np.zeros((1, len(model.node_types)), dtype=np.int64)
    deployment[0, 0] = count
    time, busy = predict_means(model, deployment, rate)
    return float(time[0]), float(busy[0])


def spread_spare(
    dataflow: Dataflow, bound: float, budgets: Mapping[str, float]
) -> dict[str, float]:
    """Return the budgets with the spare time of every path given out (line 5), s."""
    spread = dict(budgets)
    while True:
        through = dataflow.longest_through(spread)
        growing = {
            name
            for name in dataflow.operators
            if spread[name] > 0 and bound - through[name] > EXHAUSTED * bound
        }
        if not growing:
            return spread
        factor = _largest_factor(dataflow, bound, spread, growing)
        spread |= {name: spread[name] * factor for name in growing}


def _share(
    dataflow: Dataflow, bound: float, floors: Mapping[str, float], *, of: str
) -> dict[str, float]:
    if not (math.isfinite(bound) and bound > 0):
        raise ParameterError(f"Expected a response time above 0 s for {of}, got {bound} s")
    min_possible = dataflow.response_time(floors)
    if not min_possible < bound:
        path = " -> ".join(dataflow.longest_path(floors))
        raise InfeasibleObjectiveError(
            f"Expected more than {min_possible * 1000:.1f} ms for {of}, the least that "
            f"{path} can take on the fastest nodes without any load, got {bound * 1000:.1f} ms",
            least=min_possible,
        )
    spare = bound - min_possible
    through = dataflow.longest_through(floors)
    equal_part = EQUAL_PART if min(through.values()) > 0 else 1.0
    quotas = share_equally(dataflow, spare * equal_part)
    budgets = {
        name: floors[name]
        + quotas[name]
        + (spare * (1 - equal_part) * floors[name] / through[name] if floors[name] > 0 else 0.0)
        for name in dataflow.operators
    }
    return spread_spare(dataflow, bound, budgets)


def _largest_factor(
    dataflow: Dataflow, bound: float, budgets: Mapping[str, float], growing: set[str]
) -> float:
    """Return by how much the growing operators can grow before a path is exhausted.

    The longest path as a function of the factor is convex and made of straight pieces, one per
    path: Newton's method from above meets the bound after finitely many pieces.
    """
    factor = bound / min(budgets[name] for name in growing)
    while True:
        grown = {
            name: budget * factor if name in growing else budget for name, budget in budgets.items()
        }
        path = dataflow.longest_path(grown)
        growing_part = sum(budgets[name] for name in path if name in growing)
        fixed_part = sum(budgets[name] for name in path if name not in growing)
        if growing_part == 0:  # rounding: an exhausted path is the longest
            return factor
        smaller = (bound - fixed_part) / growing_part
        if smaller >= factor * (1 - EXHAUSTED):
            return min(factor, smaller)
        factor = smaller
