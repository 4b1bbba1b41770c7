"""Tunings as Jobs of the chart's template: one is made in a pod, one finds no node.

The work needs no torch, so the controller's image does it; that of the target `tuner` is the same
with torch besides, for policies with a network.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Mapping
from typing import Any

import pytest
import yaml

from tests.helm.program import find_or_build_helm
from tests.operator.tuning.fakes import a_request
from weir_operator.clock import SystemClock
from weir_operator.flink.jars import REPOSITORY
from weir_operator.tuning.job import JobTuner
from weir_operator.tuning.protocol import TuningLostError

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(900)]

IMAGE = os.environ.get("WEIR_TEST_TUNER_IMAGE", "weir:dev")


@pytest.fixture
def tuner_of(place) -> Callable[..., JobTuner]:
    """Make a tuner whose Jobs run on the nodes of a pool."""

    def build(*, pool: str, deadline: float) -> JobTuner:
        template = read_template(place.namespace, pool=pool)
        return JobTuner(
            place.api,
            template,
            namespace=place.namespace,
            app=f"{place.namespace}/trips",
            deadline=deadline,
            clock=SystemClock(),
        )

    return build


def read_template(namespace: str, *, pool: str) -> Mapping[str, Any]:
    """Return the Job of the chart, with an image that the nodes have."""
    repository, _, tag = IMAGE.rpartition(":")
    values = {
        "tuner.enabled": "true",
        "tuner.image.repository": repository,
        "tuner.image.tag": tag,
        "tuner.nodeSelector.weir\\.dev/pool": pool,
        "tuner.resources.requests.cpu": "500m",
        "tuner.resources.requests.memory": "512Mi",
    }
    settings = [each for name, value in values.items() for each in ("--set", f"{name}={value}")]
    text = subprocess.run(
        [
            str(find_or_build_helm()), "template", "weir", str(REPOSITORY / "helm/weir"),
            "--namespace", namespace, "--kube-version", "1.34.2",
            "--show-only", "templates/tuner.yaml", *settings,
        ],
        capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    (config,) = [each for each in yaml.safe_load_all(text) if each["kind"] == "ConfigMap"]
    job: dict[str, Any] = yaml.safe_load(config["data"]["job.yaml"])
    return job


async def list_jobs(place) -> tuple[dict[str, Any], ...]:
    jobs: tuple[dict[str, Any], ...] = await place.api.list(
        f"/apis/batch/v1/namespaces/{place.namespace}/jobs"
    )
    return tuple(each for each in jobs if "deletionTimestamp" not in each["metadata"])


async def test_a_tuning_is_made_in_a_pod_and_its_job_goes(place, tuner_of):
    tuner = tuner_of(pool="medium", deadline=600.0)
    work = a_request(policy="queueing", algorithm="joint")

    answer = await tuner.tune(work, name="v1")

    assert answer.algorithm == "joint"
    assert answer.best.budgets.keys() == {"op"}
    assert answer.forecast.intervals == work.watch
    assert await list_jobs(place) == ()


@pytest.mark.long
async def test_a_tuning_that_finds_no_node_is_lost_and_its_job_goes(place, tuner_of):
    tuner = tuner_of(pool="nowhere", deadline=5.0)

    with pytest.raises(TuningLostError, match="DeadlineExceeded"):
        await tuner.tune(a_request(), name="v1")

    assert await list_jobs(place) == ()
