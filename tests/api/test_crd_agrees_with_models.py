"""API server and models judge alike: a whole manifest with each of its fields bent in many ways.

Where they differed, a manifest would be stored that the controller then refuses, or an app that
runs on a laptop could not be applied.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from weir_operator.errors import InvalidStreamAppError
from weir_operator.streamapp.loading import parse_manifest, read_document

pytestmark = pytest.mark.kubernetes_api

_FULL = Path(__file__).parents[1] / "operator/streamapp/manifests/full.yaml"

ODD: tuple[object, ...] = (
    None, True, 0, -1, 1, 5, 1.5, 10**9, "", "x", "X y", "5s", "0s", "1", "10%", "9" * 40,
    [], ["x"], {}, {"x": "y"}, {"x/1": 1},
)  # fmt: skip
"""Put in the place of every field."""


def a_whole_spec() -> dict[str, Any]:
    """Return a spec in which next to everything is written, so that everything can be bent."""
    manifest = read_document(_FULL.read_text())
    assert isinstance(manifest, dict)
    spec: dict[str, Any] = manifest["spec"]
    spec["flink"]["config"] = {"heartbeat.interval": "1 s"}
    spec["flink"]["podTemplate"] = {
        "spec": {"containers": [{"name": "sidecar", "ports": [{"containerPort": 80}]}]}
    }
    spec["flink"]["job"]["initialSavepoint"] = "s3://bucket/42"
    spec["objective"]["responseTime"] = {"bound": "500ms", "statistic": "p95"}
    spec["fallback"] = {
        "after": "10m",
        "deployment": "Named",
        "named": {"tokenize": {"small/500m": 2}},
    }
    spec["evaluation"] = {
        "baseline": {"deployment": "Initial"},
        "block": "1h",
        "pairs": 12,
        "seed": 1,
    }
    spec["nodePools"][0]["memoryPrice"] = 0.005
    spec["nodePools"][0]["tolerations"] = [
        {"key": "spot", "operator": "Equal", "value": "yes", "effect": "NoSchedule"}
    ]
    return spec


UNSEEN = "at most the bound of the whole job"
"""Part of a refusal that no rule of the server can make: it compares fields without a type."""


def is_unseen(refusal: str) -> bool:
    """Return whether the server can see none of the mistakes."""
    mistakes = refusal.splitlines()
    return bool(mistakes) and all(UNSEEN in each for each in mistakes)


SECTIONS = tuple(a_whole_spec())


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


def refusal_of(manifest: dict[str, Any]) -> str:
    """Return why the models refuse a manifest; empty where they take it."""
    try:
        parse_manifest(manifest)
    except InvalidStreamAppError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("section", SECTIONS)
async def test_what_one_refuses_the_other_refuses_too(kube, section):
    verdicts = []
    for what, spec in bent_specs(section):
        manifest = {
            "apiVersion": "weir.dev/v1alpha1",
            "kind": "StreamApp",
            "metadata": {"name": "trips"},
            "spec": spec,
        }
        answer = await kube.ask(
            "POST", f"{kube.stream_apps}?fieldValidation=Strict&dryRun=All", manifest
        )
        verdicts.append((what, answer, refusal_of(manifest)))

    assert len(verdicts) >= len(ODD)
    assert {
        what: refusal or answer.message
        for what, answer, refusal in verdicts
        if (answer.status == 201) != (refusal == "") and not is_unseen(refusal)
    } == {}


def test_the_whole_spec_is_right_and_has_every_section():
    spec = a_whole_spec()

    app = parse_manifest(
        {"apiVersion": "weir.dev/v1alpha1", "kind": "StreamApp",
         "metadata": {"name": "trips"}, "spec": spec}
    )  # fmt: skip

    assert {field.alias for field in type(app.spec).model_fields.values()} == set(SECTIONS)
