"""What a change of a real job costs: records, gaps, and where the time goes."""

from __future__ import annotations

import asyncio
import random
import statistics
from collections.abc import Sequence

from benchmarks.figures import Figure, at_most
from benchmarks.flink.ledger import longest_gap, read_arrivals
from benchmarks.flink.steered_job import figures_of_two_more
from benchmarks.flink.trips_cluster import Trips, TripsCluster, deployments
from weir_operator.rescale.journal import DeploymentMap, RescaleJournal, Step

ABOUT = "records lost or doubled, output gaps, standby and overload on a real Flink"
DURATION = "12 min"

SEED = 20
RANDOM_RESCALES = 20
TWO_MORE_TIMES = 5
FLOWS = 2.5
"""Seconds between two changes, in which records flow."""


def run() -> list[Figure]:
    """Run all experiments, each on a cluster of its own."""
    return asyncio.run(_run())


async def _run() -> list[Figure]:
    return [
        *await _random_rescales(),
        *await _gaps(6, match=2, aggregate=2, times=9, limit=0.5),
        *await _gaps(20, match=10, aggregate=8, times=5, limit=1.5),
        *await _two_more(standby=2, limit=2.0),
        *await _two_more(standby=0, limit=6.0),
        *await _overload(),
    ]


async def _random_rescales() -> list[Figure]:
    draw = random.Random(SEED)
    trips = Trips(
        name="rescale-random",
        rates=[20.0],
        initial=deployments({"small/500m": 2}, {"small/500m": 1}),
    )
    trips.clear()
    ends: list[RescaleJournal] = []
    async with TripsCluster(trips) as cluster:
        await cluster.lifecycle.bring_up()
        while len(ends) < RANDOM_RESCALES:
            target = deployments(_draw(draw, maximum=3), _draw(draw, maximum=2))
            if _pools(target) != _pools(cluster.store.load().deployments):
                ends.append(await cluster.change(target))
                await asyncio.sleep(draw.uniform(0.5, 2.0))  # records flow between two changes
        ledger = await cluster.finish()
    return [
        Figure(figure="random rescales", value=len(ends), unit=""),
        Figure(
            figure="random rescales that ended as asked",
            value=sum(end.step is Step.DONE for end in ends),
            unit="",
            goal=f"exactly {RANDOM_RESCALES}",
            holds=all(end.step is Step.DONE for end in ends),
        ),
        Figure(figure="records over them", value=ledger.emitted, unit="records"),
        at_most(figure="records lost", value=ledger.lost, unit="records", limit=0),
        at_most(figure="records doubled", value=ledger.doubled, unit="records", limit=0),
        at_most(figure="keyed counts wrong", value=ledger.sequence_errors, unit="", limit=0),
        Figure(  # the savepoint was late: match was drawn smaller than its load
            figure="random rescales by checkpoint",
            value=sum(end.by_checkpoint for end in ends),
            unit="",
        ),
        Figure(figure="raw re-emissions", value=ledger.replayed, unit="records"),
    ]


async def _gaps(
    total: int, *, match: int, aggregate: int, times: int, limit: float
) -> list[Figure]:
    """Move one replica of `match` between the pools and back."""
    trips = Trips(
        name=f"rescale-{total}",
        rates=[40.0],
        initial=deployments({"large/1": match}, {"large/1": aggregate}),
    )
    trips.clear()
    moved = deployments({"large/1": match - 1, "small/500m": 1}, {"large/1": aggregate})
    ends: list[RescaleJournal] = []
    async with TripsCluster(trips) as cluster:
        await cluster.lifecycle.bring_up()
        await asyncio.sleep(8.0)  # the JVMs compile what they run
        for turn in range(times):
            ends.append(await cluster.change(trips.initial if turn % 2 else moved))
            await asyncio.sleep(FLOWS)
        ledger = await cluster.finish()
    arrivals = read_arrivals(trips.out)
    gaps = [
        longest_gap(arrivals, end.times[str(Step.STOP)], end.times[str(Step.DONE)] + 1.0)
        for end in ends
    ]
    during_start = [
        sum(end.times[str(Step.START)] <= a.time <= end.times[str(Step.STOP)] for a in arrivals)
        for end in ends
    ]
    name = f"{total} TaskManagers"
    median = statistics.median(gaps)
    gap = f"{name}: output gap, median of {times}"
    return [
        at_most(figure=gap, value=median, unit="s", limit=limit),
        Figure(figure=f"{name}: output gap, longest", value=max(gaps), unit="s"),
        *(
            Figure(figure=f"{name}: {label}, median", value=_median(ends, a, b), unit="s")
            for label, a, b in (
                ("start of the added one, its first task included", Step.START, Step.STOP),
                ("decision to running", Step.START, Step.DONE),
            )
        ),
        Figure(
            figure=f"{name}: records that arrived while one was started, fewest",
            value=min(during_start),
            unit="records",
        ),
        at_most(
            figure=f"{name}: lost or doubled",
            value=ledger.lost + ledger.doubled,
            unit="records",
            limit=0,
        ),
    ]


async def _two_more(*, standby: int, limit: float) -> list[Figure]:
    """Give `match` two replicas more and take them away, with TaskManagers that wait or without."""
    name = "two replicas more, standby" if standby else "two replicas more, cold"
    trips = Trips(
        name=f"rescale-standby-{standby}",
        rates=[40.0],
        initial=deployments({"large/1": 2}, {"large/1": 2}),
        standby={"large": standby} if standby else {},
    )
    trips.clear()
    more = deployments({"large/1": 4}, {"large/1": 2})
    ends: list[RescaleJournal] = []
    async with TripsCluster(trips) as cluster:
        await cluster.lifecycle.bring_up()
        await asyncio.sleep(8.0)  # the JVMs compile what they run
        for _ in range(TWO_MORE_TIMES):
            await cluster.until_warm(standby)
            await asyncio.sleep(3.0)
            ends.append(await cluster.change(more))
            await asyncio.sleep(3.0)
            await cluster.change(trips.initial)
        ledger = await cluster.finish()
    return figures_of_two_more(name, ends, ledger, limit)


async def _overload() -> list[Figure]:
    """Run `match` at twice its capacity of 53 records/s for 30 s, then triple it."""
    trips = Trips(
        name="rescale-overload",
        rates=[20.0, 20.0, 20.0, 20.0, *[106.0] * 30],
        initial=deployments({"large/1": 1}, {"large/1": 3}),
    )
    trips.clear()
    async with TripsCluster(trips) as cluster:
        await cluster.lifecycle.bring_up()
        await asyncio.sleep(20.0 + 30.0)  # the quiet slots, then 30 s of twice the capacity
        end = await cluster.change(deployments({"large/1": 3}, {"large/1": 3}))
        ledger = await cluster.finish()
    return [
        at_most(
            figure="overload: decision to running",
            value=end.times[str(Step.DONE)] - end.created,
            unit="s",
            limit=5,
        ),
        Figure(
            figure="overload: savepoint", value=_median([end], Step.STOP, Step.REMOVE), unit="s"
        ),
        Figure(
            figure="overload: by checkpoint instead of savepoint",
            value=int(end.by_checkpoint),
            unit="",
        ),
        at_most(
            figure="overload: lost or doubled",
            value=ledger.lost + ledger.doubled,
            unit="records",
            limit=0,
        ),
    ]


def _draw(draw: random.Random, *, maximum: int) -> dict[str, int]:
    """Return a deployment of one to `maximum` replicas over both pools."""
    counts: dict[str, int] = {}
    for _ in range(draw.randint(1, maximum)):
        node_type = draw.choice(["small/250m", "small/500m", "large/1"])
        counts[node_type] = counts.get(node_type, 0) + 1
    return counts


def _pools(target: DeploymentMap) -> dict[str, dict[str, int]]:
    pools: dict[str, dict[str, int]] = {}
    for operator, counts in target.items():
        for node_type, count in counts.items():
            pool = node_type.split("/")[0]
            held = pools.setdefault(operator, {})
            held[pool] = held.get(pool, 0) + count
    return pools


def _median(ends: Sequence[RescaleJournal], before: Step, after: Step) -> float:
    return statistics.median(end.times[str(after)] - end.times[str(before)] for end in ends)
