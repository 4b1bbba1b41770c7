"""A job that knows nothing of Weir, scaled operator by operator on a real cluster."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.graphed_job import find_operators, stream_app
from tests.cluster.story_on_kubernetes import Story, condition, deployment, is_ready
from tests.operator.flink.output import committed_lines
from weir_operator.flink.jars import REPOSITORY, build_jar

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
    jar = tmp_path_factory.mktemp("jars") / "readings.jar"
    build_jar([SOURCE], jar, entry_class="Readings")
    arguments = " ".join(map(str, (RECORDS, RATE, SLEEP, "/tmp/out")))
    return jar, find_operators(str(jar), "--job-args", arguments)


async def test_an_unmodified_job_is_scaled_by_operator_on_a_cluster(place, story, operators, tell):
    jar, named = operators
    (place.state / "readings.jar").write_bytes(jar.read_bytes())
    [work] = [each["name"] for each in named if each["name"].startswith("work")]
    arguments = [str(RECORDS), str(RATE), str(SLEEP), place.inside(place.state / "out")]
    few = [each | {"maxReplicas": min(each.get("maxReplicas", 3), 3)} for each in named]
    await story.create(
        stream_app(
            place,
            "readings",
            {"jar": place.inside(place.state / "readings.jar"), "args": arguments},
            objective={"responseTime": "500ms"},
            operators=few,
            operatorManager={"interval": "8s", "policy": {"name": "queueing"}},
        )
    )

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
