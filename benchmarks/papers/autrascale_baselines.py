"""What AuTraScale+ is compared with where a backlog is to be worked off: Max, Proportion, Exponent.

Source: Zhang et al., IEEE TPDS 2024, section V-A. Each answers with the next parallelism to run.

DRS as AuTraScale+ compares itself with it: replicas one by one where they gain most.

    k_i = floor(lambda_i / mu_i) + 1
    while the sum of the M/M/k sojourn times, weighted by lambda_i / lambda, exceeds the bound:
        one replica more where the weighted sojourn time falls most

Then run it, measure mu again, and repeat until the measured latency keeps the bound. Which mu is
used is the experiment: *observed* is v / k, waiting included; *true* is Eq. 2.

Source: Fu et al., "DRS: Auto-scaling for real-time stream analytics", IEEE/ACM TON 2017; compared
with in Zhang et al., IEEE TPDS 2024, section V-C. The policies `drs-*` are another thing: what the
2023 paper compares itself with, per path and with the operators' service times.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from weir_policies.application_manager.autrascale.values import Parallelism


def scale_in_proportion(
    parallelism: Parallelism, *, throughput: float, wanted: float, most: Parallelism
) -> Parallelism:
    """Return every operator times what the throughput falls short by, rounded up."""
    factor = wanted / throughput
    return tuple(
        min(math.ceil(count * factor), top) for count, top in zip(parallelism, most, strict=True)
    )


def double(parallelism: Parallelism, most: Parallelism) -> Parallelism:
    """Return every operator doubled; `Exponent` does so until the throughput is reached."""
    return tuple(min(2 * count, top) for count, top in zip(parallelism, most, strict=True))


def allocate(
    demands: Sequence[float],
    rates: Sequence[float],
    *,
    bound: float,
    most: Parallelism,
) -> Parallelism:
    replicas = [
        min(int(demand / rate) + 1, top)
        for demand, rate, top in zip(demands, rates, most, strict=True)
    ]
    visits = [demand / demands[0] for demand in demands]
    times = [
        visit * sojourn(demand, rate, count)
        for visit, demand, rate, count in zip(visits, demands, rates, replicas, strict=True)
    ]
    while sum(times) > bound:
        gains = [
            times[i] - visits[i] * sojourn(demands[i], rates[i], replicas[i] + 1)
            if replicas[i] < most[i] and times[i] < float("inf")
            else 0.0
            for i in range(len(replicas))
        ]
        best = max(range(len(gains)), key=gains.__getitem__)
        if gains[best] <= 0:
            break
        replicas[best] += 1
        times[best] -= gains[best]
    return tuple(replicas)


def sojourn(demand: float, rate: float, replicas: int) -> float:
    """Return the mean time in M/M/k, seconds; `inf` where the replicas do not carry the demand."""
    load = demand / rate
    if load >= replicas:
        return float("inf")
    blocked = 1.0  # Erlang's B, one server after another
    for servers in range(1, replicas + 1):
        blocked = load * blocked / (servers + load * blocked)
    waits = blocked / (1 - load / replicas * (1 - blocked))  # Erlang's C
    return 1 / rate + waits / (rate * (replicas - load))
