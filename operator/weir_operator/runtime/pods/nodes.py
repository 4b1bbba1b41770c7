"""Which nodes are about to be removed, and which replicas run on them; read once for all apps."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection, Mapping, Sequence

import structlog
from pydantic.types import JsonValue

from weir_operator.api.client import KubernetesApi, RefusedByKubernetesError
from weir_operator.api.objects import Body, Key
from weir_operator.errors import PermanentError, TemporaryError
from weir_operator.runtime.places import Place
from weir_operator.runtime.pods.manifests import TASK_MANAGER
from weir_operator.runtime.pods.pod_states import is_alive, is_held, node_is_going
from weir_operator.runtime.pods.pods import APP, COMPONENT, MANAGED_BY

log = structlog.get_logger()

FRESH_FOR = 5.0
"""Seconds for which an answer serves. A spot notice leaves 30 s or more."""
LONGEST_WAIT = 1.0
"""Seconds that a caller waits for an answer. A tick must not wait for a slow API server: what was
known before serves until the answer is there."""
_REPLICAS = f"{MANAGED_BY}=weir,{COMPONENT}={TASK_MANAGER},{APP}"
"""Anybody may label a pod so; without the name of a StreamApp it is no replica."""


class NodeNotices:
    """Tells why nodes are about to go; shared, so that many StreamApps ask no more than one."""

    def __init__(self, api: KubernetesApi, namespaces: Sequence[str] = ()) -> None:
        self._api = api
        self._namespaces = tuple(namespaces) or (None,)
        self._asking: asyncio.Task[None] | None = None
        self._nodes: tuple[Body, ...] = ()
        self._going: Mapping[str, str] = {}
        self._asked = self._counted = float("-inf")
        self._threatened: Mapping[str | None, frozenset[Key]] = {}
        self._unread: set[str | None] = set()
        self._allowed = True

    async def going(self) -> Mapping[str, str]:
        """Return the reason by node; what was known before, where the API server does not say.

        Raises:
            PermanentError: There are no credentials, or they cannot be read.
        """
        now = asyncio.get_running_loop().time()
        if self._allowed and now - self._asked >= FRESH_FOR:
            if self._asking is None or self._asking.done():
                self._asking = asyncio.create_task(self._ask())
            asking = self._asking  # one request for all who wait
            await asyncio.wait({asking}, timeout=LONGEST_WAIT)
            if asking.done():
                asking.result()
        return self._going

    async def find_misfit(self, place: Place) -> str:
        """Return why no node takes a pod of this place, half a sentence.

        Empty where one does, and where nothing is known of nodes: a pod finds out then.
        """
        await self.going()
        return explain_misfit(self._nodes, place)

    async def threatened(self) -> frozenset[Key]:
        """Return the StreamApps with a replica on a node that is about to go.

        What was known before of a namespace whose pods the API server does not show.

        Raises:
            PermanentError: There are no credentials, or they cannot be read.
        """
        going = await self.going()
        if self._counted != self._asked:
            asked = self._asked
            self._threatened = {name: await self._find(name, going) for name in self._namespaces}
            self._counted = asked
        return frozenset().union(*self._threatened.values())

    async def _find(self, namespace: str | None, going: Collection[str]) -> frozenset[Key]:
        path = "/api/v1/pods" if namespace is None else f"/api/v1/namespaces/{namespace}/pods"
        found = set()
        try:
            for node in going:
                on_node = f"spec.nodeName={node}"
                async for page in self._api.pages(path, labels=_REPLICAS, fields=on_node):
                    for pod in page:
                        if is_alive(pod) or is_held(pod, time.time()):
                            meta = pod["metadata"]
                            found.add(Key(meta["namespace"], meta["labels"][APP]))
        except (TemporaryError, PermanentError) as error:
            if namespace not in self._unread:
                log.warning("replicas not seen", namespace=namespace, failure=str(error))
                self._unread.add(namespace)
            return self._threatened.get(namespace, frozenset())
        self._unread.discard(namespace)
        return frozenset(found)

    async def _ask(self) -> None:
        await self._read()
        self._asked = asyncio.get_running_loop().time()

    async def _read(self) -> None:
        nodes: list[Body] = []
        going: dict[str, str] = {}
        try:
            async for page in self._api.pages("/api/v1/nodes"):
                for node in page:
                    nodes.append(_without_details(node))
                    if reason := node_is_going(node):
                        going[node["metadata"]["name"]] = reason
        except RefusedByKubernetesError as error:
            # A controller of one namespace may not look at nodes; drains then come unannounced.
            log.warning("nodes are not watched", reason=str(error))
            self._allowed = False
            return
        except TemporaryError as error:
            log.info("nodes not seen", reason=str(error))
            return
        self._nodes = tuple(nodes)
        self._going = going


def explain_misfit(nodes: Sequence[Body], place: Place) -> str:
    """Return why none of the nodes takes a pod of this place; empty where one does. Pure."""
    wanted = place.node_selector.items()
    labels = ", ".join(f"{key}={value}" for key, value in sorted(wanted)) or "of any kind"
    named = [node for node in nodes if wanted <= (node["metadata"].get("labels") or {}).items()]
    if nodes and not named:
        return f"No node has the labels {labels}"
    if named and not any(_takes(node, place) for node in named):
        return (
            f"Every node with the labels {labels} is cordoned or has a taint that the "
            "pool does not tolerate"
        )
    return ""


def _takes(node: Body, place: Place) -> bool:
    spec = node.get("spec") or {}
    return not spec.get("unschedulable") and all(
        any(_tolerates(each, taint) for each in place.tolerations)
        for taint in spec.get("taints") or ()
        if taint.get("effect") != "PreferNoSchedule"
    )


def _tolerates(toleration: Mapping[str, JsonValue], taint: Body) -> bool:
    key = toleration.get("key")
    if toleration.get("effect") not in (None, "", taint.get("effect")):
        return False
    if toleration.get("operator") == "Exists":
        return key in (None, "", taint["key"])
    return key == taint["key"] and (toleration.get("value") or "") == (taint.get("value") or "")


def _without_details(node: Body) -> Body:
    """Return the needed parts of a node, without its large status."""
    meta, spec = node["metadata"], node.get("spec") or {}
    return {
        "metadata": {"name": meta["name"], "labels": meta.get("labels") or {}},
        "spec": {key: spec[key] for key in ("taints", "unschedulable") if key in spec},
    }
