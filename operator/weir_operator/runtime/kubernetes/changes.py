"""Notices changes of a StreamApp's Flink on the API server, with a few watches for all.

If a thousand StreamApps listed their pods at every check, the API server and the controller would
be busy with what rarely changes. So Weir watches its pods, ConfigMaps and Deployments, and stores
only how often those of a StreamApp have changed. A caller takes a `mark`, lists, and need not list
again while the mark is the same. After its own change, it lists in any case, because the watch may
report it later.

A watch that its server ends regularly continues where it was. After a lost watch, or if the server
has forgotten the past (410), all marks change: everyone lists again, and at every check while there
is no watch. A watch that died unnoticed misleads for at most `LASTS` and `GRACE`.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Protocol

import structlog
from pydantic_core import from_json

from weir_operator.errors import PermanentError, TemporaryError
from weir_operator.kubernetes.api.objects import Key
from weir_operator.runtime.kubernetes.pods import APP, MANAGED_BY

log = structlog.get_logger()

Mark = tuple[int, int]
"""Of which time without a loss, and how many changes there were of a StreamApp's objects in it."""

LASTS = 60
"""Seconds after which the server ends a watch."""
GRACE = 15.0
"""Seconds more after which one is taken for dead."""
PAUSE = 5.0
"""Seconds between two attempts to begin."""
_KINDS = (("/api/v1", "pods"), ("/api/v1", "configmaps"), ("/apis/apps/v1", "deployments"))
_BREATH = 1.0  # seconds after a watch of which nothing came
_LABELS = f"{MANAGED_BY}=weir"
_ACCEPT = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
"""The name and labels are all that is needed of an object."""


class WatchApi(Protocol):
    """What the watches need of the API server; `KubernetesApi` implements it."""

    async def newest(self, path: str, labels: str = "") -> str:
        """Return the resourceVersion from which a watch of a collection may begin."""
        ...

    def stream(
        self, path: str, query: Mapping[str, str], *, accept: str, lasts: float
    ) -> AbstractAsyncContextManager[AsyncIterable[bytes]]:
        """Open a streaming answer; yields its lines."""
        ...


def count_watches(namespaces: Sequence[str]) -> int:
    """Return how many watches `Changes` holds for these namespaces; none: for all of them."""
    return len(_collections(namespaces))


class Changes:
    """Watches the objects of all StreamApps; shared."""

    def __init__(self, api: WatchApi, namespaces: Sequence[str] = ()) -> None:
        """Begin with no watch.

        Args:
            api: The API server by connections that nobody else needs: each watch holds one, see
                `count_watches`.
            namespaces: Which are watched; none: all, by the watches of one.
        """
        self._api = api
        self._collections = _collections(namespaces)
        self._unseen = set(self._collections)
        self._time = 0
        self._changed: Counter[Key] = Counter()

    def mark(self, key: Key) -> Mark | None:
        """Return what differs once a StreamApp's objects have changed; `None` where unknown."""
        return None if self._unseen else (self._time, self._changed[key])

    async def watch(self) -> None:
        """Watch for ever."""
        async with asyncio.TaskGroup() as group:
            for path in self._collections:
                group.create_task(self._follow(path), name=f"watch {path}")

    async def _follow(self, path: str) -> None:
        while True:
            try:
                await self._follow_from(path, await self._api.newest(path, _LABELS))
            except (TemporaryError, PermanentError) as error:
                if path not in self._unseen:
                    log.info("watch lost", path=path, reason=str(error))
                self._unseen.add(path)
            await asyncio.sleep(PAUSE)

    async def _follow_from(self, path: str, version: str) -> None:
        """Follow the changes after `version`.

        Raises:
            TemporaryError: What comes next is not known.
            PermanentError: The server refuses.
        """
        while True:
            query = {
                "watch": "true",
                "labelSelector": _LABELS,
                "resourceVersion": version,
                "allowWatchBookmarks": "true",
                "timeoutSeconds": str(LASTS),
            }
            before = version
            async with self._api.stream(path, query, accept=_ACCEPT, lasts=LASTS + GRACE) as lines:
                self._note_watched(path)
                async for line in lines:
                    version = self._take(line)
            if version == before:
                await asyncio.sleep(_BREATH)

    def _note_watched(self, path: str) -> None:
        if path in self._unseen:
            self._unseen.remove(path)
            self._time += 1
            self._changed.clear()
            log.info("watching", path=path)

    def _take(self, line: bytes) -> str:
        """Count a change and return the resourceVersion that it led to.

        Raises:
            TemporaryError: The server does not know any more what happened, or the line is none of
                a watch: cut off, or of something else in between.
        """
        try:
            event = from_json(line)
            kind, thing = event["type"], event["object"]
            if kind == "ERROR":
                raise TemporaryError(f"The API server ends a watch: {thing.get('message', thing)}")
            meta = thing["metadata"]
            app = (meta.get("labels") or {}).get(APP)
            if kind != "BOOKMARK" and app is not None:
                self._changed[Key(meta["namespace"], app)] += 1
            return str(meta["resourceVersion"])
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise TemporaryError(
                f"Expected an event of a watch, got a line that is none ({type(error).__name__})"
            ) from error


def _collections(namespaces: Sequence[str]) -> list[str]:
    return [
        f"{root}{place}/{kind}"
        for place in [f"/namespaces/{name}" for name in namespaces] or [""]
        for root, kind in _KINDS
    ]
