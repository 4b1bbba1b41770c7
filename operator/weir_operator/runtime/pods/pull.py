"""Finds out whether a node can pull a job's images, before the job is stopped for them.

A dry run at the API server cannot tell: only a node asks the registry. So one pod of the images,
which does nothing, is placed like the JobManager, watched, and removed. Other nodes may have other
credentials, so that what it shows is a sign, no proof.
"""

from __future__ import annotations

import asyncio

import structlog

from weir_operator.api.client import Body
from weir_operator.errors import PermanentError, TemporaryError
from weir_operator.runtime.pods import manifests
from weir_operator.runtime.pods.objects import AppObjects
from weir_operator.runtime.pods.pods import COMPONENT, FlinkPods

PULL_LIMIT = 120.0
"""Seconds to wait for an answer; without one, the change goes on. A large image takes longer, and
is then half on its node."""
_POLL = 1.0
_FAILURES = frozenset({"ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull"})

log = structlog.get_logger()


async def find_unpulled(objects: AppObjects, pods: FlinkPods) -> str:
    """Return which image of a StreamApp a node cannot pull, one sentence; empty if none is known.

    Raises:
        TemporaryError: The API server does not answer.
    """
    probe = manifests.pull(pods)
    path = objects.path_of(probe)
    try:
        await _remove(objects, path)  # one that an earlier controller left shows other images
        await objects.apply(probe)
        return await _watch(objects, _images(probe["spec"]["template"]))
    except PermanentError as error:
        # A quota or a policy may refuse this pod and no other one: the others are judged by it.
        log.info("images not tried", app=pods.app, reason=str(error))
        return ""
    finally:
        await _remove(objects, path)


async def _watch(objects: AppObjects, images: frozenset[str]) -> str:
    try:
        async with asyncio.timeout(PULL_LIMIT):
            while True:
                for pod in await objects.pods({COMPONENT: manifests.PULL}):
                    if "deletionTimestamp" in pod["metadata"] or _images(pod) != images:
                        continue  # one of before
                    if (failure := explain_failure(pod)) or has_pulled(pod):
                        return failure
                await asyncio.sleep(_POLL)
    except TimeoutError:
        return ""


async def _remove(objects: AppObjects, path: str) -> None:
    try:
        await objects.api.delete(path)
    except TemporaryError as error:
        log.warning("a pod that tried images is left", path=path, reason=str(error))


def _images(pod: Body) -> frozenset[str]:
    return frozenset(each["image"] for each in pod["spec"]["containers"])


def explain_failure(pod: Body) -> str:
    """Return which image the pod's node cannot pull, and why, one sentence; empty without. Pure."""
    for each in pod.get("status", {}).get("containerStatuses") or ():
        waiting = each.get("state", {}).get("waiting", {})
        if waiting.get("reason") in _FAILURES:
            message = waiting.get("message", "")
            node = pod["spec"].get("nodeName", "")
            why = f"{waiting['reason']}: {message}".rstrip(": ")
            return f"Node {node} cannot pull the image {each['image']} ({why})"
    return ""


def has_pulled(pod: Body) -> bool:
    """Return whether the pod's node has all of its images. Pure."""
    known = pod.get("status", {}).get("containerStatuses") or ()
    return len(known) == len(pod["spec"]["containers"]) and all(
        each.get("imageID") for each in known
    )
