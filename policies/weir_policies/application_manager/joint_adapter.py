"""A policy for a whole application, where loops ask for one policy per operator.

A loop asks each operator's policy in turn. An adapter passes what its operator learned on; once all
have, the application's policy learns it at once, and each adapter returns the decision for its
operator. What is learned of an interval that not all operators observed is dropped.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from weir_policies.errors import StateError
from weir_policies.policy import ApplicationPolicy, Decision, Observation, Transition


class SharedPolicy:
    """What the adapters of one application share."""

    def __init__(self, policy: ApplicationPolicy, operators: int) -> None:
        """Begin with no interval learned, for so many operators, at least one."""
        self.policy = policy
        self._operators = operators
        self._intervals: dict[int, Transition] = {}

    def add(self, place: int, transition: Transition) -> None:
        """Note an operator's interval; learn it with those of the others, once all are there."""
        now = transition.next_observation.time
        if any(other.next_observation.time != now for other in self._intervals.values()):
            self._intervals.clear()
        self._intervals[place] = transition
        if len(self._intervals) == self._operators:
            intervals = [self._intervals[each] for each in range(self._operators)]
            self._intervals.clear()
            self.policy.learn({each.next_observation.model.name: each for each in intervals})


class OperatorAdapter:
    """One operator's policy; the first one keeps what the application's policy learned."""

    def __init__(self, shared: SharedPolicy, place: int) -> None:
        self._shared = shared
        self._place = place

    def decide(self, observation: Observation) -> Decision:
        """Return what the application's policy decides for this operator."""
        name = observation.model.name
        return self._shared.policy.decide({name: observation})[name]

    def learn(self, transition: Transition) -> None:
        """Pass an interval on."""
        self._shared.add(self._place, transition)

    def state_dict(self) -> Mapping[str, Any]:
        """Return what was learned, which is kept with the first operator."""
        if self._place == 0:
            return {"seat": 0, "application": dict(self._shared.policy.state_dict())}
        return {"seat": self._place}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore exactly what `state_dict` returned.

        Raises:
            StateError: It is another operator's: they are others, or in another order.
        """
        if state.get("seat") != self._place:
            raise StateError(f"Expected state of operator {self._place}, got {state.get('seat')!r}")
        if self._place == 0:
            self._shared.policy.load_state_dict(state["application"])


def adapt_joint(policy: ApplicationPolicy, operators: int) -> tuple[OperatorAdapter, ...]:
    """Return the policies of all operators of an application, in the order of the dataflow."""
    shared = SharedPolicy(policy, operators)
    return tuple(OperatorAdapter(shared, place) for place in range(operators))
