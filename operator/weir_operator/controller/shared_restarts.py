"""The restart budget over all StreamApps of one controller.

Each StreamApp has a budget of its own; this one bounds what they do together, as after a change of
the load that all of them see: a restart of everything at once is an outage of everything at once.
"""

from __future__ import annotations

from weir_operator.clock import Clock
from weir_policies.application_manager.restart_budget import RestartBudget


class SharedRestarts:
    """One bucket of tokens, handed to every Application Manager."""

    def __init__(self, budget: RestartBudget, *, clock: Clock) -> None:
        self._budget = budget
        self._clock = clock
        self._tokens = budget.fill(clock.monotonic())

    def refuse(self, *, urgent: bool) -> str | None:
        """Return why there may be no restart now, a clause; savings leave half for emergencies."""
        now = self._clock.monotonic()
        available = self._tokens.available(self._budget, now)
        kept = 0 if urgent else self._budget.size // 2
        if available > kept:
            return None
        wait = self._tokens.wait(self._budget, now)
        what = (
            "the restart budget over all StreamApps of this controller is empty"
            if available == 0
            else f"the last {available} restarts over all StreamApps of this controller are kept "
            "for those that need them"
        )
        return f"{what}; the next token comes in {max(1.0, wait / 60):.0f} min"

    def take(self) -> None:
        """Pay for a restart; one that cannot wait is counted, and made even without a token."""
        now = self._clock.monotonic()
        if self._tokens.available(self._budget, now):
            self._tokens = self._tokens.take(self._budget, now)
