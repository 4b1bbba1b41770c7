"""An application under contention: the ground truth for the benchmark of AuTraScale+.

Per operator i on p replicas, a capacity of the form of the universal scalability law; over all, a
latency that falls with spare capacity and grows with the number of channels between replicas:

    c_i(p) = b_i p / (1 + s_i (p - 1) + k_i p (p - 1));   v = min(lambda, min_i c_i, limit)
    rho_i  = min(v / c_i, 0.97);   q_i = p_i / c_i
    l_p    = sum_i 500 q_i (1 + rho_i / (2 (1 - rho_i)))
             + 0.35 ms sum_i sqrt(p_i p_{i+1}) + 0.25 ms sum_i p_i
    dR/dt  = lambda - v

The factor 500 is a batch of records that a replica processes together. We built the model so that
it gives the published parallelism of WordCount; the paper's authors measured nothing of it.

Source: Gunther, "Guerrilla Capacity Planning", 2007, for the law; Zhang et al., IEEE TPDS 2024, for
what it should look like: its Figs. 4 and 5, its WordCount and its Yahoo benchmark.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from weir_policies.application_manager.autrascale.values import Measurement, Parallelism
from weir_policies.model.arrays import Floats

BATCH = 500.0
"""Records that a replica works off together, half of them waiting for the others on average."""
BUSIEST = 0.97
"""Utilisation that stands for more: the latency of overload is finite, its lag grows."""
CHANNEL = 0.35e-3
"""Seconds per channel between two operators, channels counted as the root of their product."""
REPLICA = 0.25e-3
"""Seconds per replica."""
NOISE = 0.02
"""Standard deviation of the logarithm of a measured latency."""


@dataclass(frozen=True, kw_only=True)
class ContendedApplication:
    """A chain of operators under contention."""

    base: Floats
    """b, records/s of one replica alone, `(u,)`."""
    serial: Floats
    """s, share of the work that replicas do one after another, `(u,)`."""
    crosstalk: Floats
    """k, cost of keeping two replicas consistent, `(u,)`."""
    shared_above: int | None = None
    """Replicas in all above which they share machines; `None` never."""
    shared_cost: float = 0.0
    """Part of every capacity that a further replica costs, relative to what is left."""
    limit: float = math.inf
    """Records/s that something outside bears, such as a key-value store."""
    most: int = 40
    """P_max of every operator."""

    @property
    def bounds(self) -> Parallelism:
        """P_max of every operator."""
        return (self.most,) * self.base.size

    def find_capacities(self, parallelism: Parallelism) -> Floats:
        """Return c_i(p), records/s, `(u,)`."""
        p = np.array(parallelism, dtype=float)
        capacity = self.base * p / (1 + self.serial * (p - 1) + self.crosstalk * p * (p - 1))
        if self.shared_above is not None:
            capacity = capacity / (1 + self.shared_cost * max(0.0, p.sum() - self.shared_above))
        return np.asarray(capacity)

    def find_throughput(self, parallelism: Parallelism) -> float:
        """Return what it gets through against more input than it takes, records/s."""
        return float(min(self.find_capacities(parallelism).min(), self.limit))

    def find_latency(self, parallelism: Parallelism, rate: float) -> float:
        """Return l_p without noise, seconds."""
        return float(self.split_latency(parallelism, rate).sum())

    def split_latency(self, parallelism: Parallelism, rate: float) -> Floats:
        """Return what each operator adds to l_p, seconds, `(u,)`; a channel is its receiver's."""
        p = np.array(parallelism, dtype=float)
        capacity = self.find_capacities(parallelism)
        busy = np.minimum(min(rate, self.find_throughput(parallelism)) / capacity, BUSIEST)
        own = BATCH * p / capacity * (1 + busy / (2 * (1 - busy))) + REPLICA * p
        own[1:] += CHANNEL * np.sqrt(p[:-1] * p[1:])
        return np.asarray(own)

    def measure(
        self,
        parallelism: Parallelism,
        rate: float,
        *,
        lag: float = 0.0,
        rng: np.random.Generator | None = None,
    ) -> Measurement:
        """Return what is measured on a parallelism once it has settled.

        Args:
            parallelism: Replicas of each operator.
            rate: Records/s that arrive.
            lag: Records that wait; what works them off is taken in besides.
            rng: Draws the noise of the latency; `None` measures without.
        """
        taken = rate if lag <= 0 else math.inf
        noise = 1.0 if rng is None else math.exp(NOISE * rng.standard_normal())
        capacity = self.find_capacities(parallelism)
        return Measurement(
            parallelism=parallelism,
            rate=rate,
            throughput=min(taken, self.find_throughput(parallelism)),
            demands=(rate,) * len(parallelism),
            true_rates=tuple(float(each) for each in capacity / np.array(parallelism)),
            latency=self.find_latency(parallelism, rate) * noise,
            lag=lag,
        )

    def work_off(self, parallelism: Parallelism, rate: float, lag: float, seconds: float) -> float:
        """Return the records that wait after a while on a parallelism."""
        return max(lag + (rate - self.find_throughput(parallelism)) * seconds, 0.0)


def word_count() -> ContendedApplication:
    """Return the truth behind WordCount: source, tokenize, count, sink."""
    return ContendedApplication(
        base=np.array([150e3, 105e3, 34e3, 41e3]),
        serial=np.array([0.06, 0.04, 0.012, 0.015]),
        crosstalk=np.array([0.0008, 0.0006, 0.0002, 0.0002]),
    )


def yahoo(limit: float = math.inf) -> ContendedApplication:
    """Return the truth behind the Yahoo benchmark, five operators on shared machines."""
    return ContendedApplication(
        base=np.array([9.5e3, 19e3, 40e3, 42e3, 2.6e3]),
        serial=np.array([0.03, 0.02, 0.02, 0.02, 0.008]),
        crosstalk=np.array([0.0010, 0.0006, 0.0005, 0.0005, 0.00025]),
        shared_above=60,
        shared_cost=0.0012,
        limit=limit,
    )
