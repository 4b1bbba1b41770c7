"""What a rescale costs on a real cluster, and where the time goes when pods must be started.

One replica of `match` is moved between two pools and back, ten times; each move starts a pod while
the job runs, and stops the job once the new TaskManager is registered. So every move gives both:
the output gap with all TaskManagers registered, and the way from the decision to a running job with
a pod to be started, part by part. Then two pods at once, and two replicas more with pods that wait.

The runtime is steered by hand (see `cluster_job`): the parts are the runtime's and Flink's. Pods
are looked at every 50 ms; a container counts as started when its node says so, which the kubelet
does about once a second.

`WEIR_RESCALE_QUOTAS=lifted` takes the CPU quotas from all pods of Flink, which then share the
machine's processors, and has a result of its own: what is less then is what the quotas cost.
"""

from __future__ import annotations

import asyncio
import statistics
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

from benchmarks.choices import choose
from benchmarks.cluster.cluster_job import POOLS, ClusterJob, Wanted
from benchmarks.cluster.place import Place, open_place
from benchmarks.cluster.quotas import PodQuotas
from benchmarks.figures import Figure, at_least, at_most
from benchmarks.flink.ledger import Arrival, longest_gap, read_arrivals
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
LIFTED = choose("WEIR_RESCALE_QUOTAS", "kept", ("kept", "lifted")) == "lifted"
WAITING = {"jobmanager": "JobManager", "taskmanager": "TaskManager that waited longest"}
"""The components, and what waits for its quota in each."""

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


@dataclass(frozen=True, kw_only=True, slots=True)
class Waits:
    """For how long each pod had waited for its CPU quota until a time."""

    time: float
    seconds: Mapping[tuple[str, str], float]
    """By component and uid; of all processors together."""


@dataclass(slots=True)
class PodWatch:
    """Notes how far new TaskManager pods are, and how long all pods waited for their CPU quota."""

    place: Place
    known: frozenset[str]
    """Names of the pods that were there before."""
    times: PodTimes = field(default_factory=PodTimes)
    waits: list[Waits] = field(default_factory=list)
    _quotas: PodQuotas = field(default_factory=PodQuotas)
    _seen: dict[str, set[str]] = field(default_factory=dict)

    async def look(self, now: float) -> None:
        """Look once; `now` is when."""
        pods = {component: await self.place.pods(component) for component in WAITING}
        self.waits.append(
            Waits(
                time=now,
                seconds={
                    (component, uid): self._quotas.throttled(uid)
                    for component, some in pods.items()
                    for uid in (pod["metadata"]["uid"] for pod in some)
                },
            )
        )
        for pod in pods["taskmanager"]:
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
    """A rescale, when its pods got where, and how long they waited for their CPU quota."""

    journal: RescaleJournal
    pods: PodTimes
    waits: Sequence[Waits]

    def waited(self, component: str) -> float:
        """Return for how long the pod that waited most had to, from the job's stop on."""
        stop = self.journal.times[str(Step.STOP)]
        # A pod that is not there before began with nothing, and one that has gone says no more.
        before = [each.seconds for each in self.waits if each.time <= stop][-1]
        after = self.waits[-1].seconds
        return max(
            seconds - before.get(pod, 0.0) for pod, seconds in after.items() if pod[0] == component
        )


def result_name() -> str:
    """Return the name of the result: that without quotas has its own."""
    return "rescale-cluster-no-quotas" if LIFTED else "rescale-cluster"


def run() -> list[Figure]:
    """Move replicas, one at a time and two at a time."""
    return asyncio.run(_run())


@asynccontextmanager
async def _open_place() -> AsyncIterator[Place]:
    """Open a place, in which pods have no CPU quota if that is chosen."""
    PodQuotas().check()
    async with open_place("weir-bench") as place:
        lifting = asyncio.create_task(_lift(place)) if LIFTED else None
        try:
            yield place
        finally:
            if lifting and not lifting.cancel():
                lifting.result()  # it has failed, and quotas were there again


async def _lift(place: Place) -> None:
    quotas = PodQuotas()
    while True:
        for component in WAITING:
            quotas.lift(pod["metadata"]["uid"] for pod in await place.pods(component))
        await asyncio.sleep(LOOK)


async def _run() -> list[Figure]:
    async with (
        _open_place() as place,
        ClusterJob(place, JOB.app(place), JOB.initial) as job,
    ):
        await job.lifecycle.bring_up()
        await asyncio.sleep(WARM_UP)
        single = await _move(job, ONE_MOVED, times=MOVES)
        double = await _move(job, TWO_MOVED, times=PAIRS)
        ledger = await job.finish()
        arrivals = read_arrivals(job.out)
    more = [*await _two_more(standby=2, limit=4.0), *await _two_more(standby=0, limit=8.0)]
    gaps = [_gap(move.journal, arrivals) for move in (*single, *double)]
    return [
        at_least(
            figure="rescales with TaskManagers registered", value=len(gaps), unit="", limit=10
        ),
        at_most(figure="output gap, median", value=statistics.median(gaps), unit="s", limit=1.0),
        Figure(figure="output gap, shortest", value=min(gaps), unit="s"),
        Figure(figure="output gap, longest", value=max(gaps), unit="s"),
        *(
            Figure(
                figure=f"waited for its CPU quota from the stop on: the {name}, median",
                value=statistics.median(move.waited(component) for move in (*single, *double)),
                unit="s",
            )
            for component, name in WAITING.items()
        ),
        *_parts("one pod", single, arrivals),
        *_parts("two pods", double, arrivals),
        at_most(figure="records lost", value=ledger.lost, unit="records", limit=0),
        at_most(figure="records doubled", value=ledger.doubled, unit="records", limit=0),
        Figure(figure="records over them", value=ledger.emitted, unit="records"),
        Figure(figure="raw re-emissions", value=ledger.replayed, unit="records"),
        Figure(
            figure="rescales by checkpoint",
            value=sum(move.journal.by_checkpoint for move in (*single, *double)),
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
        _open_place() as place,
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
        finally:
            watching.cancel()
        moves.append(Move(journal, watch.times, watch.waits))
        await asyncio.sleep(PAUSE)
    return moves


async def _watch(watch: PodWatch, job: ClusterJob) -> None:
    while True:
        await watch.look(job.clock.now())
        await asyncio.sleep(LOOK)


def _gap(journal: RescaleJournal, arrivals: Sequence[Arrival]) -> float:
    times = journal.times
    return longest_gap(arrivals, times[str(Step.STOP)], times[str(Step.DONE)] + 1.0)


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
