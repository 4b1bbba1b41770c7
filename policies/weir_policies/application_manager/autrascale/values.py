"""What the solvers of AuTraScale+ are told, and the words that they share.

An application is a row of operators, source first; a *parallelism* counts the replicas of each.
A solver never runs anything: it names the next parallelism to try and is told what came of it.
"""

from __future__ import annotations

from dataclasses import dataclass

from weir_policies.errors import ParameterError

Parallelism = tuple[int, ...]
"""Replicas of every operator, in the order of the dataflow, `(u,)`."""

KEEPS_UP = 0.99
"""Part of the input rate from which a throughput counts as enough: measured rates scatter."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Measurement:
    """What an application did on one parallelism, once it had settled there."""

    parallelism: Parallelism
    rate: float
    """Records/s that arrive at the source."""
    throughput: float
    """Records/s of the source that the application gets through."""
    demands: tuple[float, ...]
    """Records/s that would reach each operator if none were held up, `(u,)`."""
    true_rates: tuple[float, ...]
    """Records/s of one replica that is always busy (Eq. 2), `(u,)`; 0 where it did nothing."""
    latency: float
    """Seconds from the first operator to the last, l_p."""
    lag: float = 0.0
    """Records that wait at the source, R."""

    @property
    def age(self) -> float:
        """Seconds from a record's creation to the last operator, l_e = l_p + R / v."""
        if self.lag <= 0:
            return self.latency
        return self.latency + self.lag / max(self.throughput, 1e-9)

    @property
    def keeps_up(self) -> bool:
        """Whether the throughput reaches the input rate."""
        return self.throughput >= KEEPS_UP * self.rate


@dataclass(frozen=True, kw_only=True, slots=True)
class Sample:
    """A parallelism and the score that it was measured, or estimated, to have."""

    parallelism: Parallelism
    score: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Trained:
    """What was learned at one input rate, from which its model can be trained again."""

    rate: float
    """Records/s."""
    floor: Parallelism
    """Least parallelism that carries the rate, pi^t; inputs of the model are relative to it."""
    samples: tuple[Sample, ...]


def refuse_unlike(floor: Parallelism, most: Parallelism) -> None:
    """Refuse bounds that leave no parallelism between them.

    Raises:
        ParameterError: They differ in length, or the lower exceeds the upper.
    """
    if len(floor) != len(most) or any(a > b for a, b in zip(floor, most, strict=False)):
        raise ParameterError(f"Expected a floor within the most replicas {most}, got {floor}")
