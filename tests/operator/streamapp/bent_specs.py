"""A whole spec with each of its fields bent in many ways."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from weir_operator.streamapp.loading import read_document

FULL = Path(__file__).parent / "manifests/full.yaml"

ODD: tuple[object, ...] = (
    None, True, 0, -1, 1, 5, 1.5, 10**9, "", "x", "X y", "5s", "0s", "1", "10%", "9" * 40,
    [], ["x"], {}, {"x": "y"}, {"x/1": 1},
)  # fmt: skip
"""Put in the place of every field."""


def a_whole_spec() -> dict[str, Any]:
    """Return a spec in which next to everything is written, so that everything can be bent."""
    manifest = read_document(FULL.read_text())
    assert isinstance(manifest, dict)
    spec: dict[str, Any] = manifest["spec"]
    spec["flink"]["config"] = {"heartbeat.interval": "1 s"}
    spec["flink"]["podTemplate"] = {
        "spec": {"containers": [{"name": "sidecar", "ports": [{"containerPort": 80}]}]}
    }
    spec["flink"]["job"]["initialSavepoint"] = "s3://bucket/42"
    spec["objective"]["responseTime"] = {"bound": "500ms", "statistic": "P95"}
    spec["fallback"] = {
        "after": "10m",
        "deployment": "Named",
        "named": {"tokenize": {"small/500m": 2}},
    }
    spec["operatorManager"]["policy"]["settings"] = {"catch_up": 60.0}
    for pool in spec["nodePools"]:
        pool["memory"] = "4Gi"
    spec["nodePools"][0]["memoryPrice"] = "0.005"
    spec["nodePools"][0]["tolerations"] = [
        {"key": "spot", "operator": "Equal", "value": "yes", "effect": "NoSchedule"}
    ]
    return spec


def paths(value: object, path: tuple[str | int, ...]) -> Iterator[tuple[str | int, ...]]:
    """Yield the path of a value and of everything in it."""
    yield path
    if isinstance(value, dict):
        inner = list(value.items())
    else:
        inner = list(enumerate(value)) if isinstance(value, list) else []
    for key, each in inner:
        yield from paths(each, (*path, key))


def bent_specs(section: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield specs with one field of a section changed or left out, each with what was done."""
    whole = a_whole_spec()
    for path in paths(whole[section], (section,)):
        for odd in (*ODD, ...):
            spec = copy.deepcopy(whole)
            here: Any = spec
            for step in path[:-1]:
                here = here[step]
            if odd is ...:
                del here[path[-1]]
            else:
                here[path[-1]] = odd
            yield f"{path} = {odd!r:.20}", spec
