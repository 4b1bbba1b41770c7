"""What arrived at an operator, which is not what it took.

Under back-pressure, in a restart and while a source catches up, the difference goes into its
backlog or comes out of it. So what arrives at a source is what it took plus what its backlog grew
by. Whatever blocks or delays the source scales the flow behind it alike; an operator inside the
dataflow would have been reached by what it took in, times what arrived at the sources over what
they took. That needs no dataflow, is exact where there is one source, and takes several sources for
one, as if each had been blocked as much as all together.

A source that is back-pressured and tells no backlog leaves all of the minute's arrivals unknown.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from weir_pipelines.groups import Bools, Groups, divide
from weir_policies.model.arrays import Floats


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Demand:
    """What arrived, each of shape `(o, minutes)`."""

    arrived: Floats
    """Records/s; NaN where unknown."""
    is_backlog: Bools
    """At a source: it was taken from its backlog."""
    is_blocked: Bools
    """Unknown, because some source was blocked; the same for all operators of a minute."""


def judge_demand(
    *, taken: Floats, growth: Floats, blocked: Floats, is_source: Bools, blocked_from: float
) -> Demand:
    """Return what arrived at all operators of one application.

    Args:
        taken: Records/s that each took in, shape `(o, minutes)`; NaN where unknown, as below.
        growth: Records/s by which its backlog grew, same shape; NaN where it tells none.
        blocked: Share of time that it was back-pressured, same shape.
        is_source: Whether it was a source then, same shape.
        blocked_from: Share above which it counts as back-pressured.
    """
    under_pressure = is_source & (np.nan_to_num(blocked) > blocked_from)
    silent = np.isnan(growth)
    without = under_pressure & silent
    # Backlog and intake are not sampled at one instant: a small negative sum is zero.
    at_source = np.where(without, np.nan, np.maximum(taken + np.nan_to_num(growth), 0.0))
    every = Groups(starts=np.zeros(1, dtype=np.int64), rows=taken.shape[0])
    take = every.total(np.where(is_source, taken, np.nan))  # 1 x minutes
    demand = every.total(np.where(is_source, at_source, np.nan))
    unknown = np.broadcast_to(every.any(without), taken.shape)
    plain = np.isnan(take) | (take == demand)  # no source in sight, or nothing waits before it
    inside = np.where(plain, taken, taken * divide(demand, take))
    return Demand(
        arrived=np.where(is_source, at_source, np.where(unknown, np.nan, inside)),
        is_backlog=under_pressure & ~silent,
        is_blocked=unknown,
    )
