"""What a change of a real job costs: records, gaps, and where the time goes."""

from __future__ import annotations

import asyncio
import statistics
from collections.abc import Sequence

from benchmarks.figures import Figure, at_most, no_records
from benchmarks.flink.ledger import longest_gap, read_arrivals
from benchmarks.flink.steered_job import figures_of_two_more
from benchmarks.flink.trips_cluster import Trips, TripsCluster, deployments
from weir_operator.rescale.journal import RescaleJournal, Step

ABOUT = "records lost or doubled, and output gaps on a real Flink"
DURATION = "9 min"

TWO_MORE_TIMES = 5
FLOWS = 2.5
"""Seconds between two changes, in which records flow."""


def run() -> list[Figure]:
    """Run all experiments, each on a cluster of its own."""
    return asyncio.run(_run())


async def _run() -> list[Figure]:
    return [
        *await _gaps(6, match=2, aggregate=2, times=9, limit=0.5),
        *await _gaps(20, match=10, aggregate=8, times=5, limit=1.5),
        *await _two_more(),
    ]


async def _gaps(
    total: int, *, match: int, aggregate: int, times: int, limit: float
) -> list[Figure]:
    """Move one replica of `match` between the pools and back.

    After each move Flink alone restarts the job. In turns, because JVMs that have started more jobs
    start the next one faster.
    """
    trips = Trips(
        name=f"rescale-{total}",
        rates=[40.0],
        initial=deployments({"large/1": match}, {"large/1": aggregate}),
    )
    trips.clear()
    moved = deployments({"large/1": match - 1, "small/500m": 1}, {"large/1": aggregate})
    ends: list[RescaleJournal] = []
    alone: list[tuple[float, float]] = []
    async with TripsCluster(trips) as cluster:
        await cluster.lifecycle.bring_up()
        await asyncio.sleep(8.0)  # the JVMs compile what they run
        for turn in range(times):
            ends.append(await cluster.change(trips.initial if turn % 2 else moved))
            await asyncio.sleep(FLOWS)
            alone.append(await cluster.restart_by_flink_alone(cluster.spec))
            await asyncio.sleep(FLOWS)
        ledger = await cluster.finish()
    arrivals = read_arrivals(trips.out)
    gaps = [
        longest_gap(arrivals, end.times[str(Step.STOP)], end.times[str(Step.DONE)] + 1.0)
        for end in ends
    ]
    name = f"{total} TaskManagers"
    median = statistics.median(gaps)
    least = statistics.median(longest_gap(arrivals, begin, end + 1.0) for begin, end in alone)
    gap = f"{name}: output gap, median of {times}"
    return [
        at_most(gap, median, limit, "s"),
        Figure(f"{name}: output gap, longest", max(gaps), "s"),
        Figure(f"{name}, Flink alone: output gap, median of {times}", least, "s"),
        at_most(
            f"{name}: output gap over that of Flink alone, medians", median / least, 1.3, "times"
        ),
        *(
            Figure(f"{name}: {label}, median", _median(ends, a, b), "s")
            for label, a, b in (
                ("start of the added one, its first task included", Step.START, Step.STOP),
                ("decision to running", Step.START, Step.DONE),
            )
        ),
        no_records(f"{name}: lost or doubled", ledger.lost + ledger.doubled),
    ]


async def _two_more() -> list[Figure]:
    """Give `match` two replicas more and take them away."""
    trips = Trips(
        name="rescale-two-more",
        rates=[40.0],
        initial=deployments({"large/1": 2}, {"large/1": 2}),
    )
    trips.clear()
    more = deployments({"large/1": 4}, {"large/1": 2})
    ends: list[RescaleJournal] = []
    async with TripsCluster(trips) as cluster:
        await cluster.lifecycle.bring_up()
        await asyncio.sleep(8.0)  # the JVMs compile what they run
        for _ in range(TWO_MORE_TIMES):
            await asyncio.sleep(3.0)
            ends.append(await cluster.change(more))
            await asyncio.sleep(3.0)
            await cluster.change(trips.initial)
        ledger = await cluster.finish()
    return figures_of_two_more(ends, ledger, limit=6.0)


def _median(ends: Sequence[RescaleJournal], before: Step, after: Step) -> float:
    return statistics.median(end.times[str(after)] - end.times[str(before)] for end in ends)
