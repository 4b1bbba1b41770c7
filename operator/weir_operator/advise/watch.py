"""What is known of an external job now, found in the cluster and in Flink at each check."""

from __future__ import annotations

from weir_operator.advise.flink import ExternalFlink
from weir_operator.advise.reference import (
    Reference,
    find_reference,
    job_manager_places,
    place_task_managers,
    pools_of,
)
from weir_operator.advise.view import ExternalJob, PodPlace, view_job
from weir_operator.api.client import KubernetesApi
from weir_operator.errors import PermanentError, TemporaryError, WeirError
from weir_operator.flink.answers import JobDetails, JobSummary
from weir_operator.streamapp.flink import RefKind
from weir_operator.streamapp.models import Mode, StreamApp
from weir_operator.streamapp.pools import NodePool

WHOLE_LOOK_EVERY = 20
"""Checks after which everything is read again, whether or not Flink reports a change:
TaskManagers that come without work are paid for too."""


class JobWatch:
    """Keeps the newest view of the job that a StreamApp refers to.

    A job that Flink says has not changed costs one question a look, and that of a
    FlinkBlueGreenDeployment three more, because another cluster may be the active one by now.
    """

    def __init__(self, app: StreamApp, api: KubernetesApi) -> None:
        self._app = app
        self._api = api
        self.job: ExternalJob | None = None
        """The job as it was last seen running; `None` while none runs."""
        self.restarts = False
        """Whether the last look found this job, but not all of its tasks in their places."""
        self.reference: Reference | None = None
        self.flink: ExternalFlink | None = None
        self.job_managers: tuple[PodPlace, ...] = ()
        self.pools: tuple[NodePool, ...] = app.spec.node_pools
        """The manifest's, or the one that the job's TaskManagers form."""
        self._places: dict[str, PodPlace] = {}
        self._seen: JobSummary | None = None
        self._looks = 0
        ref = app.spec.flink.ref
        self._is_pair = ref is not None and ref.kind is RefKind.FLINK_BLUE_GREEN_DEPLOYMENT

    @property
    def namespace(self) -> str:
        """Where the job runs."""
        return self._app.metadata.namespace

    async def refresh(self, *, whole: bool = False) -> ExternalJob:
        """Look at the job and return it.

        Args:
            whole: Read everything, even if Flink says that nothing has changed.

        Raises:
            PermanentError: What `spec.flink.ref` names does not exist, or runs several jobs.
            TemporaryError: No job runs, or someone did not answer; the last view stands.
        """
        self.restarts = False
        reference, flink = await self._reach()
        try:
            run = await self._find_run(flink)
            self._looks += 1
            whole = whole or self._looks % WHOLE_LOOK_EVERY == 0
            if self.job is not None and run == self._seen and not whole:
                return self.job
            job = await flink.job(run.id)
            if job is None or not job.vertices:
                raise TemporaryError(f"Job {run.name!r} of spec.flink.ref is not running yet")
            subtasks = {
                vertex.id: await flink.subtasks(job.id, vertex.id) for vertex in job.vertices
            }
            hosts = await flink.task_managers()
        except TemporaryError:
            await self.close()  # its service may have been made again, with another address
            raise
        pools, in_place = self.pools, self._app.spec.mode is Mode.AUTO
        if {each.id for each in hosts} != self._places.keys():
            # Pods are asked for only then: a namespace may have hundreds.
            self._places = await place_task_managers(self._api, reference.namespace, hosts, pools)
            self.job_managers = await job_manager_places(self._api, reference, pools)
        self.restarts = self.job is not None and self.job.id == run.id
        self.job = view_job(
            job, subtasks, self._places, pools=pools, url=reference.rest_url, in_place=in_place
        )
        self._seen, self.restarts = run, False
        return self.job

    async def run(self) -> JobDetails:
        """Return the job as Flink shows it at this moment; what is known of it stays.

        Raises:
            PermanentError, TemporaryError: See `refresh`.
        """
        _, flink = await self._reach()
        try:
            run = await self._find_run(flink)
            job = await flink.job(run.id)
        except TemporaryError:
            await self.close()
            raise
        if job is None:
            raise TemporaryError(f"Job {run.name!r} of spec.flink.ref is not running yet")
        return job

    async def _reach(self) -> tuple[Reference, ExternalFlink]:
        if self.reference is None or self.flink is None or self._is_pair:
            try:
                reference = await find_reference(self._api, self._app)
            except WeirError:
                if self._is_pair:  # the job that was seen may be the active one no more
                    self.job = None
                    await self.close()
                raise
            if (
                self.reference is None
                or self.flink is None
                or reference.rest_url != self.reference.rest_url
            ):
                await self.close()
                self.flink, self._seen = ExternalFlink(reference.rest_url), None
            self.reference, self.pools = reference, pools_of(self._app, reference)
        return self.reference, self.flink

    async def close(self) -> None:
        """Release the connections."""
        flink, self.flink, self.reference = self.flink, None, None
        if flink is not None:
            await flink.close()

    async def _find_run(self, flink: ExternalFlink) -> JobSummary:
        runs = [job for job in await flink.jobs() if not job.state.is_over]
        if len(runs) > 1:
            names = ", ".join(sorted(run.name for run in runs))
            raise PermanentError(
                f"spec.flink.ref: expected a cluster that runs one job, got {len(runs)}: "
                f"{names}; Weir advises only clusters with one job"
            )
        if not runs:
            self.job = None
            raise TemporaryError(
                "spec.flink.ref: expected a running job on the cluster that it names, got none"
            )
        return runs[0]
