"""Whatever `weir validate` accepts can be put together: loops, status, and every object of pods."""

from __future__ import annotations

import json
import random
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.operator.rescale.fakes import FakeClock, FakeWorld, JobsOf, MemoryStatusStore
from tests.operator.streamapp.bent_specs import a_whole_spec, bent_specs
from tests.operator.streamapp.builders import a_manifest
from weir_operator.cluster.app.preflight import find_refusals
from weir_operator.cluster.status.view import first_facts, render_status
from weir_operator.errors import InvalidStreamAppError
from weir_operator.loop.bounds import guards_at
from weir_operator.loop.directives import directives_of
from weir_operator.loop.record import TolerantRecords
from weir_operator.metrics.source import MetricsSource
from weir_operator.rescale.flink import FlinkJobs
from weir_operator.runtime.pods import manifests
from weir_operator.runtime.pods.configuration import (
    config_map,
    job_manager_files,
    task_manager_files,
)
from weir_operator.runtime.pods.pods import FlinkPods
from weir_operator.streamapp import world
from weir_operator.streamapp.loading import (
    load_manifest,
    parse_manifest,
)
from weir_operator.streamapp.models import StreamApp
from weir_operator.streamapp.status import StreamAppStatus
from weir_operator.wiring import assembly
from weir_operator.wiring.loops import Dependencies, assemble

TIMES = (0.0, 1.8e9, 4e9)
MOST = 60
"""Manifests of a section: of the large ones some are drawn, always the same."""


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


@pytest.mark.parametrize("section", a_whole_spec())
def test_what_validate_accepts_is_put_together_without_an_unexpected_error(put_together, section):
    bent = [spec for _, spec in bent_specs(section)]
    drawn = random.Random(section).sample(bent, min(MOST, len(bent)))

    accepted = [app for spec in (a_whole_spec(), *drawn) if (app := accept(a_manifest(**spec)))]

    assert accepted
    for app in accepted:
        put_together(app)
        assert parse_manifest(app.model_dump(mode="json", by_alias=True, exclude_unset=True)) == app


@given(text=st.one_of(st.text(max_size=200), st.text("{}[]:,-&*!|>'\"%@`#? \n\ta0", max_size=60)))
def test_a_file_of_any_text_is_refused_in_a_sentence_or_read(tmp_path_factory, text):
    path = tmp_path_factory.getbasetemp() / "any.yaml"
    path.write_text(text, encoding="utf-8", errors="surrogatepass")

    with pytest.raises(InvalidStreamAppError):
        load_manifest(path)
