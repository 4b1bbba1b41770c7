"""What is right is taken by a real API server, and filled in as the models would."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from tests.operator.streamapp.builders import a_manifest
from weir_operator.streamapp.loading import parse_manifest

pytestmark = pytest.mark.kubernetes_api

REPOSITORY = Path(__file__).parents[2]
MANIFESTS = sorted(
    path
    for folder in ("examples", "tests/operator/streamapp/manifests")
    for path in (REPOSITORY / folder).rglob("*.yaml")
    if "kind: StreamApp" in path.read_text()
)


def in_namespace(manifest, namespace):
    manifest["metadata"] = manifest["metadata"] | {"namespace": namespace}
    return manifest


@pytest.mark.parametrize("path", MANIFESTS, ids=lambda path: str(path.relative_to(REPOSITORY)))
async def test_every_example_is_taken(kube, path):
    documents = yaml.safe_load_all(path.read_text())  # a claim may stand before the StreamApp
    [manifest] = [each for each in documents if each["kind"] == "StreamApp"]

    answer = await kube.create(kube.stream_apps, in_namespace(manifest, kube.namespace))

    assert answer.status == 201, answer.message


@pytest.mark.parametrize(
    "spec",
    [
        *(
            pytest.param({"objective": {"responseTime": each}}, id=f"a response time of {each}")
            for each in ("200ms", "1h30m", {"bound": "1s"}, {"bound": "1s", "statistic": "P99"})
        ),
        *(
            pytest.param(
                {"mode": "Advise", "flink": {"ref": {"kind": each, "name": "trips"}}},
                id=f"the job of a {each}, for advice",
            )
            for each in ("FlinkDeployment", "Deployment")
        ),
        *(
            pytest.param(
                {"windows": [{"name": "peak", "schedule": each, "duration": "2h"}]},
                id=f"the schedule {each}",
            )
            for each in ("*/15 0-6,22 * JAN-mar sun", "0 17 1,15 * 7", "59 23 31 12 *")
        ),
        pytest.param(
            {"fallback": {"deployment": "Named", "named": {"job": {"small/1": 3}}}},
            id="a fallback of a whole job, under the name job",
        ),
    ],
)
async def test_what_is_right_is_taken_by_server_and_models(kube, spec):
    manifest = a_manifest(**spec)

    answer = await kube.create(kube.stream_apps, manifest)

    assert answer.status == 201, answer.message
    parse_manifest(manifest)


async def test_the_models_fill_in_nothing_that_the_server_leaves_out(kube):
    """A default that only one side knows would be another app on a laptop than in a cluster."""
    manifest = a_manifest(operators=[{"name": "match"}])

    answer = await kube.create(kube.stream_apps, manifest)

    meant = parse_manifest(manifest).spec.model_dump(mode="json", by_alias=True, exclude_none=True)
    assert without_empty(answer.body["spec"]) == without_empty(meant)


def without_empty(value):
    """Return plain values without empty lists and mappings, which mean what absence means."""
    if isinstance(value, dict):
        filled = {key: without_empty(each) for key, each in value.items()}
        return {key: each for key, each in filled.items() if each not in ([], {})}
    return [without_empty(each) for each in value] if isinstance(value, list) else value
