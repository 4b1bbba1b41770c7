"""Java's random generator, which the program behind the published tables drew from.

Needed only to repeat its draws bit for bit. Source: the public documentation of `java.util.Random`,
a linear congruential generator of 48 bits.
"""

from __future__ import annotations

from collections.abc import Sequence

_MULTIPLIER, _INCREMENT, _MASK = 0x5DEECE66D, 0xB, (1 << 48) - 1


class JavaRandom:
    """Draws what `new java.util.Random(seed)` draws."""

    def __init__(self, seed: int) -> None:
        self._state = (seed ^ _MULTIPLIER) & _MASK

    def next_double(self) -> float:
        return ((self._next(26) << 27) + self._next(27)) / (1 << 53)

    def _next(self, bits: int) -> int:
        self._state = (self._state * _MULTIPLIER + _INCREMENT) & _MASK
        return self._state >> (48 - bits)


def draw_service_factor(seed: int, *, least: float = 0.05, most: float = 0.10) -> float:
    """Return the believed mean service time relative to the true one, as that program drew it."""
    drawn = JavaRandom(seed).next_double()
    if drawn > 0.5:
        return 1 + (most - (most - least) * 2 * (drawn - 0.5))
    return 1 - (most - (most - least) * 2 * drawn)


def draw_speedups(speedups: Sequence[float], seed: int, *, error: float = 0.2) -> list[float]:
    """Return the believed speedups, as that program drew them: in ascending order, order kept."""
    generator = JavaRandom(seed)
    slowest_first = sorted(range(len(speedups)), key=lambda place: speedups[place])
    estimates = list(speedups)
    for rank, place in enumerate(slowest_first):
        low, high = speedups[place] * (1 - error), speedups[place] * (1 + error)
        if rank > 0:
            low = max(low, speedups[slowest_first[rank - 1]])
        if rank + 1 < len(slowest_first):
            high = min(high, speedups[slowest_first[rank + 1]])
        estimates[place] = low + generator.next_double() * (high - low)
    return estimates
