"""Flink as pods: the `Runtime` of one StreamApp on a Kubernetes cluster.

Weir is not in the data path. The JobManager recovers its job with Flink's own high availability,
and ReplicaSets replace lost TaskManagers, also without a controller. The next controller finds
everything by labels; no state is kept here. All objects are the StreamApp's dependents.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from weir_operator.api.client import Body, KubernetesApi
from weir_operator.errors import PermanentError
from weir_operator.flink.rest import FlinkRest
from weir_operator.flink.stored_state import (
    list_snapshots,
    remove_empty_folders,
    savepoint_stopped_job,
)
from weir_operator.runtime.pods import job_manager, manifests, task_managers
from weir_operator.runtime.pods.boost import Boosts
from weir_operator.runtime.pods.changes import Changes, Mark
from weir_operator.runtime.pods.configuration import JAR_ID
from weir_operator.runtime.pods.job_manager import JobManagerPod
from weir_operator.runtime.pods.nodes import NodeNotices
from weir_operator.runtime.pods.objects import AppObjects
from weir_operator.runtime.pods.pods import (
    COMPONENT,
    OPERATOR,
    POOL,
    FlinkPods,
)
from weir_operator.runtime.pods.resize import resize
from weir_operator.runtime.pods.task_managers import TaskManagerPods
from weir_operator.runtime.pods.trial import remove_trial, try_job_manager
from weir_operator.runtime.protocol import CheckProgram, Replica, ReplicaSpec
from weir_operator.runtime.registration import forgotten_within, wait_unregistered
from weir_operator.runtime.revision import AgentImage, Revision

_ANY_CONFIG = "config"
"""Stands for a ConfigMap in an object that is only judged."""

LISTED_WITHIN = 90.0
"""Seconds after which any storage lists what was written to it: a directory cache of NFS holds for
up to a minute."""
CLOSE_LIMIT = 90.0
"""Seconds until all pods are gone; each may take its grace period of 30."""
FRESH_FOR = 0.25
"""Seconds for which a list of pods serves: the engine asks twenty times a second."""


@dataclass(frozen=True, kw_only=True, slots=True)
class _Seen:
    """TaskManagers as they were listed, and what they were taken from."""

    replicas: tuple[Replica, ...]
    time: float
    mark: Mark | None
    going: Mapping[str, str]
    pods: FlinkPods


class KubernetesRuntime:
    """The `Runtime` of one StreamApp on a cluster; making one touches nothing."""

    def __init__(
        self,
        api: KubernetesApi,
        pods: FlinkPods,
        nodes: NodeNotices,
        changes: Changes | None = None,
    ) -> None:
        """Create the runtime.

        Args:
            api: The cluster.
            pods: What the StreamApp's pods are made of.
            nodes: What is known of nodes that go; one for all StreamApps.
            changes: When to look again, also for all; `None` looks every time.
        """
        self._guard = api.guard
        self._nodes = nodes
        self._given = self._pods = pods
        self._used: Revision | None = None
        self._objects = AppObjects(api, pods, changes)
        self._boosts = Boosts(self._objects)
        self._job_manager = JobManagerPod(self._objects, pods, self._boosts.begin)
        self._task_managers = TaskManagerPods(self._objects, nodes)
        # One change at a time: pods are counted, and then there are more or fewer.
        self._changing = asyncio.Lock()
        self._seen: _Seen | None = None
        self._is_cleared = False  # of what an earlier controller tried
        self._whole: tuple[Mark, FlinkPods] | None = None  # when no ConfigMap was missing

    @property
    def rest_url(self) -> str:
        """Flink's REST address."""
        return self._job_manager.rest_url

    @property
    def job_manager_process(self) -> str:
        """Which process the JobManager was when it was last ensured."""
        return self._job_manager.process

    @property
    def listed_within(self) -> float:
        """Seconds after which the storage lists what was written to it."""
        return LISTED_WITHIN

    @property
    def agent(self) -> AgentImage | None:
        """Where new revisions get Weir's agent from."""
        return self._given.agent

    def use(self, revision: Revision) -> None:
        """Make what is started from now on of `revision`."""
        if revision != self._used:
            self._pods, self._used = self._given.with_revision(revision), revision

    async def find_misfit(
        self, revision: Revision, pools: Collection[str], check: CheckProgram | None = None
    ) -> str:
        """Return why the cluster or Flink cannot run `revision` now, with a remedy; else empty.

        The API server, which is sent whole objects, and a JobManager of the revision cost more.
        """
        places = {f"a replica in pool {name}": revision.places.get(name) for name in sorted(pools)}
        for who, place in {"the JobManager": revision.job_manager, **places}.items():
            if place is not None and (misfit := await self._nodes.find_misfit(place)):
                remedy = "add one, or correct the pool in spec.nodePools"
                return f"{misfit}, which {who} requires; {remedy}"
        if check is None:
            return ""
        pods = self._given.with_revision(revision)
        refusal = await self._find_refusal(pods, pools)
        return refusal or await try_job_manager(self._objects, pods, check)

    async def _find_refusal(self, pods: FlinkPods, pools: Collection[str]) -> str:
        """Return what the API server has against pods, which it is asked without making them."""
        operator = next(iter(pods.memory_needs))  # those of others differ in memory alone
        workloads = [manifests.job_manager(pods, _ANY_CONFIG)]
        workloads += [
            manifests.task_managers(
                pods,
                operator,
                pool,
                size=str(pods.pools[pool].sizes[0]),
                replicas=0,
                config_map=_ANY_CONFIG,
            )
            for pool in sorted(pools)
            if pool in pods.pools
        ]
        for each in workloads:
            try:
                await self._objects.check(each)
            except PermanentError as error:
                return f"{error}; correct the StreamApp"
        return ""

    async def ensure_job_manager(self) -> bool:
        """Bring the JobManager about and wait for REST; return whether a session is gone.

        Raises:
            TemporaryError: It does not answer in time, `PodsPendingError` where its pod is why.
            PermanentError: The cluster refuses an object.
        """
        async with self._changing:
            if not self._is_cleared:
                await remove_trial(self._objects, self._pods)
                self._is_cleared = True
            await self._restore_files()
            return await self._job_manager.ensure(self._pods)

    async def begin_job_manager(self) -> None:
        """Replace a JobManager of another revision, and wait for the new one's place alone.

        Raises:
            TemporaryError: It is not placed in time, `PodsPendingError` where its pod is why.
            PermanentError: The cluster refuses an object.
        """
        async with self._changing:
            await self._job_manager.begin(self._pods)

    async def _restore_files(self) -> None:
        """Make the ConfigMaps again that somebody deleted: no lost pod starts without its own.

        One that an earlier Weir made otherwise is left: it goes with the next change of its pods.
        """
        mark, pods = self._objects.mark(), self._pods
        if self._whole is not None and self._whole[0] == mark and self._whole[1] is pods:
            return
        for workload in await self._objects.without_files():
            labels = workload["metadata"]["labels"]
            files: Body | None = None
            if labels[COMPONENT] == manifests.JOB_MANAGER:
                results = job_manager.results_of(workload)
                files = job_manager.make_files(replace(pods, results=results))
            elif labels.get(POOL) in pods.places:
                files = task_managers.make_files(pods, labels[OPERATOR], labels[POOL])
            if files is None:
                continue  # a pool of before
            volumes = workload["spec"]["template"]["spec"]["volumes"]
            if files["metadata"]["name"] in {
                each["configMap"]["name"] for each in volumes if "configMap" in each
            }:
                await self._objects.apply(files)
        self._whole = None if mark is None else (mark, pods)

    async def replicas(self) -> tuple[Replica, ...]:
        """Return the TaskManagers that are alive or about to be, ordered by id."""
        now = asyncio.get_running_loop().time()
        seen, pods = self._seen, self._pods
        if seen is not None and now - seen.time < FRESH_FOR:
            return seen.replicas
        mark, going = self._objects.mark(), await self._nodes.going()
        if (
            seen is None
            or mark is None
            or (seen.mark, seen.going) != (mark, going)
            or (seen.pods is not pods)
        ):
            replicas = await self._task_managers.replicas(pods)
            seen = _Seen(replicas=replicas, time=now, mark=mark, going=going, pods=pods)
            self._seen = seen
        return seen.replicas

    async def start(self, wanted: Sequence[ReplicaSpec]) -> tuple[str, ...]:
        """Start one TaskManager per spec, return their ids; does not wait for registration."""
        async with self._changing:
            try:
                started = await self._task_managers.start(self._pods, wanted)
            finally:
                self._seen = None
            if started:
                self._boosts.begin()
            return started

    async def end_boosts(self) -> None:
        """Give pods that have more CPU while they start their sizes again."""
        await self._boosts.end()

    async def prepare_stop(self, ids: Sequence[str]) -> None:
        """Tell the cluster which TaskManagers are the next to go."""
        async with self._changing:
            await self._task_managers.prepare_stop(ids)

    async def stop(self, ids: Sequence[str]) -> None:
        """End these TaskManagers and wait until Flink counts on them no more.

        Their pods take some seconds longer to be cleared away, for which nobody needs to wait.
        """
        async with self._changing:
            try:
                await self._task_managers.stop(self._pods, ids)
            finally:
                self._seen = None
        if ids:
            async with FlinkRest(self.rest_url) as rest:
                limit = forgotten_within(self._pods.make.config)
                await wait_unregistered(rest, ids, timeout=limit)

    async def resize(self, sizes: Mapping[str, str]) -> None:
        """Give replicas (by id) another size of their pool, in place."""
        async with self._changing:
            await self._boosts.stop()
            groups = {
                each.id: (each.operator, each.pool)
                for each in await self._task_managers.replicas(self._pods)
            }
            try:
                await resize(self._objects, sizes)
                await self._task_managers.remember_sizes(
                    {groups[name]: size for name, size in sizes.items()}, self._pods
                )
            finally:
                self._seen = None

    async def provide_jar(self) -> str:
        """Return the id of the job's jar, which the JobManager has from its image.

        Raises:
            PermanentError: It does not list it.
        """
        async with FlinkRest(self.rest_url) as rest:
            if JAR_ID not in await rest.jars():
                raise PermanentError(
                    f"Expected the JobManager of {self._pods.app} to list {JAR_ID}, got nothing;"
                    " its image must have the job's jar, see spec.flink.job.jar"
                )
        return JAR_ID

    async def snapshots(self, job_id: str) -> tuple[str, ...]:
        """Return the job's complete savepoints and checkpoints in the storage, oldest first.

        The folder itself is out of reach from here: the JobManager looks.
        """
        async with FlinkRest(self.rest_url, guard=self._guard) as rest:
            return await list_snapshots(rest, job_id, self._pods.storage)

    async def savepoint_stopped_job(self, path: str) -> bool | None:
        """Return whether a savepoint was taken to stop its job; `None` where it does not say."""
        async with FlinkRest(self.rest_url, guard=self._guard) as rest:
            return await savepoint_stopped_job(rest, path)

    async def remove_empty_folders(self, job_ids: Sequence[str]) -> None:
        """Remove the folders that ended jobs left in the storage, where nothing is in them."""
        async with FlinkRest(self.rest_url, guard=self._guard) as rest:
            await remove_empty_folders(rest, job_ids, self._pods.storage)

    async def close(self) -> None:
        """Delete every object of the StreamApp's Flink and wait until all pods are gone.

        Raises:
            TemporaryError: A pod is still there after the time.
        """
        async with self._changing:
            await self._boosts.stop()
            await self._objects.delete_all(timeout=CLOSE_LIMIT)
            self._seen = None

    async def detach(self) -> None:
        """Close without ending anything: the next controller ends boosts."""
        await self._boosts.stop()
