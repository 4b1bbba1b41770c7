"""Policies that decide from the observation alone: nothing to learn, nothing to store."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from weir_policies.errors import StateError
from weir_policies.promise import Transition


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
