"""Lists all StreamApps every few minutes, to find what a watch has lost."""

from __future__ import annotations

from collections.abc import Sequence

import structlog

from weir_operator.api.client import KubernetesApi
from weir_operator.api.objects import Resource, collection
from weir_operator.clock import Clock
from weir_operator.cluster.process.reconcile import Reconciler
from weir_operator.cluster.status.telemetry import Telemetry
from weir_operator.errors import PermanentError, WeirError
from weir_operator.runtime.pods.changes import EVERYWHERE

log = structlog.get_logger()

LIST_EVERY = 300.0
"""Seconds between two lists."""


class Listing:
    """Lists the StreamApps and makes a pass over those that the watch has not shown."""

    def __init__(
        self,
        api: KubernetesApi,
        namespaces: Sequence[str],
        reconciler: Reconciler,
        *,
        telemetry: Telemetry,
        clock: Clock,
    ) -> None:
        """Create the lister."""
        self._api = api
        self._namespaces = namespaces or (None,)
        self._reconciler = reconciler
        self._telemetry = telemetry
        self._clock = clock
        self.refused: set[str] = set()
        """Namespaces whose StreamApps the API server refused to list last; `*` stands for all."""

    async def run(self) -> None:
        """List for ever."""
        while True:
            await self._clock.sleep(LIST_EVERY)
            await self.list()

    async def list(self) -> None:
        """List once; a namespace that cannot be listed hides no other."""
        for namespace in self._namespaces:
            self.refused.discard(namespace or EVERYWHERE)
            try:
                await self._list(namespace)
            except WeirError as error:
                if isinstance(error, PermanentError):
                    self.refused.add(namespace or EVERYWHERE)
                log.warning("StreamApps not listed", namespace=namespace, failure=str(error))
                self._telemetry.count_task_failure("lists")

    async def _list(self, namespace: str | None) -> None:
        # Before the first page: others may be created while pages are read.
        managed = [key for key in self._reconciler.apps if namespace in (None, key.namespace)]
        there = set()
        async for page in self._api.pages(collection(namespace)):
            for resource in map(Resource.of, page):
                there.add(resource.key)
                self._look_at(resource)
        for key in managed:
            if key not in there and key in self._reconciler.apps:
                log.warning("a StreamApp whose end the watch has not shown", app=str(key))
                self._reconciler.forget(key)

    def _look_at(self, resource: Resource) -> None:
        """Make a pass over a StreamApp that the watch has not shown."""
        if resource.deleting or resource.is_canary:
            return
        if not self._reconciler.knows(resource):
            log.warning("a StreamApp that the watch has not shown", app=str(resource.key))
            self._pass_over(resource)

    def _pass_over(self, resource: Resource) -> None:
        """Make a pass over one StreamApp; one that cannot be read hides no other."""
        try:
            self._reconciler.reconcile(resource)
        except Exception:
            key = resource.key
            log.exception("pass failed", app=str(key))
            self._telemetry.errors.add(key, "defect")
