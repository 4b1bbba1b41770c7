"""The JobManager of one StreamApp as a Deployment, with the objects that it needs.

Flink 2.3.0 can leave a result of an ended job with which no JobManager can start
(`pod_states.cannot_take_up`). Then Weir makes Flink forget all jobs, also running ones: it removes
their graphs from Flink's ConfigMap, and the next JobManager keeps results in a new folder. The job
resumes from its newest state, as after any loss (`rescale.stopping`).
"""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Callable
from dataclasses import replace

import structlog

from weir_operator.api.client import Body
from weir_operator.errors import PodsPendingError, TemporaryError
from weir_operator.flink.rest import FlinkRest
from weir_operator.runtime.pods import manifests
from weir_operator.runtime.pods.changes import Mark
from weir_operator.runtime.pods.configuration import (
    REST_PORT,
    RESULTS_PATHS,
    config_map,
    job_manager_files,
    job_manager_jars,
)
from weir_operator.runtime.pods.objects import AppObjects
from weir_operator.runtime.pods.pod_states import (
    cannot_take_up,
    find_refusal,
    is_alive,
    process_of,
    url,
    waiting_for,
)
from weir_operator.runtime.pods.pods import RESULTS, REVISION, FlinkPods

START_LIMIT = 120.0
"""Seconds in which it must answer: the image may have to be fetched."""
PENDING_LIMIT = 20.0
"""Seconds for which a pod that no node takes, or whose image cannot be had, is waited for."""
ANSWER_LIMIT = 2.0
"""Seconds for one answer while it starts."""
_POLL = 0.2  # seconds between two questions while it starts
_SLOW_POLL = 1.0  # the same, once it takes long
_GRAPHS = "executionPlan-"
"""What the keys of jobs' graphs begin with in the ConfigMap that Flink 2.3.0 writes."""

log = structlog.get_logger()


class JobManagerPod:
    """Makes, finds and upgrades the one JobManager of a StreamApp."""

    def __init__(self, objects: AppObjects, pods: FlinkPods, on_made: Callable[[], None]) -> None:
        """Create it; `on_made` is called when its pod is made, and before it is waited for."""
        self._objects = objects
        self._on_made = on_made
        self._address = f"{pods.job_manager}.{pods.namespace}.svc"
        self._applied: FlinkPods | None = None
        self.process = ""
        """Which process it was when it was last ensured; empty if unknown."""
        self._found: tuple[Mark, FlinkPods] | None = None
        self._has_lost_session = False  # and no caller of `ensure` knows it yet
        self._results = ""

    @property
    def rest_url(self) -> str:
        """Flink's REST address; the Service's name until its address is known."""
        return url(self._address, REST_PORT)

    async def ensure(self, pods: FlinkPods) -> bool:
        """Bring it about and wait until it answers; return whether a session before it is gone.

        Where state outlives the pod, Flink takes up the job again by itself after a loss; the very
        first JobManager has nothing to take up.

        Raises:
            TemporaryError: It does not answer in time.
            PodsPendingError: Its pod does not run.
            PermanentError: The cluster refuses an object, or it is there and is not Weir's.
        """
        mark = self._objects.mark()
        if self._found is not None and self._found[0] == mark and self._found[1] is pods:
            await self._wait_for_answer(pods)
            return False
        await self._provide(pods)
        await self._wait_for_answer(pods)
        another = await self._is_another_process()
        # Where state outlives the process, so does the session.
        lost = self._has_lost_session or (another and not pods.survives)
        self._has_lost_session = False
        self._found = None if mark is None else (mark, pods)
        return lost

    async def begin(self, pods: FlinkPods) -> None:
        """Create its objects and wait until its pod is assigned to a node; `ensure` waits further.

        After that, none of an earlier revision is left, and what starts next cannot take its place.

        Raises:
            TemporaryError: It is not placed in time, or an earlier one is not gone.
            PodsPendingError: No node has room for it, or the cluster makes no pod.
            PermanentError: As in `ensure`.
        """
        await self._provide(pods)
        began = _now()
        while not any(is_alive(pod) and pod["spec"].get("nodeName") for pod in await self._pods()):
            waited = _now() - began
            if waited >= PENDING_LIMIT:
                await self._check_pending(pods)
            if waited >= START_LIMIT:
                raise TemporaryError(
                    f"The JobManager of {pods.app} got no node within {START_LIMIT:g} s: look at "
                    "the events of its pod"
                )
            await asyncio.sleep(_POLL)

    async def _provide(self, pods: FlinkPods) -> None:
        """Make its objects where they are not there, or are of an earlier revision."""
        found = await self._objects.find("Deployment", pods.job_manager)
        if found is not None:
            self._objects.check_owner("Deployment", found)
            self._results = results_of(found)
        # Somebody may have deleted the Deployment: its successor takes up the job all the same.
        if found is None and not (pods.survives and await self._objects.recovery()):
            self._has_lost_session = True
        if found is None or self._applied is not pods:
            await self._surround(pods)
            # One that runs is left as it is, unless the job is upgraded: a newer Weir, or more
            # memory for the JobManager, is no reason to restart everybody's jobs.
            if found is None or found["metadata"]["labels"].get(REVISION) != pods.revision:
                await self._make(pods)
                self._on_made()
                await self._wait_for_rollout(pods)
            self._applied = pods

    async def _surround(self, pods: FlinkPods) -> None:
        await self._objects.apply(
            *manifests.accounts(pods),
            manifests.network_policy(pods),
            manifests.service(pods),
            manifests.disruption_budget(pods),
        )
        made = await self._objects.api.get(self._objects.path("Service", pods.job_manager))
        # By address, so that nothing waits for a name; it stays as long as the Service does.
        self._address = made["spec"]["clusterIP"]

    async def _make(self, pods: FlinkPods) -> None:
        pods = replace(pods, results=self._results)
        files = make_files(pods)
        await self._objects.apply(files, manifests.job_manager(pods, files["metadata"]["name"]))

    async def _wait_for_rollout(self, pods: FlinkPods) -> None:
        """Wait until no pod of an earlier revision is left, which could still answer."""
        deadline = _now() + START_LIMIT
        while any(
            pod["metadata"]["labels"].get(REVISION) != pods.revision for pod in await self._pods()
        ):
            if _now() >= deadline:
                raise TemporaryError(
                    f"The JobManager of {pods.app} was not replaced within {START_LIMIT:g} s"
                )
            await asyncio.sleep(_POLL)

    async def _wait_for_answer(self, pods: FlinkPods) -> None:
        began = _now()
        async with FlinkRest(self.rest_url, timeout=ANSWER_LIMIT) as rest:
            while True:
                try:
                    # An election that is not over is answered with 503: jobs are taken up before.
                    await rest.jobs()
                    return
                except TemporaryError as error:
                    waited = _now() - began
                    if waited >= PENDING_LIMIT and await self._check_pending(pods):
                        began, waited = _now(), 0.0
                    if waited >= START_LIMIT:
                        raise TemporaryError(
                            f"The JobManager of {pods.app} did not answer within "
                            f"{START_LIMIT:g} s: {error}"
                        ) from error
                await asyncio.sleep(_POLL if waited < PENDING_LIMIT else _SLOW_POLL)

    async def _check_pending(self, pods: FlinkPods) -> bool:
        """Return whether what kept the pod from running was just removed."""
        found = await self._pods()
        for pod in found:
            if results_of(pod) != self._results:
                continue  # one of before, that goes
            reason = waiting_for(pod, time.time())
            if reason and cannot_take_up(pod) and _may_forget(pods):
                await self._forget_jobs(pods)
                return True
            if reason:
                raise PodsPendingError(f"The JobManager of {pods.app} is not running: {reason}", ())
        made = await self._objects.find("Deployment", pods.job_manager)
        refusal = find_refusal(made)
        if refusal is not None and not any(map(is_alive, found)):
            raise PodsPendingError(
                f"The cluster rejects the JobManager of {pods.app}: {refusal}", ()
            )
        return False

    async def _forget_jobs(self, pods: FlinkPods) -> None:
        """Have the next JobManager begin without any job, and make it."""
        log.warning("an ended job's result keeps Flink from starting; left behind", app=pods.app)
        for each in await self._objects.recovery():
            graphs = [key for key in each.get("data") or () if key.startswith(_GRAPHS)]
            if graphs:  # first, or a job that has ended would be recovered
                path = self._objects.path("ConfigMap", each["metadata"]["name"])
                await self._objects.api.patch(path, {"data": dict.fromkeys(graphs)})
        self._results = f"results-{uuid.uuid4().hex[:8]}"
        await self._make(pods)

    async def _is_another_process(self) -> bool:
        """Return whether its process is another than when it was last ensured, and note it."""
        known = [process_of(pod) for pod in await self._pods() if is_alive(pod)]
        if not known or not known[0]:
            return False  # the next check sees the one that follows
        before, self.process = self.process, known[0]
        return bool(before) and before != self.process

    async def _pods(self) -> tuple[Body, ...]:
        return await self._objects.pods({"weir.dev/component": manifests.JOB_MANAGER})


def make_files(pods: FlinkPods) -> Body:
    """Return the JobManager's ConfigMap."""
    labels = pods.labels(manifests.JOB_MANAGER)
    return config_map(
        pods, pods.job_manager, labels, job_manager_files(pods), job_manager_jars(pods)
    )


def results_of(thing: Body) -> str:
    """Return `FlinkPods.results` of a JobManager's Deployment or pod."""
    return str((thing["metadata"].get("annotations") or {}).get(RESULTS, ""))


def _may_forget(pods: FlinkPods) -> bool:
    return pods.survives and not set(RESULTS_PATHS) & pods.make.config.keys()


def _now() -> float:
    return asyncio.get_running_loop().time()
