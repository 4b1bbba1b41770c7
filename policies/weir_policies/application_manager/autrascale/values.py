"""The inputs of AuTraScale+'s solvers, their common values, and the settings.

An application is a chain of operators, source first; a *parallelism* has the replicas of each. A
solver never runs anything: it names the next parallelism to try and gets the measurement.

The benefit score of a parallelism, and the score from which it is good enough.

    F   = alpha min(1, L_p / l_p) + (1 - alpha) mean_i(pi^t_i / p_i)      (Eq. 4)
    s_l = alpha + (1 - alpha) / (1 + w)                                   (Eq. 7, 8)

Source: Zhang et al., IEEE TPDS 2024, section IV-C. It prints neither alpha nor w: alpha = 0.8 gives
all three scores of its Table IV to the digit, and then w = 1 gives its threshold of 0.9.

Settings of AuTraScale+, with what the paper prints of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from weir_policies.errors import ParameterError
from weir_policies.parameters import PolicyParameters, setting

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


def score_benefit(
    parallelism: Parallelism,
    floor: Parallelism,
    *,
    latency: float,
    latency_bound: float,
    alpha: float,
) -> float:
    """Return F, in (0, 1] for a parallelism of at least the floor.

    Args:
        parallelism: p.
        floor: pi^t.
        latency: l_p, seconds; `inf` scores 0 for its part.
        latency_bound: L_p, seconds.
        alpha: Weight of the latency.
    """
    in_time = 1.0 if latency <= latency_bound else latency_bound / latency
    lean = sum(a / b for a, b in zip(floor, parallelism, strict=True)) / len(parallelism)
    return alpha * in_time + (1 - alpha) * lean


def find_threshold(alpha: float, overallocation: float) -> float:
    """Return s_l: in time, with so many times more replicas than needed, on average."""
    return alpha + (1 - alpha) / (1 + overallocation)


class Transfer(StrEnum):
    """How a search at a new rate begins."""

    LIGHTWEIGHT = "lightweight"
    """Algorithm 2."""
    TRADITIONAL = "traditional"
    """The authors' earlier way."""
    NONE = "none"
    """From scratch, with its own bootstrap set."""


@dataclass(frozen=True, kw_only=True, slots=True)
class AutrascaleSettings(PolicyParameters):
    """Settings of `autrascale`."""

    alpha: float = setting(0.8, low=0, high=1)
    """Weight of the latency in the benefit score; follows from the scores that are published."""
    overallocation: float = setting(1.0, low=0)
    """w: how many times more replicas than needed are borne; follows from the published 0.9."""
    margin: float = setting(0.1, low=0)
    """xi of the expected improvement; not published. Of 0 to 0.1 this needs the fewest runs."""
    uniform: int = setting(6, low=1)
    """M, uniform parallelisms of the bootstrap set; follows from the 10 samples of WordCount."""
    transfer: Transfer = Transfer.LIGHTWEIGHT
    transfer_weight: float = setting(1.0, low=0, low_allowed=False)
    """How much a real sample counts against an old one; not published."""
    transfer_runs: int = setting(10, low=0)
    """Num: runs after which a search stops relying on another rate's model; not published."""
    runs: int = setting(20, low=1)
    """Runs of a search at most: Algorithms 1 and 3 have no end where nothing meets the targets."""
    settle: float = setting(60.0, low=0, low_allowed=False)
    """T_d, seconds on a parallelism before it is judged; 300 to 600 in the paper's cluster."""
    event_time: float | None = setting(None, low=0, low_allowed=False)
    """L_e, seconds: bound on a record's age at the sink. `None` bounds none."""
    catch_up: float = setting(300.0, low=0, low_allowed=False)
    """T_limit, seconds in which a backlog is worked off."""
    beta: float | None = setting(None, low=0, low_allowed=False)
    """Of the throughput score, records/s. `None` is a fifth of the throughput aimed at, as 10,000
    is of the published cases: the paper wants its order of magnitude."""
    gap: float = setting(2.0, low=0)
    """Seconds that the two restarts of a boost take out of `catch_up`, together."""

    @property
    def threshold(self) -> float:
        """Benefit score from which a parallelism is good enough, s_l."""
        return find_threshold(self.alpha, self.overallocation)
