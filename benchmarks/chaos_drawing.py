"""Which faults befall the job, and in what order: drawn by a seed, alone from it. Pure."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class Drawn:
    """A fault that is to come."""

    kind: str
    """Name of its class in `chaos_faults`."""
    seed: str
    """Of its own choices, such as which pod it strikes."""

    def generator(self) -> random.Random:
        """Return the generator of its choices, at its beginning."""
        return random.Random(self.seed)


def draw_faults(kinds: Sequence[str], count: int, seed: int) -> tuple[Drawn, ...]:
    """Return `count` faults in the order in which they come.

    Every kind comes as often as every other, but for one time: a run of 30 must not leave out what
    is rare. The order is random within each round, so every kind meets others before it.
    """
    generator = random.Random(seed)
    drawn: list[str] = []
    while len(drawn) < count:
        round_of_kinds = list(kinds)
        generator.shuffle(round_of_kinds)
        drawn += round_of_kinds
    return tuple(
        Drawn(kind=kind, seed=f"{seed}/{index}/{kind}") for index, kind in enumerate(drawn[:count])
    )
