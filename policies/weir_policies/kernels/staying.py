"""Keeps the present deployment: the decision for missing data, and the usual one of every policy.

Staying is always within bounds: a policy that knows too little to move also knows too little to
judge the present deployment. `Memoryless` is the base of policies that decide only from the
observation: they have nothing to learn and nothing to store.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import cache
from operator import attrgetter
from typing import Any

from weir_policies.errors import StateError
from weir_policies.model.cost import price_per_hour
from weir_policies.policy import Candidate, Decision, Expectation, Observation, Transition


def find_unknown(observation: Observation, *needed: str) -> str | None:
    """Return the name of the first thing that is unknown, or `None`.

    Args:
        observation: What was seen. Its rate and utilisation are always needed: without one of them
            the sample is partial, whatever the policy.
        needed: Further fields of the observation, or of its model, as `model.service_mean`.
    """
    for field, read in _readers(needed):
        if math.isnan(read(observation)):
            return field
    if any(map(math.isnan, observation.utilisation)):
        return "utilisation"
    return None


@cache
def _readers(needed: tuple[str, ...]) -> tuple[tuple[str, Callable[[Observation], float]], ...]:
    """Return what reads the rate and the fields, each with its name for people."""
    return tuple((each.removeprefix("model."), attrgetter(each)) for each in ("rate", *needed))


def hold(observation: Observation, unknown: str) -> Decision:
    """Return the decision to stay because something is unknown."""
    return stay(observation, f"Holds: the {unknown.replace('_', ' ')} is not known")


def stay(observation: Observation, reason: str) -> Decision:
    """Return the decision to stay, without other candidates."""
    expectation = expect_nothing(observation)
    here = Candidate(
        deployment=observation.deployment, score=0.0, expectation=expectation, verdict=reason
    )
    return Decision(
        target=observation.deployment,
        reason=reason,
        candidates=(here,),
        expectation=expectation,
        urgency=0.0,
    )


def expect_nothing(observation: Observation) -> Expectation:
    """Return an expectation with only the price."""
    return Expectation(
        response_time=math.nan,
        utilisation=math.nan,
        cost_per_hour=price_per_hour(observation.deployment, observation.model.node_types),
    )


class Memoryless:
    """The half of an operator policy that learns and remembers, for those that do neither."""

    def learn(self, transition: Transition) -> None:
        """Learn nothing."""

    def state_dict(self) -> Mapping[str, Any]:
        """Return nothing: no state is kept and no random number drawn."""
        return {}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Accept only the empty state.

        Raises:
            StateError: It is another policy's.
        """
        if state:
            raise StateError(
                f"Expected the empty state of {type(self).__name__}, got {dict(state)}"
            )
