"""Notices changes of a StreamApp's Flink on the API server, with a few watches for all.

If a thousand StreamApps listed their pods at every check, the API server and the controller would
be busy with what rarely changes. So Weir watches its pods, ConfigMaps and Deployments, and stores
only how often those of a StreamApp have changed. A caller takes a `mark`, lists, and need not list
again while the mark is the same. After its own change, it lists in any case, because the watch may
report it later.

A watch that its server ends regularly continues where it was. After a lost watch, or if the server
has forgotten the past (410), all marks of its namespace change: everyone there lists again, and at
every check while there is no watch. A namespace that is refused, such as a deleted one, is asked
again for ever, concerns no other, and is named by `refused`. A watch that died unnoticed misleads
for at most `LASTS` and `GRACE`.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import structlog

from weir_operator.api.client import KubernetesApi
from weir_operator.api.objects import Key
from weir_operator.errors import PermanentError, TemporaryError
from weir_operator.limits import KUBERNETES_ANSWER, cut_sentence, read_json
from weir_operator.runtime.pods.pods import APP, MANAGED_BY

log = structlog.get_logger()

Mark = tuple[int, int]
"""Of which time without a loss, and how many changes there were of a StreamApp's objects in it."""

LASTS = 60
"""Seconds after which the server ends a watch."""
GRACE = 15.0
"""Seconds more after which one is taken for dead."""
PAUSE = 5.0
"""Seconds between two attempts to begin."""
MOST_COUNTED = 20_000
"""StreamApps whose changes are counted; then all are counted anew. Anybody may label an object as
that of a StreamApp which does not exist."""
EVERYWHERE = "*"
"""Stands for all namespaces."""
_KINDS = (("/api/v1", "pods"), ("/api/v1", "configmaps"), ("/apis/apps/v1", "deployments"))
_BREATH = 1.0  # seconds after a watch of which nothing came
_LABELS = f"{MANAGED_BY}=weir"
_ACCEPT = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
"""The name and labels are all that is needed of an object."""


@dataclass(slots=True)
class _Watched:
    """A namespace that is watched, or all of them."""

    paths: tuple[str, ...]
    """Of its collections."""
    unseen: set[str]
    """Those that are not watched at present."""
    refused: set[str] = field(default_factory=set)
    """Those of them that the API server refuses."""
    logged: set[str] = field(default_factory=set)
    """Those whose loss is in the log already."""
    time: int = 0
    changed: Counter[Key] = field(default_factory=Counter)

    @classmethod
    def of(cls, namespace: str | None) -> _Watched:
        """Return it without a watch; `None` is all namespaces."""
        place = "" if namespace is None else f"/namespaces/{namespace}"
        paths = tuple(f"{root}{place}/{kind}" for root, kind in _KINDS)
        return cls(paths, {*paths})

    def note_watched(self, path: str) -> None:
        """Store that a watch has begun: what was before it is not known."""
        self.refused.discard(path)
        self.logged.discard(path)
        if path in self.unseen:
            self.unseen.remove(path)
            self.time += 1
            self.changed.clear()
            log.info("watching", path=path)

    def note_change(self, key: Key) -> None:
        """Count a change of an object that is labelled as a StreamApp's."""
        if key not in self.changed and len(self.changed) >= MOST_COUNTED:
            self.time += 1
            self.changed.clear()
        self.changed[key] += 1

    def note_lost(self, path: str, reason: TemporaryError | PermanentError) -> None:
        """Store that there is no watch; log it once."""
        self.unseen.add(path)
        if isinstance(reason, PermanentError):
            self.refused.add(path)
        if path not in self.logged:
            self.logged.add(path)
            log.warning("watch lost", path=path, reason=str(reason))


def count_watches(namespaces: Sequence[str]) -> int:
    """Return how many watches `Changes` holds for these namespaces; none: for all of them."""
    return len(_KINDS) * max(1, len(namespaces))


class Changes:
    """Watches the objects of all StreamApps; shared."""

    def __init__(self, api: KubernetesApi, namespaces: Sequence[str] = ()) -> None:
        """Begin with no watch.

        Args:
            api: The API server by connections that nobody else needs: each watch holds one, see
                `count_watches`.
            namespaces: Which are watched; none: all, by the watches of one.
        """
        self._api = api
        self._everywhere = _Watched.of(None)
        self._places = {name: _Watched.of(name) for name in namespaces}

    def mark(self, key: Key) -> Mark | None:
        """Return what differs once a StreamApp's objects have changed; `None` where unknown."""
        place = self._places.get(key.namespace, self._everywhere)
        return None if place.unseen else (place.time, place.changed[key])

    @property
    def refused(self) -> frozenset[str]:
        """The namespaces in which the API server refuses a watch; `*` stands for all."""
        places = self._places or {EVERYWHERE: self._everywhere}
        return frozenset(name for name, place in places.items() if place.refused)

    async def watch(self) -> None:
        """Watch for ever."""
        async with asyncio.TaskGroup() as group:
            for place in self._places.values() or [self._everywhere]:
                for path in place.paths:
                    group.create_task(self._follow(place, path), name=f"watch {path}")

    async def _follow(self, place: _Watched, path: str) -> None:
        while True:
            try:
                await self._follow_from(place, path, await self._api.newest(path, _LABELS))
            except (TemporaryError, PermanentError) as error:
                place.note_lost(path, error)
            await asyncio.sleep(PAUSE)

    async def _follow_from(self, place: _Watched, path: str, version: str) -> None:
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
                place.note_watched(path)
                async for line in lines:
                    version = _take(line, place)
            if version == before:
                await asyncio.sleep(_BREATH)


def _take(line: bytes, place: _Watched) -> str:
    """Count a change and return the resourceVersion that it led to."""
    try:
        event = read_json(line, KUBERNETES_ANSWER)
        kind, thing = event["type"], event["object"]
        if kind == "ERROR":
            raise TemporaryError(
                f"The API server ends a watch: {cut_sentence(str(thing.get('message')))}"
            )
        meta = thing["metadata"]
        app = (meta.get("labels") or {}).get(APP)
        if kind != "BOOKMARK" and app is not None:
            place.note_change(Key(meta["namespace"], app))
        return str(meta["resourceVersion"])
    except (AttributeError, LookupError, RecursionError, TypeError, ValueError) as error:
        raise TemporaryError(
            f"Expected an event of a watch, got a line that is none ({type(error).__name__})"
        ) from error
