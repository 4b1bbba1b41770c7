"""A StreamApp on a cluster as its user sees it: its status, its pods, and changes of its spec."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass

from weir_operator.api.client import Body, KubernetesApi, NotFoundError
from weir_operator.api.objects import collection


@dataclass(frozen=True)
class LiveApp:
    """One StreamApp by its name; it need not be there yet."""

    api: KubernetesApi
    namespace: str
    name: str

    @property
    def path(self) -> str:
        return f"{collection(self.namespace)}/{self.name}"

    async def create(self, manifest: Mapping[str, object]) -> None:
        await self.api.create(collection(self.namespace), dict(manifest))

    async def change(self, **spec: object) -> None:
        """Change fields of the spec, as `kubectl patch --type merge` does."""
        await self.api.patch(self.path, {"spec": spec})

    async def annotate(self, name: str, text: str | None) -> None:
        """Set an annotation, or take it away with `None`."""
        await self.api.patch(self.path, {"metadata": {"annotations": {name: text}}})

    async def remove_finalizer(self) -> None:
        """Let the StreamApp go with its namespace; it may have gone."""
        with suppress(NotFoundError):
            await self.api.patch(self.path, {"metadata": {"finalizers": None}})

    async def status(self) -> Body:
        """Return the status as it is now, empty before there is one."""
        found: Body = (await self.api.get(self.path)).get("status", {})
        return found

    async def pods(self, component: str) -> list[Body]:
        """Return the job's pods that are not about to go: `jobmanager` or `taskmanager`."""
        labels = f"weir.dev/app={self.name},weir.dev/component={component}"
        found = await self.api.list(f"/api/v1/namespaces/{self.namespace}/pods", labels=labels)
        return staying(found)


def staying(pods: tuple[Body, ...]) -> list[Body]:
    """Return the pods that are not about to go."""
    return [pod for pod in pods if "deletionTimestamp" not in pod["metadata"]]
