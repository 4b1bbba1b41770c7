"""Reads, creates and deletes the objects of one StreamApp's Flink."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Mapping

from weir_operator.api.client import FIELD_MANAGER, Body, KubernetesApi, NotFoundError
from weir_operator.api.objects import Key
from weir_operator.errors import PermanentError, TemporaryError
from weir_operator.runtime.pods.changes import Changes, Mark
from weir_operator.runtime.pods.pods import APP, MANAGED_BY, FlinkPods

_COLLECTIONS: Mapping[str, tuple[str, str]] = {
    "ConfigMap": ("v1", "configmaps"),
    "Deployment": ("apps/v1", "deployments"),
    "NetworkPolicy": ("networking.k8s.io/v1", "networkpolicies"),
    "Pod": ("v1", "pods"),
    "PodDisruptionBudget": ("policy/v1", "poddisruptionbudgets"),
    "ReplicaSet": ("apps/v1", "replicasets"),
    "Role": ("rbac.authorization.k8s.io/v1", "roles"),
    "RoleBinding": ("rbac.authorization.k8s.io/v1", "rolebindings"),
    "Service": ("v1", "services"),
    "ServiceAccount": ("v1", "serviceaccounts"),
}
_WORKLOADS = ("Deployment", "ReplicaSet")
APPLIED = "weir.dev/applied"
"""Annotation of what Weir applies: a digest of it."""
_EXACT = frozenset({"ingress", "podSelector", "rules", "selector"})
"""Fields in which a key more means something else: whom a policy lets in, or what a role may do."""
_DEFAULTS: Body = {"protocol": "TCP"}
"""What the API server adds within those."""
_POLL = 0.25  # seconds between two checks of what is being deleted


class AppObjects:
    """The objects of one StreamApp in its namespace."""

    def __init__(
        self,
        api: KubernetesApi,
        pods: FlinkPods,
        changes: Changes | None = None,
    ) -> None:
        self.api = api
        self._changes = changes
        self._key = Key(pods.namespace, pods.name)
        self._namespace = pods.namespace
        self._owner = pods.owner
        self._selector = {APP: pods.name, MANAGED_BY: "weir"}
        self._recovery = {"app": pods.cluster_id, "type": "flink-native-kubernetes"}

    def mark(self) -> Mark | None:
        """Return what differs once a pod or Deployment has changed; `None` where unknown."""
        return None if self._changes is None else self._changes.mark(self._key)

    def path(self, kind: str, name: str = "") -> str:
        """Return where a kind's collection is, or one object of it."""
        group, plural = _COLLECTIONS[kind]
        root = "/apis" if "/" in group else "/api"
        collection = f"{root}/{group}/namespaces/{self._namespace}/{plural}"
        return f"{collection}/{name}" if name else collection

    def path_of(self, thing: Body) -> str:
        """Return where an object is, or will be."""
        return self.path(thing["kind"], thing["metadata"]["name"])

    async def apply(self, *things: Body) -> None:
        """Make or change objects, in this order; none of them where one is somebody else's.

        One that was applied like this before, and still is like this, is left alone.

        Raises:
            TemporaryError: One belongs to an earlier StreamApp of this name, and is about to go.
            PermanentError: One is not Weir's.
        """
        changed: list[Body] = []
        present = await asyncio.gather(*(self._at(self.path_of(thing)) for thing in things))
        for thing, found in zip(things, present, strict=True):
            wanted = _with_digest(thing)
            if found is not None:
                self.check_owner(thing["kind"], found)
            if found is None or not _has(found, wanted):
                changed.append(wanted)
        for each in changed:
            await self.api.apply(self.path_of(each), each)

    async def check(self, thing: Body) -> None:
        """Have the API server judge an object without storing it.

        Raises:
            TemporaryError: It cannot be reached, or an object of this name is about to go.
            PermanentError: It refuses the object, or the name belongs to one that is not Weir's.
        """
        found = await self._at(self.path_of(thing))
        if found is not None:
            self.check_owner(thing["kind"], found)
        await self.api.apply(self.path_of(thing), thing, dry_run=True)

    def check_owner(self, kind: str, found: Body) -> None:
        """Refuse to change an object that this StreamApp does not own.

        Its label alone says nothing, because anybody may set it. The owner reference counts, and
        without one, who applied the object.

        Raises:
            TemporaryError: It belongs to an earlier StreamApp of this name, and is about to go.
            PermanentError: It is not Weir's.
        """
        meta, owner = found["metadata"], self._owner
        if self._owns(found):
            return
        owners = meta.get("ownerReferences") or ()
        has_label = (meta.get("labels") or {}).get(APP) == self._key.name
        if has_label and not owners and _was_applied_by_weir(meta):
            return  # `kubectl delete --cascade=orphan` takes the references off
        if has_label and (owner.kind, owner.name) in {
            (each["kind"], each["name"]) for each in owners
        }:
            raise TemporaryError(
                f"{kind} {meta['name']} still belongs to an earlier {owner.kind}"
                f" {self._key.name}, which is being deleted"
            )
        raise PermanentError(
            f"{kind} {meta['name']} exists in {self._namespace}, but Weir did not "
            "create it; rename or delete it, or rename the StreamApp"
        )

    def _owns(self, found: Body) -> bool:
        meta = found["metadata"]
        owners = {each["uid"] for each in meta.get("ownerReferences") or ()}
        has_label: bool = (meta.get("labels") or {}).get(APP) == self._key.name
        return has_label and self._owner.uid in owners

    async def find(self, kind: str, name: str) -> Body | None:
        """Return an object, or `None`."""
        return await self._at(self.path(kind, name))

    async def pods(self, labels: Mapping[str, str]) -> tuple[Body, ...]:
        """Return the StreamApp's pods with these labels, ended and ending ones included."""
        return await self.api.list(self.path("Pod"), labels=_text({**self._selector, **labels}))

    async def prune_config_maps(self) -> None:
        """Delete ConfigMaps that neither a pod nor a workload refers to."""
        templates = [each["spec"]["template"] for each in await self._workloads()]
        used = {name for each in (*templates, *await self.pods({})) for name in _config_maps(each)}
        for name in await self._config_map_names() - used:
            await self.api.delete(self.path("ConfigMap", name))

    async def without_files(self) -> tuple[Body, ...]:
        """Return the Deployment and ReplicaSets that refer to a ConfigMap that is not there.

        Their pods run on, and none that is lost is replaced.
        """
        there, workloads = await self._config_map_names(), await self._workloads()
        return tuple(each for each in workloads if _config_maps(each["spec"]["template"]) - there)

    async def delete_all(self, *, timeout: float) -> None:
        """Delete everything and wait until it is gone, Flink's own ConfigMaps too.

        Raises:
            TemporaryError: A pod is still there after `timeout` seconds.
        """
        for kind in _WORKLOADS:
            await self._delete(kind)
        await self._wait_for_pods(timeout)
        # Not before: a JobManager that ends still writes who leads.
        for kind in (
            "ConfigMap",
            "Service",
            "PodDisruptionBudget",
            "NetworkPolicy",
            "RoleBinding",
            "Role",
            "ServiceAccount",
        ):
            await self._delete(kind)
        for each in await self.recovery():
            await self.api.delete(self.path("ConfigMap", each["metadata"]["name"]))

    async def recovery(self) -> tuple[Body, ...]:
        """Return the ConfigMaps in which Flink keeps who leads and what runs."""
        return await self.api.list(self.path("ConfigMap"), labels=_text(self._recovery))

    async def _workloads(self) -> tuple[Body, ...]:
        found = [await self._list(kind) for kind in _WORKLOADS]
        return tuple(each for workloads in found for each in workloads)

    async def _config_map_names(self) -> set[str]:
        return {each["metadata"]["name"] for each in await self._list("ConfigMap")}

    async def _list(self, kind: str) -> tuple[Body, ...]:
        return await self.api.list(self.path(kind), labels=_text(self._selector))

    async def _at(self, path: str) -> Body | None:
        try:
            return await self.api.get(path)
        except NotFoundError:
            return None

    async def _delete(self, kind: str) -> None:
        for each in await self._list(kind):
            await self.api.delete(self.path(kind, each["metadata"]["name"]))

    async def _wait_for_pods(self, timeout: float) -> None:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout
        while left := await self.pods({}):
            if loop.time() >= deadline:
                names = ", ".join(sorted(pod["metadata"]["name"] for pod in left))
                raise TemporaryError(f"Pods still exist after {timeout:g} s: {names}")
            await asyncio.sleep(_POLL)


def _with_digest(thing: Body) -> Body:
    """Return an object with a digest of all that is applied of it.

    A field that was applied before and is not any more is not found by comparing fields.
    """
    text = json.dumps(thing, sort_keys=True)
    digest = hashlib.blake2b(text.encode(), digest_size=16).hexdigest()
    meta = thing["metadata"]
    annotations = {**meta.get("annotations", {}), APPLIED: digest}
    return {**thing, "metadata": {**meta, "annotations": annotations}}


def _has(found: object, wanted: object, *, exactly: bool = False) -> bool:
    """Return whether an object has all that is wanted, and if `exactly`, nothing else.

    The API server and others add fields that Weir does not care about.
    """
    match wanted:
        case dict():
            has = found if isinstance(found, dict) else {}
            added = {key: value for key, value in has.items() if key not in wanted}
            if exactly and not added.items() <= _DEFAULTS.items():
                return False
            return all(
                _has(has.get(key), value, exactly=exactly or key in _EXACT)
                for key, value in wanted.items()
            )
        case list() | tuple():
            has_list = found if isinstance(found, list) else []
            return len(has_list) == len(wanted) and all(
                _has(has, want, exactly=exactly) for has, want in zip(has_list, wanted, strict=True)
            )
        case _:
            return found == wanted


def _was_applied_by_weir(meta: Body) -> bool:
    return any(
        each.get("manager") == FIELD_MANAGER and each.get("operation") == "Apply"
        for each in meta.get("managedFields") or ()
    )


def _config_maps(pod: Body) -> set[str]:
    return {
        volume["configMap"]["name"]
        for volume in pod["spec"].get("volumes") or ()
        if "configMap" in volume
    }


def _text(labels: Mapping[str, str]) -> str:
    return ",".join(f"{key}={value}" for key, value in labels.items())
