"""A stop with savepoint, asked for until something is known of it.

The trigger's id was chosen before, so a request whose answer was lost is found again. Flink forgets
triggers: with a JobManager that was lost, and after a time. Then the job itself says whether the
stop got through, and the storage whether its savepoint is complete.
"""

from __future__ import annotations

from dataclasses import dataclass

from weir_operator.errors import PermanentError
from weir_operator.rescale.jobs import LIVE_STATES, Jobs
from weir_operator.rescale.restore_point import is_savepoint
from weir_operator.runtime.seam import Runtime


@dataclass(frozen=True, kw_only=True, slots=True)
class Outcome:
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
        self, job: str, trigger: str, jobs: Jobs, runtime: Runtime, *, asked: bool
    ) -> None:
        """Take over what is to be stopped.

        Args:
            job: The job.
            trigger: Id under which the savepoint is asked for.
            jobs: Flink.
            runtime: Knows the storage.
            asked: It may have been asked for before.
        """
        self._job = job
        self._trigger = trigger
        self._jobs = jobs
        self._runtime = runtime
        self._asked = asked

    async def outcome(self) -> Outcome | None:
        """Ask for the stop where that is still to be done; return what became of it, if known.

        Raises:
            TemporaryError: Flink or the storage does not answer.
        """
        state = await self._jobs.savepoint(self._job, self._trigger)
        if state is not None:
            self._asked = True
            if state.path is not None:
                return Outcome(path=state.path)
            return None if state.failure is None else Outcome(failure=state.failure)
        progress = await self._jobs.progress(self._job)
        if progress is None or progress.state not in LIVE_STATES:
            return Outcome(ended=True)
        if self._asked and await self._was_stopped():
            # A new JobManager took the job back from a checkpoint that the savepoint supersedes.
            await self._jobs.cancel(self._job)
            return None
        try:
            await self._jobs.stop(self._job, self._trigger)
        except PermanentError as error:
            return Outcome(failure=str(error))
        self._asked = True
        return None

    async def _was_stopped(self) -> bool:
        newest = await self._jobs.newest(self._job)
        if newest is not None and newest.seen_complete:
            return False  # it has come further than the savepoint
        stored = await self._runtime.snapshots(self._job)
        return bool(stored) and is_savepoint(stored[-1])
