"""A user's story on a real cluster: install the chart, apply a job, watch it being scaled, go."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from benchmarks.trips_cluster import read_proof
from tests.cluster.conftest import Place, is_gone
from tests.cluster.trips_on_kubernetes import REPOSITORY, trips_manifest
from tests.helm.program import find_or_build_helm
from weir_operator.clock import SystemClock, wait_until

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(900)]

CONTROLLER_IMAGE = os.environ.get("WEIR_TEST_CONTROLLER_IMAGE", "weir:dev")
RELEASE = "weir"
CRD = "streamapps.weir.dev"

Helm = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def helm() -> Helm:
    program = find_or_build_helm()

    def run(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
        command = [str(each) for each in (program, *arguments)]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    return run


@pytest.fixture
async def installed(place, helm) -> AsyncIterator[Helm]:
    """Install the chart for the test's namespace; the definition is the cluster's, and stays."""
    crd = yaml.safe_load((REPOSITORY / "crds/weir.dev_streamapps.yaml").read_text())
    await place.api.apply(f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{CRD}", crd)
    repository, _, tag = CONTROLLER_IMAGE.rpartition(":")
    values = {
        "image": {"repository": repository, "tag": tag},
        "watchNamespaces": [place.namespace],
        "state": {"enabled": False},
        "crds": {"enabled": False},
    }
    file = place.state / "values.json"
    file.write_text(json.dumps(values))
    chart = REPOSITORY / "helm/weir"
    name = ("--namespace", place.namespace)
    done = helm("install", RELEASE, chart, *name, "-f", file, "--wait", "--timeout", "3m")
    assert done.returncode == 0, done.stderr
    yield helm
    helm("uninstall", RELEASE, *name)


def stream_app(place: Place) -> dict[str, Any]:
    """Return the example with a pool of every node and nothing believed of their speed."""
    manifest = trips_manifest(place, rate=20.0)
    spec = manifest["spec"]
    sizes = {"small": ["250m", "500m"], "medium": ["500m"], "large": ["1"]}
    spec["nodePools"] = [
        {
            "name": pool,
            "nodeSelector": {"weir.dev/pool": pool},
            "sizes": sizes[pool],
            "memory": "512Mi",
            "price": 0.04,
        }
        for pool in sizes
    ]
    spec["operators"] = [
        {"name": "source", "maxReplicas": 1, "fixed": {"small/250m": 1}},
        {"name": "match", "maxReplicas": 4, "pools": ["medium", "large"]},
        {"name": "aggregate", "maxReplicas": 3, "pools": ["medium", "large"]},
        {"name": "sink", "maxReplicas": 1, "fixed": {"small/250m": 1}},
    ]
    spec["operatorManager"]["interval"] = "10s"
    spec["rescale"] = {"startDeadline": "180s"}
    return manifest


async def test_a_job_is_installed_scaled_paused_and_ended_without_losing_a_record(place, installed):
    apps = f"/apis/weir.dev/v1alpha1/namespaces/{place.namespace}/streamapps"
    path = f"{apps}/trips"
    await place.api.create(apps, stream_app(place))

    async def status() -> dict[str, Any]:
        found: dict[str, Any] = (await place.api.get(path)).get("status", {})
        return found

    async def until(what: Callable[[dict[str, Any]], object], within: float) -> dict[str, Any]:
        async def look() -> dict[str, Any] | None:
            now = await status()
            return now if what(now) else None

        found = await wait_until(look, clock=SystemClock(), timeout=within, period=1.0)
        assert found is not None, json.dumps(await status(), indent=1)
        return found

    def condition(now: dict[str, Any], kind: str) -> str:
        return next((c["status"] for c in now.get("conditions", []) if c["type"] == kind), "")

    def rescaled(now: dict[str, Any]) -> bool:
        journal = now.get("rescale") or {}
        return journal.get("kind") == "Rescale" and journal.get("step") == "Done"

    started = await until(lambda now: condition(now, "Ready") == "True", 240.0)
    first = started["controller"]["job_id"]

    changed = await until(rescaled, 300.0)
    assert changed["controller"]["job_id"] != first
    assert changed["controller"]["deployments"] != started["controller"]["deployments"]

    await place.api.patch(path, {"metadata": {"annotations": {"weir.dev/paused": "true"}}})
    await until(lambda now: condition(now, "Paused") == "True", 60.0)

    assert installed("test", RELEASE, "--namespace", place.namespace).returncode == 0

    await place.api.delete(path)

    async def gone() -> bool | None:
        return True if await is_gone(place.api, path) else None

    assert await wait_until(gone, clock=SystemClock(), timeout=180.0, period=1.0)
    events = await place.api.list(f"/api/v1/namespaces/{place.namespace}/events")
    assert "FinalSavepoint" in {event["reason"] for event in events}
    pods = await place.api.list(
        f"/api/v1/namespaces/{place.namespace}/pods", labels="weir.dev/app=trips"
    )
    assert not pods
    proof = read_proof(place.state / "out")
    assert proof.emitted > 0
    assert (proof.lost, proof.doubled) == (0, 0)
