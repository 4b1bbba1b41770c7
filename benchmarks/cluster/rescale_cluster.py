"""What a rescale costs on a real cluster, two replicas more, and an upgrade.

One replica of `match` is moved between two pools and back, ten times; each move starts a pod while
the job runs, and stops the job once the new TaskManager is registered. Then two pods at once. After
each move, in turns, Flink alone restarts the job on the pods that are there: no change can take
less. An upgrade makes all pods anew, and the job stands still as long as they start. Its gap is
measured at the sink, and compared with what event and status say.
The runtime is steered by hand (see `cluster_job`). A change that fails is printed to stderr and
left out of the medians; the others are measured all the same.
"""

from __future__ import annotations

import asyncio
import math
import shutil
import statistics
import sys
from collections.abc import Awaitable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from benchmarks.cluster.cluster_job import ClusterJob
from benchmarks.cluster.place import CLAIM, IMAGE, Place, open_place
from benchmarks.figures import Figure, at_least, at_most, count_all, no_records
from benchmarks.flink.ledger import Arrival, longest_gap, read_arrivals
from benchmarks.flink.steered_job import figures_of_two_more
from weir_operator.errors import WeirError
from weir_operator.flink.jars import REPOSITORY
from weir_operator.rescale.journal import RescaleJournal, Step, gap_of, summarise_change
from weir_operator.runtime.protocol import Deployments
from weir_operator.streamapp.loading import parse_manifest
from weir_operator.streamapp.models import StreamApp

ABOUT = "output gaps of rescales and upgrades on the Kubernetes cluster that KUBECONFIG names"
DURATION = "12 min"

MOVES = 10
PAIRS = 4
TWO_MORE_TIMES = 5
UPGRADES = 3
RATE = 40.0
"""Records/s: a gap is known to some 25 ms."""
WARM_UP = 20.0
"""Seconds in which the JVMs compile what they run."""
PAUSE = 3.0
"""Seconds between two changes, in which ended pods disappear."""
AFTER_UPGRADE = 10.0
"""Seconds between two upgrades."""
RECOVERED_WITHIN = 180.0
"""Seconds until the job runs again after a change that went wrong."""
AFTERWARDS = 1.0
"""Seconds after a change in which the first record may still come."""

Result = TypeVar("Result")

FIXED = {"source": {"first/500m": 1}, "sink": {"first/500m": 1}}
HOME = {**FIXED, "match": {"first/500m": 2}, "aggregate": {"first/500m": 2}}
ONE_MOVED = {**HOME, "match": {"first/500m": 1, "second/500m": 1}}
TWO_MORE = {**HOME, "match": {"first/500m": 4}}
TWO_MOVED = {**ONE_MOVED, "aggregate": {"first/500m": 1, "second/500m": 1}}
POOLS = tuple({"name": name, "sizes": ["500m"]} for name in ("first", "second"))
"""Two pools of every node: what is measured does not depend on the node, and the cluster may be
shared with others who have filled one."""


def run() -> list[Figure]:
    """Move replicas, one at a time and two at a time."""
    return asyncio.run(_run())


def write_job(place: Place) -> StreamApp:
    """Write the job's files to the volume, so that it needs no image, and return its StreamApp."""
    trace, jar, out = (place.state / name for name in ("trace.txt", "trips.jar", "out"))
    trace.write_text(f"{RATE}\n")
    shutil.copy(REPOSITORY / "build/jars/trips.jar", jar)
    out.mkdir()
    out.chmod(0o777)
    flink = {
        "image": IMAGE,
        "maxParallelism": 720,
        "storage": {"claim": CLAIM},
        "jobManager": {"cpu": "500m", "memory": "1Gi"},
        "job": {
            "jar": place.inside(jar),
            "entryClass": "example.Trips",
            "args": [
                *("--trace", place.inside(trace), "--out", place.inside(out)),
                *("--service.match-ms", "30", "--service.aggregate-ms", "20"),
            ],
        },
    }
    return parse_manifest(
        {
            "apiVersion": "weir.dev/v1alpha1",
            "kind": "StreamApp",
            "metadata": {"name": "job", "namespace": place.namespace},
            "spec": {
                "flink": flink,
                "objective": {"responseTime": "500ms"},
                "nodePools": [{"memory": "1Gi", "price": "0.04", **pool} for pool in POOLS],
                "operators": [{"name": name, "maxReplicas": 12} for name in HOME],
                "savepoints": {"keep": 1},
                # Two cores may carry a dozen JVMs, and state is read back.
                "rescale": {"startDeadline": "180s", "submitDeadline": "300s"},
            },
        }
    )


@dataclass(slots=True)
class _Done:
    """What was done with the job, in the order of time."""

    moved: list[RescaleJournal] = field(default_factory=list)
    """One replica to another pool."""
    pairs: list[RescaleJournal] = field(default_factory=list)
    """Two at once."""
    alone: list[tuple[float, float]] = field(default_factory=list)
    """Begin and end of each restart by Flink alone, Unix seconds."""
    upgraded: list[RescaleJournal] = field(default_factory=list)
    said: list[bool] = field(default_factory=list)
    """Whether an event has the same sentence with the gap as the status, by upgrade."""


async def _run() -> list[Figure]:
    done = _Done()
    async with (
        open_place("weir-bench") as place,
        ClusterJob(place, write_job(place), HOME, reads_programs=True) as job,
    ):
        await job.lifecycle.bring_up()
        await asyncio.sleep(WARM_UP)
        await _move(job, ONE_MOVED, done.moved, done.alone, times=MOVES)
        await _move(job, TWO_MOVED, done.pairs, done.alone, times=PAIRS)
        await _upgrade(job, done)
        ledger = await job.finish()
        arrivals = read_arrivals(job.out)
    moves = [*done.moved, *done.pairs]
    return [
        at_least("rescales with TaskManagers registered", len(moves), 10),
        *_figures_of_gaps(moves, done.alone, arrivals),
        at_most(
            "one replica moved: decision to running, median",
            _median(end.times[str(Step.DONE)] - end.created for end in done.moved),
            9.0,
            "s",
        ),
        *_figures_of_upgrades(done, arrivals),
        no_records("records lost", ledger.lost),
        no_records("records doubled", ledger.doubled),
        Figure("records over them", ledger.emitted, "records"),
        Figure("raw re-emissions", ledger.replayed, "records"),
        Figure("rescales by checkpoint", sum(end.by_checkpoint for end in moves)),
        *await _two_more(),
    ]


def _figures_of_gaps(
    moves: Sequence[RescaleJournal],
    alone: Sequence[tuple[float, float]],
    arrivals: Sequence[Arrival],
) -> list[Figure]:
    gaps = _gaps(moves, arrivals)
    least = [longest_gap(arrivals, began, ended + AFTERWARDS) for began, ended in alone]
    ours, theirs = _median(gaps), _median(least)
    return [
        Figure("output gap, median", ours, "s"),
        Figure("output gap, shortest", min(_known(gaps), default=None), "s"),
        Figure("output gap, longest", max(_known(gaps), default=None), "s"),
        Figure(f"Flink alone: output gap, median of {len(least)}", theirs, "s"),
        at_most(
            "output gap over that of Flink alone, medians",
            None if ours is None or theirs is None else ours / theirs,
            1.3,
            "times",
        ),
        *(
            Figure(f"a rescale: {name}, median", seconds, "s")
            for name, seconds in _median_steps(moves, _STEPS_OF_MOVE)
        ),
    ]


def _figures_of_upgrades(done: _Done, arrivals: Sequence[Arrival]) -> list[Figure]:
    gaps = _gaps(done.upgraded, arrivals)
    reported = [math.nan if (gap := gap_of(end)) is None else gap for end in done.upgraded]
    differences = [abs(gap - said) for gap, said in zip(gaps, reported, strict=True)]
    return [
        at_least("upgrades that came to their end", len(gaps), UPGRADES, f"of {UPGRADES}"),
        at_most(f"output gap of an upgrade, median of {len(gaps)}", _median(gaps), 15.0, "s"),
        Figure("output gap of an upgrade, longest", max(_known(gaps), default=None), "s"),
        Figure("an upgrade: gap as event and status say, median", _median(reported), "s"),
        Figure(
            "an upgrade: output gap less that, largest", max(_known(differences), default=None), "s"
        ),
        count_all("upgrades whose event says the gap as the status does", done.said),
        *(
            Figure(f"an upgrade: {name}, median", seconds, "s")
            for name, seconds in _median_steps(done.upgraded, _STEPS_OF_UPGRADE)
        ),
    ]


def _gaps(ends: Sequence[RescaleJournal], arrivals: Sequence[Arrival]) -> list[float]:
    """Return the longest time without output around each change, seconds."""
    steps = [(end.times[str(Step.STOP)], end.times[str(Step.DONE)]) for end in ends]
    return [longest_gap(arrivals, began, ended + AFTERWARDS) for began, ended in steps]


Part = tuple[str, Step, Step]
"""What a change does, and the steps at which that begins and ends."""
_STEPS_OF_MOVE: Sequence[Part] = (
    ("stop with a savepoint", Step.STOP, Step.REMOVE),
    ("old TaskManagers end", Step.REMOVE, Step.SUBMIT),
    ("submission", Step.SUBMIT, Step.VERIFY),
    ("until all tasks run and records pass", Step.VERIFY, Step.DONE),
)
_STEPS_OF_UPGRADE: Sequence[Part] = (
    ("stop with a savepoint", Step.STOP, Step.REMOVE),
    ("old pods end, new ones are asked for", Step.REMOVE, Step.START),
    ("JobManager and TaskManagers start", Step.START, Step.SUBMIT),
    ("submission", Step.SUBMIT, Step.VERIFY),
    ("until all tasks run and records pass", Step.VERIFY, Step.DONE),
)


def _median_steps(
    ends: Sequence[RescaleJournal], parts: Sequence[Part]
) -> list[tuple[str, float | None]]:
    """Return each part of a change with the seconds that it took."""
    return [
        (name, _median(end.times[str(to)] - end.times[str(begin)] for end in ends))
        for name, begin, to in parts
    ]


def _median(values: Iterable[float]) -> float | None:
    known = _known(values)
    return statistics.median(known) if known else None


def _known(values: Iterable[float]) -> list[float]:
    return [value for value in values if math.isfinite(value)]


async def await_or_recover(job: ClusterJob, change: Awaitable[Result]) -> Result | None:
    """Return what a change came to; of one that fails print why, and wait until the job runs."""
    try:
        return await change
    except (RuntimeError, WeirError) as error:
        print(error, file=sys.stderr)
        await job.until_running(limit=RECOVERED_WITHIN)
        return None


async def _move(
    job: ClusterJob,
    moved: Deployments,
    ends: list[RescaleJournal],
    alone: list[tuple[float, float]],
    *,
    times: int,
) -> None:
    """Go to `moved` and back, `times` changes in all; Flink alone restarts the job after each."""
    for turn in range(times):
        end = await await_or_recover(job, job.change(HOME if turn % 2 else moved))
        if end is not None:
            ends.append(end)
            await asyncio.sleep(PAUSE)
            restart = await await_or_recover(job, job.restart_by_flink_alone(job.spec))
            if restart is not None:
                alone.append(restart)
        await asyncio.sleep(PAUSE)


async def _upgrade(job: ClusterJob, done: _Done) -> None:
    for number in range(UPGRADES):
        end = await await_or_recover(job, job.upgrade(str(number)))
        if end is not None:
            sentence = summarise_change(end)  # what the status has as its last action
            events = [each.message for each in job.events if each.reason == "UpgradeDone"]
            done.upgraded.append(end)
            in_event = any(each.startswith(sentence) for each in events)
            done.said.append("job down for" in sentence and in_event)
        await asyncio.sleep(AFTER_UPGRADE)


async def _two_more() -> list[Figure]:
    """Give `match` two replicas more and take them away."""
    ends: list[RescaleJournal] = []
    async with (
        open_place("weir-bench") as place,
        ClusterJob(place, write_job(place), HOME) as job,
    ):
        await job.lifecycle.bring_up()
        await asyncio.sleep(WARM_UP)
        for _ in range(TWO_MORE_TIMES):
            await asyncio.sleep(PAUSE)
            end = await await_or_recover(job, job.change(TWO_MORE))
            if end is not None:
                ends.append(end)
                await asyncio.sleep(PAUSE)
                await await_or_recover(job, job.change(HOME))
        ledger = await job.finish()
    if not ends:
        return [Figure("two replicas more: changes that came to their end", 0)]
    return figures_of_two_more(ends, ledger, limit=12.0)
