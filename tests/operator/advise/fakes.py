"""Fakes for tests of external jobs: a namespace that is read-only."""

from __future__ import annotations

from collections.abc import Mapping

from weir_operator.api.client import KubernetesApi, NotFoundError
from weir_operator.api.objects import Body
from weir_operator.limits import Json


class FakeCluster(KubernetesApi):
    """The objects of a namespace; it can only be read, and remembers what was."""

    def __init__(self, objects: Mapping[str, Json]) -> None:
        self.objects = dict(objects)
        self.asked: list[str] = []

    async def get(self, path: str) -> Body:
        self.asked.append(path)
        if path not in self.objects:
            raise NotFoundError(f"Kubernetes does not know {path}")
        found: Body = self.objects[path]
        return found

    async def list(self, path: str, labels: str = "", fields: str = "") -> tuple[Body, ...]:
        self.asked.append(path)
        if path not in self.objects:
            raise NotFoundError(f"Kubernetes does not know {path}")
        wanted = dict(pair.split("=") for pair in labels.split(",") if pair)
        return tuple(
            each
            for each in self.objects[path]
            if wanted.items() <= (each["metadata"].get("labels") or {}).items()
        )


def a_pod(
    name: str,
    *,
    cpu: str | None = "2",
    memory: str | None = "1536Mi",
    node: str | None = "node-1",
    ip: str = "10.0.0.1",
    labels: Mapping[str, str] | None = None,
) -> Json:
    """Return a running pod; `cpu` and `memory` are what its container asks for."""
    asked = {name: text for name, text in (("cpu", cpu), ("memory", memory)) if text}
    resources = {"requests": asked} if asked else {}
    return {
        "metadata": {"name": name, "labels": dict(labels or {})},
        "spec": {"nodeName": node, "containers": [{"name": "flink", "resources": resources}]},
        "status": {"startTime": "2026-11-21T10:00:00Z", "podIPs": [{"ip": ip}]},
    }


def a_service(name: str = "trips-rest", *, port: int = 8081, ip: str = "127.0.0.1") -> Json:
    """Return a service before Flink's REST interface."""
    return {
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"clusterIP": ip, "ports": [{"name": "rest", "port": port}]},
    }


def flink_deployment_objects(*, port: int = 8081, **flink: str) -> dict[str, Json]:
    """Return the objects of a FlinkDeployment `trips` with one TaskManager on a small node."""
    namespace = "/api/v1/namespaces/default"
    job_manager = {"app": "trips", "component": "jobmanager"}
    return {
        "/apis/flink.apache.org/v1beta1/namespaces/default/flinkdeployments/trips": {
            "metadata": {"name": "trips"},
            "spec": {"flinkConfiguration": flink},
        },
        f"{namespace}/services/trips-rest": a_service(port=port),
        f"{namespace}/pods": [
            a_pod("tm-a", cpu="2"),
            a_pod("trips-7f", cpu="1", labels=job_manager),
        ],
        "/api/v1/nodes/node-1": {"metadata": {"labels": {"weir.dev/pool": "small"}}},
    }


def blue_green_objects(state: str | None, *, blue: int, green: int) -> dict[str, Json]:
    """Return the objects of a FlinkBlueGreenDeployment `trips`, whose two clusters have ports."""
    custom = "/apis/flink.apache.org/v1beta1/namespaces/default"
    parent = {"metadata": {"name": "trips"}, "status": {"blueGreenState": state}}
    objects = {f"{custom}/flinkbluegreendeployments/trips": parent}
    for colour, port in (("blue", blue), ("green", green)):
        name = f"trips-{colour}"
        owner = {"kind": "FlinkBlueGreenDeployment", "name": "trips"}
        metadata = {"name": name, "ownerReferences": [owner]}
        objects[f"{custom}/flinkdeployments/{name}"] = {"metadata": metadata, "spec": {}}
        objects[f"/api/v1/namespaces/default/services/{name}-rest"] = a_service(port=port)
    return objects | {"/api/v1/namespaces/default/pods": [a_pod("tm-a", cpu="2")]}
