"""A namespace of its own on the cluster that KUBECONFIG names, with a volume for state.

Benchmarks and the tests on a cluster use it. The cluster's nodes must share this machine's disk,
because ledgers and savepoints are looked at from here, and must have the image in `WEIR_TEST_IMAGE`
(`trips:dev`, made by `examples/trips/Dockerfile`).
"""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from weir_operator.api.client import Body, KubernetesApi, NotFoundError
from weir_operator.clock import SystemClock, wait_until
from weir_operator.runtime.pods.pods import STATE_MOUNT

IMAGE = os.environ.get("WEIR_TEST_IMAGE", "trips:dev")
CLAIM = "state"
OWNER = "owner"
"""Name of the ConfigMap that stands for the StreamApp, so that no definition need be installed."""
_CORE = "/api/v1"
_ANY_SIZE = {"storage": "1Gi"}  # a folder has no size: claim and volume only have to agree


@dataclass(frozen=True, kw_only=True, slots=True)
class Place:
    api: KubernetesApi
    namespace: str
    owner_uid: str
    """Uid of the object with which everything else goes."""
    state: Path
    """The volume's folder on this machine."""

    def inside(self, path: Path) -> str:
        """Return how the containers call a path of the volume."""
        return f"{STATE_MOUNT}/{path.relative_to(self.state)}"

    def outside(self, uri: str) -> Path:
        """Return where a URI of Flink's that names something on the volume is on this machine."""
        return self.state / uri.removeprefix("file:").lstrip("/").removeprefix(
            f"{STATE_MOUNT.strip('/')}/"
        )

    async def pods(self, component: str) -> tuple[Body, ...]:
        """Return the pods of a component: `jobmanager` or `taskmanager`."""
        path = f"{_CORE}/namespaces/{self.namespace}/pods"
        return await self.api.list(path, labels=f"weir.dev/component={component}")


@asynccontextmanager
async def open_place(prefix: str) -> AsyncIterator[Place]:
    """Make a namespace with restricted pod security and a claim; clear both away at the end."""
    name = f"{prefix}-{uuid.uuid4().hex[:8]}"
    folder = Path(f"/var/tmp/{name}")  # the pods' user must be able to walk to it
    folder.mkdir()
    folder.chmod(0o777)
    api = await KubernetesApi.connect()
    try:
        owner = await _make(api, name, folder)
        yield Place(api=api, namespace=name, owner_uid=owner, state=folder)
    finally:
        await api.delete(f"{_CORE}/namespaces/{name}")
        await delete_volume(api, name)
        await api.close()
        shutil.rmtree(folder, ignore_errors=True)


async def _make(api: KubernetesApi, name: str, folder: Path) -> str:
    """Make everything and return the owner's uid."""
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    await api.create(
        f"{_CORE}/namespaces",
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}},
    )
    await make_claim(api, name, CLAIM, volume=name, folder=folder)
    claim = f"{_CORE}/namespaces/{name}/persistentvolumeclaims/{CLAIM}"

    async def is_bound() -> bool | None:
        status = (await api.get(claim)).get("status", {})
        return True if status.get("phase") == "Bound" else None

    # A cluster that has just begun binds late, and pods that need the claim are not placed before.
    if not await wait_until(is_bound, clock=SystemClock(), timeout=120.0, period=0.5):
        raise RuntimeError(f"Expected the claim of {name} to be bound within 120 s")
    made = await api.create(
        f"{_CORE}/namespaces/{name}/configmaps",
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": OWNER}},
    )
    return str(made["metadata"]["uid"])


async def make_claim(
    api: KubernetesApi, namespace: str, claim: str, *, volume: str, folder: Path
) -> None:
    """Make a claim on a volume that is a folder of this machine."""
    path = f"{_CORE}/namespaces/{namespace}/persistentvolumeclaims"
    await api.create(f"{_CORE}/persistentvolumes", _volume(volume, folder, namespace, claim))
    await api.create(path, _claim(volume, claim))


async def delete_volume(api: KubernetesApi, volume: str) -> None:
    """Delete a volume of `make_claim`; its folder stays."""
    await api.delete(f"{_CORE}/persistentvolumes/{volume}")


def _volume(name: str, folder: Path, namespace: str, claim: str) -> Body:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name},
        "spec": {
            "capacity": _ANY_SIZE,
            "accessModes": ["ReadWriteMany"],
            "hostPath": {"path": str(folder)},
            "claimRef": {"namespace": namespace, "name": claim},
            "storageClassName": "",
        },
    }


def _claim(volume: str, name: str) -> Body:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name},
        "spec": {
            "accessModes": ["ReadWriteMany"],
            "resources": {"requests": _ANY_SIZE},
            "volumeName": volume,
            "storageClassName": "",
        },
    }


def restricted_pod(name: str, node: str, container: Body, **spec: object) -> Body:
    """Return a pod of one container on a node, as restricted pod security wants it.

    Args:
        name: Its name.
        node: Name of the node.
        container: What runs in it.
        spec: More of the pod's spec.
    """
    confined = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
    return {
        "metadata": {"name": name},
        "spec": {
            "nodeSelector": {"kubernetes.io/hostname": node},
            "containers": [{**container, "securityContext": confined}],
            "securityContext": {
                "runAsNonRoot": True,
                "runAsUser": 65534,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            **spec,
        },
    }


async def is_gone(api: KubernetesApi, path: str) -> bool:
    try:
        await api.get(path)
    except NotFoundError:
        return True
    return False
