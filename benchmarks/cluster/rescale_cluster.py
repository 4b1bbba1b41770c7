"""What a rescale costs on a real cluster, two replicas more, and an upgrade.

One replica of `match` is moved between two pools and back, ten times; each move starts a pod while
the job runs, and stops the job once the new TaskManager is registered. Then two pods at once. An
upgrade makes all pods anew, and the job stands still as long as they start.
The runtime is steered by hand (see `cluster_job`).
"""

from __future__ import annotations

import asyncio
import statistics

from benchmarks.cluster.cluster_job import ClusterJob, Wanted
from benchmarks.cluster.place import open_place
from benchmarks.figures import Figure, at_least, at_most, no_records
from benchmarks.flink.ledger import longest_gap, read_arrivals
from benchmarks.flink.steered_job import figures_of_two_more
from weir_operator.rescale.journal import RescaleJournal, Step
from weir_operator.runtime.protocol import Deployments

ABOUT = "output gap of a rescale on the Kubernetes cluster that KUBECONFIG names"
DURATION = "9 min"

MOVES = 10
PAIRS = 4
TWO_MORE_TIMES = 5
UPGRADES = 3
RATE = 40.0
"""Records/s: a gap is known to some 25 ms."""
WARM_UP = 20.0
"""Seconds in which the JVMs compile what they run."""
PAUSE = 4.0
"""Seconds between two changes; the pods that were ended go in them."""
AFTERWARDS = 1.0
"""Seconds after a change in which the first record may still come."""

FIXED = {"source": {"first/500m": 1}, "sink": {"first/500m": 1}}
HOME = {**FIXED, "match": {"first/500m": 2}, "aggregate": {"first/500m": 2}}
ONE_MOVED = {**HOME, "match": {"first/500m": 1, "second/500m": 1}}
TWO_MOVED = {**ONE_MOVED, "aggregate": {"first/500m": 1, "second/500m": 1}}
JOB = Wanted(
    initial=HOME,
    rates=[RATE],
    arguments=("--service.match-ms", "30", "--service.aggregate-ms", "20"),
)


def run() -> list[Figure]:
    """Move replicas, one at a time and two at a time."""
    return asyncio.run(_run())


async def _run() -> list[Figure]:
    async with (
        open_place("weir-bench") as place,
        ClusterJob(place, JOB.app(place), JOB.initial) as job,
    ):
        await job.lifecycle.bring_up()
        await asyncio.sleep(WARM_UP)
        moves = [
            *await _move(job, ONE_MOVED, times=MOVES),
            *await _move(job, TWO_MOVED, times=PAIRS),
        ]
        upgrades = []
        for number in range(UPGRADES):
            upgrades.append(await job.upgrade(str(number)))
            await asyncio.sleep(WARM_UP)
        ledger = await job.finish()
        arrivals = read_arrivals(job.out)
    more = await _two_more()

    def gap(end: RescaleJournal) -> float:
        return longest_gap(
            arrivals, end.times[str(Step.STOP)], end.times[str(Step.DONE)] + AFTERWARDS
        )

    gaps, of_upgrades = [*map(gap, moves)], [*map(gap, upgrades)]
    return [
        at_least("rescales with TaskManagers registered", len(gaps), 10),
        at_most("output gap, median", statistics.median(gaps), 1.0, "s"),
        Figure("output gap, shortest", min(gaps), "s"),
        Figure("output gap, longest", max(gaps), "s"),
        at_most(
            f"output gap of an upgrade, median of {UPGRADES}",
            statistics.median(of_upgrades),
            15.0,
            "s",
        ),
        Figure("output gap of an upgrade, longest", max(of_upgrades), "s"),
        *(
            Figure(f"an upgrade: {name}, median", seconds, "s")
            for name, seconds in _median_steps(upgrades)
        ),
        no_records("records lost", ledger.lost),
        no_records("records doubled", ledger.doubled),
        Figure("records over them", ledger.emitted, "records"),
        Figure("raw re-emissions", ledger.replayed, "records"),
        Figure("rescales by checkpoint", sum(end.by_checkpoint for end in moves)),
        *more,
    ]


def _median_steps(ends: list[RescaleJournal]) -> list[tuple[str, float]]:
    """Return what an upgrade does, and how many seconds that took."""
    parts = (
        ("stop with a savepoint", Step.STOP, Step.REMOVE),
        ("old TaskManagers end, new ones are asked for", Step.REMOVE, Step.START),
        ("JobManager and TaskManagers start", Step.START, Step.SUBMIT),
        ("submission until all tasks run", Step.SUBMIT, Step.DONE),
    )
    return [
        (name, statistics.median(end.times[str(to)] - end.times[str(begin)] for end in ends))
        for name, begin, to in parts
    ]


async def _move(job: ClusterJob, moved: Deployments, *, times: int) -> list[RescaleJournal]:
    """Go to `moved` and back, `times` changes in all."""
    ends = []
    for turn in range(times):
        ends.append(await job.change(HOME if turn % 2 else moved))
        await asyncio.sleep(PAUSE)
    return ends


async def _two_more() -> list[Figure]:
    """Give `match` two replicas more and take them away."""
    target = {**HOME, "match": {"first/500m": 4}}
    ends: list[RescaleJournal] = []
    async with (
        open_place("weir-bench") as place,
        ClusterJob(place, JOB.app(place), JOB.initial) as job,
    ):
        await job.lifecycle.bring_up()
        await asyncio.sleep(WARM_UP)
        for _ in range(TWO_MORE_TIMES):
            await asyncio.sleep(PAUSE)
            ends.append(await job.change(target))
            await asyncio.sleep(PAUSE)
            await job.change(HOME)
        ledger = await job.finish()
    return figures_of_two_more(ends, ledger, limit=8.0)
