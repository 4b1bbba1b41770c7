"""The restart budget: a token bucket, and a cap per day. Time is always a parameter.

Every restart takes a token; tokens come back one by one. The bucket bounds bursts, the cap bounds
the day: with one token an hour alone there could be 24 restarts.

The bucket outlives its process, so the caller's clock may have been set back since. That gives no
token. Times more than a day ahead are wrong and are ignored.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from weir_policies.errors import ParameterError, StateError

DAY = 86_400.0
VERSION = 1


@dataclass(frozen=True, kw_only=True, slots=True)
class RestartBudget:
    """How many restarts there may be."""

    size: int = 3
    """Most tokens in the bucket."""
    refill_every: float = 3600.0
    """Seconds until one token comes back."""
    max_per_day: int | None = None
    """Most restarts in any 24 hours; `None` is no cap."""

    def __post_init__(self) -> None:
        """Refuse what allows no restart at all, or is no time."""
        if self.size < 1:
            raise ParameterError(f"Expected a size of at least 1 token, got {self.size}")
        if not (math.isfinite(self.refill_every) and self.refill_every > 0):
            raise ParameterError(f"Expected refill_every > 0 s, got {self.refill_every} s")
        if self.max_per_day is not None and self.max_per_day < 0:
            raise ParameterError(f"Expected max_per_day >= 0, got {self.max_per_day}")

    def fill(self, now: float) -> RestartTokens:
        """Return a full bucket."""
        return RestartTokens(tokens=self.size, refilled_at=now)


@dataclass(frozen=True, kw_only=True, slots=True)
class RestartTokens:
    """What is left of a restart budget."""

    tokens: int
    refilled_at: float
    """Seconds on the caller's clock up to which tokens were put in."""
    restarts: tuple[float, ...] = ()
    """When the restarts of the last 24 hours were."""

    def refilled(self, budget: RestartBudget, now: float) -> RestartTokens:
        """Return the bucket with the tokens that came back until `now`."""
        restarts = tuple(time for time in self.restarts if abs(now - time) < DAY)
        since = self.refilled_at
        if since - now > DAY:
            since = now - budget.refill_every  # one token, and from then on as ever
        earned = max(0, math.floor((now - since) / budget.refill_every))
        tokens = min(self.tokens + earned, budget.size)
        # A full bucket earns nothing: the next token counts from the moment one is taken.
        full = tokens == budget.size
        refilled_at = now if full else since + earned * budget.refill_every
        return RestartTokens(tokens=tokens, refilled_at=refilled_at, restarts=restarts)

    def available(self, budget: RestartBudget, now: float) -> int:
        """Return how many restarts are allowed right now."""
        bucket = self.refilled(budget, now)
        if budget.max_per_day is None:
            return bucket.tokens
        return max(0, min(bucket.tokens, budget.max_per_day - len(bucket.restarts)))

    def wait(self, budget: RestartBudget, now: float) -> float:
        """Return the seconds until one more restart is allowed than now; `inf` where never.

        Where the bucket is full and the day's cap does not bind, that is never.
        """
        bucket = self.refilled(budget, now)
        full = bucket.tokens == budget.size
        refill = math.inf if full else bucket.refilled_at + budget.refill_every - now
        if budget.max_per_day is None:
            return refill
        left_today = budget.max_per_day - len(bucket.restarts)
        if left_today > bucket.tokens:
            return refill
        expiry = min(bucket.restarts) + DAY - now if bucket.restarts else math.inf
        return expiry if left_today < bucket.tokens else max(expiry, refill)

    def take(self, budget: RestartBudget, now: float) -> RestartTokens:
        """Return the bucket after one restart.

        Raises:
            ParameterError: No restart is allowed; ask `available` first.
        """
        if self.available(budget, now) < 1:
            raise ParameterError("Expected a token to take, got an empty restart budget")
        bucket = self.refilled(budget, now)
        return replace(bucket, tokens=bucket.tokens - 1, restarts=(*bucket.restarts, now))

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values, for `from_dict`."""
        return {
            "version": VERSION,
            "tokens": self.tokens,
            "refilled_at": self.refilled_at,
            "restarts": list(self.restarts),
        }

    @classmethod
    def from_dict(cls, state: Mapping[str, Any]) -> RestartTokens:
        """Restore what `to_dict` returned.

        Raises:
            StateError: It is of another version.
        """
        if state.get("version") != VERSION:
            raise StateError(f"Expected tokens of version {VERSION}, got {state.get('version')}")
        return cls(
            tokens=state["tokens"],
            refilled_at=state["refilled_at"],
            restarts=tuple(state["restarts"]),
        )
