"""The usual rate of an operator at each hour of the week, with which a policy may start.

It comes from a longer history than the policy's own. A policy that uses it takes it over before its
first interval, and replaces it by what it learns.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from weir_policies.errors import ParameterError

HOURS = 168
"""Of a week."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Season:
    """The usual course of the rate over a week.

    Raises:
        ParameterError: It has another number of hours, a negative or infinite rate, or is made of
            nothing.
    """

    rates: tuple[float, ...]
    """Records/s, by hour of the week, 168 of them; the first begins at the time of week 0. NaN
    if unknown."""
    weeks: float = 1.0
    """How many weeks it is made of."""

    def __post_init__(self) -> None:
        """Refuse what is no week."""
        if len(self.rates) != HOURS:
            raise ParameterError(f"Expected {HOURS} rates, one per hour, got {len(self.rates)}")
        wrong = [rate for rate in self.rates if rate < 0 or math.isinf(rate)]
        if wrong:
            raise ParameterError(f"Expected rates >= 0 or NaN, got {wrong[0]}")
        if not 0 < self.weeks < math.inf:
            raise ParameterError(f"Expected weeks > 0, got {self.weeks}")

    def beginning_at(self, hour: int) -> Season:
        """Return the same for a clock whose week begins at this hour of the week, any integer."""
        turn = hour % HOURS
        return replace(self, rates=self.rates[turn:] + self.rates[:turn])

    def times(self, factor: float) -> Season:
        """Return the same course on another level."""
        return replace(self, rates=tuple(factor * rate for rate in self.rates))
