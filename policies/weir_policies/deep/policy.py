"""A deep policy for a live operator manager.

Each file of `operator_manager/` with a deep policy defines a `DeepAlgorithm`. Its functions work on
all rows of a view at once: `DeepPolicy` calls them for one operator, the simulator's batched loop
for all its runs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import numpy as np

from weir_policies.deep.memory import DeepMemory
from weir_policies.deep.parameters import DeepParameters
from weir_policies.deep.state import pack_memory, unpack_memory
from weir_policies.errors import StateError
from weir_policies.kernels.policy import fill_interval, fill_model, fill_present
from weir_policies.kernels.staying import find_unknown, hold
from weir_policies.kernels.view import View, empty_view
from weir_policies.model.node_types import Deployment
from weir_policies.policy import Decision, Observation, Transition

VERSION = 1
NEEDED = ("budget",)
"""Field of an observation, besides its rate and utilisation, without which a deep policy holds."""


@dataclass(frozen=True, kw_only=True, slots=True)
class DeepAlgorithm:
    """A deep policy's functions, with its parameters bound."""

    parameters: DeepParameters
    prepare: Callable[[View, Sequence[np.random.Generator]], DeepMemory]
    """Makes the memory for the rows of a view, which so far holds only their models; one generator
    per row. Refuses what it cannot handle with a `ParameterError`."""
    learn: Callable[[View, DeepMemory], None]
    """Updates the memory from `before`, `counts_before`, `cost`, `seen` and `counts`."""
    decide: Callable[[View, DeepMemory], None]
    """Writes `target`; changes nothing else."""
    explain: Callable[[Observation, Deployment, View, DeepMemory], Decision]
    """Explains the decision that `decide` wrote, with the candidates."""


@dataclass(slots=True)
class _PolicyState:
    """What belongs to one shape of model: a number of node types and of replicas."""

    view: View
    memory: DeepMemory
    taught: bool
    """Whether the memory is more than what `prepare` makes."""

    @property
    def shape(self) -> tuple[int, int]:
        return self.view.counts.shape[1], self.view.joined.shape[1]


class DeepPolicy:
    """Decides for one operator with a deep algorithm.

    The memory is made for the shape of the first model that it meets. Where the number of node
    types or of replicas changes later, what was learned fits no more and is started again.
    """

    def __init__(self, algorithm: DeepAlgorithm, rng: np.random.Generator) -> None:
        self._algorithm = algorithm
        self._rng = rng
        self._state: _PolicyState | None = None

    def decide(self, observation: Observation) -> Decision:
        """Choose a target; missing data gives the present deployment with a reason."""
        unknown = find_unknown(observation, *NEEDED)
        if unknown is not None:
            return hold(observation, unknown)
        state = self._recall(observation)
        fill_present(state.view, observation)
        self._algorithm.decide(state.view, state.memory)
        target = Deployment(tuple(int(count) for count in state.view.target[0]))
        return self._algorithm.explain(observation, target, state.view, state.memory)

    def learn(self, transition: Transition) -> None:
        """Learn from one interval; one in which something needed is unknown teaches nothing."""
        before, after = transition.observation, transition.next_observation
        if find_unknown(before, *NEEDED) is not None or find_unknown(after, *NEEDED) is not None:
            return
        state = self._recall(after)
        if len(before.deployment.counts) != len(after.deployment.counts):
            return  # the node types changed in between: there is nothing to compare
        fill_interval(state.view, transition)
        self._algorithm.learn(state.view, state.memory)
        state.taught = True
        (self._rng,) = state.memory.rngs

    def state_dict(self) -> Mapping[str, Any]:
        """Return weights, buffer and the generator's state as plain JSON values."""
        state: dict[str, Any] = {"version": VERSION, "generator": self._rng.bit_generator.state}
        if self._state is not None and self._state.taught:
            state["shape"] = list(self._state.shape)
            state["memory"] = pack_memory(self._state.memory)
        return state

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what `state_dict` returned.

        Raises:
            StateError: It is of another version, no state of a deep policy, or of one with other
                parameters.
        """
        if state.get("version") != VERSION or "generator" not in state:
            raise StateError(f"Expected state of version {VERSION}, got {state.get('version')}")
        self._rng = deepcopy(self._rng)
        self._rng.bit_generator.state = state["generator"]
        self._state = None
        if "memory" in state:
            node_types, replicas = state["shape"]
            memory = unpack_memory(
                state["memory"],
                self._algorithm.parameters,
                self._rng,
                node_types=node_types,
                max_replicas=replicas,
            )
            view = empty_view(operators=1, node_types=node_types, max_replicas=replicas)
            self._state = _PolicyState(view, memory, taught=True)

    def _recall(self, observation: Observation) -> _PolicyState:
        """Return the view and the memory, new ones where the model's shape is new."""
        model = observation.model
        shape = (len(model.node_types), model.max_replicas)
        if self._state is None or self._state.shape != shape:
            view = empty_view(operators=1, node_types=shape[0], max_replicas=shape[1])
            fill_model(view, 0, model)
            # First weights are drawn from a copy: to decide before anything was learned must leave
            # the generator as it was. The copy takes its place when something is learned.
            memory = self._algorithm.prepare(view, (deepcopy(self._rng),))
            self._state = _PolicyState(view, memory, taught=False)
        fill_model(self._state.view, 0, model)
        return self._state
