"""Steady states of trips on a real Flink, measured: what the fidelity benchmarks share."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.flink.trips_cluster import TripsCluster, deployments
from weir_operator.loop.gather import layout_of
from weir_operator.metrics.direct import DirectSource
from weir_operator.metrics.measurement import measure
from weir_operator.metrics.values import AppMeasurement, OperatorMeasurement

Counts = dict[str, int]

RATE = 75.0
"""Records/s of the job."""
ARGUMENTS = (
    # Long against the 0.2 ms of Flink's own work per record, which no service time holds.
    *("--service.match-ms", "20", "--scv.match", "0.5"),
    *("--service.aggregate-ms", "16", "--scv.aggregate", "0.5"),
    # So many keys that no replica gets more than its key groups: skew is not what is judged.
    *("--zones", "200000"),
)
WARM_UP = 10.0
"""Seconds."""
TRIES = 3
"""Windows that a deployment gets to work off what its restart left."""
SETTLED = 0.03
"""Part by which it may process more than arrives and still count as steady."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Point:
    """The response time of an operator in a deployment, seconds, mean over records."""

    measured: float
    predicted: float

    @property
    def error(self) -> float:
        return abs(self.predicted - self.measured) / self.measured


async def measure_steady(
    cluster: TripsCluster,
    match: Counts,
    aggregate: Counts,
    *,
    seconds: float,
    parts: int = 1,
) -> tuple[AppMeasurement, Sequence[AppMeasurement]]:
    """Bring the job to a deployment and measure its steady state."""
    target = deployments(match, aggregate)
    if cluster.store.load().deployments != target:
        await cluster.change(target)

    async def targets() -> list[str]:
        return [each.metrics_url for each in await cluster.runtime.replicas()]

    await asyncio.sleep(WARM_UP)
    source = DirectSource(targets, f"default.{cluster.trips.name}")
    source.start()
    try:
        for _ in range(TRIES):
            began = cluster.clock.now()
            await asyncio.sleep(seconds)
            ended = cluster.clock.now()
            whole = await _measure_between(cluster, source, began, ended)
            if all(_is_settled(whole.operators[name]) for name in ("match", "aggregate")):
                length = (ended - began) / parts
                borders = [began + part * length for part in range(parts)]
                return whole, [
                    await _measure_between(cluster, source, border, border + length)
                    for border in borders
                ]
    finally:
        await source.close()
    raise RuntimeError(
        f"Expected a steady state of {target} within {TRIES * seconds:g} s, got a backlog that is "
        "still worked off; raise WARM_UP, or leave the machine to the benchmark"
    )


async def _measure_between(
    cluster: TripsCluster, source: DirectSource, start: float, end: float
) -> AppMeasurement:
    """Return what was measured between two Unix times."""
    window = await source.window(start=start, end=end)
    job = cluster.store.load().job_id or ""
    layout = layout_of(job, await cluster.jobs.topology(job), await cluster.runtime.replicas())
    return measure(window, layout)


def _is_settled(seen: OperatorMeasurement) -> bool:
    return seen.processed_rate <= seen.arrival_rate * (1 + SETTLED)
