"""Tries a revision's JobManager beside the job that runs, before the job is stopped for it.

A dry run at the API server shows neither whether a node can pull the images nor whether the program
builds a job. So one JobManager of the new revision is started: without high availability, without
the job's storage, and with no TaskManagers, so no job can run on it. It runs the program's `main`,
as a submission would, says what that builds, and is removed. It shows what is wrong; it does not
prove that nothing is: other nodes may have other credentials, and only a restore reads the state.
"""

from __future__ import annotations

import asyncio

import structlog

from weir_operator.api.client import Body
from weir_operator.errors import PermanentError, TemporaryError
from weir_operator.runtime.pods import manifests
from weir_operator.runtime.pods.configuration import JAR_ID, REST_PORT
from weir_operator.runtime.pods.objects import AppObjects
from weir_operator.runtime.pods.pod_spec import CONTAINER
from weir_operator.runtime.pods.pod_states import condition, obstacle, runs, url
from weir_operator.runtime.pods.pods import COMPONENT, REVISION, FlinkPods
from weir_operator.runtime.protocol import CheckProgram

TRIAL_LIMIT = 120.0
"""Seconds to wait for an answer; without one, the change goes on. A large image takes longer, and
is then half on its node."""
ROOM_LIMIT = 20.0
"""Seconds to wait for room for the pod; without any, the change goes on."""
_POLL = 1.0
_PULL_FAILURES = frozenset(
    {"ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull"}
)

log = structlog.get_logger()


async def try_job_manager(objects: AppObjects, pods: FlinkPods, check: CheckProgram) -> str:
    """Return why a StreamApp's JobManager or program would not run, with a remedy; else empty.

    Raises:
        TemporaryError: The API server does not answer.
    """
    files, workload = manifests.trial(pods)
    paths = [objects.path_of(workload), objects.path_of(files)]
    try:
        await _remove(objects, paths[0])  # one that an earlier controller left
        await objects.apply(files, workload)
    except PermanentError as error:
        # A quota or a policy may refuse this pod and no other one: the others are judged by it.
        log.info("job manager not tried", app=pods.app, reason=str(error))
        return ""
    else:
        return await _watch(objects, pods, check)
    finally:
        for path in paths:
            await _remove(objects, path)


async def remove_trial(objects: AppObjects, pods: FlinkPods) -> None:
    """Remove the JobManager that a controller left which ended in a trial."""
    await _remove(objects, objects.path_of(manifests.trial(pods)[1]))


async def _watch(objects: AppObjects, pods: FlinkPods, check: CheckProgram) -> str:
    loop = asyncio.get_running_loop()
    began, without = loop.time(), "nothing"
    try:
        async with asyncio.timeout(TRIAL_LIMIT):
            while True:
                placed = False
                for pod in await objects.pods({COMPONENT: manifests.TRIAL}):
                    labels = pod["metadata"]["labels"]
                    if "deletionTimestamp" in pod["metadata"] or labels[REVISION] != pods.revision:
                        continue  # one of before
                    placed = placed or condition(pod, "PodScheduled").get("status") != "False"
                    if failure := explain_failure(pod):
                        return f"{failure}; correct spec.flink, the registry, or Weir's own image"
                    if not runs(pod) or "podIP" not in pod["status"]:
                        continue
                    try:
                        await check(url(pod["status"]["podIP"], REST_PORT), JAR_ID)
                    except TemporaryError as error:
                        without = str(error)  # it starts, or a catalog does not answer
                    except PermanentError as error:
                        return str(error)
                    else:
                        return ""
                if not placed and loop.time() - began >= ROOM_LIMIT:
                    without = "no room"
                    break
                await asyncio.sleep(_POLL)
    except TimeoutError:
        pass
    log.info("job manager tried without an answer", app=pods.app, got=without)
    return ""


async def _remove(objects: AppObjects, path: str) -> None:
    try:
        await objects.api.delete(path)
    except TemporaryError as error:
        log.warning("left behind by a trial", path=path, reason=str(error))


def explain_failure(pod: Body) -> str:
    """Return what keeps the pod's JobManager from running, one sentence; empty without. Pure.

    Only what the next JobManager would meet, too: a volume that the running one holds is no
    failure, nor is a container beside it.
    """
    status, node = pod.get("status", {}), pod["spec"].get("nodeName", "")
    known = status.get("containerStatuses") or ()
    main = [each for each in known if each["name"] == CONTAINER]
    for each in (*(status.get("initContainerStatuses") or ()), *main):
        waiting = each.get("state", {}).get("waiting", {})
        if waiting.get("reason") in _PULL_FAILURES:
            why = f"{waiting['reason']}: {waiting.get('message', '')}".rstrip(": ")
            return f"Node {node} cannot pull the image {each['image']} ({why})"
        if told := obstacle(each):
            return told
    return ""
