"""A spec that is nested too deeply costs nobody but its own StreamApp, and that can be deleted."""

from __future__ import annotations

import json

import pytest

from tests.api.client import MERGE_PATCH
from tests.operator.streamapp.builders import a_manifest
from weir_operator.cluster.process import handlers

pytestmark = pytest.mark.kubernetes_api


def deep(body, levels):
    """Return the text of a body in which a template of so many levels stands for `DEEP`."""
    text = json.dumps(body)
    return text.replace('"DEEP"', '{"a":' * levels + '"x"' + "}" * levels)


def a_flink():
    return {"image": "trips:1", "podTemplate": {"spec": {"x": "DEEP"}}}


@pytest.fixture
def send(kube):
    """Send a text that Python's own JSON would not write."""

    async def send(method, path, text, content_type="application/json"):
        async with kube._session.request(
            method, f"{kube.url}{path}", data=text, headers={"Content-Type": content_type}
        ) as response:
            await response.read()
            return response.status

    return send


@pytest.mark.parametrize("levels", [100, 3000, pytest.param(9000, marks=pytest.mark.long)])
async def test_a_deep_app_is_refused_by_its_status_and_others_come_up(bench, send, levels):
    bench.start()
    manifest = a_manifest(flink=a_flink())
    assert await send("POST", bench.kube.stream_apps, deep(manifest, levels)) == 201
    await bench.create("other")

    await bench.until_ready(name="other")
    condition = await bench.until_ready("InvalidSpec")

    assert condition["message"].startswith(
        "spec.flink.podTemplate: expected at most 32 levels of nesting in a manifest, got more"
    )
    await bench.delete()


async def test_a_job_whose_spec_becomes_deep_runs_on_and_is_saved_at_its_deletion(
    bench, send, monkeypatch
):
    monkeypatch.setattr(handlers, "TRY_DELETION_AGAIN", 1.0)
    await bench.bring_up()
    [job] = bench.dependencies.of["trips"].running()
    path = f"{bench.kube.stream_apps}/trips"

    assert await send("PATCH", path, deep({"spec": {"flink": a_flink()}}, 3000), MERGE_PATCH) == 200

    await bench.until_ready("InvalidSpec")
    assert bench.dependencies.of["trips"].running() == [job]
    await bench.kube.delete(path)

    await bench.until_gone()
    [savepoint] = bench.dependencies.of["trips"].positions
    assert savepoint in (await bench.events())["FinalSavepoint"]


async def test_an_app_whose_spec_is_larger_than_an_annotation_can_be_deleted(bench, monkeypatch):
    monkeypatch.setattr(handlers, "TRY_DELETION_AGAIN", 1.0)
    bench.start()
    notes = {"example.com/notes": "x" * 200_000}  # with the annotation's own limit of 256 KiB
    more = [{"name": "NOTES", "value": "y" * 100_000}]
    template = {
        "metadata": {"annotations": notes},
        "spec": {"initContainers": [{"name": "first", "image": "busybox:1", "env": more}]},
    }
    await bench.create("large", flink={"image": "trips:1", "podTemplate": template})
    await bench.until_ready(name="large")

    await bench.delete("large")
