"""Builders of StreamApps for tests."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

from weir_operator.streamapp.loading import parse_manifest
from weir_operator.streamapp.models import StreamApp

_SMALL: dict[str, Any] = {
    "apiVersion": "weir.dev/v1alpha1",
    "kind": "StreamApp",
    "metadata": {"name": "trips"},
    "spec": {
        "flink": {"job": {"jar": "trips.jar"}},
        "objective": {"responseTime": "200ms"},
        "nodePools": [{"name": "small"}],
    },
}


def a_manifest(**spec: object) -> dict[str, Any]:
    """Return the shortest manifest that is right, with sections of the spec replaced or added."""
    manifest = deepcopy(_SMALL)
    manifest["spec"] |= spec
    return manifest


def a_stream_app(**spec: object) -> StreamApp:
    return parse_manifest(a_manifest(**spec))
