"""What a compiled policy reads of its operators, and where it writes its decision.

Shapes: `o` operators, `t` node types, `k` the largest `k_max`, `e` edges. A live operator manager
fills a view with one row; the simulator one with all rows. A kernel may write `target` (when it
decides), `scratch`, `workspace` and its state (when it learns), and nothing else.

Quantities with one number per operator have a name: `view.seen[o].rate`,
`view.model[o].service_mean`. In plain Python, a column is `view.seen["rate"]`, `(o,)`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple, Protocol, TypeVar, cast, get_type_hints, overload

import numpy as np
from llvmlite import ir
from numba import from_dtype
from numba.core import cgutils, types
from numba.core.datamodel import models
from numba.core.typing.templates import AttributeTemplate
from numba.extending import (
    NativeValue,
    infer_getattr,
    lower_getattr_generic,
    register_model,
    typeof_impl,
    unbox,
)

from weir_policies.model.arrays import Counts, Floats
from weir_policies.policy import Aggregation, Observation, Sharing


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
    min_replicas: int
    max_price: float
    """`inf` where there is no limit."""


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
    hot_share: float
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
    fullest: Floats
    """Share of the fullest replica at each parallelism, `(o, k)`; 0 where keys are not known."""
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
    workspace: Counts
    """The same, of as many words as the algorithm asks for, `(o, w)`. The first one is 1 where all
    operators of a process share it, and 0 where each has its own, and finds again what it left."""


@dataclass(slots=True)
class OperatorView:
    """A view of one operator."""

    view: View
    observation: Observation | None = None
    """The observation whose values the arrays hold; `None` before the first. It is compared by
    identity, to be written only once between learning and deciding."""

    @classmethod
    def empty(cls, node_types: int, max_replicas: int, *, workspace_words: int = 0) -> OperatorView:
        """Return one that holds nothing; its workspace is that of all others of this process."""
        view = empty_view(operators=1, node_types=node_types, max_replicas=max_replicas)
        return cls(view._replace(workspace=_shared_workspace(workspace_words)))


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
    if name in _RECORDS:
        return types.Array(from_dtype(_RECORDS[name]), 1, "C")
    if name == "selectivity":
        return types.float64[::1]
    return _I2 if hint == Counts else _F2


class _ViewType(types.Type):
    """Numba's type of a view: where its arrays are described, one after the other.

    A named tuple of so many arrays is 160 numbers, which would be copied with every call.
    """

    def __init__(self) -> None:
        self.arrays = {name: _numba_type(name, hint) for name, hint in get_type_hints(View).items()}
        super().__init__(f"{View.__module__}.{View.__qualname__}{self.arrays}")


VIEW_TYPE = _ViewType()
register_model(_ViewType)(models.OpaqueModel)


@typeof_impl.register(View)
def _type_of(_view: View, _context: object) -> _ViewType:
    return VIEW_TYPE


@infer_getattr
class _ArrayOfView(AttributeTemplate):
    key = _ViewType

    def generic_resolve(  # type: ignore[override]  # declared as a constant there
        self, view: _ViewType, name: str
    ) -> types.Type | None:
        return view.arrays.get(name)


# What follows is written to Numba's interface for extensions, which has no static types.


def _unbox_view(view_type: _ViewType, instance: Any, c: Any) -> NativeValue:
    """Describe the arrays in the frame of the call from Python."""
    kinds = view_type.arrays.values()
    described = ir.LiteralStructType([c.context.get_value_type(kind) for kind in kinds])
    place = cgutils.alloca_once(c.builder, described)
    failed = cgutils.alloca_once_value(c.builder, cgutils.false_bit)
    cleanups = []
    for index, kind in enumerate(kinds):
        array = c.unbox(kind, c.pyapi.tuple_getitem(instance, index))
        c.builder.store(array.value, cgutils.gep_inbounds(c.builder, place, 0, index))
        with c.builder.if_then(array.is_error, likely=False):
            c.builder.store(cgutils.true_bit, failed)
        if array.cleanup is not None:
            cleanups.append(array.cleanup)

    def cleanup() -> None:
        for each in reversed(cleanups):
            each()

    # Loads through the address that this returns need not be repeated after a write to an array.
    # It is another one for LLVM, which must not take them for loads from before the stores above.
    address = c.context.get_value_type(types.voidptr)
    hidden = ir.InlineAsm(ir.FunctionType(address, [address]), "", "=r,0,~{memory}", True)
    return NativeValue(
        c.builder.call(hidden, [c.builder.bitcast(place, address)]),
        is_error=c.builder.load(failed),
        cleanup=cleanup if cleanups else None,
    )


def _read_array(context: Any, builder: Any, view_type: _ViewType, view: Any, name: str) -> Any:
    """Load what describes an array; what is not used of it LLVM leaves out."""
    kinds = list(view_type.arrays.values())
    described = ir.LiteralStructType([context.get_value_type(kind) for kind in kinds])
    place = builder.bitcast(view, described.as_pointer())
    index = list(view_type.arrays).index(name)
    array = builder.load(cgutils.gep_inbounds(builder, place, 0, index))
    array.set_metadata("invariant.load", builder.module.add_metadata([]))
    return array


lower_getattr_generic(_ViewType)(_read_array)
unbox(_ViewType)(_unbox_view)

MEMORY_TYPE = _I2
KERNEL_SIGNATURE = types.void(types.int64, VIEW_TYPE, MEMORY_TYPE)
"""Numba's signature of a `Kernel`."""
KERNEL_TYPE = types.FunctionType(KERNEL_SIGNATURE)


@cache
def compile_kernel(kernel: Kernel) -> Kernel:
    """Compile a kernel for a loop and for a live policy, or load it from disk.

    Returns:
        What runs it when called from Python. To call the kernel itself takes 2 us more: Numba
        would look at the types of all arrays first, which are always the same.
    """
    return cast(Kernel, cast(Any, kernel).compile(KERNEL_SIGNATURE.args))


@cache
def _shared_workspace(words: int) -> Counts:
    """Return the workspace of so many words, `(1, w)`, that all operators of the process share.

    Threads do not meet there: a kernel keeps the interpreter's lock while it runs.
    """
    workspace = np.zeros((1, max(words, 1)), dtype=np.int64)
    workspace[0, 0] = 1
    return workspace


def with_workspaces(view: View, words: int) -> View:
    """Return the view with a workspace of so many words for each operator."""
    return view._replace(workspace=np.zeros((view.counts.shape[0], max(words, 1)), dtype=np.int64))


def empty_view(*, operators: int, node_types: int, max_replicas: int, edges: int = 0) -> View:
    """Return a view filled with zeros, `joined` with -1; limits and prices have no bound.

    Its workspaces have one word.
    """

    def floats(columns: int) -> Floats:
        return np.zeros((operators, columns))

    def counts(columns: int) -> Counts:
        return np.zeros((operators, columns), dtype=np.int64)

    def records(name: str) -> Any:  # for NumPy a record is of no class
        return np.zeros(operators, dtype=_RECORDS[name])

    seen = records("seen")
    seen["max_price"] = np.inf
    return View(
        seen=seen,
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
        fullest=floats(max_replicas),
        pool=counts(node_types),
        limit=np.full((operators, node_types), NO_LIMIT, dtype=np.int64),
        edges=np.zeros((edges, 2), dtype=np.int64),
        selectivity=np.ones(edges),
        draws=floats(2),
        scratch=floats(node_types),
        workspace=counts(1),
    )
