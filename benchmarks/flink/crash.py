"""Weir and the JobManager are killed at every step of a change.

Records are counted by the job's ledger and by the files that a transactional sink committed. The
ledger alone would not do: it lies in the job's state, and goes back with it.
"""

from __future__ import annotations

import asyncio
import os
import signal
from dataclasses import dataclass

from benchmarks.cluster.chaos.verdict import read_committed
from benchmarks.figures import Figure
from benchmarks.flink.dying_controller import SOURCE, TARGET, run_and_die, the_job
from benchmarks.flink.trips_cluster import Trips, TripsCluster
from weir_operator.clock import wait_until
from weir_operator.rescale.journal import Direction, Step
from weir_operator.runtime.processes.folders import AppFolder

ABOUT = "kill -9 of Weir and the JobManager at every step"
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
    return [
        await _kill_weir(point, with_job_manager=with_job_manager)
        for point in POINTS
        for with_job_manager in (False, True)
    ]


async def _kill_weir(point: Point, *, with_job_manager: bool) -> Figure:
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
    if with_job_manager:
        _kill_job_manager(job)
    name = f"kill -9 {'with the JobManager ' if with_job_manager else ''}{point}"
    async with TripsCluster(job) as cluster:
        return await _judge_recovery(cluster, name, died=ended == -signal.SIGKILL)


async def _judge_recovery(cluster: TripsCluster, name: str, *, died: bool) -> Figure:
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
    path = known.rescale.restore_path if known.rescale else None
    kept = path is None or path in (*status.savepoints, status.restore_path)
    conditions = (
        died,  # it was struck there
        status.deployments in (SOURCE, TARGET),
        kept,
        not (ledger.lost or ledger.doubled or ledger.sequence_errors),
        not (committed.lost or committed.doubled),
        seconds <= LIMIT,
    )
    return Figure(
        f"{name}: running again after",
        seconds,
        "s",
        goal=(
            f"at most {LIMIT:g} s, in a declared state, savepoint known, 0 lost and 0 doubled "
            "by the ledger and by the transactional sink"
        ),
        holds=all(conditions),
    )


async def _until_checkpointed(cluster: TripsCluster) -> None:
    """Wait for a checkpoint: whoever goes back to it and not to the savepoint is found out."""
    job = cluster.store.load().job_id or ""

    async def complete() -> bool | None:
        return await cluster.jobs.newest(job) is not None or None

    if await wait_until(complete, clock=cluster.clock, timeout=LIMIT) is None:
        raise RuntimeError(f"Expected a checkpoint of job {job} within {LIMIT:g} s, got none")
    await asyncio.sleep(1.0)  # records that only a savepoint has


def _kill_job_manager(job: Trips) -> None:
    identity = AppFolder(job.folder / "state" / f"default.{job.name}").job_manager.alive()
    if identity is None:
        raise RuntimeError(f"Expected a JobManager of {job.name} that lives, got none")
    os.kill(identity.pid, signal.SIGKILL)
