"""Finds the job that `spec.flink.ref` names in the cluster, and what its pods cost.

    FlinkDeployment   of the Flink Kubernetes Operator; its service is `NAME-rest`
    FlinkBlueGreenDeployment
                      of the same; it has one FlinkDeployment, or two while it replaces one by the
                      other, and its status says which of them is active
    Deployment        of the JobManager; its service is the one that selects the JobManager's pods
                      and has Flink's REST port, or the one that the annotation
                      `weir.dev/rest-service: NAME[:PORT]` names

Weir finds TaskManagers through Flink: each registers under its pod's address or name, whatever
created the pod.

A FlinkDeployment's TaskManagers are all alike, so a StreamApp without node pools, or in mode Auto,
gets one pool from it.

This module only reads; it needs no more than `get` and `list`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from kubernetes.utils.quantity import parse_quantity

from weir_operator.advise.flink_deployment import (
    GROUP_VERSION,
    MIB,
    FlinkDeployment,
    read_flink_deployment,
)
from weir_operator.advise.view import WHOLE_CORE, PodPlace, size_of
from weir_operator.api.client import KubernetesApi
from weir_operator.errors import PermanentError, TemporaryError
from weir_operator.flink.answers import TaskManager
from weir_operator.limits import Json
from weir_operator.runtime.pods.pod_states import url
from weir_operator.streamapp.flink import RefKind
from weir_operator.streamapp.models import Mode, StreamApp
from weir_operator.streamapp.pools import NodePool
from weir_operator.streamapp.quantities import Cpu, Memory
from weir_operator.streamapp.section import DNS_LABEL, LONGEST_NAME

REST_SERVICE = "weir.dev/rest-service"
"""Annotation of the Deployment or the StreamApp: the service before Flink's REST interface."""
REST_PORT = 8081
TASK_MANAGERS = "taskmanagers"
"""Name of the pool that an external job's TaskManagers form where the manifest has none."""
HIGHEST_PORT = 65_535
_PORT_NAMES = frozenset({"rest", "webui", "ui", "web", "http"})
_DEPLOYMENTS = "/apis/apps/v1/namespaces/{}/deployments/{}"
_BLUE_GREEN = f"/apis/{GROUP_VERSION}/namespaces/{{}}/flinkbluegreendeployments/{{}}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Reference:
    """The foreign cluster."""

    name: str
    """Of the FlinkDeployment or Deployment that runs the job."""
    namespace: str
    rest_url: str
    job_manager_labels: str
    """Selector of its JobManager's pods."""
    deployment: FlinkDeployment | None = None
    """The FlinkDeployment; `None` where a Deployment runs the job."""

    @property
    def configuration(self) -> Mapping[str, str]:
        """Flink's configuration as its resource has it; empty for a Deployment."""
        return {} if self.deployment is None else self.deployment.configuration


async def find_reference(api: KubernetesApi, app: StreamApp) -> Reference:
    """Return the foreign cluster of a StreamApp.

    Raises:
        PermanentError: The resource or its service does not exist, or there are several services.
        TemporaryError: The API server did not answer, or none of two clusters is the active one.
    """
    ref = app.spec.flink.ref
    if ref is None:
        raise PermanentError("spec.flink.ref: expected the external job to advise, got none")
    namespace = app.metadata.namespace
    if ref.kind is not RefKind.DEPLOYMENT:
        is_pair = ref.kind is RefKind.FLINK_BLUE_GREEN_DEPLOYMENT
        name = await _find_active(api, namespace, ref.name) if is_pair else ref.name
        deployment = await read_flink_deployment(api, namespace, name)
        service = await api.get(f"/api/v1/namespaces/{namespace}/services/{name}-rest")
        return Reference(
            name=name,
            namespace=namespace,
            rest_url=_url(service, _rest_port(service) or REST_PORT),
            job_manager_labels=f"app={name},component=jobmanager",
            deployment=deployment,
        )
    owner = await api.get(_DEPLOYMENTS.format(namespace, ref.name))
    return Reference(
        name=ref.name,
        namespace=namespace,
        rest_url=await _find_service(api, app, owner),
        job_manager_labels=",".join(
            f"{key}={value}"
            for key, value in (owner["spec"]["selector"].get("matchLabels") or {}).items()
        ),
    )


async def _find_active(api: KubernetesApi, namespace: str, name: str) -> str:
    """Return the name of the FlinkDeployment that is active in a FlinkBlueGreenDeployment.

    While one replaces the other, the jobs of both run, and share or repeat the work.
    """
    found = await api.get(_BLUE_GREEN.format(namespace, name))
    state = str((found.get("status") or {}).get("blueGreenState") or "none")
    active, _, colour = state.partition("_")
    if active != "ACTIVE":
        raise TemporaryError(
            f"status.blueGreenState of FlinkBlueGreenDeployment {name}: expected ACTIVE_BLUE or "
            f"ACTIVE_GREEN, got {state}; Weir waits until one of its FlinkDeployments is active"
        )
    return f"{name}-{colour.lower()}"


async def place_task_managers(
    api: KubernetesApi,
    namespace: str,
    task_managers: Iterable[TaskManager],
    pools: Sequence[NodePool],
) -> dict[str, PodPlace]:
    """Return where each TaskManager runs and how much CPU it has, by id.

    A pool is that of the pod's node, by the labels of its selector; where nodes may not be read,
    by the pod's own selector; otherwise the first.
    """
    pods = await api.list(f"/api/v1/namespaces/{namespace}/pods", fields="status.phase=Running")
    named = {pod["metadata"]["name"]: pod for pod in pods}
    at = {address["ip"]: pod for pod in pods for address in pod["status"].get("podIPs", ())}
    labels = _NodeLabels(api)
    places = {}
    for each in task_managers:
        pod = named.get(each.id) or named.get(each.host) or at.get(each.host)
        places[each.id] = (
            PodPlace(pool=pools[0].name, cores=each.cores)
            if pod is None
            else await _place_of(pod, labels, pools, cores=each.cores)
        )
    return places


async def job_manager_places(
    api: KubernetesApi, reference: Reference, pools: Sequence[NodePool]
) -> tuple[PodPlace, ...]:
    """Return where the JobManager's pods run and how much CPU they have."""
    labels = _NodeLabels(api)
    pods = await api.list(
        f"/api/v1/namespaces/{reference.namespace}/pods",
        labels=reference.job_manager_labels,
        fields="status.phase=Running",
    )
    return tuple([await _place_of(pod, labels, pools) for pod in pods])


async def _place_of(
    pod: Json, labels: _NodeLabels, pools: Sequence[NodePool], *, cores: float = 0.0
) -> PodPlace:
    """Return a pod's place; `cores` where its containers ask for none."""
    cpu = sum(each for each in _asked(pod, "cpu") if not math.isnan(each))
    return PodPlace(
        pool=pool_of(await labels.of(pod), pools),
        cores=cpu or cores,
        memory=sum(_asked(pod, "memory")),
    )


def pool_of(labels: Mapping[str, str], pools: Sequence[NodePool]) -> str:
    """Return the pool whose selector the labels match, the most exact one; else the first."""
    matching = [
        pool
        for pool in pools
        if pool.node_selector and pool.node_selector.items() <= labels.items()
    ]
    return max(matching, key=lambda pool: len(pool.node_selector or {}), default=pools[0]).name


def _asked(pod: Json, resource: str) -> Iterator[float]:
    """Yield what each container asks for, its limit for want; NaN without both."""
    for container in pod["spec"]["containers"]:
        resources = container.get("resources") or {}
        asked = (resources.get("requests") or {}).get(resource)
        asked = asked or (resources.get("limits") or {}).get(resource)
        yield float(parse_quantity(asked)) if asked else math.nan


def pools_of(app: StreamApp, reference: Reference) -> tuple[NodePool, ...]:
    """Return the node pools: the manifest's, or the one kind of TaskManagers that the job has.

    In mode Auto it is that one, with the name, the price and the limit of the manifest's only pool.
    """
    written = app.spec.node_pools
    if written and app.spec.mode is not Mode.AUTO:
        return written
    given = written[0] if written else NodePool(name=TASK_MANAGERS)
    deployment = reference.deployment
    if deployment is None:
        return (given,)
    changes: dict[str, object] = {"sizes": (Cpu(size_of(min(deployment.cores, WHOLE_CORE))),)}
    if deployment.memory is not None:
        changes["memory"] = Memory(f"{max(1, deployment.memory // MIB)}Mi")
    return (given.model_copy(update=changes),)


class _NodeLabels:
    """Labels of the nodes that pods run on, each node asked once."""

    def __init__(self, api: KubernetesApi) -> None:
        self._api = api
        self._known: dict[str, Mapping[str, str]] = {}

    async def of(self, pod: Json) -> Mapping[str, str]:
        """Return the labels of the pod's node, or what the pod asks of one."""
        wanted: Mapping[str, str] = pod["spec"].get("nodeSelector") or {}
        name = pod["spec"].get("nodeName")
        if name is None:
            return wanted
        if name not in self._known:
            try:
                node = await self._api.get(f"/api/v1/nodes/{name}")
            except (PermanentError, TemporaryError):
                # Nodes belong to no namespace: a controller that watches one may not read them.
                return wanted
            self._known[name] = node["metadata"].get("labels") or {}
        return self._known[name]


async def _find_service(api: KubernetesApi, app: StreamApp, deployment: Json) -> str:
    """Return the address of the service before a JobManager that a Deployment runs."""
    namespace, name = app.metadata.namespace, deployment["metadata"]["name"]
    notes = {**(deployment["metadata"].get("annotations") or {}), **app.metadata.annotations}
    if REST_SERVICE in notes:
        chosen, asked_port = _read_note(notes[REST_SERVICE])
        service = await api.get(f"/api/v1/namespaces/{namespace}/services/{chosen}")
        return _url(service, asked_port or _rest_port(service) or REST_PORT)
    pods = (deployment["spec"]["template"]["metadata"].get("labels") or {}).items()
    before = [
        (service, port)
        for service in await api.list(f"/api/v1/namespaces/{namespace}/services")
        if (selector := service["spec"].get("selector"))
        and selector.items() <= pods
        and (port := _rest_port(service)) is not None
    ]
    if len(before) != 1:
        names = ", ".join(service["metadata"]["name"] for service, _ in before) or "none"
        raise PermanentError(
            "spec.flink.ref: expected one service with Flink's REST port for "
            f"Deployment {name}, got {names}; name it with the annotation "
            f"{REST_SERVICE}: NAME[:PORT]"
        )
    return _url(*before[0])


def _read_note(note: str) -> tuple[str, int | None]:
    """Return the name and the port in the annotation of a service."""
    name, colon, port = note.partition(":")
    right = re.fullmatch(DNS_LABEL, name) and len(name) <= LONGEST_NAME
    if right and not colon:
        return name, None
    if right and re.fullmatch("[0-9]{1,5}", port) and 0 < int(port) <= HIGHEST_PORT:
        return name, int(port)
    raise PermanentError(
        f"Annotation {REST_SERVICE}: expected NAME or NAME:PORT, a service in the "
        f"StreamApp's namespace, got {note[:LONGEST_NAME]!r}"
    )


def _rest_port(service: Json) -> int | None:
    ports = service["spec"].get("ports") or ()
    by_number = [each["port"] for each in ports if each["port"] == REST_PORT]
    by_name = [each["port"] for each in ports if each.get("name") in _PORT_NAMES]
    return next(iter((*by_number, *by_name)), None)


def _url(service: Json, port: int) -> str:
    meta, address = service["metadata"], service["spec"].get("clusterIP")
    if service["spec"].get("type") == "ExternalName":
        raise PermanentError(
            "spec.flink.ref: expected a service that selects the JobManager's pods, "
            f"got {meta['name']} of type ExternalName; name another one with the "
            f"annotation {REST_SERVICE}"
        )
    if not address or address == "None":  # a headless service has only its name
        address = f"{meta['name']}.{meta['namespace']}.svc"
    return url(address, port)
