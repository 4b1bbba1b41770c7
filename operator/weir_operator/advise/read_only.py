"""Read-only runtime and jobs for an external job: reading works, changing is refused.

So the `ApplicationController` of Weir's own jobs also measures, learns, decides and records for an
external one. Three independent checks prevent changes: mode Advise grants nothing; the runtime and
the jobs here refuse every change; and the client below them sends only GET. In mode Auto,
`in_place` changes the parallelism of the vertices, and nothing else, by its own client.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NoReturn

from weir_operator.advise.flink import ExternalFlink
from weir_operator.advise.watch import JobWatch
from weir_operator.errors import PermanentError, TemporaryError
from weir_operator.flink.answers import JobState, StateSnapshot
from weir_operator.flink.topology import Topology
from weir_operator.rescale.flink import FlinkJobs, Progress
from weir_operator.rescale.journal import RescaleJournal
from weir_operator.rescale.status import AppStatus, StatusStore
from weir_operator.runtime.protocol import CheckProgram, Replica, ReplicaSpec
from weir_operator.runtime.revision import Revision


class ForeignJobError(PermanentError):
    """Something would have changed a job that Weir only advises."""


class JobChangedError(PermanentError):
    """The foreign job has other operators, or runs elsewhere, than its loops were made for."""


def _refuse(what: str) -> NoReturn:
    raise ForeignJobError(
        f"Expected only read access to an external job, got a request to {what}: "
        "Weir only advises it, see spec.flink.ref"
    )


class ExternalRuntime:
    """A `Runtime` whose replicas are the foreign job's subtasks."""

    job_manager_process = ""
    listed_within = 0.0
    agent: None = None

    def __init__(self, watch: JobWatch) -> None:
        self._watch = watch

    @property
    def rest_url(self) -> str:
        """Flink's REST address."""
        return self._watch.reference.rest_url if self._watch.reference else ""

    async def replicas(self) -> tuple[Replica, ...]:
        """Return the subtasks of the job as it was last seen."""
        return self._watch.job.replicas if self._watch.job else ()

    async def find_misfit(
        self, revision: Revision, pools: Collection[str], check: CheckProgram | None = None
    ) -> str:
        """Refuse."""
        _refuse("upgrade the job")

    async def start(self, wanted: Sequence[ReplicaSpec]) -> tuple[str, ...]:
        """Refuse."""
        _refuse("start TaskManagers")

    async def prepare_stop(self, ids: Sequence[str]) -> None:
        """Refuse."""
        _refuse("stop TaskManagers")

    async def stop(self, ids: Sequence[str]) -> None:
        """Refuse."""
        _refuse("stop TaskManagers")

    async def resize(self, sizes: Mapping[str, str]) -> None:
        """Refuse."""
        _refuse("resize TaskManagers")

    async def provide_jar(self) -> str:
        """Refuse."""
        _refuse("submit the job")

    # The owner keeps the job running and recovers it: from here on, there is nothing to do.

    def use(self, revision: Revision) -> None:
        """Leave the job as its owner made it."""

    async def ensure_job_manager(self) -> bool:
        """Start nothing."""
        return False

    async def snapshots(self, job_id: str) -> tuple[str, ...]:
        """Return none."""
        return ()

    async def savepoint_stopped_job(self, path: str) -> bool | None:
        """Leave it unread."""
        return None

    async def remove_empty_folders(self, job_ids: Sequence[str]) -> None:
        """Leave the storage as it is."""

    async def _leave(self) -> None:
        """Do nothing."""

    begin_job_manager = end_boosts = close = detach = _leave


class ExternalJobs(FlinkJobs):
    """The foreign job's questions and answers; its client sends nothing but GET.

    Its loops look at the job through `progress`. Flink or its owner restarts it where it fails:
    Weir only says so.
    """

    def __init__(self, runtime: ExternalRuntime, watch: JobWatch) -> None:
        super().__init__(runtime)
        self._watch = watch
        self._made_for = watch.job

    async def rest(self) -> ExternalFlink:
        """Return the client that only reads.

        Raises:
            TemporaryError: The job's service is not known now.
        """
        if self._watch.flink is None:
            raise TemporaryError("The REST service of spec.flink.ref is unknown at the moment")
        return self._watch.flink

    async def progress(self, job_id: str) -> Progress | None:
        """Look at the job.

        Raises:
            JobChangedError: The loops must be made again.
            TemporaryError: It cannot be seen now, or does not run.
            PermanentError: It is ambiguous which job is meant.
        """
        try:
            job = await self._watch.refresh()
        except TemporaryError:
            if self._watch.restarts:
                return Progress(state=JobState.RESTARTING, running=False, ran=True)
            raise
        self._made_for = self._made_for or job
        if not job.is_like(self._made_for):
            raise JobChangedError(
                f"Job {job.name!r} has changed; it now has {', '.join(job.topology.operators)}"
            )
        return Progress(state=JobState.RUNNING, running=True, ran=True, runs_since=job.runs_since)

    async def newest(self, job_id: str) -> StateSnapshot | None:
        """Return none: its owner recovers the job."""
        return None

    async def topology(self, job_id: str) -> Topology:
        """Return the job's vertices as operators.

        Raises:
            TemporaryError: Another job runs now, or none.
        """
        if self._watch.job is None or self._watch.job.id != job_id:
            raise TemporaryError(f"Job {job_id} is not the one that is running now")
        return self._watch.job.topology


class ExternalStore:
    """A status whose job and deployments are those seen, never those of a job of Weir's own.

    What is saved keeps them out: a StreamApp that is taken on to Auto later must not take the
    foreign job for one that Weir started and lost.
    """

    def __init__(self, inner: StatusStore, watch: JobWatch, *, scales: bool = False) -> None:
        """Create it; the journal of a change is kept where Weir `scales` the job."""
        self._inner = inner
        self._watch = watch
        self._scales = scales

    def load(self) -> AppStatus:
        """Return the status with the foreign job in it."""
        job, own = self._watch.job, self._inner.load()
        return own.model_copy(
            update={
                "job_id": None if job is None else job.id,
                "deployments": {} if job is None else job.deployments,
                "rescale": self._change_of(own),
                "suspended": False,
            }
        )

    async def save(self, status: AppStatus) -> None:
        """Keep everything but the foreign job."""
        own = self._inner.load()
        await self._inner.save(
            status.model_copy(
                update={
                    "job_id": own.job_id,
                    "deployments": own.deployments,
                    "rescale": self._change_of(status) or own.rescale,
                    "suspended": own.suspended,
                }
            )
        )

    def _change_of(self, status: AppStatus) -> RescaleJournal | None:
        change = status.rescale
        return change if self._scales and change is not None and change.in_place else None
