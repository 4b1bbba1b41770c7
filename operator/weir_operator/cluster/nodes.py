"""Which nodes are about to go, seen once for all StreamApps of a controller."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import structlog

from weir_operator.cluster.api import KubernetesApi, RefusedByKubernetesError
from weir_operator.cluster.pod_states import node_is_going
from weir_operator.errors import TemporaryError

log = structlog.get_logger()

FRESH_FOR = 5.0
"""Seconds for which an answer serves. A spot notice leaves 30 s or more."""


class NodeNotices:
    """Tells why nodes are about to go; shared, so that many StreamApps ask no more than one."""

    def __init__(self, api: KubernetesApi) -> None:
        self._api = api
        self._asking = asyncio.Lock()
        self._going: Mapping[str, str] = {}
        self._asked = float("-inf")
        self._allowed = True

    async def going(self) -> Mapping[str, str]:
        """Return the reason by node; what was known before, where the API server is away."""
        async with self._asking:
            now = asyncio.get_running_loop().time()
            if self._allowed and now - self._asked >= FRESH_FOR:
                await self._ask()
                self._asked = now
            return self._going

    async def _ask(self) -> None:
        try:
            nodes = await self._api.list("/api/v1/nodes")
        except RefusedByKubernetesError as error:
            # A controller of one namespace may not look at nodes; drains then come unannounced.
            log.warning("nodes are not watched", reason=str(error))
            self._allowed = False
            return
        except TemporaryError as error:
            log.info("nodes not seen", reason=str(error))
            return
        reasons = {node["metadata"]["name"]: node_is_going(node) for node in nodes}
        self._going = {name: reason for name, reason in reasons.items() if reason}
