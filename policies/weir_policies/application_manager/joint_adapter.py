"""Operators at one table: a policy for a whole application where policies are one per operator.

A loop asks each operator's policy in turn. A seat passes what its operator learned on to the table;
once all have, the application's policy learns it at once, and its decisions are handed out seat by
seat. What is learned of an interval that not all operators observed is dropped.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from weir_policies.errors import StateError
from weir_policies.policy import ApplicationPolicy, Decision, Observation, Transition


class Table:
    """What the seats of one application share."""

    def __init__(self, policy: ApplicationPolicy, seats: int) -> None:
        """Set a table for so many operators, at least one."""
        self.policy = policy
        self._seats = seats
        self._heard: dict[int, Transition] = {}

    def hear(self, place: int, transition: Transition) -> None:
        """Note an operator's interval; learn it with those of the others, once all are there."""
        now = transition.next_observation.time
        if any(other.next_observation.time != now for other in self._heard.values()):
            self._heard.clear()
        self._heard[place] = transition
        if len(self._heard) == self._seats:
            heard = [self._heard[each] for each in range(self._seats)]
            self._heard.clear()
            self.policy.learn({each.next_observation.model.name: each for each in heard})


class Seat:
    """One operator's policy; the first seat keeps what the table learned."""

    def __init__(self, table: Table, place: int) -> None:
        self._table = table
        self._place = place

    def decide(self, observation: Observation) -> Decision:
        """Return what the application's policy decides for this operator."""
        name = observation.model.name
        return self._table.policy.decide({name: observation})[name]

    def learn(self, transition: Transition) -> None:
        """Pass an interval on."""
        self._table.hear(self._place, transition)

    def state_dict(self) -> Mapping[str, Any]:
        """Return what the table learned, or at which seat that is to be found."""
        if self._place == 0:
            return {"seat": 0, "application": dict(self._table.policy.state_dict())}
        return {"seat": self._place}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore exactly what `state_dict` returned.

        Raises:
            StateError: It is another seat's: the operators are others, or in another order.
        """
        if state.get("seat") != self._place:
            raise StateError(f"Expected state of seat {self._place}, got {state.get('seat')!r}")
        if self._place == 0:
            self._table.policy.load_state_dict(state["application"])


def adapt_joint(policy: ApplicationPolicy, seats: int) -> tuple[Seat, ...]:
    """Return the policies of all operators of an application, in the order of the dataflow."""
    table = Table(policy, seats)
    return tuple(Seat(table, place) for place in range(seats))
