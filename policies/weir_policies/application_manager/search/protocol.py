"""The protocol of a search over weights and budgets: it proposes trials and gets their outcomes.

A search knows no simulator. It proposes points of a unit cube (`space` says what they stand for)
and how long to simulate each; the caller evaluates them and reports the outcomes in the order of
the proposals. Randomness comes from a given generator, so equal seeds and equal outcomes give equal
trials.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol

from weir_policies.model.arrays import Floats

Algorithm = Literal["joint", "alternating", "weights", "budgets", "random"]
"""Ours over weights and budgets at once, the paper's Algorithm 4, its two halves, the yardstick."""
SurrogateName = Literal["numpy", "botorch"]
"""Our own Gaussian process, and BoTorch's."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Trial:
    """A point that is worth an evaluation."""

    coordinates: Floats
    """In the unit cube, shape `(d,)`."""
    fidelity: float = 1.0
    """Length of its simulation, as a part of a full one, in (0, 1]."""
    origin: str
    """Why it was proposed, in a word or two, for people who read a study."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Limits:
    """What a solution must keep."""

    violations: float
    """Most violations, as a share of the slots."""
    reconfigurations: float
    """Most reconfigurations, as a share of the slots."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TrialOutcome:
    """What a simulation said of a trial."""

    money: float
    """Mean price of what is paid, per hour."""
    violations: float
    """Share of the slots."""
    reconfigurations: float
    """Share of the slots."""

    def keeps(self, limits: Limits) -> bool:
        """Return whether it stays within the limits."""
        return (
            self.violations <= limits.violations
            and self.reconfigurations <= limits.reconfigurations
        )

    def excess(self, limits: Limits) -> float:
        """Return by how much it leaves the limits, both shares added up; 0 where it keeps them."""
        return max(0.0, self.violations - limits.violations) + max(
            0.0, self.reconfigurations - limits.reconfigurations
        )


class Search(Protocol):
    """Proposes trials until it has none left."""

    def ask(self, count: int) -> list[Trial]:
        """Return up to `count` trials that may be evaluated at once; none when it has finished."""
        ...

    def tell(self, trial: Trial, outcome: TrialOutcome) -> None:
        """Learn what came of a trial."""
        ...


def rank(outcome: TrialOutcome, limits: Limits) -> tuple[float, float]:
    """Return what the better of two outcomes has less of: first excess, then money."""
    return outcome.excess(limits), outcome.money
