"""A compiled algorithm that decides for all operators at once, as a live policy.

`KernelApplicationPolicy` is to a joint algorithm what `KernelPolicy` is to the others: the
simulator's compiled loop calls the same kernels, with the same view of all operators.

Operators may run on different node types. The kernels have one list of all of them; a type that an
operator may not use is `NOWHERE` for it, without room, as in the simulator.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from weir_policies.errors import StateError
from weir_policies.kernels.explaining import explain_rule
from weir_policies.kernels.policy import (
    TICKS_AHEAD,
    VERSION,
    Algorithm,
    fill_interval,
    fill_model,
    fill_present,
    pack_array,
    unpack_array,
)
from weir_policies.kernels.staying import find_unknown, hold, stay
from weir_policies.kernels.view import Memory, View, compile_kernel, empty_view
from weir_policies.model.arrays import Floats
from weir_policies.model.dataflow import Dataflow
from weir_policies.model.node_types import NOWHERE, Deployment, NodeType
from weir_policies.policy import Decision, Observation, OperatorModel, Transition

_PER_EDGE = ("edges", "selectivity")


@dataclass(frozen=True, slots=True)
class _Shape:
    """What a memory was made for; where it changes, what was learned fits no more."""

    operators: tuple[str, ...]
    max_replicas: tuple[int, ...]
    node_types: tuple[str, ...]
    """Names of those of all operators."""
    edges: tuple[tuple[int, int], ...]
    """Rows of the operators that each edge leaves and reaches, in topological order."""


@dataclass(slots=True)
class _PolicyState:
    """What belongs to one shape of application."""

    shape: _Shape
    view: View
    memory: Memory
    taught: bool
    """Whether the memory is more than what `prepare` makes."""


class KernelApplicationPolicy:
    """Decides for all operators of an application with the kernels of a joint algorithm.

    The memory is made for the operators and the dataflow that it first meets. Where operators,
    edges, node types or the maximum of replicas change later, it is made again.
    """

    def __init__(self, algorithm: Algorithm, rng: np.random.Generator) -> None:
        self._algorithm = algorithm
        self._rng = rng
        self._draws = rng.random(2) if algorithm.draws else np.zeros(2)
        self._state: _PolicyState | None = None

    def compile(self) -> None:
        """Compile the kernels now, or load them: the first run on a machine takes a while."""
        for kernel in (self._algorithm.decide, self._algorithm.learn):
            compile_kernel(kernel)

    def decide(
        self, observations: Mapping[str, Observation], dataflow: Dataflow
    ) -> Mapping[str, Decision]:
        """Choose all targets in one step; what is not known of one operator holds all of them."""
        held = self._hold(observations, dataflow)
        if held is not None:
            return held
        rows = [observations[name] for name in dataflow.operators]
        types = _list_types(rows)
        state = self._recall(rows, types, dataflow)
        view, memory = state.view, state.memory
        for o, observation in enumerate(rows):
            fill_present(_row(view, o), _widen(observation, types))
        view.draws[0] = self._draws
        view.target[:] = view.counts
        compile_kernel(self._algorithm.decide)(0, view, memory)
        counts = view.target.tolist()  # before anything is explained, which may write targets
        explain_jointly = self._algorithm.explain_jointly
        reason = "" if explain_jointly is None else explain_jointly(view, memory)
        decisions = {}
        for o, (name, observation) in enumerate(zip(dataflow.operators, rows, strict=True)):
            target = _narrow(counts[o], types, observation.model.node_types)
            decisions[name] = (
                explain_rule(observation, target, reason)
                if reason
                else self._algorithm.explain(observation, target, _row(view, o), memory)
            )
        return decisions

    def learn(self, transitions: Mapping[str, Transition], dataflow: Dataflow) -> None:
        """Learn from one interval; one in which something needed is unknown teaches nothing."""
        if any(name not in transitions for name in dataflow.operators):
            return
        rows = [transitions[name] for name in dataflow.operators]
        if any(self._find_unknown(each) is not None for each in rows):
            return
        if any(_changed_types(each) for each in rows):
            return  # there is nothing to compare
        after = [each.next_observation for each in rows]
        types = _list_types(after)
        state = self._recall(after, types, dataflow)
        for o, transition in enumerate(rows):
            fill_interval(_row(state.view, o), _widen_transition(transition, types))
        compile_kernel(self._algorithm.learn)(0, state.view, state.memory)
        if self._algorithm.grow is not None:
            state.memory = self._algorithm.grow(state.memory)
        state.taught = True
        if self._algorithm.draws:
            self._draws = self._rng.random(2)

    def train(
        self, observations: Mapping[str, Observation], dataflow: Dataflow, rates: Floats
    ) -> None:
        """Train an offline algorithm before the first tick; others need no training.

        Args:
            observations: Name the operators' models, budgets and weights.
            dataflow: The operators that it decides for.
            rates: Records/s at every source in another stretch of time, one per tick, `(n,)`.
        """
        if self._algorithm.train is None:
            return
        rows = [observations[name] for name in dataflow.operators]
        types = _list_types(rows)
        state = self._recall(rows, types, dataflow)
        for o, observation in enumerate(rows):
            fill_present(_row(state.view, o), _widen(observation, types))
        state.memory = self._algorithm.train(state.view, state.memory, rates)
        state.taught = True

    def state_dict(self) -> Mapping[str, Any]:
        """Return the memory and the generator's state as plain JSON values."""
        state: dict[str, Any] = {"version": VERSION, "draws": self._draws.tolist()}
        if self._algorithm.draws:
            state["generator"] = self._rng.bit_generator.state
        if self._state is not None and self._state.taught:
            shape = self._state.shape
            state["operators"] = list(shape.operators)
            state["max_replicas"] = list(shape.max_replicas)
            state["node_types"] = list(shape.node_types)
            state["edges"] = [list(edge) for edge in shape.edges]
            state["memory"] = pack_array(self._state.memory)
        return state

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what `state_dict` returned.

        Raises:
            StateError: It is of another version, or no state of a compiled policy for a whole
                application.
        """
        if state.get("version") != VERSION:
            raise StateError(f"Expected state of version {VERSION}, got {state.get('version')}")
        if "draws" not in state or ("memory" in state) != ("operators" in state):
            raise StateError(
                "Expected the state of a compiled policy for a whole application, got "
                f"{sorted(state)}"
            )
        self._draws = np.array(state["draws"])
        if "generator" in state:
            self._rng.bit_generator.state = state["generator"]
        self._state = None
        if "memory" in state:
            shape = _Shape(
                operators=tuple(state["operators"]),
                max_replicas=tuple(state["max_replicas"]),
                node_types=tuple(state["node_types"]),
                edges=tuple((above, below) for above, below in state["edges"]),
            )
            memory = unpack_array(state["memory"])
            self._state = _PolicyState(shape, _new_view(shape), memory, taught=True)

    def _hold(
        self, observations: Mapping[str, Observation], dataflow: Dataflow
    ) -> dict[str, Decision] | None:
        """Return decisions to stay because something is not known; `None` where all is."""
        unknown = {
            name: find_unknown(observations[name], *self._algorithm.needed)
            if name in observations
            else "interval"
            for name in dataflow.operators
        }
        missing = next(((name, field) for name, field in unknown.items() if field), None)
        if missing is None:
            return None
        name, field = missing
        reason = (
            f"Holds: the {field.replace('_', ' ')} of {name} is not known, and the policy decides "
            "for all operators together"
        )
        held = {}
        for each, observation in observations.items():
            own = unknown.get(each)
            held[each] = hold(observation, own) if own else stay(observation, reason)
        return held

    def _find_unknown(self, transition: Transition) -> str | None:
        needed = self._algorithm.needed
        before = find_unknown(transition.observation, *needed)
        return before or find_unknown(transition.next_observation, *needed)

    def _recall(
        self, rows: list[Observation], types: tuple[NodeType, ...], dataflow: Dataflow
    ) -> _PolicyState:
        """Return the view and the memory, new ones where the application's shape is new."""
        models = [_widen_model(each.model, types) for each in rows]
        shape = _shape_of(models, dataflow)
        if self._state is None or self._state.shape != shape:
            view = _new_view(shape)
            _fill_application(view, models, dataflow)
            for o, observation in enumerate(rows):
                fill_present(_row(view, o), _widen(observation, types))
            memory = self._algorithm.prepare(view, TICKS_AHEAD)
            self._state = _PolicyState(shape, view, memory, taught=False)
        _fill_application(self._state.view, models, dataflow)
        return self._state


def refuse_application(
    algorithm: Algorithm, models: Sequence[OperatorModel], dataflow: Dataflow
) -> None:
    """Refuse operators that a joint algorithm cannot decide for, before anything is measured.

    Args:
        algorithm: The joint algorithm.
        models: The operators, in the order of the dataflow; what is measured may be NaN.
        dataflow: Edges may be missing, as before a job has run.

    Raises:
        ParameterError: There are too many, they may have too many replicas, or a setting does not
            fit them.
    """
    types = _merge_types([model.node_types for model in models])
    wide = [_widen_model(model, types) for model in models]
    if "model.service_mean" in algorithm.needed:  # it holds until the time is known: any will do
        wide = [
            replace(each, service_mean=1.0) if math.isnan(each.service_mean) else each
            for each in wide
        ]
    view = _new_view(_shape_of(wide, dataflow))
    _fill_application(view, wide, dataflow)
    algorithm.prepare(view, 1)


def _shape_of(models: Sequence[OperatorModel], dataflow: Dataflow) -> _Shape:
    """Return the shape of operators that all have the same node types."""
    rows = {name: row for row, name in enumerate(dataflow.operators)}
    in_order = sorted(dataflow.edges, key=lambda edge: dataflow.order.index(edge.source))
    return _Shape(
        operators=dataflow.operators,
        max_replicas=tuple(model.max_replicas for model in models),
        node_types=tuple(each.name for each in models[0].node_types),
        edges=tuple((rows[edge.source], rows[edge.target]) for edge in in_order),
    )


def _new_view(shape: _Shape) -> View:
    return empty_view(
        operators=len(shape.operators),
        node_types=len(shape.node_types),
        max_replicas=max(shape.max_replicas),
        edges=len(shape.edges),
    )


def _fill_application(view: View, models: Sequence[OperatorModel], dataflow: Dataflow) -> None:
    """Write what is believed of the operators, and the dataflow, into a view."""
    for o, model in enumerate(models):
        fill_model(view, o, model)
    rows = {name: row for row, name in enumerate(dataflow.operators)}
    in_order = sorted(dataflow.edges, key=lambda edge: dataflow.order.index(edge.source))
    for place, edge in enumerate(in_order):
        view.edges[place] = rows[edge.source], rows[edge.target]
        view.selectivity[place] = edge.selectivity


def _row(view: View, o: int) -> View:
    """Return the view of one operator: what is written to it is written to its row."""
    rows = {
        name: array[o : o + 1]
        for name, array in view._asdict().items()
        if name not in _PER_EDGE
    }  # fmt: skip
    return view._replace(**rows)


def _list_types(rows: list[Observation]) -> tuple[NodeType, ...]:
    return _merge_types([each.model.node_types for each in rows])


def _merge_types(lists: list[tuple[NodeType, ...]]) -> tuple[NodeType, ...]:
    """Return the node types of several lists, by name, in an order that is each list's, too.

    Among equals kernels take the first, so the order counts. Lists that contradict each other are
    merged all the same.
    """
    merged: list[NodeType] = []
    for types in lists:
        place = 0
        for each in types:
            names = [known.name for known in merged]
            if each.name not in names:
                merged.insert(place, each)
            else:
                place = names.index(each.name)
                if merged[place].pool == NOWHERE:
                    merged[place] = each
            place += 1
    return tuple(merged)


def _widen_model(model: OperatorModel, types: tuple[NodeType, ...]) -> OperatorModel:
    own = {each.name: each for each in model.node_types}
    slowest = min(each.speedup for each in model.node_types)
    wide = tuple(
        own.get(each.name) or replace(each, pool=NOWHERE, speedup=slowest, pool_limit=0)
        for each in types
    )
    return replace(model, node_types=wide)


def _widen(observation: Observation, types: tuple[NodeType, ...]) -> Observation:
    """Return the observation with its operator on all node types."""
    own = observation.model.node_types
    names = [each.name for each in own]
    if names == [each.name for each in types]:
        return observation
    places = {each.name: place for place, each in enumerate(types)}
    # Replicas are ordered by node type: by the longer list, they may stand in another order.
    replicas = [place for place, count in enumerate(observation.deployment) for _ in range(count)]
    order = sorted(range(len(replicas)), key=lambda each: places[names[replicas[each]]])
    dearest = observation.dearest
    return replace(
        observation,
        model=_widen_model(observation.model, types),
        deployment=_widen_deployment(observation.deployment, own, types),
        utilisation=_reorder(observation.utilisation, order),
        replica_ages=_reorder(observation.replica_ages, order),
        dearest=max(each.price for each in own) if dearest is None else dearest,
    )


def _widen_transition(transition: Transition, types: tuple[NodeType, ...]) -> Transition:
    own = transition.next_observation.model.node_types
    return replace(
        transition,
        observation=_widen(transition.observation, types),
        proposed=_widen_deployment(transition.proposed, own, types),
        enacted=_widen_deployment(transition.enacted, own, types),
        next_observation=_widen(transition.next_observation, types),
    )


def _widen_deployment(
    deployment: Deployment, own: tuple[NodeType, ...], types: tuple[NodeType, ...]
) -> Deployment:
    counts = {each.name: count for each, count in zip(own, deployment, strict=True)}
    return Deployment(tuple(counts.get(each.name, 0) for each in types))


def _narrow(
    counts: list[int], types: tuple[NodeType, ...], own: tuple[NodeType, ...]
) -> Deployment:
    """Return a row of targets as a deployment on an operator's own node types."""
    held = {each.name: count for each, count in zip(types, counts, strict=True)}
    return Deployment(tuple(held[each.name] for each in own))


def _reorder(values: tuple[float, ...], order: list[int]) -> tuple[float, ...]:
    """Return one value per replica in another order; values that do not match them as they are."""
    return tuple(values[each] for each in order) if len(values) == len(order) else values


def _changed_types(transition: Transition) -> bool:
    before, after = transition.observation.model, transition.next_observation.model
    return [each.name for each in before.node_types] != [each.name for each in after.node_types]
