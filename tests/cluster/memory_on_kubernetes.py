"""What the pods of a namespace take of memory at most, as their kubelets see it."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from types import TracebackType
from typing import Self

from weir_operator.api.client import KubernetesApi
from weir_operator.errors import TemporaryError

PERIOD = 3.0
"""Seconds between two looks; the kubelet itself measures about every ten."""


class MemoryOnKubernetes:
    """Looks again and again while it is open; an async context manager.

    Counted is the working set: what a memory limit is held against, less what the kernel could
    give back.
    """

    def __init__(self, api: KubernetesApi, namespace: str) -> None:
        self._api, self._namespace = api, namespace
        self.peak = 0
        """Most bytes that all pods took together."""
        self.peaks: dict[str, int] = {}
        """Most bytes that each pod took, by its name."""

    async def __aenter__(self) -> Self:
        nodes = await self._api.list("/api/v1/nodes")
        self._nodes = [node["metadata"]["name"] for node in nodes]
        self._looking = asyncio.create_task(self._look())
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._looking.cancel()
        with suppress(asyncio.CancelledError):
            await self._looking

    def peak_of(self, part: str) -> int:
        """Return the most bytes that a pod with `part` in its name took; 0 where none was seen."""
        return max((maximum for name, maximum in self.peaks.items() if part in name), default=0)

    async def _look(self) -> None:
        while True:
            with suppress(TemporaryError):  # a look more or less makes no difference
                self._note(await self._measure())
            await asyncio.sleep(PERIOD)

    def _note(self, taken: dict[str, int]) -> None:
        self.peak = max(self.peak, sum(taken.values()))
        for name, now in taken.items():
            self.peaks[name] = max(now, self.peaks.get(name, 0))

    async def _measure(self) -> dict[str, int]:
        taken = {}
        for node in self._nodes:
            summary = await self._api.get(f"/api/v1/nodes/{node}/proxy/stats/summary")
            for pod in summary.get("pods") or ():
                if pod["podRef"]["namespace"] == self._namespace and "memory" in pod:
                    taken[pod["podRef"]["name"]] = int(pod["memory"].get("workingSetBytes", 0))
        return taken
