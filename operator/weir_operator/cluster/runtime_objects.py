"""Where the objects of one StreamApp's Flink are, and how they come and go."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from weir_operator.cluster.api import Body, KubernetesApi, NotFoundError
from weir_operator.cluster.changes import Changes, Mark
from weir_operator.cluster.flink_pods import APP, MANAGED_BY, FlinkPods
from weir_operator.cluster.objects import Key
from weir_operator.errors import TemporaryError

_PLURALS: Mapping[str, str] = {
    "ConfigMap": "configmaps",
    "Deployment": "deployments",
    "NetworkPolicy": "networkpolicies",
    "Pod": "pods",
    "PodDisruptionBudget": "poddisruptionbudgets",
    "ReplicaSet": "replicasets",
    "Role": "roles",
    "RoleBinding": "rolebindings",
    "Service": "services",
    "ServiceAccount": "serviceaccounts",
}
_POLL = 0.25  # seconds between two looks at what goes


class AppObjects:
    """The objects of one StreamApp in its namespace."""

    def __init__(self, api: KubernetesApi, pods: FlinkPods, changes: Changes | None = None) -> None:
        self.api = api
        self._changes = changes
        self._key = Key(pods.namespace, pods.name)
        self._namespace = pods.namespace
        self._selector = {APP: pods.name, MANAGED_BY: "weir"}
        self._recovery = {"app": pods.cluster_id, "type": "flink-native-kubernetes"}

    def mark(self) -> Mark | None:
        """Return what differs once a pod or Deployment has changed; `None` where unknown."""
        return None if self._changes is None else self._changes.mark(self._key)

    def path(self, kind: str, name: str = "", *, group: str = "v1") -> str:
        """Return where a kind's collection is, or one object of it."""
        root = "/api" if "/" not in group else "/apis"
        collection = f"{root}/{group}/namespaces/{self._namespace}/{_PLURALS[kind]}"
        return f"{collection}/{name}" if name else collection

    def path_of(self, thing: Body) -> str:
        """Return where an object is, or will be."""
        return self.path(thing["kind"], thing["metadata"]["name"], group=thing["apiVersion"])

    async def apply(self, *things: Body) -> None:
        """Make or change objects, in this order."""
        for thing in things:
            await self.api.apply(self.path_of(thing), thing)

    async def find(self, kind: str, name: str, *, group: str = "v1") -> Body | None:
        """Return an object, `None` where there is none."""
        try:
            return await self.api.get(self.path(kind, name, group=group))
        except NotFoundError:
            return None

    async def pods(self, labels: Mapping[str, str]) -> tuple[Body, ...]:
        """Return the StreamApp's pods with these labels, ended and ending ones included."""
        return await self.api.list(self.path("Pod"), labels=_text({**self._selector, **labels}))

    async def prune_config_maps(self) -> None:
        """Delete ConfigMaps that neither a pod nor a workload refers to."""
        templates = [
            each["spec"]["template"]
            for kind in ("Deployment", "ReplicaSet")
            for each in await self.api.list(
                self.path(kind, group="apps/v1"), labels=_text(self._selector)
            )
        ]
        used = {
            volume["configMap"]["name"]
            for each in (*templates, *await self.pods({}))
            for volume in each["spec"].get("volumes") or ()
            if "configMap" in volume
        }
        for each in await self.api.list(self.path("ConfigMap"), labels=_text(self._selector)):
            if each["metadata"]["name"] not in used:
                await self.api.delete(self.path("ConfigMap", each["metadata"]["name"]))

    async def delete_all(self, *, timeout: float) -> None:
        """Delete everything and wait until it is gone, Flink's own ConfigMaps too.

        Raises:
            TemporaryError: A pod is still there after `timeout` seconds.
        """
        for kind, group in (("Deployment", "apps/v1"), ("ReplicaSet", "apps/v1")):
            await self._delete(kind, group=group)
        await self._wait_for_pods(timeout)
        # Not before: a JobManager that ends still writes who leads.
        for kind, group in (
            ("ConfigMap", "v1"),
            ("Service", "v1"),
            ("PodDisruptionBudget", "policy/v1"),
            ("NetworkPolicy", "networking.k8s.io/v1"),
            ("RoleBinding", "rbac.authorization.k8s.io/v1"),
            ("Role", "rbac.authorization.k8s.io/v1"),
            ("ServiceAccount", "v1"),
        ):
            await self._delete(kind, group=group)
        for each in await self.recovery():
            await self.api.delete(self.path("ConfigMap", each["metadata"]["name"]))

    async def recovery(self) -> tuple[Body, ...]:
        """Return the ConfigMaps in which Flink keeps who leads and what runs."""
        return await self.api.list(self.path("ConfigMap"), labels=_text(self._recovery))

    async def _delete(self, kind: str, *, group: str) -> None:
        for each in await self.api.list(self.path(kind, group=group), labels=_text(self._selector)):
            await self.api.delete(self.path(kind, each["metadata"]["name"], group=group))

    async def _wait_for_pods(self, timeout: float) -> None:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout
        while left := await self.pods({}):
            if loop.time() >= deadline:
                names = ", ".join(sorted(pod["metadata"]["name"] for pod in left))
                raise TemporaryError(f"Pods are still there after {timeout:g} s: {names}")
            await asyncio.sleep(_POLL)


def _text(labels: Mapping[str, str]) -> str:
    return ",".join(f"{key}={value}" for key, value in labels.items())
