"""Keeps from kopf the events of StreamApps in which nothing but the status is new.

Most of what a watch shows is Weir's own writing to the status, which no handler reads; kopf would
start a worker for each and compare whole objects. Such an event is left out only once kopf has
nothing to write to the object: a patch of its own that met a newer version is tried again at the
next event, whatever that shows. So the finalizer and the mark of what was handled must be there,
and an object that is being deleted shows everything.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Mapping
from typing import Any, cast

from kopf._cogs.structs.bodies import RawEvent

_OF_EACH_WRITE = ("managedFields", "resourceVersion")
"""Metadata that a write of the status changes, too."""


class StatusFilter:
    """Decides which events show more than a new status."""

    def __init__(self, *, finalizer: str, handled: str) -> None:
        """Begin with nothing shown.

        Args:
            finalizer: kopf's.
            handled: Annotation in which kopf marks an object as handled.
        """
        self._finalizer = finalizer
        self._handled = handled
        self._shown: dict[str, bytes] = {}  # digest of the metadata that kopf has seen, by uid

    def admits_event(self, event: RawEvent) -> bool:
        """Return whether kopf is to see an event; what it is shown is remembered."""
        body = cast(Mapping[str, Any], event["object"])
        meta: Mapping[str, Any] = body["metadata"]
        uid: str = meta["uid"]
        if event["type"] == "DELETED":
            self._shown.pop(uid, None)
            return True
        digest = _digest(meta)
        is_same = self._shown.get(uid) == digest
        self._shown[uid] = digest
        return not (event["type"] == "MODIFIED" and is_same and self._is_settled(meta))

    def _is_settled(self, meta: Mapping[str, Any]) -> bool:
        """Return whether kopf has nothing left to write to an object."""
        finalizers: Collection[str] = meta.get("finalizers") or ()
        annotations: Mapping[str, str] = meta.get("annotations") or {}
        return (
            self._finalizer in finalizers
            and self._handled in annotations
            and meta.get("deletionTimestamp") is None
        )


def _digest(meta: Mapping[str, Any]) -> bytes:
    """Return a digest of what people and kopf write, the generation of the spec included."""
    kept = {name: value for name, value in meta.items() if name not in _OF_EACH_WRITE}
    return hashlib.blake2b(json.dumps(kept, sort_keys=True).encode(), digest_size=16).digest()
