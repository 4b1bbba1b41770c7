"""A compiled algorithm as a policy that a live operator manager can use.

Each file of `operator_manager/` defines an `Algorithm`. The simulator's compiled loop
calls its kernels for all operators, `KernelPolicy` for one. A joint algorithm, whose kernels decide
for all operators in one call, becomes a `KernelApplicationPolicy` (`application_policy`).
"""

from __future__ import annotations

import math
import zlib
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from mmap import PAGESIZE
from typing import Any, Protocol, cast, get_type_hints

import numpy as np

from weir_policies.errors import StateError
from weir_policies.kernels.fields import allocate_zeros
from weir_policies.kernels.staying import find_unknown, hold
from weir_policies.kernels.view import (
    AGGREGATION_CODES,
    NO_LIMIT,
    NO_POOL,
    SHARING_CODES,
    Kernel,
    Memory,
    Model,
    OperatorView,
    View,
    compile_kernel,
)
from weir_policies.model.arrays import Floats
from weir_policies.model.node_types import NOWHERE, Deployment
from weir_policies.model.season import Season
from weir_policies.parameters import PolicyParameters, read_parameters
from weir_policies.policy import Decision, Observation, OperatorModel, Transition

VERSION = 9
TICKS_AHEAD = 1024
"""Ticks for which a live policy's table has space at first; it grows."""

_FIRST = list(get_type_hints(Model)).index("top_cost")
_OF_OBSERVATION = slice(_FIRST, _FIRST + 4)
"""Places of the fields of `Model` that are an observation's: the greatest cost and the weights."""

Explain = Callable[[Observation, Deployment, View, Memory], Decision]


@dataclass(frozen=True, kw_only=True, slots=True)
class Algorithm:
    """A policy's kernels, with its parameters bound."""

    prepare: Callable[[View, int], Memory]
    """Makes the memory for the operators of a view, which so far holds only their models, and so
    many ticks; refuses what it cannot handle with a `ParameterError`."""
    learn: Kernel
    """Updates the memory from `before`, `counts_before`, `proposed`, `cost` and `seen`."""
    decide: Kernel
    """Writes `target`; changes nothing else."""
    explain: Explain
    """Explains the decision that `decide` wrote, with the candidates."""
    needed: tuple[str, ...] = ()
    """Fields of an observation, besides its rate and utilisation, without which it holds."""
    draws: bool = False
    """It uses `View.draws`."""
    train: Callable[[View, Memory, Floats], Memory] | None = None
    """Learns before the first tick from the rates of another stretch of time, `(n,)`, records/s at
    every source, one per tick; the memory may be changed in place. `None` learns on line only."""
    warm_start: Callable[[int, Memory, Season], None] | None = None
    """Takes over what usually arrives at the operator of a row, before the first tick, into the
    memory that `prepare` made; `None` has no use for it."""
    grow: Callable[[Memory], Memory] | None = None
    """Makes space in its tables for what is learned next; `None` where none can become full."""
    workspace_words: int = 0
    """Words of `View.workspace` that an operator needs, if any."""
    joins_restarts: bool = False
    """It may decide otherwise where the job is restarted anyway, and is then asked again."""
    joint: bool = False
    """One call decides for all operators, as an `ApplicationPolicy` does. What is explained is then
    one operator at a time, with a view of its row alone."""
    explain_jointly: Callable[[View, Memory], str] | None = None
    """Says of a joint algorithm why all operators go where `decide` wrote, in one clause without
    its beginning; it may overwrite the targets. `None` explains each operator by itself."""


class Define(Protocol):
    """Returns the algorithm that is registered by a name, its settings bound."""

    def __call__(self, values: Mapping[str, Any], *, name: str) -> Algorithm:
        """Bind the settings.

        Raises:
            ParameterError: There is no such setting, or it is out of its range.
        """
        ...


def definition(
    kind: type[PolicyParameters],
    prepare: Callable[..., Memory],
    *,
    choices: Mapping[str, Any] | None = None,
    **parts: Any,  # what `Algorithm` takes
) -> Define:
    """Return the `define` of a module.

    Args:
        kind: The settings.
        prepare: Takes these, what `choices` has for the name, and what `Algorithm.prepare` takes.
        choices: What distinguishes the names that the module serves; `None` for one name.
        parts: The other fields of `Algorithm`.
    """

    def define(values: Mapping[str, Any], *, name: str) -> Algorithm:
        bound = [read_parameters(kind, values, policy=name)]
        bound += [] if choices is None else [choices[name]]
        return Algorithm(prepare=partial(prepare, *bound), **parts)

    return define


@dataclass(slots=True)
class _PolicyState:
    """What belongs to one shape of model: a number of node types and of replicas."""

    operator: OperatorView
    memory: Memory
    taught: bool
    """Whether the memory is more than what `prepare` makes."""

    @property
    def view(self) -> View:
        return self.operator.view


class KernelPolicy:
    """Decides for one operator with the kernels of an algorithm.

    The memory is made for the shape of the first model that it meets. Where the number of node
    types or of replicas changes later, what was learned fits no more and is started again.
    """

    def __init__(self, algorithm: Algorithm, rng: np.random.Generator) -> None:
        self._algorithm = algorithm
        self._rng = rng if algorithm.draws else None  # a generator takes 1 KiB of each operator
        self._draws = np.zeros(2) if self._rng is None else self._rng.random(2)
        self._state: _PolicyState | None = None
        self._season: Season | None = None

    def warm_start(self, season: Season) -> None:
        """Begin with what usually arrives; what was learned already stays as it is.

        It is no part of what was learned: whoever knows it says it to each new policy.
        """
        self._season = season
        if self._state is not None and not self._state.taught:
            self._state = None

    def compile(self) -> None:
        """Compile the kernels now, or load them: the first run on a machine takes a while."""
        for kernel in (self._algorithm.decide, self._algorithm.learn):
            compile_kernel(kernel)

    @property
    def joins_restarts(self) -> bool:
        """Whether it may decide otherwise where the job is restarted anyway."""
        return self._algorithm.joins_restarts

    def decide(self, observation: Observation) -> Decision:
        """Choose a target; missing data gives the present deployment with a reason."""
        unknown = find_unknown(observation, *self._algorithm.needed)
        if unknown is not None:
            return hold(observation, unknown)
        state = self._recall(observation)
        view = state.view
        view.draws[0] = self._draws
        compile_kernel(self._algorithm.decide)(0, view, state.memory)
        target = Deployment(tuple(int(count) for count in view.target[0]))
        return self._algorithm.explain(observation, target, view, state.memory)

    def train(self, observation: Observation, rates: Floats) -> None:
        """Train an offline algorithm before the first tick; others need no training.

        Args:
            observation: Names the operator's model, budget and weights.
            rates: Records/s at the operator in another stretch of time, one per tick, `(n,)`.
        """
        if self._algorithm.train is None:
            return
        state = self._recall(observation)
        state.memory = self._algorithm.train(state.view, state.memory, rates)
        state.taught = True

    def learn(self, transition: Transition) -> None:
        """Learn from one interval; one in which something needed is unknown teaches nothing."""
        before, after = transition.observation, transition.next_observation
        needed = self._algorithm.needed
        if find_unknown(before, *needed) is not None or find_unknown(after, *needed) is not None:
            return
        state = self._recall(after)
        if len(before.deployment.counts) != len(after.deployment.counts):
            return  # the node types changed in between: there is nothing to compare
        fill_before(state.view, transition)
        compile_kernel(self._algorithm.learn)(0, state.view, state.memory)
        if self._algorithm.grow is not None:
            state.memory = self._algorithm.grow(state.memory)
        state.taught = True
        if self._rng is not None:
            self._draws = self._rng.random(2)

    def state_dict(self) -> Mapping[str, Any]:
        """Return the memory and the generator's state as plain JSON values."""
        state: dict[str, Any] = {"version": VERSION, "draws": self._draws.tolist()}
        if self._rng is not None:
            state["generator"] = self._rng.bit_generator.state
        if self._state is not None and self._state.taught:
            state["shape"] = list(_shape(self._state.view))
            state["memory"] = pack_array(self._state.memory)
        return state

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what `state_dict` returned.

        Raises:
            StateError: It is of another version, or no state of a compiled policy.
        """
        if state.get("version") != VERSION:
            raise StateError(f"Expected state of version {VERSION}, got {state.get('version')}")
        if "draws" not in state:
            raise StateError(f"Expected the state of a compiled policy, got {sorted(state)}")
        self._draws = np.array(state["draws"])
        if self._rng is not None and "generator" in state:
            self._rng.bit_generator.state = state["generator"]
        self._state = None
        if "memory" in state:
            node_types, replicas = state["shape"]
            operator = self._operator_view(node_types, replicas)
            self._state = _PolicyState(operator, unpack_array(state["memory"]), taught=True)

    def _recall(self, observation: Observation) -> _PolicyState:
        """Return the view, which holds the observation, and the memory.

        They are new where the model's shape is new.
        """
        model = observation.model
        shape = (len(model.node_types), model.max_replicas)
        if self._state is None or _shape(self._state.view) != shape:
            operator = self._operator_view(*shape)
            fill_view(operator, observation)
            memory = self._algorithm.prepare(operator.view, TICKS_AHEAD)
            if self._season is not None and self._algorithm.warm_start is not None:
                self._algorithm.warm_start(0, memory, self._season)
            self._state = _PolicyState(operator, memory, taught=False)
        fill_view(self._state.operator, observation)
        return self._state

    def _operator_view(self, node_types: int, max_replicas: int) -> OperatorView:
        return OperatorView.empty(
            node_types, max_replicas, workspace_words=self._algorithm.workspace_words
        )


def fill_view(operator: OperatorView, observation: Observation) -> None:
    """Write an observation and its model into a view, unless it holds them already."""
    if operator.observation is not observation:
        operator.observation = None  # until all of it is written
        fill_model(operator.view, 0, observation.model)
        fill_present(operator.view, observation)
        operator.observation = observation


def fill_model(view: View, o: int, model: OperatorModel) -> None:
    """Write what is believed of an operator into its row of a view.

    Any deployment is in reach; the greatest cost and the weights are an observation's, and are
    left alone.
    """
    fill_queue(view, o, model)
    pools = list(dict.fromkeys(node_type.pool for node_type in model.node_types))
    numbers = {pool: number for number, pool in enumerate(pools)} | {NOWHERE: NO_POOL}
    for place, node_type in enumerate(model.node_types):
        view.price[o, place] = node_type.price
        view.pool[o, place] = numbers[node_type.pool]
        limit = node_type.pool_limit
        view.limit[o, place] = NO_LIMIT if limit is None else limit


def fill_queue(view: View, o: int, model: OperatorModel) -> None:
    """Write what the queueing model reads: speedups, and the record of the model.

    Apart from `fill_model`, because a prediction needs no prices, pools or limits.
    """
    for place, node_type in enumerate(model.node_types):
        view.speedup[o, place] = node_type.speedup
    if model.fullest:
        view.fullest[o] = model.fullest[-1]
        within = model.fullest[: view.fullest.shape[1]]
        view.fullest[o, : len(within)] = within
    else:
        view.fullest[o] = 0.0
    # As a whole: to read and write a record item by item takes NumPy several times as long.
    kept = cast(Any, view.model).item(o)[_OF_OBSERVATION]
    view.model[o] = (
        model.service_mean,
        model.service_scv,
        model.arrival_scv,
        model.network_time,
        model.hot_share,
        *kept,
        model.max_replicas,
        SHARING_CODES[model.sharing],
        AGGREGATION_CODES[model.aggregation],
        model.keyed,
        NO_LIMIT if model.key_groups is None else model.key_groups,
        0,  # any target is in reach
    )


def fill_present(view: View, observation: Observation) -> None:
    """Write one observation into the only row of a view."""
    model = observation.model
    view.seen[0] = _read_seen(observation)
    view.counts[0] = observation.deployment.counts
    types_of_replicas = [
        place for place, count in enumerate(observation.deployment.counts) for _ in range(count)
    ]
    busy = [0.0] * len(model.node_types)
    for place, share in zip(types_of_replicas, observation.utilisation, strict=False):
        busy[place] += share
    view.busy[0] = [
        total / max(count, 1)
        for total, count in zip(busy, observation.deployment.counts, strict=True)
    ]
    view.joined[0] = -1
    ages = observation.replica_ages
    known = len(ages) == len(types_of_replicas)
    oldest_first = sorted(
        range(len(types_of_replicas)), key=lambda replica: -ages[replica] if known else 0.0
    )
    for rank, replica in enumerate(oldest_first[: view.joined.shape[1]]):
        view.joined[0, rank] = types_of_replicas[replica]
    dearest = observation.dearest
    if dearest is None:
        dearest = max(node_type.price for node_type in model.node_types)
    weights = observation.weights
    believed: Any = view.model[0]  # by item: by attribute it takes NumPy ten times as long
    believed["top_cost"] = (observation.most_replicas or model.max_replicas) * dearest
    believed["weight_violation"] = weights.violation
    believed["weight_resources"] = weights.resources
    believed["weight_reconfiguration"] = weights.reconfiguration


def fill_interval(view: View, transition: Transition) -> None:
    """Write one interval, and the observation that ends it, into the only row of a view."""
    fill_present(view, transition.next_observation)
    fill_before(view, transition)


def fill_before(view: View, transition: Transition) -> None:
    """Write what an interval has besides the observation that ends it; that one is in the view."""
    before, parts = transition.observation, transition.cost
    view.before[0] = _read_seen(before)
    view.counts_before[0] = before.deployment.counts
    view.proposed[0] = transition.proposed.counts
    view.cost[0] = (parts.violation, parts.resources, parts.reconfiguration)


def _read_seen(observation: Observation) -> tuple[float, ...]:
    return (
        observation.rate,
        observation.processed,
        observation.response_time,
        observation.backlog,
        observation.budget,
        max(observation.utilisation, default=0.0),
        observation.time,
        observation.time_of_week,
        observation.interval,
        observation.restarts_anyway,
        observation.offered_rate,
        observation.upstream_backlog,
        observation.min_replicas,
        math.inf if observation.max_price is None else observation.max_price,
    )


def _shape(view: View) -> tuple[int, int]:
    return view.counts.shape[1], view.joined.shape[1]


def pack_array(array: np.ndarray[Any, Any]) -> dict[str, Any]:
    """Return an array as JSON values, bit for bit: NaN and infinity have no number there.

    Compressed, because tables are mostly empty.
    """
    return {
        "type": array.dtype.str,
        "shape": list(array.shape),
        "data": b64encode(zlib.compress(array.tobytes(), level=1)).decode("ascii"),
    }


def unpack_array(packed: Mapping[str, Any]) -> np.ndarray[Any, Any]:
    """Return the array that `pack_array` packed.

    Raises:
        StateError: It cannot be decompressed, or does not fill its shape.
    """
    array = allocate_zeros(packed["shape"], np.dtype(packed["type"]))
    try:
        content = zlib.decompress(b64decode(packed["data"]))
    except (ValueError, zlib.error) as error:
        raise StateError(f"Expected a compressed array, got {error}") from error
    if len(content) != array.nbytes:
        raise StateError(f"Expected an array of shape {array.shape}, got {len(content)} bytes")
    to, source = array.reshape(-1).view(np.uint8), np.frombuffer(content, dtype=np.uint8)
    for at in range(0, to.size, PAGESIZE):
        part = source[at : at + PAGESIZE]
        if part.any():  # what is zero is there already
            to[at : at + PAGESIZE] = part
    return array
