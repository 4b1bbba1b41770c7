"""What a compiled policy reads of its operators, and where it writes its decision.

Shapes: `o` operators, `t` node types, `k` the largest `k_max`, `e` edges. A live operator manager
fills a view with one row; the simulator one with all rows. A kernel may write `target` (when it
decides), `scratch` and its state (when it learns), and nothing else.

Quantities with one number per operator have a name: `view.seen[o].rate`,
`view.model[o].service_mean`. In plain Python, a column is `view.seen["rate"]`, `(o,)`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol, TypeVar, cast, get_type_hints, overload

import numpy as np
from numba import from_dtype, types

from weir_policies.model.arrays import Counts, Floats
from weir_policies.policy import Aggregation, Sharing


class Seen:
    """What was observed of an operator in an interval, as in `Observation`."""

    rate: float
    processed: float
    response_time: float
    backlog: float
    budget: float
    busiest: float
    """Utilisation of the busiest replica."""
    time: float
    time_of_week: float
    interval: float
    restarts_anyway: bool
    """The job is restarted at this tick for another operator."""
    offered: float
    """Records/s that would arrive if nothing waited upstream; NaN where that is unknown."""
    upstream: float
    """Records that wait upstream and will arrive; NaN where that is unknown."""


class Cost:
    """The parts of the last interval's cost before weighting, as in `CostParts`."""

    violation: float
    resources: float
    reconfiguration: float


class Model:
    """What is believed of an operator, and its settings, as in `OperatorModel`."""

    service_mean: float
    service_scv: float
    arrival_scv: float
    network_time: float
    top_cost: float
    """The most that the operator could cost per hour."""
    weight_violation: float
    weight_resources: float
    weight_reconfiguration: float
    max_replicas: int
    sharing: int
    """`EQUAL`, `PROPORTIONAL` or `BY_LOAD`."""
    aggregation: int
    """`WORST` or `AVERAGE`."""
    keyed: int
    key_groups: int
    """`NO_LIMIT` where records are shared without rounding."""
    one_step: int
    """1 where a target may be one replica away, 0 where it may be any."""


Record = TypeVar("Record", covariant=True)


class Records(Protocol[Record]):
    """A NumPy array of records, `(o,)`."""

    @overload
    def __getitem__(self, row: int) -> Record: ...

    @overload
    def __getitem__(self, name: str) -> np.ndarray[Any, Any]: ...

    def __setitem__(self, key: int | str, values: Any) -> None:  # a record, a tuple or a column
        """Write a row, or a column."""


def _record(kind: type) -> np.dtype[Any]:
    """Return the NumPy type of records of a class's fields."""
    named = [(name, np.dtype(hint)) for name, hint in get_type_hints(kind).items()]
    return np.dtype((np.record, np.dtype(named, align=True)))


SHARING_CODES = {Sharing.EQUAL: 0, Sharing.PROPORTIONAL: 1, Sharing.BY_LOAD: 2}
AGGREGATION_CODES = {Aggregation.WORST: 0, Aggregation.AVERAGE: 1}
EQUAL, PROPORTIONAL, BY_LOAD = SHARING_CODES.values()
WORST, AVERAGE = AGGREGATION_CODES.values()

NO_LIMIT = 2**31
"""What stands in `limit` for a pool without one, and for no key groups."""
NO_POOL = -1
"""What stands in `pool` for a node type that the operator may not run on; its limit is 0."""


class View(NamedTuple):
    """Everything known at one tick, and the place for the decision."""

    seen: Records[Seen]
    before: Records[Seen]
    """What had been observed an interval earlier."""
    cost: Records[Cost]
    model: Records[Model]
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
    edges: Counts
    """Rows of the operators that each edge leaves and reaches, `(e, 2)`, in topological order."""
    selectivity: Floats
    """Records out per record in, `(e,)`."""
    draws: Floats
    """Two numbers drawn evenly from [0, 1) for this decision, `(o, 2)`."""
    scratch: Floats
    """Room for a kernel to work in, `(o, t)`; what it holds is forgotten afterwards."""


Memory = Counts
"""Parameters and learned state of a policy, `(o, w)`: a class of `Fields` names what it holds."""

Kernel = Callable[[int, View, Memory], None]
"""A step of a policy for the operator of the given row; joint policies are called with row 0."""

_F2, _I2 = types.float64[:, ::1], types.int64[:, ::1]
_RECORDS = {
    "seen": _record(Seen),
    "before": _record(Seen),
    "cost": _record(Cost),
    "model": _record(Model),
}


def _numba_type(name: str, hint: Any) -> types.Type:
    """Return Numba's type of a field of `View`."""
    if name in _RECORDS:
        return types.Array(from_dtype(_RECORDS[name]), 1, "C")
    if name == "selectivity":
        return types.float64[::1]
    return _I2 if hint == Counts else _F2


VIEW_TYPE = types.NamedTuple(
    [_numba_type(name, hint) for name, hint in get_type_hints(View).items()], View
)
MEMORY_TYPE = _I2
KERNEL_SIGNATURE = types.void(types.int64, VIEW_TYPE, MEMORY_TYPE)
"""Numba's signature of a `Kernel`."""
KERNEL_TYPE = types.FunctionType(KERNEL_SIGNATURE)


def compile_kernel(kernel: Kernel) -> None:
    """Compile a kernel for a loop and for a live policy, or load it from disk."""
    cast(Any, kernel).compile(KERNEL_SIGNATURE.args)  # what Numba made of the function


def empty_view(*, operators: int, node_types: int, max_replicas: int, edges: int = 0) -> View:
    """Return a view filled with zeros, `joined` with -1 and `limit` with none."""

    def floats(columns: int) -> Floats:
        return np.zeros((operators, columns))

    def counts(columns: int) -> Counts:
        return np.zeros((operators, columns), dtype=np.int64)

    def records(name: str) -> Any:  # for NumPy a record is of no class
        return np.zeros(operators, dtype=_RECORDS[name])

    return View(
        seen=records("seen"),
        before=records("before"),
        cost=records("cost"),
        model=records("model"),
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
        edges=np.zeros((edges, 2), dtype=np.int64),
        selectivity=np.ones(edges),
        draws=floats(2),
        scratch=floats(node_types),
    )
