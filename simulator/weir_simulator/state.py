"""The state of a simulated world, as arrays that the compiled loop works on.

Shapes: `o` operators, `t` node types, `k` the largest `k_max`, `c` points of a curve, `h` changes.
"""

from __future__ import annotations

from typing import Any, NamedTuple, get_type_hints

import numpy as np
from numba import from_dtype, types

from weir_policies.kernels.view import Records
from weir_policies.model.arrays import Counts, Floats

WEEK = 604_800.0
"""Seconds."""

NOTHING, RESIZE, RESTART = range(3)
"""What a decided change takes; of several operators' changes the greatest counts."""

# Columns of `Changes.what`.
PRICE, SPEEDUP, RATE_FACTOR = range(3)

# Columns of `SimulationOutcome.totals`: sums over slots.
COST, VIOLATIONS, RECONFIGURATIONS, SPENT, RESIZES, LOSSES, BACKLOGGED, ASKED, GRANTED = range(9)
TOTALS = 9

# Columns of `SimulationOutcome.history`, one row per slot.
AT_RATE, AT_TIME, AT_PRICE, AT_CHANGE, AT_REPLICAS, AT_SINKS = range(6)
"""`AT_TIME` is the bounded statistic from source to sink; `AT_SINKS` is 1 where a single sink's own
bound is exceeded."""
HISTORY = 6

# Columns of `Goals.bounds`: row of the operator, seconds, percentile as a part of one (0 is the
# mean), and the same percentile of a standard normal law.
AT_END, AT_BOUND, AT_QUANTILE, AT_NORMAL = range(4)
GOAL = 4

# Columns of `Goals.reached`: mean and variance from source to operator, and the constant part.
AT_MEAN, AT_VARIANCE, AT_CONSTANT = range(3)
REACHED = 3


class Rules(NamedTuple):
    """What holds for the whole run."""

    slot: float
    """Seconds between two decisions."""
    bound: float
    """Seconds of response time from source to sink; more is a violation."""
    ends: int
    """Rows of `Goals.bounds` that are this bound at each sink; 0 where only the mean from source to
    sink is bounded, and nothing else."""
    weight_violation: float
    weight_resources: float
    weight_reconfiguration: float
    top_cost: float
    """Cost per hour of the dearest deployment of all operators: resources are a part of it."""
    queues: bool
    """Backlog is carried from slot to slot; else every slot is a steady state."""
    downtime: float
    """Seconds that a restart stops the job."""
    provisioning: int
    """Slots until an added replica is there; the job runs on until then."""
    resizes: bool
    """Sizes within a pool change in place, without a restart."""
    spread: float
    """Standard deviation of the logarithm of the replicas' speeds, within a node type."""
    loss: float
    """Probability that a replica is lost in a slot."""
    noise: float
    """Relative standard deviation of what is measured."""
    missing: float
    """Probability that the measurements of an operator are missing in a slot."""
    pool_limits: bool
    """Pools have room for so many replicas of all operators together."""
    seed: int


class Bounds(NamedTuple):
    """What the decisions of each slot must keep."""

    floors: Counts
    """Replicas that each operator must have, `(slots, o)`."""
    prices: Floats
    """Currency per hour that each may cost, `inf` without a limit, `(slots, o)`."""


class Now:
    """What a slot leaves to the next one, and what the whole application does in it."""

    rate_factor: float
    """Times the trace's rate."""
    standstill: float
    """Seconds for which the job is still stopped."""
    provisioned_at: int
    """Slot in which the replicas are there that are being provisioned; -1 before the first."""
    change: int
    """Changes of the world that have happened."""
    point: int
    """Points of the curve that are noted."""
    rate: float
    """Records/s that enter the dataflow."""
    time: float
    """Response time from source to sink, as it is bounded, s."""
    sinks_late: bool
    """A bound of a single sink is exceeded."""
    violated: bool
    """That, or the bound of the objective."""
    price: float
    """Currency per hour of what is paid for."""


class WorldState(NamedTuple):
    """What is carried from slot to slot, and scratch space."""

    now: Records[Now]
    """One record."""
    rate: Floats
    """Records/s that arrive at each operator, `(o,)`, no more than those before it pass on."""
    offered: Floats
    """What would arrive if no operator were too slow, `(o,)`."""
    passed: Floats
    """Records/s that each operator hands on, `(o,)`."""
    response: Floats
    """Response time at the operator, s, `(o,)`."""
    offered_response: Floats
    """Response time at what is offered, s, `(o,)`; differs where an operator before is too slow."""
    reach: Floats
    """Scratch: seconds from the operator to the slowest sink, `(o,)`."""
    fed: Floats
    """Scratch: records/s that those before the operator processed, as measured, `(o,)`."""
    found: Counts
    """Scratch: 1 where what would arrive at the operator is worked out for the slot, `(o,)`."""
    backlog: Floats
    """Records that wait, `(o,)`."""
    source: Counts
    """1 where records enter the dataflow, `(o,)`."""
    pending: Counts
    """Deployments that are being provisioned, `(o, t)`."""
    factor: Floats
    """Speed of each replica relative to its node type, `(o, k)`, in the order of `View.joined`."""
    born: Counts
    """Replicas that each operator ever had, `(o,)`: numbers the draws of their speeds."""
    nominal: Floats
    """Speedup of each node type, `(t,)`, before replicas differ."""
    learned: Counts
    """Intervals that each operator's policy learned from, `(o,)`: numbers its draws."""
    complete: Counts
    """1 where the operator's last interval was measured, `(o,)`."""
    taught: Counts
    """1 where its last two intervals were, so that there is something to learn, `(o,)`."""
    pool_of: Counts
    """Pool of each node type, `(t,)`."""
    pool_room: Counts
    """Replicas that each pool has room for, `(o, pools)`: the same for all operators that may run
    there, none for the others."""


class Goals(NamedTuple):
    """Bounds at single operators, and scratch space to judge them; empty where `Rules.ends` is 0.

    Shapes: `g` bounds.
    """

    bounds: Floats
    """`(g, GOAL)`: first that of the objective at each sink, then those of single sinks."""
    variance: Floats
    """Variance of the response time at each operator, s^2, `(o,)`."""
    reached: Floats
    """Of the slowest path from a source to each operator and through it, `(o, REACHED)`."""


class Changes(NamedTuple):
    """What changes in the world at given slots, in their order."""

    slot: Counts
    """`(h,)`."""
    what: Counts
    """`PRICE`, `SPEEDUP` or `RATE_FACTOR`, `(h,)`."""
    place: Counts
    """Node type, `(h,)`; -1 where none."""
    factor: Floats
    """Multiplies what was there at the beginning, `(h,)`."""


class SimulationOutcome(NamedTuple):
    """What came of it."""

    totals: Floats
    """Sums over slots, `(TOTALS,)`."""
    replicas: Floats
    """Sum over slots of replicas per node type after the decision, `(t,)`."""
    curve_slots: Counts
    """Slots after which the mean cost so far is noted, ascending, `(c,)`."""
    curve: Floats
    """Mean cost up to those slots, `(c,)`."""
    history: Floats
    """What happened in every slot, `(slots, HISTORY)`; `(0, HISTORY)` where it is not wanted."""


_NUMBA = {float: types.float64, int: types.int64, bool: types.boolean}
_F1, _F2, _I1, _I2 = (
    types.float64[::1],
    types.float64[:, ::1],
    types.int64[::1],
    types.int64[:, ::1],
)
RULES_TYPE = types.NamedTuple([_NUMBA[hint] for hint in get_type_hints(Rules).values()], Rules)
_NOW = np.dtype((np.record, np.dtype(list(get_type_hints(Now).items()), align=True)))
STATE_TYPE = types.NamedTuple(
    [
        types.Array(from_dtype(_NOW), 1, "C")
        if name == "now"
        else (_I2 if hint == Counts else _F2)
        if name in ("pending", "factor", "pool_room")
        else (_I1 if hint == Counts else _F1)
        for name, hint in get_type_hints(WorldState).items()
    ],
    WorldState,
)
BOUNDS_TYPE = types.NamedTuple([_I2, _F2], Bounds)
GOALS_TYPE = types.NamedTuple([_F2, _F1, _F2], Goals)
CHANGES_TYPE = types.NamedTuple([_I1, _I1, _I1, _F1], Changes)
OUTCOME_TYPE = types.NamedTuple([_F1, _F1, _I1, _F1, _F2], SimulationOutcome)


def new_state(*, operators: int, node_types: int, max_replicas: int, pools: int) -> WorldState:
    """Return the state before the first slot, all zero and all replicas of nominal speed."""

    def floats(*shape: int) -> Floats:
        return np.zeros(shape)

    def counts(*shape: int) -> Counts:
        return np.zeros(shape, dtype=np.int64)

    now: Any = np.zeros(1, dtype=_NOW)  # for NumPy a record is of no class
    now["rate_factor"], now["provisioned_at"] = 1.0, -1
    return WorldState(
        now=now,
        rate=floats(operators),
        offered=floats(operators),
        passed=floats(operators),
        response=floats(operators),
        offered_response=floats(operators),
        reach=floats(operators),
        fed=floats(operators),
        found=counts(operators),
        backlog=floats(operators),
        source=np.ones(operators, dtype=np.int64),
        pending=counts(operators, node_types),
        factor=np.ones((operators, max_replicas)),
        born=counts(operators),
        nominal=floats(node_types),
        learned=counts(operators),
        complete=counts(operators),
        taught=counts(operators),
        pool_of=counts(node_types),
        pool_room=counts(operators, pools),
    )
