"""Resizes running pods in place, through the subresource `pods/resize`: CPU only.

The node decides. If it can never give the size, it says `Infeasible`; if it cannot now, `Deferred`.
Weir waits a little in both cases, because another pod may just be leaving, and then withdraws the
resize, so that the change can become a rescale.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from weir_operator.api.client import Body, NotFoundError, RefusedByKubernetesError
from weir_operator.errors import ResizeRefusedError, TemporaryError
from weir_operator.runtime.pods.objects import AppObjects
from weir_operator.runtime.pods.pod_spec import CONTAINER
from weir_operator.runtime.pods.pod_states import asked_cpu, condition, cpu_of, is_alive
from weir_operator.runtime.pods.pods import SIZE, UNBOOSTED
from weir_operator.streamapp.quantities import Cpu

STRATEGIC_PATCH = "application/strategic-merge-patch+json"
RESIZE_LIMIT = 30.0
"""Seconds in which the node gives a size; measured 1-2."""
DEFERRED_LIMIT = 20.0
"""Seconds for which a node that has no room now is waited for: longer than pods that start beside
it have more CPU."""
_POLL = 0.1


async def resize(objects: AppObjects, sizes: Mapping[str, str]) -> None:
    """Give pods (by name) other CPU shares, all of them or none.

    Raises:
        ResizeRefusedError: A pod is gone, or its node cannot give the size; what was given was
            taken back.
        TemporaryError: A node does not say whether it gives it.
    """
    before: dict[str, str] = {}
    try:
        for name, size in sizes.items():
            pod = await _pod(objects, name)
            before[name] = asked_cpu(pod)
            if Cpu(before[name]).cores != Cpu(size).cores:
                await ask_for_cpu(objects, name, size)
        await asyncio.gather(*(wait_for_cpu(objects, name, size) for name, size in sizes.items()))
    except (ResizeRefusedError, TemporaryError):
        for name, size in before.items():
            await _take_back(objects, name, size)
        raise
    for name, size in sizes.items():
        annotations = {SIZE: size, UNBOOSTED: None}
        await objects.api.patch(
            objects.path("Pod", name), {"metadata": {"annotations": annotations}}
        )


async def ask_for_cpu(objects: AppObjects, name: str, size: str) -> None:
    """Ask for another CPU share of a pod.

    Raises:
        ResizeRefusedError: The API server refuses, or there is no such pod.
    """
    cpu = {"cpu": size}
    container = {"name": CONTAINER, "resources": {"requests": cpu, "limits": cpu}}
    try:
        await objects.api.patch(
            f"{objects.path('Pod', name)}/resize",
            {"spec": {"containers": [container]}},
            STRATEGIC_PATCH,
        )
    except (RefusedByKubernetesError, NotFoundError) as error:
        # A quota, a policy, a Kubernetes before 1.33, or no right to: all end in a rescale.
        raise ResizeRefusedError(f"{name} does not get {size}: {error}") from error


async def wait_for_cpu(
    objects: AppObjects, name: str, size: str, *, deferred: float | None = None
) -> None:
    """Wait until a pod's node has given the CPU share that was asked for.

    Raises:
        ResizeRefusedError: It cannot, or has had no room for `deferred` seconds (`DEFERRED_LIMIT`).
        TemporaryError: It does not say whether it does.
    """
    loop = asyncio.get_running_loop()
    began = loop.time()
    limit = DEFERRED_LIMIT if deferred is None else deferred
    while True:
        pod = await _pod(objects, name)
        if Cpu(cpu_of(pod)).cores == Cpu(size).cores and not condition(pod, "PodResizeInProgress"):
            return
        pending, waited = condition(pod, "PodResizePending"), loop.time() - began
        reason = pending.get("reason", "")
        if reason == "Infeasible" or (reason == "Deferred" and waited >= limit):
            raise ResizeRefusedError(
                f"{name} does not get {size}: {reason}, {pending.get('message', '')}"
            )
        if waited >= RESIZE_LIMIT:
            raise TemporaryError(
                f"The node of {name} did not resize it to {size} within {RESIZE_LIMIT:g} s"
            )
        await asyncio.sleep(_POLL)


async def _take_back(objects: AppObjects, name: str, size: str) -> None:
    try:
        await ask_for_cpu(objects, name, size)
    except ResizeRefusedError:
        return  # it is gone, or keeps what it has: the status shows which


async def _pod(objects: AppObjects, name: str) -> Body:
    pod = await objects.find("Pod", name)
    if pod is None or not is_alive(pod):
        raise ResizeRefusedError(f"Expected {name} to be running, got no such pod")
    return pod
