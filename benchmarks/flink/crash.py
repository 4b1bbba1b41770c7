"""Weir, TaskManagers and the JobManager are killed, deployments broken.

Records are counted by the job's ledger and by the files that a transactional sink committed. The
ledger alone would not do: it lies in the job's state, and goes back with it.
"""

from __future__ import annotations

import asyncio
import os
import signal
from dataclasses import dataclass, replace

import psutil

from benchmarks.cluster.chaos.verdict import read_committed
from benchmarks.figures import Figure, at_most
from benchmarks.flink.dying_controller import SOURCE, TARGET, run_and_die, the_job
from benchmarks.flink.ledger import Ledger
from benchmarks.flink.trips_cluster import Trips, TripsCluster, deployments
from weir_operator.clock import wait_until
from weir_operator.rescale.journal import DeploymentMap, Direction, Step

ABOUT = "kill -9 of Weir and the JobManager at every step, broken deployments"
DURATION = "15 min"

LIMIT = 60.0


@dataclass(frozen=True, slots=True)
class Point:
    step: Step
    direction: Direction
    before: bool = False
    """Before the step is written: what the step before it came to is not known."""

    def __str__(self) -> str:
        return f"{'before' if self.before else 'at'} {self.direction} {self.step}"


_FORWARD = (Step.START, Step.STOP, Step.REMOVE, Step.SUBMIT, Step.VERIFY)
_BACK = (Step.CANCEL, Step.START, Step.REMOVE, Step.SUBMIT, Step.VERIFY)
POINTS = (
    *(Point(step, Direction.FORWARD) for step in _FORWARD),
    *(Point(step, Direction.FORWARD, before=True) for step in (*_FORWARD[2:], Step.DONE)),
    *(Point(step, Direction.BACK) for step in _BACK),
    Point(Step.ROLLED_BACK, Direction.BACK, before=True),
)


def run() -> list[Figure]:
    return asyncio.run(_run())


async def _run() -> list[Figure]:
    figures: list[Figure] = []
    for point in POINTS:
        for victims in ((), ("/jm/",)):
            figures += await _kill_weir(point, victims)
    figures += await _outlast_every_deadline()
    figures += await _fail_over_in_a_full_pool()
    return [*figures, *await _kill_processes(), *await _break_deployments()]


async def _kill_weir(point: Point, victims: tuple[str, ...]) -> list[Figure]:
    """Kill the controller, and maybe the JobManager with it; the next controller takes over."""
    broken = point.direction is Direction.BACK
    job = the_job(broken=broken)
    job.clear()
    async with TripsCluster(the_job(broken=False)) as cluster:
        await cluster.lifecycle.bring_up()
        await _until_checkpointed(cluster)
        cluster.detach()
    ended = await run_and_die(
        job.root, point.step, point.direction, broken=broken, before=point.before
    )
    for part in victims:
        _kill_process(str(job.folder), part)
    name = f"kill -9 {'with the JobManager ' if victims else ''}{point}"
    async with TripsCluster(job) as cluster:
        return await _judge_recovery(cluster, name, died=ended == -signal.SIGKILL)


async def _judge_recovery(cluster: TripsCluster, name: str, *, died: bool = True) -> list[Figure]:
    """Let a controller take over; return how long the job took to run, and what it counted."""
    known = cluster.store.load()
    began = cluster.clock.now()
    await cluster.lifecycle.bring_up()
    await cluster.until_running()
    seconds = cluster.clock.now() - began
    status = cluster.store.load()
    await asyncio.sleep(2.0)  # records that it emits from here on are counted, too
    ledger = await cluster.finish()
    committed = read_committed(cluster.trips.committed, ledger.emitted)
    declared = cluster.trips.full_pool is not None or status.deployments in (SOURCE, TARGET)
    path = known.rescale.restore_path if known.rescale else None
    kept = path is None or path in (*status.savepoints, status.restore_path)
    conditions = {
        "it was struck there": died,
        "the deployment is declared": declared,
        "the savepoint is known": kept,
        "the ledger is exact": _is_exact(ledger),
        "what was committed is exact": not (committed.lost or committed.doubled),
        "in time": seconds <= LIMIT,
    }
    missed = ", ".join(each for each, holds in conditions.items() if not holds)
    print(f"{name}: {seconds:.1f} s, {committed}, {ledger}, missed: {missed or 'nothing'}")
    return [
        Figure(
            figure=f"{name}: running again after",
            value=seconds,
            unit="s",
            goal=f"at most {LIMIT:g} s, in a declared state, savepoint known, 0 lost and 0 doubled "
            "by the ledger and by the transactional sink",
            holds=not missed,
        )
    ]


async def _until_checkpointed(cluster: TripsCluster) -> None:
    """Wait for a checkpoint: whoever goes back to it and not to the savepoint is found out."""
    job = cluster.store.load().job_id or ""

    async def complete() -> bool | None:
        return await cluster.jobs.newest(job) is not None or None

    if await wait_until(complete, clock=cluster.clock, timeout=LIMIT) is None:
        raise RuntimeError(f"Expected a checkpoint of job {job} within {LIMIT:g} s, got none")
    await asyncio.sleep(1.0)  # records that only a savepoint has


async def _outlast_every_deadline() -> list[Figure]:
    """Give up a change whose savepoint is still being written, and lose both processes then."""
    job = replace(
        the_job(broken=False),
        name="crash-late",
        rescale=lambda settings: replace(
            settings, via="Savepoint", savepoint_deadline=0.0, savepoint_limit=0.0
        ),
    ).transactional()
    figures = []
    for victims in ((), ("/jm/",)):
        job.clear()
        async with TripsCluster(job) as cluster:
            await cluster.lifecycle.bring_up()
            await _until_checkpointed(cluster)
            end = await cluster.change(TARGET)
            await asyncio.sleep(2.0)  # the savepoint completes, and nobody looks
            cluster.detach()
        for part in victims:
            _kill_process(str(job.folder), part)
        name = "a savepoint slower than every deadline" + (", JobManager lost" if victims else "")
        patient = replace(
            job, rescale=lambda settings: settings
        )  # its last savepoint may take time
        async with TripsCluster(patient) as cluster:
            figures += await _judge_recovery(cluster, name, died=end.step is Step.ABANDONED)
    return figures


async def _fail_over_in_a_full_pool() -> list[Figure]:
    """Lose JobManager and a TaskManager right after a rescale; there is no room for a new one."""
    job = replace(the_job(broken=False), name="crash-full").transactional()
    job.clear()
    async with TripsCluster(job) as cluster:
        await cluster.lifecycle.bring_up()
        await _until_checkpointed(cluster)
        await cluster.change(TARGET)
        cluster.detach()
    for part in ("/jm/", "/tm/tm-match-large"):
        _kill_process(str(job.folder), part)
    async with TripsCluster(replace(job, full_pool="large")) as cluster:
        return await _judge_recovery(cluster, "failover right after a rescale, its pool full")


async def _kill_processes() -> list[Figure]:
    job = Trips(
        name="crash-processes",
        rates=[20.0],
        initial=deployments({"small/500m": 2}, {"small/500m": 1}),
    )
    job.clear()
    figures: list[Figure] = []
    async with TripsCluster(job) as cluster:
        await cluster.lifecycle.bring_up()
        await asyncio.sleep(5.0)  # a checkpoint or two
        for what, part in (("a TaskManager", "/tm/tm-match"), ("the JobManager", "/jm/")):
            _kill_process(str(job.folder), part)
            seconds = await _until_recovered(cluster)
            figures.append(
                at_most(figure=f"{what} killed: running again after", value=seconds, unit="s",
                        limit=LIMIT)
            )  # fmt: skip
            await asyncio.sleep(5.0)
        ledger = await cluster.finish()
    reasons = {event.reason for event in cluster.events}
    told = {"ReplicaLost", "JobLost"} <= reasons
    return [
        *figures,
        _yes("lost processes are recorded with a reason", told),
        at_most(figure="lost processes: records lost", value=ledger.lost, unit="", limit=0),
        at_most(figure="lost processes: records doubled", value=ledger.doubled, unit="", limit=0),
        Figure(figure="lost processes: raw re-emissions", value=ledger.replayed, unit="records"),
    ]


async def _until_recovered(cluster: TripsCluster) -> float:
    """Wait until the loss was noticed, then until every task runs; return the seconds."""
    began = cluster.clock.now()
    while cluster.clock.now() - began < LIMIT:
        told = len(cluster.events)
        await cluster.lifecycle.heal()
        if len(cluster.events) > told:
            break
        await asyncio.sleep(0.2)
    await asyncio.sleep(1.0)  # the JobManager may not have missed the TaskManager yet
    await cluster.until_running()
    return cluster.clock.now() - began


def _kill_process(folder: str, part: str) -> None:
    """Kill -9 one JVM of this benchmark by the folder that its command line names."""
    for process in psutil.process_iter(["cmdline"]):
        line = " ".join(process.info["cmdline"] or ())
        if "java" in line and folder in line and part in line:
            os.kill(process.pid, signal.SIGKILL)
            return
    raise RuntimeError(f"Expected a JVM with {part} in its command line, found none")


async def _break_deployments() -> list[Figure]:
    """A job that throws at the target, and TaskManagers that never register."""
    figures = []
    broken = the_job(broken=True)
    broken.clear()
    async with TripsCluster(the_job(broken=False)) as cluster:
        await cluster.lifecycle.bring_up()
        cluster.detach()
    async with TripsCluster(broken) as cluster:
        end = await cluster.change(TARGET)
        running = await cluster.until_running()
        ledger = await cluster.finish()
    print(end.failure)
    figures.append(
        _yes("a target whose job throws is rolled back with a reason, ledger exact",
             end.step is Step.ROLLED_BACK and bool(end.failure) and running < LIMIT
             and _is_exact(ledger))
    )  # fmt: skip
    mute = replace(the_job(broken=False), name="crash-mute")
    mute.clear()
    async with TripsCluster(mute) as cluster:
        await cluster.lifecycle.bring_up()
        job = cluster.store.load().job_id
        failure = await _change_while_new_ones_die(cluster, TARGET, str(mute.folder))
        running = await cluster.until_running()
        same = cluster.store.load().job_id == job
        ledger = await cluster.finish()
    print(failure)
    figures.append(
        _yes("TaskManagers that die while they start leave the job untouched, with a reason",
             bool(failure) and same and running < LIMIT and _is_exact(ledger))
    )  # fmt: skip
    return figures


async def _change_while_new_ones_die(
    cluster: TripsCluster, target: DeploymentMap, folder: str
) -> str | None:
    """Kill every added TaskManager as soon as it is there; return why the change was given up."""
    change = asyncio.create_task(cluster.change(target))
    while not change.done():
        for process in psutil.process_iter(["cmdline"]):
            line = " ".join(process.info["cmdline"] or ())
            if folder in line and "/tm/tm-match-large" in line:
                os.kill(process.pid, signal.SIGKILL)
        await asyncio.sleep(0.05)
    end = change.result()
    return end.failure if end.step is Step.ABANDONED else None


def _is_exact(ledger: Ledger) -> bool:
    return not (ledger.lost or ledger.doubled or ledger.sequence_errors)


def _yes(figure: str, holds: bool) -> Figure:
    return Figure(figure=figure, value=int(holds), unit="", goal="exactly 1", holds=holds)
