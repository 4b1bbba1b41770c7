"""Stops a job with a savepoint, and finds the newest state of a job that has ended.

The trigger's id was chosen before, so a request whose answer was lost can be found again. Flink
forgets triggers: with a lost JobManager, and after a time. Then the job itself shows whether the
stop arrived, and the storage whether its savepoint is complete.

A job that has ended resumes from its newest state, never from an older one. The sources, in this
order:

1. Flink's statistics of the job, if this JobManager saw a snapshot complete.
2. The storage. A new JobManager does not know what the old one completed: a stop with savepoint is
   not among the checkpoints that it recovers a job from (Flink 2.3, `CheckpointCoordinator`).
3. What the job was started from, but only if it never completed a snapshot of its own.

A job that had snapshots and has none any more is not started from older state: its sinks would emit
records a second time. Then a person decides.

Some storages list late (`Runtime.listed_within`). There, after Weir has asked for a stop, a listing
without its savepoint is believed only the second time. A job that a new JobManager takes back
meanwhile does not run until then: with its next checkpoint it would commit once more what the
savepoint holds.

Whoever asks here gets a `TemporaryError` where Flink or the storage does not answer, and what there
is, is unknown; a `PermanentError` where the storage cannot be read.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import structlog

from weir_operator.clock import Clock
from weir_operator.errors import PermanentError
from weir_operator.flink.answers import JobFailure, JobState
from weir_operator.rescale.flink import FlinkJobs
from weir_operator.rescale.journal import RescaleJournal
from weir_operator.rescale.status import AppStatus
from weir_operator.runtime.protocol import Runtime

log = structlog.get_logger()

_OF_A_STOP = re.compile("savepoint|checkpoint", re.IGNORECASE)
"""In the cause of a failure: one that a stop itself may bring about."""
REMEDY = (
    "to start it from a savepoint or checkpoint of your choice, set "
    "spec.flink.job.initialSavepoint to its path, or to null for empty state, and change "
    "spec.flink.job.restoreNonce"
)


class StateMissingError(PermanentError):
    """The newest state of a job is not where it should be; older state is not used instead."""


def is_savepoint(path: str) -> bool:
    """Return whether Flink named this folder as a savepoint's."""
    return path.rstrip("/").rpartition("/")[2].startswith("savepoint-")


def is_of(path: str, job: str) -> bool:
    """Return whether `job` wrote it, by its name; another's may start it."""
    return f"/{job}/chk-" in path or f"/savepoint-{job[:6]}-" in path


def find_own_failure(failures: Sequence[JobFailure], journal: RescaleJournal) -> str:
    """Return why the old job failed since a change began; empty where only its stop failed.

    Flink remembers the failures, the newest first.
    """
    for each in failures:
        if each.time >= journal.created and not _OF_A_STOP.search(each.cause):
            return each.cause
    return ""


@dataclass(frozen=True, kw_only=True, slots=True)
class StateFinder:
    """Finds the state of jobs that have ended, or were asked to."""

    jobs: FlinkJobs
    runtime: Runtime
    """Knows the storage."""
    clock: Clock
    """Where to wait for a savepoint that is listed late."""

    async def came_to_its_end(
        self, job: str, status: AppStatus, *, stop_asked: bool | None = None
    ) -> bool:
        """Return whether the job finished without being stopped.

        A JobManager that was started after a job's end may still list it as finished, from the
        results that Flink keeps for high availability, but knows none of its snapshots. Then the
        storage says whether a stop got through, whoever asked for it: of a job that has ended,
        Flink leaves nothing but savepoints, and each says whether it was taken to stop the job.

        Args:
            job: The job.
            status: What is known of it.
            stop_asked: Weir asked for a stop of it, which decides where the savepoint does not;
                `None` takes what the status says.

        Raises:
            StateMissingError: It had state and was asked to stop, and there is no savepoint.
        """
        if stop_asked is None:
            stop_asked = status.stop_asked == job
        progress = await self.jobs.progress(job)
        if progress is None or progress.state is not JobState.FINISHED:
            return False
        newest = await self.jobs.newest(job)
        if newest is not None and newest.seen_complete:
            return not newest.stopped
        stored = await self._list(job, stop_asked=stop_asked)
        if not stored or not is_savepoint(stored[-1]):
            if stop_asked and status.checkpointed is not None and status.checkpointed.job == job:
                raise StateMissingError(
                    f"Job {job} finished after it was asked to stop, and its savepoint is not in "
                    f"the storage; {REMEDY}; last seen: {status.checkpointed.path}"
                )
            return True
        stopped = await self.runtime.savepoint_stopped_job(stored[-1])
        return not (stop_asked if stopped is None else stopped)

    async def was_stopped(self, job: str, *, asked_at: float) -> bool:
        """Return whether a job that runs was, or may have been, stopped before.

        Flink writes that a job has ended a moment after the savepoint that stopped it. A JobManager
        that is lost in between takes the job back from a checkpoint that the savepoint supersedes.
        To be asked only of a job that Weir has asked to stop, not before `asked_at`, Unix seconds.
        """
        newest = await self.jobs.newest(job)
        if newest is not None and newest.seen_complete:
            return False  # it has come further than the savepoint
        stored = await self.runtime.snapshots(job)
        if stored and is_savepoint(stored[-1]):
            return True
        progress = await self.jobs.progress(job)
        if progress is None or progress.started <= asked_at:
            return False
        return self.clock.now() - progress.started < self.runtime.listed_within

    async def find_newest(self, job: str, *, stop_asked: bool) -> str | None:
        """Return the newest complete savepoint or checkpoint that the job wrote.

        Returns:
            Its path; `None` where it wrote none, or Flink deleted them because the job came to its
            end.
        """
        known = await self.jobs.newest(job)
        if known is not None and known.seen_complete:
            return known.path
        stored = await self._list(job, stop_asked=stop_asked)
        if stored:
            return stored[-1]
        return known.path if known is not None and is_of(known.path, job) else None

    async def find_retained(self, job: str) -> tuple[str, ...]:
        """Return the checkpoints that Flink leaves behind of an ended job, oldest first."""
        known = await self.jobs.retained(job)
        if known:
            return known
        return tuple(path for path in await self.runtime.snapshots(job) if not is_savepoint(path))

    async def find_restore_point(
        self, job: str, status: AppStatus, *, stop_asked: bool | None = None
    ) -> str | None:
        """Return from where the ended `job` should resume; `None` starts it with empty state.

        Raises:
            StateMissingError: It had state of its own, which is not in the storage.
        """
        if stop_asked is None:
            stop_asked = status.stop_asked == job
        newest = await self.find_newest(job, stop_asked=stop_asked)
        if newest is not None:
            return newest
        if status.checkpointed is not None and status.checkpointed.job == job:
            # The remedy before the paths: a condition has no room for three long ones.
            older = f"; its previous state: {status.restore_path}" if status.restore_path else ""
            raise StateMissingError(
                f"Job {job} is down and its state is no longer in the storage: the job finished, "
                f"or someone deleted the state; {REMEDY}; last seen: {status.checkpointed.path}"
                f"{older}"
            )
        return status.restore_path

    async def _list(self, job: str, *, stop_asked: bool) -> tuple[str, ...]:
        """Return what the storage has of an ended job, oldest first, a late savepoint too."""
        stored, late = await self.runtime.snapshots(job), self.runtime.listed_within
        if stop_asked and late and not (stored and is_savepoint(stored[-1])):
            log.warning("savepoint not listed, the storage is asked again", job=job, in_=late)
            await self.clock.sleep(late)
            stored = await self.runtime.snapshots(job)
        return stored


@dataclass(frozen=True, kw_only=True, slots=True)
class StopOutcome:
    """What became of a stop; exactly one field is set."""

    path: str | None = None
    """The savepoint that ended the job."""
    failure: str | None = None
    """Why there is none, a clause."""
    ended: bool = False
    """The job has ended, in a way that is yet to be found out."""


class Stop:
    """One stop of one job."""

    def __init__(
        self, states: StateFinder, job: str, trigger: str, *, asked: bool, asked_at: float
    ) -> None:
        """Prepare the stop.

        Args:
            states: Knows the jobs.
            job: The job.
            trigger: Id under which the savepoint is asked for.
            asked: It may have been asked for before.
            asked_at: Unix time from which on it may have been.
        """
        self._states, self._jobs = states, states.jobs
        self._job = job
        self._trigger = trigger
        self._asked = asked
        self._asked_at = asked_at

    async def outcome(self) -> StopOutcome | None:
        """Ask for the stop where that is still to be done; return what became of it, if known."""
        state = await self._jobs.savepoint(self._job, self._trigger)
        if state is not None:
            self._asked = True
            if state.path is not None:
                return StopOutcome(path=state.path)
            return None if state.failure is None else StopOutcome(failure=state.failure)
        progress = await self._jobs.progress(self._job)
        if progress is None or progress.state.is_over:
            return StopOutcome(ended=True)
        if self._asked and await self._states.was_stopped(self._job, asked_at=self._asked_at):
            await self._jobs.cancel(self._job)
            return None
        try:
            await self._jobs.stop(self._job, self._trigger)
        except PermanentError as error:
            return StopOutcome(failure=str(error))
        self._asked = True
        return None
