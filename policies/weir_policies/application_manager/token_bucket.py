"""EDF's token bucket: the response time says which changes there may be, and how many.

A token is of one kind: HIGH pays one replica more, or one on another node; LOW one replica less.
Every `every` seconds the application's response time R makes one: R > high a HIGH, R < low a LOW,
else none. The bucket holds one kind only: a new token throws out all of the other; in a full one it
replaces the oldest. Tokens do not expire. Requests are granted by score, one token each; those that
are left are denied.

Source: Cardellini, Lo Presti, Nardelli, Russo Russo, Future Generation Computer Systems 2018 (EDF),
section 7.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from weir_policies.application_manager.adaptation import (
    Adaptation,
    AdaptationRequest,
    prioritise,
)
from weir_policies.errors import ParameterError


class Token(StrEnum):
    """What a token pays."""

    HIGH = "high"
    """One replica more, or one on another node."""
    LOW = "low"
    """One replica less."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TokenRules:
    """When there is a new token.

    Raises:
        ParameterError: A number is out of its range.
    """

    low: float
    """Response time below which replicas may go, s."""
    high: float
    """Response time above which replicas may come, s."""
    every: float = 60.0
    """Seconds from one token to the next."""
    size: int = 1
    """Most tokens in the bucket."""

    def __post_init__(self) -> None:
        """Refuse what makes no sense."""
        if not 0 <= self.low <= self.high:
            raise ParameterError(f"Expected 0 <= low <= high, got {self.low} s and {self.high} s")
        if not self.every > 0:
            raise ParameterError(f"Expected every > 0 s, got {self.every} s")
        if self.size < 1:
            raise ParameterError(f"Expected a size of at least 1 token, got {self.size}")


@dataclass(frozen=True, kw_only=True, slots=True)
class Tokens:
    """What is in the bucket: some tokens of one kind."""

    kind: Token = Token.HIGH
    count: int = 0
    generated_at: float = float("-inf")
    """Seconds on the caller's clock of the last time that a token could come."""

    def generate(self, rules: TokenRules, *, response_time: float, now: float) -> Tokens:
        """Return the bucket after the token that is due, if one is.

        Args:
            rules: When there is one.
            response_time: Of the application, s, mean over the last `rules.every` seconds. NaN,
                which is neither high nor low, makes none.
            now: Seconds on the caller's clock.
        """
        if now - self.generated_at < rules.every:
            return self
        waiting = replace(self, generated_at=now)
        if response_time > rules.high:
            kind = Token.HIGH
        elif response_time < rules.low:
            kind = Token.LOW
        else:
            return waiting
        held = self.count if kind is self.kind else 0
        return replace(waiting, kind=kind, count=min(held + 1, rules.size))


def token_for(kind: Adaptation) -> Token:
    """Return what pays such a request."""
    return Token.LOW if kind is Adaptation.SCALE_IN else Token.HIGH


def grant(
    requests: Sequence[AdaptationRequest], tokens: Tokens
) -> tuple[list[AdaptationRequest], Tokens]:
    """Return what the tokens pay, the highest score first, and what is left of them."""
    payable = [each for each in prioritise(requests) if token_for(each.kind) is tokens.kind]
    granted = payable[: tokens.count]
    return granted, replace(tokens, count=tokens.count - len(granted))
