"""A controller killed right before or after it wrote a step.

It runs as a process of its own, because only a process can die of `kill -9`.
"""

from __future__ import annotations

import asyncio
import os
import signal
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path

from benchmarks.flink.trips_cluster import BUILD, Trips, TripsCluster, deployments
from weir_operator.rescale.journal import Direction, Step
from weir_operator.rescale.settings import JobSpec
from weir_operator.rescale.status import AppStatus, FileStatusStore
from weir_operator.runtime.protocol import Deployments

SOURCE = deployments({"small/500m": 1}, {"small/500m": 1})
TARGET = deployments({"small/500m": 1, "large/1": 1}, {"small/500m": 1})


class BrokenTarget(JobSpec):
    """A job whose `main` throws at the target and nowhere else."""

    def program_arguments(
        self, deployments: Deployments, *, by_agent: bool = False
    ) -> tuple[str, ...]:
        """Return arguments that name a trace that is not there, at the target."""
        arguments = super().program_arguments(deployments, by_agent=by_agent)
        return (*arguments, "--trace", "missing.txt") if deployments == TARGET else arguments


def break_target(spec: JobSpec) -> JobSpec:
    """Return the same job, broken at the target."""
    return BrokenTarget(
        entry_class=spec.entry_class,
        arguments=spec.arguments,
        parallelism_arguments=spec.parallelism_arguments,
        max_parallelism=spec.max_parallelism,
    )


def the_job(*, broken: bool, root: Path = BUILD) -> Trips:
    """Return the job whose controller dies, with its folder under `root`."""
    job = Trips(name="crash", rates=[20.0], initial=SOURCE, root=root).transactional()
    return replace(job, job_spec=break_target) if broken else job


class DyingStore(FileStatusStore):
    """Kills its own process when it writes one step in one direction."""

    def __init__(self, path: Path, *, step: Step, direction: Direction, before: bool) -> None:
        super().__init__(path)
        self._step = step
        self._direction = direction
        self._before = before

    async def save(self, status: AppStatus) -> None:
        """Keep the status; die before or after it if this is the step."""
        journal = status.rescale
        dies = journal and (journal.step, journal.direction) == (self._step, self._direction)
        if not (dies and self._before):
            await super().save(status)
        if dies:
            os.kill(os.getpid(), signal.SIGKILL)


async def run_and_die(
    root: Path, step: Step, direction: Direction, *, broken: bool, before: bool = False
) -> int:
    """Change the job under `root` in a process that dies at the step; return how it ended."""
    child = get_context("spawn").Process(
        target=_change_and_die, args=(root, step, direction, broken, before)
    )
    child.start()
    await asyncio.to_thread(child.join)
    return child.exitcode or 0


def _change_and_die(
    root: Path, step: Step, direction: Direction, broken: bool, before: bool
) -> None:
    job = the_job(broken=broken, root=root)
    store = DyingStore(job.status_path, step=step, direction=direction, before=before)

    async def change() -> None:
        async with TripsCluster(job, store=store) as cluster:
            cluster.detach()  # whatever happens, the job is left for the next controller
            await cluster.change(TARGET)

    asyncio.run(change())
