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
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from weir_policies.errors import InfeasibleObjectiveError, ParameterError
from weir_policies.model.dataflow import Dataflow

EQUAL_PART = 0.25
"""Of the spare time, what is shared in equal quotas. Dataflows of unequal operators cost 2 to 5 %
less with a quarter than with a half, and at most 5 % more than with no equal part."""
EXHAUSTED = 1e-9
"""Spare time below this part of the bound is none."""


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
        sink_bounds: Tighter bounds for paths to some sinks, s.

    Raises:
        ParameterError: A bound is not above 0, or is for what is no sink.
        InfeasibleObjectiveError: The least times alone exceed a bound.
    """
    floors = dict.fromkeys(dataflow.operators, 0.0) if least is None else dict(least)
    budgets = _share(dataflow, bound, floors, of="the objective")
    for sink, tighter in (sink_bounds or {}).items():
        if sink not in dataflow.sinks:
            raise ParameterError(f"Expected a bound for one of {dataflow.sinks}, got {sink!r}")
        part = _share(dataflow.leading_to(sink), tighter, floors, of=f"the paths to {sink}")
        # The smaller of two budgets keeps both bounds.
        budgets |= {name: min(budgets[name], budget) for name, budget in part.items()}
    return budgets


def share_equally(dataflow: Dataflow, bound: float) -> dict[str, float]:
    """Return equal quotas along the longest path through each operator (lines 1-4), s."""
    operators_on_path = dataflow.longest_through(dict.fromkeys(dataflow.operators, 1.0))
    return {name: bound / operators_on_path[name] for name in dataflow.operators}


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
