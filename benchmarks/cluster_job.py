"""A job on a real cluster, steered by hand: what the benchmarks on Kubernetes share.

The runtime, the engine and the lifecycle run here, on the host, against the cluster's API server
and Flink's REST interface, as they do in the controller's pod. There are no policies: a benchmark
asks for a deployment and looks at what it took. What is measured is thus the runtime's and Flink's;
the controller's chart adds nothing to it.

A namespace of a benchmark's own on the cluster that KUBECONFIG names, with a volume for state.

The cluster's nodes must share this machine's disk, because ledgers and savepoints are looked at
from here, and must have the image in `WEIR_TEST_IMAGE` (`trips:dev`, made by
`examples/trips/Dockerfile`). Jobs' jars come from the volume, so no image is made for them.

A pod that takes what is left of a node, so that nobody there can have more.
"""

from __future__ import annotations

import json
import os
import shutil
import uuid
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from benchmarks.trips_cluster import Ledger, read_proof
from weir_operator.clock import SystemClock, wait_until
from weir_operator.flink.jars import HELPER, REPOSITORY, build_jar
from weir_operator.kubernetes.api.client import Body, KubernetesApi
from weir_operator.loop.events import Event
from weir_operator.loop.lifecycle import Lifecycle
from weir_operator.rescale.engine import Rescaler
from weir_operator.rescale.flink import FlinkJobs
from weir_operator.rescale.journal import DeploymentMap, RescaleJournal, Step
from weir_operator.rescale.status import FileStatusStore
from weir_operator.runtime.kubernetes.nodes import NodeNotices
from weir_operator.runtime.kubernetes.pods import STATE_MOUNT, FlinkPods, Owner
from weir_operator.runtime.kubernetes.runtime import KubernetesRuntime
from weir_operator.runtime.protocol import Replica
from weir_operator.streamapp.loading import parse_manifest
from weir_operator.streamapp.models import StreamApp
from weir_operator.streamapp.quantities import Cpu
from weir_operator.wiring import assembly

IMAGE = os.environ.get("WEIR_TEST_IMAGE", "trips:dev")
CLAIM = "state"
OWNER = "owner"
"""Name of the ConfigMap that stands for the StreamApp, so that no definition need be installed."""
_CORE = "/api/v1"
_ANY_SIZE = {"storage": "1Gi"}  # a folder has no size: claim and volume only have to agree


@dataclass(frozen=True, kw_only=True, slots=True)
class Place:
    """Where a benchmark's job lives."""

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
async def open_place() -> AsyncIterator[Place]:
    """Make a namespace with restricted pod security and a claim; clear both away at the end."""
    name = f"weir-bench-{uuid.uuid4().hex[:8]}"
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


SUBMIT_DEADLINE = 300.0
"""Seconds from submission until every task runs: state is read back in between."""

TRIPS = "example.Trips"
HEAVY = "example.Heavy"

POOLS = tuple({"name": name, "sizes": ["500m"]} for name in ("first", "second"))
"""Two pools of every node: what is measured does not depend on the node, and the cluster may be
shared with others who have filled one."""


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """The job as a benchmark wants it."""

    initial: DeploymentMap
    rates: Sequence[float]
    """Records/s per slot of 5 s; the last one is held."""
    entry_class: str = TRIPS
    arguments: tuple[str, ...] = ()
    """Of the job, beside its trace and its folder."""
    config: Mapping[str, str] = field(default_factory=dict)
    """Flink's configuration beside Weir's."""
    pools: Sequence[Mapping[str, Any]] = POOLS
    memory: str = "1Gi"
    """Of every TaskManager."""
    managed_memory: Mapping[str, str] = field(default_factory=dict)
    """Of it, per operator, for state off the heap."""
    savepoint_deadline: str = "10s"
    """When a change stops waiting for a savepoint and takes the newest checkpoint."""
    start_deadline: str = "180s"
    """When it stops waiting for its pods: two cores may carry a dozen JVMs."""


class ClusterJob:
    """One controller's hold on the job; an async context manager that ends every pod."""

    def __init__(self, place: Place, wanted: Wanted) -> None:
        self.place = place
        self.out = place.state / "out"
        self.store = FileStatusStore(place.state / "status.json")
        self.clock = SystemClock()
        self.events: list[Event] = []
        self._wanted = wanted

    async def __aenter__(self) -> Self:
        """Put together what steers the job; nothing runs yet."""
        app = self._app()
        pods = FlinkPods.of(
            app, uid=self.place.owner_uid, controller_namespace=self.place.namespace
        )
        owner = Owner(api_version="v1", kind="ConfigMap", name=OWNER, uid=self.place.owner_uid)
        self.runtime = KubernetesRuntime(
            self.place.api, replace(pods, owner=owner), NodeNotices(self.place.api)
        )
        self.jobs = FlinkJobs(self.runtime)
        self._by_via = {via: self._steer(app, via) for via in ("Auto", "Savepoint", "Checkpoint")}
        self.lifecycle = self._by_via["Auto"]
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Delete every pod and wait until they are gone."""
        await self.jobs.close()
        await self.runtime.close()

    async def change(self, target: DeploymentMap, *, via: str = "Auto") -> RescaleJournal:
        """Take the job to `target` by one restart.

        Raises:
            RuntimeError: It did not get there.
        """
        end = await self._by_via[via].change(target, "a benchmark asks for it")
        if end.step is not Step.DONE:
            raise RuntimeError(
                f"Expected the job to get to {target}, got {end.step}: {end.failure}"
            )
        return end

    async def replica(self, operator: str) -> Replica:
        """Return the one replica of an operator."""
        [found] = [each for each in await self.runtime.replicas() if each.operator == operator]
        return found

    async def finish(self) -> Ledger:
        """Stop the job with a savepoint and return what its ledger says then."""
        await self.lifecycle.suspend()
        return read_proof(self.out)

    async def until_arrived(self, records: int, *, limit: float) -> None:
        """Wait until a checkpoint is complete that knows of so many records at the sink.

        Raises:
            RuntimeError: There is none in time.
        """

        async def known() -> bool | None:
            with suppress(FileNotFoundError):
                ledger = json.loads((self.out / "ledger.json").read_text())
                return True if ledger["distinct"] >= records else None
            return None

        if await wait_until(known, clock=self.clock, timeout=limit, period=0.5) is None:
            raise RuntimeError(f"Expected {records} records at the sink within {limit:g} s")

    def _steer(self, app: StreamApp, via: str) -> Lifecycle:
        rescaler = Rescaler(
            runtime=self.runtime,
            jobs=self.jobs,
            spec=assembly.job_spec(app, beside=self.place.state),
            store=self.store,
            settings=replace(assembly.rescale_settings(app), via=via),
            clock=self.clock,
        )
        return Lifecycle(
            runtime=self.runtime,
            jobs=self.jobs,
            rescaler=rescaler,
            store=self.store,
            initial=self._wanted.initial,
            initial_savepoint=None,
            clock=self.clock,
            on_event=self.events.append,
            on_change=lambda journal: None,
        )

    def _app(self) -> StreamApp:
        """Return the StreamApp, once its files are on the volume."""
        wanted, state = self._wanted, self.place.state
        trace, jar = state / "trace.txt", state / "job.jar"
        trace.write_text("".join(f"{rate}\n" for rate in wanted.rates))
        shutil.copy(build_heavy_jar(), jar)
        self.out.mkdir()
        self.out.chmod(0o777)
        flink = {
            "image": IMAGE,
            "maxParallelism": 720,
            "storage": {"claim": CLAIM},
            "jobManager": {"cpu": "500m", "memory": "1Gi"},
            "config": dict(wanted.config),
            "job": {
                "jar": self.place.inside(jar),
                "entryClass": wanted.entry_class,
                "args": [
                    *("--trace", self.place.inside(trace), "--out", self.place.inside(self.out)),
                    *wanted.arguments,
                ],
            },
        }
        return parse_manifest(
            {
                "apiVersion": "weir.dev/v1alpha1",
                "kind": "StreamApp",
                "metadata": {"name": "job", "namespace": self.place.namespace},
                "spec": {
                    "flink": flink,
                    "objective": {"responseTime": "500ms"},
                    "nodePools": [
                        {"memory": wanted.memory, "price": 0.04, **pool} for pool in wanted.pools
                    ],
                    "operators": [self._operator(name) for name in wanted.initial],
                    "savepoints": {"keep": 1},
                    "rescale": {
                        "startDeadline": wanted.start_deadline,
                        "submitDeadline": f"{SUBMIT_DEADLINE:g}s",
                        "savepointDeadline": wanted.savepoint_deadline,
                    },
                },
            }
        )

    def _operator(self, name: str) -> dict[str, Any]:
        managed = self._wanted.managed_memory.get(name)
        return {"name": name, "maxReplicas": 12, **({"managedMemory": managed} if managed else {})}


def build_heavy_jar() -> Path:
    """Return a jar with the example job and its heavy relative, built where it is not there."""
    sources = [
        HELPER,
        *sorted((REPOSITORY / "examples/trips").glob("*.java")),
        *sorted((REPOSITORY / "benchmarks/jobs").glob("*.java")),
    ]
    return build_jar(sources, REPOSITORY / "build/jars/heavy.jar", entry_class=HEAVY)


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
