"""What a rescale costs on a real cluster, and where the time goes when pods must be started.

One replica of `match` is moved between two pools and back, ten times; each move starts a pod while
the job runs, and stops the job once the new TaskManager is registered. So every move gives both:
the output gap with all TaskManagers registered, and the way from the decision to a running job with
a pod to be started, part by part. Then two pods at once, and two replicas more with pods that wait.

The runtime is steered by hand (see `cluster_job`): the parts are the runtime's and Flink's. Pods
are looked at every 50 ms; a container counts as started when its node says so, which the kubelet
does about once a second.

"""

from __future__ import annotations

import asyncio
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

from benchmarks.cluster.cluster_job import POOLS, ClusterJob, Wanted
from benchmarks.cluster.place import Place, open_place
from benchmarks.figures import Figure, at_least, at_most
from benchmarks.flink.ledger import Arrival, find_gap, read_arrivals
from benchmarks.flink.steered_job import figures_of_two_more
from weir_operator.rescale.journal import DeploymentMap, RescaleJournal, Step

ABOUT = "output gap and parts of a rescale on the Kubernetes cluster that KUBECONFIG names"
DURATION = "9 min"

MOVES = 10
PAIRS = 4
TWO_MORE_TIMES = 5
RATE = 40.0
"""Records/s: a gap is known to some 25 ms."""
LOOK = 0.05
"""Seconds between two looks at the pods."""
WARM_UP = 20.0
"""Seconds in which the JVMs compile what they run."""
PAUSE = 4.0
"""Seconds between two changes; the pods that were ended go in them."""
AFTERWARDS = 1.0
"""Seconds of them in which the first record may still come."""

FIXED = {"source": {"first/500m": 1}, "sink": {"first/500m": 1}}
HOME = {**FIXED, "match": {"first/500m": 2}, "aggregate": {"first/500m": 2}}
ONE_MOVED = {**HOME, "match": {"first/500m": 1, "second/500m": 1}}
TWO_MOVED = {**ONE_MOVED, "aggregate": {"first/500m": 1, "second/500m": 1}}
JOB = Wanted(
    initial=HOME,
    rates=[RATE],
    arguments=("--service.match-ms", "30", "--service.aggregate-ms", "20"),
)


@dataclass(slots=True)
class PodTimes:
    """Unix times at which the last of some pods got somewhere."""

    made: float = 0.0
    scheduled: float = 0.0
    started: float = 0.0


@dataclass(slots=True)
class PodWatch:
    """Notes how far new TaskManager pods are."""

    place: Place
    known: frozenset[str]
    """Names of the pods that were there before."""
    times: PodTimes = field(default_factory=PodTimes)
    _seen: dict[str, set[str]] = field(default_factory=dict)

    async def look(self, now: float) -> None:
        """Look once; `now` is when."""
        for pod in await self.place.pods("taskmanager"):
            name = pod["metadata"]["name"]
            if name in self.known:
                continue
            states = pod.get("status", {}).get("containerStatuses") or ()
            self._note(name, "made", now)
            if pod["spec"].get("nodeName"):
                self._note(name, "scheduled", now)
            if any("running" in each["state"] for each in states):
                self._note(name, "started", now)

    def _note(self, name: str, place: str, now: float) -> None:
        seen = self._seen.setdefault(name, set())
        if place not in seen:
            seen.add(place)
            setattr(self.times, place, now)


@dataclass(frozen=True, slots=True)
class Move:
    """A rescale, and when its pods got where."""

    journal: RescaleJournal
    pods: PodTimes

    def gap(self, arrivals: Sequence[Arrival]) -> tuple[float, float]:
        """Return when the last record before the output gap arrived, and the first after it."""
        times = self.journal.times
        return find_gap(arrivals, times[str(Step.STOP)], times[str(Step.DONE)] + AFTERWARDS)


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
        single = await _move(job, ONE_MOVED, times=MOVES)
        double = await _move(job, TWO_MOVED, times=PAIRS)
        ledger = await job.finish()
        arrivals = read_arrivals(job.out)
    more = [*await _two_more(standby=2, limit=4.0), *await _two_more(standby=0, limit=8.0)]
    moves = (*single, *double)
    gaps = [end - start for start, end in (move.gap(arrivals) for move in moves)]
    return [
        at_least(
            figure="rescales with TaskManagers registered", value=len(gaps), unit="", limit=10
        ),
        at_most(figure="output gap, median", value=statistics.median(gaps), unit="s", limit=1.0),
        Figure(figure="output gap, shortest", value=min(gaps), unit="s"),
        Figure(figure="output gap, longest", value=max(gaps), unit="s"),
        *_parts("one pod", single, arrivals),
        *_parts("two pods", double, arrivals),
        at_most(figure="records lost", value=ledger.lost, unit="records", limit=0),
        at_most(figure="records doubled", value=ledger.doubled, unit="records", limit=0),
        Figure(figure="records over them", value=ledger.emitted, unit="records"),
        Figure(figure="raw re-emissions", value=ledger.replayed, unit="records"),
        Figure(
            figure="rescales by checkpoint",
            value=sum(move.journal.by_checkpoint for move in moves),
            unit="",
        ),
        *more,
    ]


async def _two_more(*, standby: int, limit: float) -> list[Figure]:
    """Give `match` two replicas more and take them away, with pods that wait or without."""
    name = "two replicas more, standby" if standby else "two replicas more, cold"
    pools: Sequence[Mapping[str, Any]] = ({**POOLS[0], "standby": standby}, POOLS[1])
    wanted = replace(JOB, pools=pools)
    target = {**HOME, "match": {"first/500m": 4}}
    ends: list[RescaleJournal] = []
    async with (
        open_place("weir-bench") as place,
        ClusterJob(place, wanted.app(place), wanted.initial) as job,
    ):
        await job.lifecycle.bring_up()
        await asyncio.sleep(WARM_UP)
        for _ in range(TWO_MORE_TIMES):
            await job.until_warm(standby)
            await asyncio.sleep(PAUSE)
            ends.append(await job.change(target))
            await asyncio.sleep(PAUSE)
            await job.change(HOME)
        ledger = await job.finish()
    return figures_of_two_more(name, ends, ledger, limit)


async def _move(job: ClusterJob, moved: DeploymentMap, *, times: int) -> list[Move]:
    """Go to `moved` and back, `times` changes in all."""
    moves = []
    for turn in range(times):
        target = HOME if turn % 2 else moved
        known = frozenset(pod["metadata"]["name"] for pod in await job.place.pods("taskmanager"))
        watch = PodWatch(job.place, known)
        watching = asyncio.create_task(_watch(watch, job))
        try:
            journal = await job.change(target)
            await asyncio.sleep(AFTERWARDS)
        finally:
            watching.cancel()
        moves.append(Move(journal, watch.times))
        await asyncio.sleep(PAUSE - AFTERWARDS)
    return moves


async def _watch(watch: PodWatch, job: ClusterJob) -> None:
    while True:
        await watch.look(job.clock.now())
        await asyncio.sleep(LOOK)


def _parts(name: str, moves: Sequence[Move], arrivals: Sequence[Arrival]) -> list[Figure]:
    """Return the medians of the parts, in the order in which they follow each other."""
    marks = [_marks(move, arrivals) for move in moves]
    stages = list(marks[0])
    parts = {
        label: [each[label] - each[before] for each in marks] for before, label in pairwise(stages)
    }
    total = [each[stages[-1]] - each[stages[0]] for each in marks]
    return [
        *(
            Figure(
                figure=f"{name} to be started: {label}, median",
                value=statistics.median(values),
                unit="s",
            )
            for label, values in parts.items()
        ),
        Figure(
            figure=f"{name} to be started: decision to first record, median",
            value=statistics.median(total),
            unit="s",
        ),
        Figure(
            figure=f"{name} to be started: decision to first record, longest",
            value=max(total),
            unit="s",
        ),
    ]


def _marks(move: Move, arrivals: Sequence[Arrival]) -> Mapping[str, float]:
    """Return the Unix time at which each part was over, beginning with the decision."""
    times, pods = move.journal.times, move.pods
    submitted = times[str(Step.VERIFY)]
    return {
        "decision": move.journal.created,
        "pod made": pods.made,
        "pod scheduled": pods.scheduled,
        "container started": pods.started,
        "TaskManager registered": times[str(Step.STOP)],
        "savepoint": times[str(Step.REMOVE)],
        "old pod ended": times[str(Step.SUBMIT)],
        "job submitted": submitted,
        "state restored, all tasks run": times[str(Step.DONE)],
        # Tasks emit as soon as they run, which may be before all of them do.
        "first record": next(each.time for each in arrivals if each.time > submitted),
    }
