"""A namespace of its own on the cluster that KUBECONFIG names, with a volume for state.

These tests need a cluster where a node has the label `weir.dev/pool: large`, where all nodes have
the images named by `WEIR_TEST_IMAGE` (`trips:dev`, made by `examples/trips/Dockerfile`),
`WEIR_TEST_CONTROLLER_IMAGE` (`weir:dev`) and `WEIR_TEST_PROMETHEUS_IMAGE` (`prometheus:dev`), and
share this machine's disk, because the job's ledger is read from it. `scripts/e2e` makes all of it.
"""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from weir_operator.clock import SystemClock, wait_until
from weir_operator.kubernetes.api.client import KubernetesApi, NotFoundError
from weir_operator.runtime.kubernetes.pods import STATE_MOUNT

IMAGE = os.environ.get("WEIR_TEST_IMAGE", "trips:dev")
CLAIM = "state"
_CORE = "/api/v1"
_TOLD = pytest.StashKey[list[str]]()


@dataclass(frozen=True, kw_only=True, slots=True)
class Place:
    """Where a test's StreamApp lives."""

    api: KubernetesApi
    namespace: str
    owner_uid: str
    """Uid of the object that stands for the StreamApp."""
    state: Path
    """The volume's folder on this machine."""

    @property
    def inside(self) -> str:
        """The same folder as the containers see it."""
        return STATE_MOUNT

    def seen_here(self, path: str) -> Path:
        """Return where this machine has what the containers call `path`, a path or a URI."""
        return self.state / Path(path.removeprefix("file:")).relative_to(STATE_MOUNT)


@pytest.fixture(autouse=True)
def _cluster_or_skip():
    if not os.environ.get("KUBECONFIG"):
        pytest.skip("KUBECONFIG names no cluster: start one and run `make e2e`")


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Print what the tests told, in front of the closing line."""
    lines = config.stash.get(_TOLD, [])
    if lines:
        terminalreporter.section("on the cluster")
        for line in lines:
            terminalreporter.write_line(line)


@pytest.fixture
def tell(request) -> Callable[[str], None]:
    """Say something at the end of the run."""
    lines: list[str] = request.config.stash.setdefault(_TOLD, [])
    return lines.append


@pytest.fixture
async def place() -> AsyncIterator[Place]:
    """Make a namespace with restricted pod security and a claim; clear both away."""
    name = f"weir-test-{uuid.uuid4().hex[:8]}"
    # Not pytest's own folder: the pods' user must be able to walk to it.
    folder = Path(f"/var/tmp/{name}")
    folder.mkdir()
    folder.chmod(0o777)
    api = await KubernetesApi.connect()
    try:
        owner = await _make(api, name, folder)
        yield Place(api=api, namespace=name, owner_uid=owner, state=folder)
    finally:
        await api.delete(f"{_CORE}/namespaces/{name}")
        await api.delete(f"{_CORE}/persistentvolumes/{name}")
        await api.close()
        shutil.rmtree(folder, ignore_errors=True)


async def _make(api: KubernetesApi, name: str, folder: Path) -> str:
    namespace = f"{_CORE}/namespaces/{name}"
    await api.create(
        f"{_CORE}/namespaces",
        {
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {
                "name": name,
                "labels": {"pod-security.kubernetes.io/enforce": "restricted"},
            },
        },
    )
    size = {"storage": "1Gi"}
    await api.create(
        f"{_CORE}/persistentvolumes",
        {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": name},
            "spec": {
                "capacity": size,
                "accessModes": ["ReadWriteMany"],
                "hostPath": {"path": str(folder)},
                "claimRef": {"namespace": name, "name": CLAIM},
                "storageClassName": "",
            },
        },
    )
    await api.create(
        f"{namespace}/persistentvolumeclaims",
        {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": CLAIM},
            "spec": {
                "accessModes": ["ReadWriteMany"],
                "resources": {"requests": size},
                "volumeName": name,
                "storageClassName": "",
            },
        },
    )
    made = await api.create(
        f"{namespace}/configmaps",
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "owner"}},
    )

    async def is_bound() -> bool | None:
        claim = await api.get(f"{namespace}/persistentvolumeclaims/{CLAIM}")
        return True if claim.get("status", {}).get("phase") == "Bound" else None

    # A cluster that has just begun binds late, and pods that need the claim are not placed before.
    assert await wait_until(is_bound, clock=SystemClock(), timeout=120.0, period=0.5)
    return str(made["metadata"]["uid"])


async def is_gone(api: KubernetesApi, path: str) -> bool:
    """Return whether there is nothing at `path`."""
    try:
        await api.get(path)
    except NotFoundError:
        return True
    return False
