"""A Prometheus server in a test's namespace, which scrapes as `docs/install.md` tells people to."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import yaml

from weir_operator.api.client import KubernetesApi
from weir_operator.clock import SystemClock, wait_until

IMAGE = os.environ.get("WEIR_TEST_PROMETHEUS_IMAGE", "prometheus:dev")
NAME = "prometheus"
PORT = 9090

_REPOSITORY = Path(__file__).resolve().parents[2]
_GROUPS = {
    "ServiceAccount": "/api/v1/namespaces/{}/serviceaccounts",
    "Role": "/apis/rbac.authorization.k8s.io/v1/namespaces/{}/roles",
    "RoleBinding": "/apis/rbac.authorization.k8s.io/v1/namespaces/{}/rolebindings",
    "ConfigMap": "/api/v1/namespaces/{}/configmaps",
    "Service": "/api/v1/namespaces/{}/services",
    "Pod": "/api/v1/namespaces/{}/pods",
}


@dataclass(frozen=True, slots=True)
class PrometheusOnKubernetes:
    """A server that is ready."""

    api: KubernetesApi
    namespace: str

    @property
    def url(self) -> str:
        """Where pods of the cluster reach it."""
        return f"http://{NAME}.{self.namespace}:{PORT}"

    async def ask(self, query: str) -> float:
        """Return the value of a query with one result, by way of the API server; 0 for none."""
        service = f"/api/v1/namespaces/{self.namespace}/services/{NAME}:{PORT}/proxy"
        answer = await self.api.get(f"{service}/api/v1/query?query={quote(query)}")
        result = answer["data"]["result"]
        return float(result[0]["value"][1]) if result else 0.0


async def start_prometheus(
    api: KubernetesApi, namespace: str, *, every: str = "2s"
) -> PrometheusOnKubernetes:
    """Start the server and wait until it is ready; it ends with the namespace.

    Args:
        api: The API server.
        namespace: Where it is to run, and what it scrapes.
        every: Time between two scrapes.

    Raises:
        RuntimeError: It was not ready within a minute.
    """
    config = {"prometheus.yml": yaml.safe_dump(scrape_configuration(every))}
    objects = [
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": NAME}, "data": config},
        *yaml.safe_load_all((Path(__file__).parent / "prometheus.yaml").read_text()),
    ]
    for each in objects:
        if each["kind"] == "RoleBinding":
            each["subjects"][0]["namespace"] = namespace
        if each["kind"] == "Pod":
            each["spec"]["containers"][0]["image"] = IMAGE
        await api.create(_GROUPS[each["kind"]].format(namespace), each)
    pod = f"{_GROUPS['Pod'].format(namespace)}/{NAME}"

    async def ready() -> bool | None:
        status = (await api.get(pod))["status"]
        conditions = {each["type"]: each["status"] for each in status.get("conditions", ())}
        return True if conditions.get("Ready") == "True" else None

    if not await wait_until(ready, clock=SystemClock(), timeout=60.0, period=0.5):
        raise RuntimeError(f"Prometheus was not ready: {(await api.get(pod))['status']}")
    return PrometheusOnKubernetes(api, namespace)


def scrape_configuration(every: str = "2s") -> dict[str, Any]:
    """Return the page's configuration as a server in one namespace runs it, at a test's pace.

    The server scrapes itself too: its count of answered queries shows that Weir asks it.
    """
    page = (_REPOSITORY / "docs/install.md").read_text()
    [shown] = [
        block
        for block in re.findall(r"```yml\n(.*?)```", page, flags=re.DOTALL)
        if "kubernetes_sd_configs" in block
    ]
    configuration: dict[str, Any] = yaml.safe_load(shown)
    [job] = configuration["scrape_configs"]
    job["scrape_interval"] = every
    for discovery in job["kubernetes_sd_configs"]:
        discovery["namespaces"] = {"own_namespace": True}
    itself = {
        "job_name": NAME,
        "scrape_interval": "2s",
        "static_configs": [{"targets": [f"localhost:{PORT}"]}],
    }
    configuration["scrape_configs"].append(itself)
    return configuration
