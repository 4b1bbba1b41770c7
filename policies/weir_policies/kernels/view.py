"""What a compiled policy sees, and what it remembers: arrays with one row per operator.

Shapes: `o` operators, `t` node types, `k` the largest `k_max`, `e` edges. A live operator manager
fills a view with one row; the simulator one with all rows. A kernel may write `target` (when it
decides) and the memory (when it learns), and nothing else.

The columns of `seen`, `cost`, `traits` and `rules` are the constants below.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, cast, get_type_hints

import numpy as np
from numba import types

from weir_policies.model.arrays import Counts, Floats
from weir_policies.policy import Aggregation, Sharing

# Columns of `seen` and `before`, as in `Observation`.
RATE, PROCESSED, RESPONSE_TIME, BACKLOG, BUDGET, BUSIEST, TIME, TIME_OF_WEEK, INTERVAL = range(9)
SEEN = 9

# Columns of `cost`, the parts of the last interval's cost before weighting, as in `CostParts`.
VIOLATION, RESOURCES, RECONFIGURATION = range(3)

# Columns of `traits`. TOP_COST is the most that the operator could cost per hour.
SERVICE_MEAN, SERVICE_SCV, ARRIVAL_SCV, NETWORK_TIME, TOP_COST = range(5)
WEIGHT_VIOLATION, WEIGHT_RESOURCES, WEIGHT_RECONFIGURATION = range(5, 8)
TRAITS = 8

# Columns of `rules`. STEP is 1 where a target may be one replica away, 0 where it may be any.
MAX_REPLICAS, SHARING, AGGREGATION, KEYED, KEY_GROUPS, STEP = range(6)
RULES = 6

SHARING_CODES = {Sharing.EQUAL: 0, Sharing.PROPORTIONAL: 1, Sharing.BY_LOAD: 2}
AGGREGATION_CODES = {Aggregation.WORST: 0, Aggregation.AVERAGE: 1}
EQUAL, PROPORTIONAL, BY_LOAD = SHARING_CODES.values()
WORST, AVERAGE = AGGREGATION_CODES.values()

NO_LIMIT = 2**31
"""What stands in `limit` for a pool without one, and for no key groups."""
NO_POOL = -1
"""What stands in `pool` for a node type that the operator may not run on; its limit is 0."""


class View(NamedTuple):
    """What there is to know at one tick, and the room for the answer."""

    seen: Floats
    """What was observed, `(o, SEEN)`."""
    before: Floats
    """What had been observed an interval earlier, `(o, SEEN)`."""
    cost: Floats
    """What that interval cost, `(o, 3)`."""
    counts: Counts
    """Deployment in force, `(o, t)`."""
    counts_before: Counts
    """Deployment in force an interval earlier, `(o, t)`."""
    proposed: Counts
    """What was proposed then, `(o, t)`."""
    target: Counts
    """Where to go, `(o, t)`: written by `decide`."""
    busy: Floats
    """Mean utilisation of the replicas of each node type, `(o, t)`; 0 where there is none."""
    joined: Counts
    """Node type of each replica, the one that joined first before the others, `(o, k)`; then -1."""
    speedup: Floats
    """`(o, t)`."""
    price: Floats
    """Currency per replica and hour, `(o, t)`."""
    pool: Counts
    """Number of the pool that each node type belongs to, `(o, t)`; `NO_POOL`."""
    limit: Counts
    """Most replicas of the operator in that pool, `(o, t)`; `NO_LIMIT`."""
    traits: Floats
    """What is believed of the operator, `(o, TRAITS)`."""
    rules: Counts
    """Integers and codes, `(o, RULES)`."""
    edges: Counts
    """Rows of the operators that each edge leaves and reaches, `(e, 2)`, in topological order."""
    selectivity: Floats
    """Records out per record in, `(e,)`."""
    draws: Floats
    """Two numbers drawn evenly from [0, 1) for this decision, `(o, 2)`."""


class Memory(NamedTuple):
    """Parameters and learned state of a policy; what the columns mean is its own affair."""

    floats: Floats
    """`(o, f)`."""
    ints: Counts
    """`(o, i)`."""
    keys: Counts
    """Keys of a hash table, `(o, c)`; see `tables`. `(o, 1)` where the table is dense."""
    values: Floats
    """Values of the table, `(o, c)`; `(o, 1)` where there is none."""


Kernel = Callable[[int, View, Memory], None]
"""A step of a policy for the operator of the given row; joint policies are called with row 0."""

_F1, _F2, _I2 = types.float64[::1], types.float64[:, ::1], types.int64[:, ::1]
VIEW_TYPE = types.NamedTuple(
    [
        _F1 if name == "selectivity" else _I2 if hint == Counts else _F2
        for name, hint in get_type_hints(View).items()
    ],
    View,
)
MEMORY_TYPE = types.NamedTuple(
    [_I2 if hint == Counts else _F2 for hint in get_type_hints(Memory).values()], Memory
)
KERNEL_SIGNATURE = types.void(types.int64, VIEW_TYPE, MEMORY_TYPE)
"""Numba's signature of a `Kernel`."""
KERNEL_TYPE = types.FunctionType(KERNEL_SIGNATURE)


def compile_kernel(kernel: Kernel) -> None:
    """Compile a kernel for a loop and for a live policy, or load it from disk."""
    cast(Any, kernel).compile(KERNEL_SIGNATURE.args)  # what Numba made of the function


def empty_view(*, operators: int, node_types: int, max_replicas: int, edges: int = 0) -> View:
    """Return a view filled with zeros, `joined` with -1 and `limit` with none.

    Args:
        operators: Rows.
        node_types: Columns of what is counted per node type.
        max_replicas: The largest `k_max` of the operators.
        edges: Edges of the dataflow.
    """

    def floats(columns: int) -> Floats:
        return np.zeros((operators, columns))

    def counts(columns: int) -> Counts:
        return np.zeros((operators, columns), dtype=np.int64)

    return View(
        seen=floats(SEEN),
        before=floats(SEEN),
        cost=floats(3),
        counts=counts(node_types),
        counts_before=counts(node_types),
        proposed=counts(node_types),
        target=counts(node_types),
        busy=floats(node_types),
        joined=np.full((operators, max_replicas), -1, dtype=np.int64),
        speedup=floats(node_types),
        price=floats(node_types),
        pool=counts(node_types),
        limit=np.full((operators, node_types), NO_LIMIT, dtype=np.int64),
        traits=floats(TRAITS),
        rules=counts(RULES),
        edges=np.zeros((edges, 2), dtype=np.int64),
        selectivity=np.ones(edges),
        draws=floats(2),
    )


def empty_memory(
    view: View, *, floats: int = 1, ints: int = 1, keys: int = 1, values: int = 1
) -> Memory:
    """Return memory of zeros for all operators of a view, keys empty; columns are at least 1."""
    rows = view.seen.shape[0]
    return Memory(
        floats=np.zeros((rows, floats)),
        ints=np.zeros((rows, ints), dtype=np.int64),
        keys=np.full((rows, keys), -1, dtype=np.int64),
        values=np.zeros((rows, values)),
    )
