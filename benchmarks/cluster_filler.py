"""A pod that takes what is left of a node, so that nobody there can have more."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from benchmarks.cluster_place import IMAGE, Place
from weir_operator.clock import SystemClock, wait_until
from weir_operator.kubernetes.api.client import Body
from weir_operator.streamapp.quantities import Cpu

LEFT = 0.1
"""Cores that stay free: less than any size differs from the next."""
LIMIT = 60.0
"""Seconds until the node has taken the pod, and until it is gone."""


@asynccontextmanager
async def fill_node(place: Place, node: str) -> AsyncIterator[None]:
    """Take the node's free CPU while the context lasts.

    Raises:
        RuntimeError: The node does not take the pod in time.
    """
    pods = f"/api/v1/namespaces/{place.namespace}/pods"
    cores = max(0.0, await _free_cores(place, node) - LEFT)
    await place.api.create(pods, _pod(node, cores))

    async def is_placed() -> bool | None:
        placed = (await place.api.get(f"{pods}/filler"))["spec"].get("nodeName")
        return True if placed else None

    try:
        if await wait_until(is_placed, clock=SystemClock(), timeout=LIMIT) is None:
            raise RuntimeError(f"Expected {node} to take {cores:g} cores within {LIMIT:g} s")
        yield
    finally:
        await place.api.delete(f"{pods}/filler", grace=0)


async def _free_cores(place: Place, node: str) -> float:
    allocatable = (await place.api.get(f"/api/v1/nodes/{node}"))["status"]["allocatable"]["cpu"]
    taken = 0.0
    for pod in await place.api.list("/api/v1/pods", fields=f"spec.nodeName={node}"):
        if pod.get("status", {}).get("phase") in ("Succeeded", "Failed"):
            continue
        for container in pod["spec"]["containers"]:
            asked = container.get("resources", {}).get("requests", {}).get("cpu")
            taken += Cpu(asked).cores if asked else 0.0
    return Cpu(allocatable).cores - taken


def _pod(node: str, cores: float) -> Body:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "filler"},
        "spec": {
            "nodeSelector": {"kubernetes.io/hostname": node},
            "terminationGracePeriodSeconds": 0,
            "securityContext": {
                "runAsNonRoot": True,
                "runAsUser": 9999,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "containers": [
                {
                    "name": "filler",
                    "image": IMAGE,
                    "imagePullPolicy": "IfNotPresent",
                    "command": ["sleep", "infinity"],
                    "resources": {"requests": {"cpu": f"{int(1000 * cores)}m"}},
                    "securityContext": {
                        "allowPrivilegeEscalation": False,
                        "capabilities": {"drop": ["ALL"]},
                    },
                }
            ],
        },
    }
