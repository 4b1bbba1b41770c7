"""Whatever `weir validate` accepts can be put together: loops, status, and every object of pods."""

from __future__ import annotations

import copy
import json
import re
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.operator.rescale.fakes import FakeClock, FakeWorld, JobsOf, MemoryStatusStore
from weir_operator.errors import InvalidStreamAppError
from weir_operator.kubernetes.app.preflight import find_refusals
from weir_operator.kubernetes.status.view import first_facts, render_status
from weir_operator.loop.decision_records import TolerantRecords
from weir_operator.loop.directives import directives_of
from weir_operator.loop.guards import guards_at
from weir_operator.metrics.source import MetricsSource
from weir_operator.rescale.flink import FlinkJobs
from weir_operator.runtime.kubernetes import manifests
from weir_operator.runtime.kubernetes.configuration import (
    config_map,
    job_manager_files,
    task_manager_files,
)
from weir_operator.runtime.kubernetes.pods import FlinkPods
from weir_operator.streamapp import world
from weir_operator.streamapp.loading import (
    load_manifest,
    parse_manifest,
    read_document,
)
from weir_operator.streamapp.models import StreamApp
from weir_operator.streamapp.quantities import Cpu, Duration, Memory, Percentage
from weir_operator.streamapp.status import StreamAppStatus
from weir_operator.wiring import assembly
from weir_operator.wiring.loops import Dependencies, assemble
from weir_policies import registry

FULL = Path(__file__).parents[1] / "streamapp/manifests/full.yaml"
TIMES = (0.0, 1.8e9, 4e9)


def a_whole_manifest() -> dict[str, Any]:
    """Return a manifest in which next to everything is written, so that it can be changed."""
    manifest = cast(dict[str, Any], read_document(FULL.read_text()))
    spec = manifest["spec"]
    spec["operatorManager"]["policy"]["settings"] = {"catch_up": 60.0}
    spec["flink"]["config"] = {
        "env.java.opts.all": "-Da='b c' -Dd=\"e\"",
        "taskmanager.memory.jvm-metaspace.size": "128m",
        "taskmanager.memory.network.fraction": "0.1",
        "heartbeat.interval": "1 s",
    }
    spec["flink"]["job"]["initialSavepoint"] = "s3://bucket/42"
    spec["flink"]["podTemplate"] = {
        "metadata": {"labels": {"team": "streams"}, "annotations": {"a": "b"}},
        "spec": {
            "serviceAccountName": "trips",
            "securityContext": {"runAsUser": 9999},
            "containers": [
                {
                    "name": "flink-main-container",
                    "env": [{"name": "X", "value": "y"}],
                    "ports": [{"containerPort": 80}],
                    "volumeMounts": [{"mountPath": "/x", "name": "x"}],
                }
            ],
            "volumes": [{"name": "x", "emptyDir": {}}],
            "affinity": {"nodeAffinity": {}},
        },
    }
    for pool in spec["nodePools"]:
        pool |= {"memory": "4Gi", "tolerations": [{"key": "spot", "value": "yes"}]}
    return manifest


def paths(value: object, path: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    """Return the paths of everything below a value."""
    inner: list[tuple[str | int, object]] = []
    if isinstance(value, dict):
        inner = list(value.items())
    elif isinstance(value, list):
        inner = list(enumerate(value))
    return [found for key, each in inner for found in ((*path, key), *paths(each, (*path, key)))]


WHOLE = a_whole_manifest()
PATHS = [path for path in paths(WHOLE["spec"], ("spec",)) if path != ("spec",)]
QUANTITIES = st.one_of(
    [st.from_regex(rf"\A{kind.pattern}\Z") for kind in (Duration, Cpu, Memory, Percentage)]
)
NAMES = st.sampled_from([*registry.names(), "match", "small", "large/1", "small/250m", "job", "x"])
TEXTS = st.one_of(
    st.text(max_size=40),
    st.text("'\"\\ $`;\n\t-=a1", max_size=20),
    st.sampled_from(
        ["*", "* * * * *", "0 0 29 2 *", "https://x/y", "s3://b/c", "~", "null", "1e400"]
    ),
)
# The API server's JSON has no infinity, which a pod template of a file would pass on.
FINITE = st.floats(allow_nan=False, allow_infinity=False)
NUMBERS = st.one_of(st.integers(-(10**20), 10**20), st.integers(0, 100), FINITE)
SCALARS = st.one_of(QUANTITIES, NAMES, TEXTS, NUMBERS, st.booleans(), st.none())
VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.one_of(NAMES, st.text(max_size=8)), inner, max_size=3)
    ),
    max_leaves=6,
)
LEFT_OUT = object()


def alike(value: object) -> st.SearchStrategy[object]:
    """Return values of the same kind, which have a chance to be accepted."""
    match value:
        case bool():
            return st.booleans()
        case int():
            return st.integers(0, 10**5)
        case float():
            return st.floats(0, 1e7)
        case str():
            kinds = [
                k for k in (Duration, Cpu, Memory, Percentage) if re.fullmatch(k.pattern, value)
            ]
            return st.one_of(
                *(st.from_regex(rf"\A{kind.pattern}\Z") for kind in kinds), NAMES, TEXTS
            )
        case list():
            return st.lists(st.sampled_from(value), max_size=3) if value else st.just([])
        case dict():
            return st.dictionaries(NAMES, SCALARS, max_size=3)
    return SCALARS


@st.composite
def changed_manifests(draw: st.DrawFn) -> dict[str, Any]:
    """Draw the whole manifest with some fields changed, left out, or added to."""
    manifest = copy.deepcopy(WHOLE)
    for _ in range(draw(st.integers(1, 3))):
        path = draw(st.sampled_from(PATHS))
        here: Any = manifest
        try:
            for step in path[:-1]:
                here = here[step]
            last = path[-1]
            before = here[last]
        except (KeyError, IndexError, TypeError):
            continue  # an earlier change took it away
        if not hasattr(here, "__setitem__"):
            continue
        value = draw(st.one_of(alike(before), alike(before), VALUES, SCALARS, st.just(LEFT_OUT)))
        if value is LEFT_OUT:
            del here[last]
        elif isinstance(before, dict) and isinstance(value, dict) and draw(st.booleans()):
            before.update(value)
        elif isinstance(before, list) and draw(st.booleans()):
            before.append(value)
        else:
            here[last] = value
    return manifest


def accept(manifest: object) -> StreamApp | None:
    """Return what `weir validate` accepts; `None` where it refuses, in sentences."""
    try:
        app = parse_manifest(manifest)
    except InvalidStreamAppError:
        return None
    return None if find_refusals(app) else app


class Nothing:
    """A source of samples that is never asked."""


@pytest.fixture(scope="module")
def put_together(tmp_path_factory):
    """Put together everything that the controller makes of a manifest, but start nothing."""
    folder = tmp_path_factory.mktemp("state")
    records = TolerantRecords(folder / "records.sqlite", lambda reason, message: None)

    def make(app: StreamApp) -> None:
        runtime = FakeWorld(FakeClock())
        around = Dependencies(
            runtime=runtime,
            jobs=cast(FlinkJobs, JobsOf(runtime)),
            store=MemoryStatusStore(),
            source=cast(MetricsSource, Nothing()),
            records=records,
            folder=folder,
            clock=FakeClock(),
            on_tick=lambda tick: None,
            on_event=lambda event: None,
            on_change=lambda change: None,
        )
        job = assembly.job_spec(app, beside=folder)
        assemble(app, around, job=job)
        for now in TIMES:
            guards_at(directives_of(app), now)
        render_status(first_facts(1, app), StreamAppStatus(), now=0.0).model_dump_json()
        if app.spec.flink.ref is None and app.spec.flink.image is not None:
            make_objects(FlinkPods.of(app, uid="u1", controller_namespace="weir"), app)
            revision = assembly.revision_of(app, job)
            made = FlinkPods.of(app, uid="u1", controller_namespace="weir").with_revision(revision)
            make_objects(made, app)

    yield make
    records.close()


def make_objects(pods: FlinkPods, app: StreamApp) -> None:
    """Make the objects of all pods, as they are sent."""
    files = config_map(pods, pods.job_manager, {}, job_manager_files(pods))
    objects = [
        files,
        manifests.job_manager(pods, files["metadata"]["name"]),
        manifests.service(pods),
        manifests.network_policy(pods),
        manifests.disruption_budget(pods),
        *manifests.accounts(pods),
    ]
    for operator in world.operators(app):
        for pool in operator.pools or [each.name for each in app.spec.node_pools]:
            made = task_manager_files(pods, operator.name, pool)
            objects.append(config_map(pods, pods.workload(operator.name, pool), {}, made))
            objects += [
                manifests.task_managers(
                    pods, operator.name, pool, size=str(size), replicas=1, config_map="x"
                )
                for size in world.pool_named(app, pool).sizes
            ]
    for each in objects:
        json.dumps(each, allow_nan=False).encode()
        assert len(each["metadata"]["name"]) <= 253


@settings(max_examples=150, suppress_health_check=[HealthCheck.too_slow])
@given(manifest=changed_manifests())
def test_what_validate_accepts_is_put_together_without_an_unexpected_error(put_together, manifest):
    app = accept(manifest)

    if app is not None:
        put_together(app)
        assert parse_manifest(app.model_dump(mode="json", by_alias=True, exclude_unset=True)) == app


def test_the_whole_manifest_is_accepted_and_put_together(put_together):
    app = accept(WHOLE)

    assert app is not None
    put_together(app)


@given(text=st.one_of(st.text(max_size=200), st.text("{}[]:,-&*!|>'\"%@`#? \n\ta0", max_size=60)))
def test_a_file_of_any_text_is_refused_in_a_sentence_or_read(tmp_path_factory, text):
    path = tmp_path_factory.getbasetemp() / "any.yaml"
    path.write_text(text, encoding="utf-8", errors="surrogatepass")

    with pytest.raises(InvalidStreamAppError):
        load_manifest(path)
