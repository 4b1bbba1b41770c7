"""A job that knows nothing of Weir, scaled operator by operator on a real cluster."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from benchmarks.cluster.place import CLAIM, IMAGE, Place
from tests.cluster.jvm_options import FLINK_CONFIG
from tests.cluster.story_on_kubernetes import Story, condition, deployment, is_ready
from tests.operator.flink.output import committed_lines
from weir_operator.flink.jars import JARS, PROGRAMS, REPOSITORY, build_jar
from weir_operator.flink.programs import JAR

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(1200)]

SOURCE = REPOSITORY / "tests/operator/runtime/unmodified/Readings.java"
RECORDS = 7_200
RATE, SLEEP = 60, 30
"""Records/s, and milliseconds of work for each: 1.8 replicas of `work` are busy."""


@pytest.fixture
async def story(place, installed) -> AsyncIterator[Story]:
    """The StreamApp; its finalizer goes before its controller."""
    story = Story(place, "readings")
    yield story
    await story.remove_finalizer()


@pytest.fixture(scope="module")
def operators(tmp_path_factory) -> tuple[Path, list[dict[str, Any]]]:
    """Build the job, and ask `weir graph` for its operators."""
    build_jar(PROGRAMS, JARS / JAR)
    jar = tmp_path_factory.mktemp("jars") / "readings.jar"
    build_jar([SOURCE], jar, entry_class="Readings")
    arguments = " ".join(map(str, (RECORDS, RATE, SLEEP, "/tmp/out")))
    command = [
        str(Path(sys.executable).with_name("weir")),
        "graph",
        str(jar),
        "--job-args",
        arguments,
    ]
    printed = subprocess.run(
        command, check=True, capture_output=True, text=True, env=os.environ | {"COLUMNS": "200"}
    )
    return jar, yaml.safe_load(printed.stdout)["operators"]


def stream_app(place: Place, operators: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the StreamApp; the jar lies on the volume, the image has Flink alone."""
    out = place.inside(place.state / "out")
    return {
        "apiVersion": "weir.dev/v1alpha1",
        "kind": "StreamApp",
        "metadata": {"name": "readings", "namespace": place.namespace},
        "spec": {
            "mode": "Auto",
            "flink": {
                "image": IMAGE,
                "config": FLINK_CONFIG,
                "job": {
                    "jar": place.inside(place.state / "readings.jar"),
                    "args": [str(RECORDS), str(RATE), str(SLEEP), out],
                },
                "storage": {"claim": CLAIM},
                "maxParallelism": 128,
                "jobManager": {"cpu": "500m", "memory": "1Gi"},
            },
            "objective": {"responseTime": "500ms"},
            "nodePools": [{"name": "any", "sizes": ["250m"], "memory": "1Gi"}],
            "operators": [
                each | {"maxReplicas": min(each.get("maxReplicas", 3), 3)} for each in operators
            ],
            "operatorManager": {"interval": "8s", "policy": {"name": "queueing"}},
            "applicationManager": {"restartBudget": {"size": 5, "refillEvery": "20s"}},
            "rescale": {
                "startDeadline": "180s",
                "submitDeadline": "90s",
                "savepointDeadline": "60s",
            },
        },
    }


async def test_an_unmodified_job_is_scaled_by_operator_on_a_cluster(place, story, operators, tell):
    jar, named = operators
    (place.state / "readings.jar").write_bytes(jar.read_bytes())
    [work] = [each["name"] for each in named if each["name"].startswith("work")]
    await story.create(stream_app(place, named))

    await story.until(is_ready, within=300.0)
    story.close_chapter("running")
    await story.until(
        lambda now: is_ready(now) and sum(deployment(now, work).values()) >= 2, within=240.0
    )
    story.close_chapter("scaled out")
    await story.until(lambda now: condition(now, "Ready")[1] == "JobFinished", within=600.0)
    events = await story.events()

    tell(f"unmodified job, times: {story.chapters}")
    assert "RescaleDone" in events
    assert [reason for reason in events if reason.startswith("Agent")] == []
    assert sorted(map(int, committed_lines(place.state / "out"))) == list(range(RECORDS))
