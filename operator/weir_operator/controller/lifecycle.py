"""Keeping one job alive: bring it up, look after it, change it, end it.

Level-based: each look compares what runs with what the status says should run, and moves towards
it. Nothing here decides a deployment. One change at a time: whoever comes while one is under way
waits or is told so.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from enum import StrEnum

from weir_operator.clock import Clock
from weir_operator.controller.records import Event
from weir_operator.errors import JobFailedError, ResizeRefusedError
from weir_operator.rescale.engine import Rescaler
from weir_operator.rescale.jobs import LIVE_STATES, Jobs
from weir_operator.rescale.journal import DeploymentMap, Kind, RescaleJournal, Step, plan
from weir_operator.rescale.replicas import (
    excess_replicas,
    missing_replicas,
    size_changes,
)
from weir_operator.runtime.seam import Runtime
from weir_operator.status import StatusStore


class Health(StrEnum):
    """What a look at the job found."""

    RUNS = "runs"
    CHANGING = "changing"
    RESTARTING = "restarting"
    FINISHED = "finished"
    """The job came to its own end; there is nothing left to steer."""


class Lifecycle:
    """One StreamApp's job from its first start to its end."""

    def __init__(
        self,
        *,
        runtime: Runtime,
        jobs: Jobs,
        rescaler: Rescaler,
        store: StatusStore,
        initial: DeploymentMap,
        initial_savepoint: str | None,
        clock: Clock,
        on_event: Callable[[Event], None],
        on_change: Callable[[RescaleJournal], None],
    ) -> None:
        self._runtime = runtime
        self._jobs = jobs
        self._rescaler = rescaler
        self._store = store
        self._initial = initial
        self._initial_savepoint = initial_savepoint
        self._clock = clock
        self._on_event = on_event
        self._on_change = on_change
        self._busy = asyncio.Lock()
        self._changing = False

    @property
    def is_changing(self) -> bool:
        """Whether a change is under way; a mere look is none."""
        return self._changing

    async def bring_up(self) -> None:
        """Resume what an earlier controller left half-done, or start, or find the job running.

        Raises:
            JobFailedError: The job did not come to run; the reason is Flink's.
        """
        async with self._busy:
            self._store.load()  # one that cannot be read starts nothing
            await self._runtime.ensure_job_manager()
            await self._resume_unfinished()
            status = self._store.load()
            if status.job_id is None or status.suspended:
                await self._walk(
                    plan(
                        kind=Kind.START,
                        reason="The job is to run",
                        now=self._clock.now(),
                        source=status.deployments,
                        target=status.deployments or self._initial,
                        old_job=status.job_id,
                        restore_path=status.restore_path or self._initial_savepoint,
                    )
                )
            else:
                await self._look(status.job_id)

    async def heal(self) -> Health:
        """Look at the job once; replace what was lost, recover what ended without being told to.

        Raises:
            JobFailedError: The job could not be recovered.
        """
        if self._changing:
            return Health.CHANGING
        async with self._busy:
            await self._resume_unfinished()
            job = self._store.load().job_id
            if job is None:
                raise JobFailedError("Expected a job that was started, got none: bring it up first")
            return await self._look(job)

    async def change(
        self, target: DeploymentMap, reason: str, change_id: str | None = None
    ) -> RescaleJournal:
        """Take the job to `target` by one restart; return how it ended."""
        async with self._busy:
            await self._resume_unfinished()
            status = self._store.load()
            return await self._walk(
                plan(
                    kind=Kind.RESCALE,
                    reason=reason,
                    now=self._clock.now(),
                    source=status.deployments,
                    target=target,
                    old_job=status.job_id,
                    change_id=change_id,
                )
            )

    async def resize(self, target: DeploymentMap, change_id: str | None = None) -> bool:
        """Give replicas other sizes in place; false where the node refused and nothing changed."""
        async with self._busy:
            began = self._clock.now()
            changes = size_changes(await self._runtime.replicas(), target)
            try:
                await self._runtime.resize(changes)
            except ResizeRefusedError as error:
                self._tell("ResizeRefused", str(error))
                return False
            status = self._store.load()
            await self._store.save(status.model_copy(update={"deployments": target}))
            self._on_change(
                plan(
                    kind=Kind.RESIZE,
                    reason="Other sizes, in place",
                    now=began,
                    source=status.deployments,
                    target=target,
                    old_job=status.job_id,
                    change_id=change_id,
                ).at(Step.DONE, self._clock.now())
            )
            return True

    async def suspend(self) -> RescaleJournal | None:
        """Stop the job with a savepoint; `None` where none runs."""
        async with self._busy:
            await self._resume_unfinished()
            status = self._store.load()
            if status.job_id is None or status.suspended:
                return None
            progress = await self._jobs.progress(status.job_id)
            if progress is None or progress.state not in LIVE_STATES:
                return None
            return await self._walk(
                plan(
                    kind=Kind.SUSPEND,
                    reason="The job is to stop",
                    now=self._clock.now(),
                    source=status.deployments,
                    target={},
                    old_job=status.job_id,
                )
            )

    async def _resume_unfinished(self) -> None:
        """Take a change that was left half-done to its end, before anything else is looked at.

        By a controller that died, or by this one when the disk did not take the journal. A first
        start that comes to nothing, because its processes are gone, is begun anew by `bring_up`.
        """
        journal = self._store.load().rescale
        if journal is None or journal.step.is_end:
            return
        self._tell("ChangeResumed", f"Going on with {journal.reason!r} at {journal.step}")
        try:
            await self._walk(journal)
        except JobFailedError as error:
            if journal.kind is not Kind.START:
                raise
            self._tell("StartBegunAnew", str(error))

    async def _look(self, job: str) -> Health:
        status = self._store.load()
        restarted = await self._runtime.ensure_job_manager()
        progress = None if restarted else await self._jobs.progress(job)
        if progress is not None and progress.state == "FINISHED":
            return Health.FINISHED
        if progress is None or progress.state not in LIVE_STATES:
            cause = "The JobManager was lost" if progress is None else await self._jobs.failure(job)
            await self._recover(job, cause)
            return Health.RUNS
        alive = await self._runtime.replicas()
        lost = missing_replicas(alive, status.deployments)
        if lost:
            # Flink's failover waits for the slot; the state comes from its newest checkpoint.
            started = await self._runtime.start(lost)
            names = ", ".join(sorted({f"{spec.operator} on {spec.pool}" for spec in lost}))
            self._tell("ReplicaLost", f"Replaced {len(started)} lost TaskManagers: {names}")
        unclaimed = excess_replicas(alive, status.deployments)
        if unclaimed:
            await self._runtime.stop(unclaimed)
            self._tell("ReplicaUnclaimed", f"Ended {', '.join(unclaimed)}: nothing claims them")
        return Health.RUNS if progress.running and not lost else Health.RESTARTING

    async def _recover(self, job: str, cause: str) -> None:
        status = self._store.load()
        restore = await self._runtime.newest_checkpoint(job) or status.restore_path
        self._tell("JobLost", f"{cause}; the job goes on from {restore or 'the beginning'}")
        await self._walk(
            plan(
                kind=Kind.RECOVER,
                reason=cause,
                now=self._clock.now(),
                source=status.deployments,
                target=status.deployments,
                old_job=job,
                restore_path=restore,
            )
        )

    async def _walk(self, journal: RescaleJournal) -> RescaleJournal:
        self._on_change(journal)
        self._changing = True
        try:
            end = await self._rescaler.walk(journal)
        finally:
            self._changing = False
        self._on_change(end)
        match end.step:
            case Step.DONE:
                by = ", by checkpoint: a plain sink sees records again" if end.by_checkpoint else ""
                self._tell(f"{end.kind}Done", f"{end.reason}{by}")
            case Step.ROLLED_BACK:
                self._tell("RolledBack", end.failure or end.reason)
            case Step.ABANDONED:
                self._tell("ChangeAbandoned", f"{end.failure}; the job was left as it is")
            case _:
                raise JobFailedError(end.failure or "The job did not come to run")
        return end

    def _tell(self, reason: str, message: str) -> None:
        self._on_event(Event(time=self._clock.now(), reason=reason, message=message))
