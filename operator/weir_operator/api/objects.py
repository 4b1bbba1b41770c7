"""What the controller's process knows of a StreamApp as an object of the API server."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from weir_operator.streamapp.loading import MOST_VALUES, has_too_many_values
from weir_operator.streamapp.models import API_VERSION, KIND

GROUP, VERSION = API_VERSION.split("/")
PLURAL = "streamapps"

PREFIX = f"{GROUP}/"
"""Of annotations that are Weir's to read."""
CANARY_LABEL = "weir.dev/canary"
"""Marks the StreamApp that proves the watch to be alive; nothing is run for it."""
_OVERSIZED: Mapping[str, Any] = {"values": [None] * MOST_VALUES}
"""Stands for a spec of too many values, which is refused for just that: copying one of a megabyte
at each change would hold up everybody."""

Body = dict[str, Any]
"""An object of the API server as plain JSON values."""


@dataclass(frozen=True, slots=True, order=True)
class Key:
    """Which StreamApp."""

    namespace: str
    name: str

    def __str__(self) -> str:
        """Return `namespace/name`."""
        return f"{self.namespace}/{self.name}"

    @property
    def path(self) -> str:
        """Where the API server has it."""
        return f"{collection(self.namespace)}/{self.name}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Resource:
    """A StreamApp as the API server has it, right or not."""

    key: Key
    uid: str
    generation: int
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    """Those that are Weir's."""
    spec: Mapping[str, Any]
    """What people ask: a view of kopf's, or plain values."""
    deleting: bool

    @classmethod
    def of(cls, body: Mapping[str, Any]) -> Resource:
        """Return what the API server, or a watch, gave."""
        meta = body["metadata"]
        return cls(
            key=Key(meta["namespace"], meta["name"]),
            uid=meta["uid"],
            generation=int(meta.get("generation") or 0),
            labels=dict(meta.get("labels") or {}),
            annotations={
                name: text
                for name, text in (meta.get("annotations") or {}).items()
                if name.startswith(PREFIX)
            },
            spec=body.get("spec") or {},
            deleting=meta.get("deletionTimestamp") is not None,
        )

    def detached(self) -> Resource:
        """Return it to be kept: kopf's view of a spec keeps the whole object, status and all."""
        if has_too_many_values(self.spec):
            return replace(self, spec=_OVERSIZED)
        return replace(self, spec=_plain(self.spec))

    @property
    def is_canary(self) -> bool:
        """Whether it only proves the watch to be alive."""
        return self.labels.get(CANARY_LABEL) == "true"

    @property
    def manifest(self) -> Body:
        """What `parse_manifest` judges."""
        return {
            "apiVersion": API_VERSION,
            "kind": KIND,
            "metadata": {
                "name": self.key.name,
                "namespace": self.key.namespace,
                "annotations": dict(self.annotations),
            },
            "spec": _plain(self.spec),
        }

    def asks_the_same_as(self, other: Resource) -> bool:
        """Return whether it is the same object, and nothing that people ask has changed.

        Most of what a watch shows is Weir's own writing to the status: to find that out must not
        take the judgement of a whole manifest.
        """
        return (self.uid, self.generation) == (
            other.uid,
            other.generation,
        ) and self.annotations == other.annotations

    @property
    def reference(self) -> Body:
        """How other objects name it."""
        return {
            "apiVersion": API_VERSION,
            "kind": KIND,
            "namespace": self.key.namespace,
            "name": self.key.name,
            "uid": self.uid,
        }


def collection(namespace: str | None) -> str:
    """Return where the StreamApps of a namespace are, or those of all for `None`."""
    place = "" if namespace is None else f"/namespaces/{namespace}"
    return f"/apis/{GROUP}/{VERSION}{place}/{PLURAL}"


def _plain(value: Any) -> Any:
    """Return kopf's read-only views as plain values, which JSON and pydantic know."""
    if isinstance(value, Mapping):
        return {key: _plain(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(each) for each in value]
    return value
