"""The protocol of what the engine asks of Flink.

It includes the graph that a job builds, which the memory of its TaskManagers depends on and which
must be known before they start.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import structlog

from weir_operator.errors import NotInProgramError, PermanentError, TemporaryError
from weir_operator.flink.answers import JobFailure
from weir_operator.flink.job_graph import JobGraph
from weir_operator.flink.scripts import is_script
from weir_operator.rescale.flow import Reading
from weir_operator.rescale.journal import RescaleJournal
from weir_operator.rescale.replicas import parallelism
from weir_operator.rescale.settings import JobSpec

LIVE_STATES = frozenset(
    {
        *("INITIALIZING", "CREATED", "RUNNING", "RESTARTING", "FAILING"),
        *("CANCELLING", "RECONCILING", "SUSPENDED"),
    }
)
"""States of a job that has not ended: its tasks may still emit, or do so again by themselves."""
FINISHED = "FINISHED"
"""State of a job that came to its own end, or was stopped with a savepoint."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Progress:
    """The progress of a submitted job."""

    state: str
    running: bool
    """Every task runs."""
    ran: bool
    """At least one task runs or ran: records may have left it."""
    started: float = 0.0
    """Unix time at which this JobManager began to run it."""
    runs_since: float = 0.0
    """Unix time at which it began to run, or Flink restarted it last."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SavepointState:
    """What became of a savepoint that was asked for; both `None` while it is under way."""

    path: str | None = None
    failure: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class StateSnapshot:
    """A savepoint or checkpoint that a job can resume from."""

    path: str
    stopped: bool = False
    """It is the savepoint of a stop: the job ended with it."""
    seen_complete: bool = True
    """The JobManager saw it complete, so that the storage has nothing newer. False for what a new
    JobManager restored the job from: a savepoint that the old one completed may be newer."""


class Jobs(Protocol):
    """What the engine asks of Flink. Unknown jobs and triggers are `None`, never an error."""

    async def progress(self, job_id: str) -> Progress | None:
        """Return the progress of the job."""

    async def live(self) -> tuple[str, ...]:
        """Return the ids of all jobs that have not ended, without those of `warm_up`."""
        ...

    async def failures(self, job_id: str) -> tuple[JobFailure, ...]:
        """Return the failures of the job that Flink remembers, the newest first."""
        ...

    async def warm_up(self, ids: tuple[str, ...]) -> None:
        """Begin to run a job of a moment on these TaskManagers, which have no other task."""

    async def is_warming_up(self) -> bool:
        """Return whether a job of `warm_up` runs."""
        ...

    async def cancel_warm_up(self) -> None:
        """Ask for the cancellation of the jobs of `warm_up` that run."""

    async def stop(self, job_id: str, trigger: str) -> None:
        """Ask for a stop with savepoint under this trigger id; a second call changes nothing."""

    async def savepoint(self, job_id: str, trigger: str) -> SavepointState | None:
        """Return its state; path and failure are both `None` while it is under way."""

    async def cancel(self, job_id: str) -> None:
        """Ask for cancellation; a job that has ended is left alone."""

    async def prepare(self) -> None:
        """Make the job's jar known to the JobManager."""

    async def is_pinned_by_agent(
        self,
        *,
        entry_class: str | None,
        arguments: tuple[str, ...],
        configuration: Mapping[str, str],
        most: Mapping[str, int],
        vertices: Mapping[str, tuple[str, ...]],
    ) -> bool:
        """Return whether Weir's agent is to pin the operators, because the program does not.

        Args:
            entry_class: As for a submission.
            arguments: The program's own.
            configuration: As for a submission of a job that the agent pins.
            most: Replicas at a time, by operator.
            vertices: What each operator is made of, as in `JobSpec`.

        Raises:
            PermanentError: The agent cannot pin them; the job must not be touched.
        """
        ...

    async def read_graph(
        self,
        *,
        entry_class: str | None,
        arguments: tuple[str, ...],
        parallelism: int | None,
        configuration: Mapping[str, str],
        operators: tuple[str, ...],
        whole_job: str | None,
    ) -> JobGraph:
        """Return what the program would build, submitted so; nothing is submitted.

        Raises:
            PermanentError: It builds no job.
        """
        ...

    async def submit(
        self,
        job_id: str,
        *,
        arguments: tuple[str, ...],
        parallelism: int | None,
        entry_class: str | None,
        restore_path: str | None,
        configuration: Mapping[str, str],
    ) -> None:
        """Submit the job under this id.

        Raises:
            TemporaryError: An operator has no TaskManager that is registered.
        """

    async def failure(self, job_id: str) -> str:
        """Return why the job failed or does not run, one sentence."""
        ...

    async def newest(self, job_id: str) -> StateSnapshot | None:
        """Return the newest snapshot of the job that Flink knows of, `None` where it knows none."""

    async def retained(self, job_id: str) -> tuple[str, ...]:
        """Return the job's checkpoints that Flink will not delete itself, oldest first."""
        ...

    async def dispose(self, path: str) -> None:
        """Delete a savepoint or checkpoint."""

    async def unregistered(self, ids: tuple[str, ...]) -> tuple[str, ...]:
        """Return which of these TaskManagers are not registered."""
        ...

    async def reading(self, job_id: str) -> Reading | None:
        """Return how much the job has read since it was submitted."""

    async def misplaced(self, job_id: str) -> str | None:
        """Return a sentence where tasks do not run on their operator's TaskManagers."""


log = structlog.get_logger()


async def with_graph(journal: RescaleJournal, *, jobs: Jobs, spec: JobSpec) -> RescaleJournal:
    """Return the change with the graph of the revision that it leads to.

    A graph that cannot be read stops nothing: every operator is then taken to use managed memory,
    and a program that cannot run says so when it is submitted. Only one without the class to run,
    or without an operator of the manifest, can never run.

    Args:
        journal: Before TaskManagers are started; the JobManager is that of the revision, with its
            jar.
        jobs: Who asks Flink.
        spec: How the job is submitted at the revision.

    Raises:
        NotInProgramError: It lacks the class or an operator; nothing has been started.
    """
    revision = journal.revision
    # On one machine memory is not scarce enough to be worth a second run of the program.
    if revision is None or revision.graph is not None or journal.is_back or not revision.places:
        return journal
    by_agent = await is_pinned_by_agent(journal, jobs=jobs, spec=spec)
    try:
        graph = await jobs.read_graph(
            entry_class=spec.entry_class,
            arguments=spec.program_arguments(journal.wanted, by_agent=by_agent),
            parallelism=spec.default_parallelism(journal.wanted),
            configuration=spec.configuration(journal.wanted, by_agent=by_agent),
            operators=tuple(spec.vertices or spec.parallelism_arguments),
            whole_job=None if spec.vertices else spec.whole_job,
        )
    except NotInProgramError:
        raise
    except (TemporaryError, PermanentError) as error:
        log.warning("graph not read", change=journal.id, failure=str(error))
        return journal
    return journal.model_copy(update={"revision": revision.model_copy(update={"graph": graph})})


async def refuse_script(journal: RescaleJournal, *, jobs: Jobs, spec: JobSpec) -> None:
    """Refuse a script that is no job; a program that is none says so when it is submitted.

    Raises:
        PermanentError: The script cannot run as one job; nothing has been touched.
    """
    if spec.whole_job is None or not is_script(spec.entry_class) or journal.is_back:
        return  # one whose operators are listed is read for these
    await jobs.read_graph(
        entry_class=spec.entry_class,
        arguments=spec.arguments,
        parallelism=spec.default_parallelism(journal.wanted),
        configuration={},
        operators=(),
        whole_job=spec.whole_job,
    )


async def is_pinned_by_agent(journal: RescaleJournal, *, jobs: Jobs, spec: JobSpec) -> bool:
    """Return whether Weir's agent is to pin the job, because its program does not.

    Raises:
        PermanentError: The agent cannot pin the operators that the manifest lists.
    """
    if spec.whole_job is not None and not spec.vertices:
        return False
    return await jobs.is_pinned_by_agent(
        entry_class=spec.entry_class,
        arguments=spec.arguments,
        configuration=spec.configuration(journal.wanted, by_agent=True),
        most=parallelism(journal.wanted),
        vertices=spec.vertices,
    )
