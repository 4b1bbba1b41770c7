"""Percentiles of the simulator against simulated records, which wait in queue after queue.

Each case is a chain of one to four operators with one to four replicas each. Every record is
followed: it arrives by a Poisson process, goes to a replica at random or in turn, waits there until
those before it are served (Lindley's recursion), and goes on to the next operator. So neither times
at different operators nor arrivals at later ones are independent, as the simulator takes them to
be. Service times are gamma.

Source: Lindley, "The Theory of Queues with a Single Server", Proc. Cambridge Phil. Soc. 48 (1952).
"""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from weir_policies.model.arrays import Floats
from weir_policies.model.objective import Statistic
from weir_simulator.experiment import Edge, Experiment, NodeType, Objective, Operator, TraceSource
from weir_simulator.run import simulate
from weir_simulator.state import AT_TIME
from weir_simulator.traces import as_trace, write_trace

RATE = 100.0
"""Records/s."""
RECORDS = 400_000
WARM_UP = 20_000
"""Records that are not counted: the queues are empty at first."""
LENGTHS = (1, 2, 4)
REPLICAS = (1, 4)
UTILISATIONS = (0.3, 0.6, 0.9)
SCVS = (0.25, 1.0, 2.0)
STATISTICS = (Statistic.P95, Statistic.P99)


@dataclass(frozen=True, kw_only=True, slots=True)
class Chain:
    """One case; its operators are alike, but that each next one is a fifth less busy."""

    length: int
    replicas: int
    utilisation: float
    """Of the first operator."""
    scv: float
    """Of the service times."""
    keyed: bool

    @property
    def services(self) -> list[float]:
        """Mean service time of each operator, s."""
        first = self.utilisation * self.replicas / RATE
        return [first * 0.8**place for place in range(self.length)]


@dataclass(frozen=True, kw_only=True, slots=True)
class Compared:
    """A percentile of a case, seconds."""

    chain: Chain
    followed: float
    simulated: float

    @property
    def error(self) -> float:
        """Relative, positive where the simulator says more."""
        return self.simulated / self.followed - 1


def list_chains() -> Iterator[Chain]:
    """Yield every case."""
    for length, replicas, utilisation, scv, keyed in itertools.product(
        LENGTHS, REPLICAS, UTILISATIONS, SCVS, (True, False)
    ):
        if replicas > 1 or keyed:  # one replica gets the same either way
            yield Chain(
                length=length, replicas=replicas, utilisation=utilisation, scv=scv, keyed=keyed
            )


def compare_all(*, seed: int) -> dict[Statistic, list[Compared]]:
    """Return every case's percentiles, by statistic."""
    rng = np.random.default_rng(seed)
    found: dict[Statistic, list[Compared]] = {statistic: [] for statistic in STATISTICS}
    for chain in list_chains():
        times = follow_records(chain, rng)
        for statistic in STATISTICS:
            found[statistic].append(
                Compared(
                    chain=chain,
                    followed=float(np.quantile(times, statistic.quantile or 0.0)),
                    simulated=simulate_percentile(chain, statistic),
                )
            )
    return found


def follow_records(chain: Chain, rng: np.random.Generator) -> Floats:
    """Return seconds from source to sink of each record after the warm-up."""
    begun = np.cumsum(rng.exponential(1 / RATE, RECORDS))
    numbers, arrivals = np.arange(RECORDS), begun
    for service in chain.services:
        order = np.argsort(arrivals, kind="stable")
        numbers, arrivals = numbers[order], arrivals[order]
        chosen = (
            rng.integers(chain.replicas, size=RECORDS)
            if chain.keyed
            else np.arange(RECORDS) % chain.replicas
        )
        left = np.empty(RECORDS)
        for replica in range(chain.replicas):
            own = chosen == replica
            at = arrivals[own]
            work = rng.gamma(1 / chain.scv, service * chain.scv, at.size)
            walk = np.concatenate([[0.0], np.cumsum(work[:-1] - np.diff(at))])
            left[own] = at + walk - np.minimum.accumulate(walk) + work
        arrivals = left
    times = np.empty(RECORDS)
    times[numbers] = arrivals
    taken: Floats = (times - begun)[WARM_UP:]
    return taken


def simulate_percentile(chain: Chain, statistic: Statistic) -> float:
    """Return a percentile as the simulator has it, s."""
    names = [f"op{place}" for place in range(chain.length)]
    with tempfile.TemporaryDirectory() as folder:
        trace = Path(folder) / "trace.txt"
        write_trace(trace, as_trace([RATE]))
        experiment = Experiment(
            operators=tuple(
                Operator(
                    name=name,
                    service_rate=1 / service,
                    scv=chain.scv,
                    max_replicas=chain.replicas,
                    keyed=chain.keyed,
                )
                for name, service in zip(names, chain.services, strict=True)
            ),
            edges=tuple(
                Edge.model_validate({"from": a, "to": b}) for a, b in itertools.pairwise(names)
            ),
            node_types=(NodeType(name="t1", speedup=1.0, price=1.0),),
            objective=Objective(response_time=1.0, statistic=statistic),
            trace=TraceSource(file=trace),
            initial={"t1": chain.replicas},
        )
        history = simulate(experiment, seed=1, policy="hold", history=True).history
    return float(history[0, AT_TIME])
