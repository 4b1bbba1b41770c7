"""A user's story on a real cluster: install, take advice, be scaled, upgrade, rest, pause, go."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
import yaml

from benchmarks.cluster.installation import RELEASE
from benchmarks.cluster.place import CLAIM, IMAGE, Place
from benchmarks.flink.ledger import read_proof
from tests.cluster.installed_chart import installed_chart
from tests.cluster.memory_on_kubernetes import MemoryOnKubernetes
from tests.cluster.prometheus_on_kubernetes import PrometheusOnKubernetes, start_prometheus
from tests.cluster.story_on_kubernetes import (
    Story,
    condition,
    deployment,
    is_ready,
    outcome,
    target,
)
from weir_operator.flink.jars import REPOSITORY

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(900)]

SMALLEST = {"medium/500m": 1}
"""Of `match`: a replica serves 33 records/s; the trace runs from 70 down to 5 and up again."""
QUERIES_ANSWERED = 'sum(prometheus_http_requests_total{handler="/api/v1/query",code="200"})'
"""By the server to Weir: the test asks it nothing before."""


@pytest.fixture
async def prometheus(place) -> PrometheusOnKubernetes:
    return await start_prometheus(place.api, place.namespace)


@pytest.fixture
async def installed(place, prometheus) -> AsyncIterator[Callable[..., None]]:
    """Install the chart for the test's namespace; gives Helm there."""
    async with installed_chart(place, prometheus={"url": prometheus.url}) as helm:
        yield helm


@pytest.fixture
async def story(place, installed, tell) -> AsyncIterator[Story]:
    """A story that is told on the terminal when it is over: its times, and what memory it took."""
    story = Story(place)
    async with MemoryOnKubernetes(place.api, place.namespace) as memory:
        yield story
        await story.remove_finalizer()
    times = ", ".join(f"{name} {seconds:.0f} s" for name, seconds in story.chapters.items())
    tell(f"times: {times}")
    tell(
        f"peak memory: controller {memory.peak_of(RELEASE) >> 20} MiB,"
        f" JobManager {memory.peak_of('jobmanager') >> 20} MiB,"
        f" all pods together {memory.peak >> 20} MiB"
    )


def stream_app(place: Place) -> dict[str, Any]:
    """Return the example for a cluster, at more than twice its pace."""
    _, app = yaml.safe_load_all((REPOSITORY / "examples/trips/on-kubernetes.yaml").read_text())
    manifest: dict[str, Any] = app
    manifest["metadata"]["namespace"] = place.namespace
    spec = manifest["spec"]
    spec["flink"] |= {"image": IMAGE, "storage": {"claim": CLAIM}}
    arguments = spec["flink"]["job"]["args"]
    arguments[arguments.index("--slot-seconds") + 1] = "4"
    arguments += ["--out", place.inside(place.state / "out")]
    spec["operatorManager"]["interval"] = "8s"
    spec["rescale"] = {  # the machine may be busy
        "startDeadline": "180s",
        "submitDeadline": "90s",
        "savepointDeadline": "60s",
    }
    return manifest


async def test_a_job_is_advised_scaled_upgraded_rested_and_ended_without_losing_a_record(
    place, installed, prometheus, story
):
    manifest = stream_app(place)
    await story.create(manifest)

    await is_advised_and_left_alone(story)
    await is_scaled_out_over_two_pools(story)
    await is_scaled_in(story)
    await is_paused(story)
    await runs_on_where_the_program_is_broken(story)
    await is_upgraded(story, manifest["spec"]["flink"]["job"]["args"])
    await rests(story)
    await stands_still_until_the_pause_ends(story)
    installed("test", RELEASE)
    assert await prometheus.ask(QUERIES_ANSWERED) > 0
    savepoint = await ends(story)

    assert (place.outside(savepoint) / "_metadata").is_file()
    proof = read_proof(place.state / "out")
    assert proof.emitted > 2000
    assert (proof.lost, proof.doubled, proof.sequence_errors) == (0, 0, 0)
    assert proof.replayed == 0, "every stop was made with a savepoint"


async def is_advised_and_left_alone(story: Story) -> None:
    await story.until(is_ready, within=240.0)
    story.close_chapter("running")

    advised = await story.until(lambda now: outcome(now, "match") == "Advised", within=90.0)

    assert sum(target(advised, "match").values()) > 1
    assert deployment(advised, "match") == SMALLEST
    assert advised["restartsLastDay"] == 0
    story.close_chapter("advised")


async def is_scaled_out_over_two_pools(story: Story) -> None:
    first = (await story.status())["controller"]["job_id"]

    await story.change(mode="Auto")
    scaled = await story.until(
        lambda now: deployment(now, "match").keys() == {"medium/500m", "large/500m"}, within=120.0
    )

    assert scaled["controller"]["job_id"] != first
    story.close_chapter("scaled out")


async def is_scaled_in(story: Story) -> None:
    before = (await story.status())["replicas"]

    await story.until(lambda now: is_ready(now) and now["replicas"] < before, within=180.0)

    story.close_chapter("scaled in")


async def is_paused(story: Story) -> None:
    await story.annotate("weir.dev/paused", "true")

    await story.until(
        lambda now: condition(now, "Paused") == ("True", "PausedByAnnotation"), within=60.0
    )


async def runs_on_where_the_program_is_broken(story: Story) -> None:
    before = (await story.status())["controller"]["job_id"]

    await story.change(flink={"job": {"entryClass": "example.Misspelt"}})
    await story.until_told("ChangeAbandoned", "example.Misspelt", within=120.0)

    now = await story.status()
    assert is_ready(now)
    assert now["controller"]["job_id"] == before
    await story.until_no_pods("trial", within=30.0)
    await story.change(flink={"job": {"entryClass": "example.Trips"}})
    story.close_chapter("a broken program is refused")


async def is_upgraded(story: Story, arguments: list[str]) -> None:
    before = await story.status()
    old = {pod["metadata"]["name"] for pod in await story.pods("taskmanager")}

    await story.change(flink={"job": {"args": [*arguments, "--scv.match", "0.5"]}})
    upgraded = await story.until(
        lambda now: (
            is_ready(now) and now["controller"]["revision"] != before["controller"]["revision"]
        ),
        within=180.0,
    )

    assert not old & {pod["metadata"]["name"] for pod in await story.pods("taskmanager")}
    assert upgraded["replicas"] == before["replicas"]
    story.close_chapter("upgraded")


async def rests(story: Story) -> None:
    await story.change(state="Suspended")
    await story.until(lambda now: condition(now, "Ready") == ("False", "Suspended"), within=90.0)
    await story.until_no_pods("taskmanager", within=30.0)

    await story.change(state="Running")
    await story.until(is_ready, within=180.0)
    story.close_chapter("suspended and resumed")


async def stands_still_until_the_pause_ends(story: Story) -> None:
    before = await story.status()

    denied = await story.until(lambda now: outcome(now, "match") == "Denied", within=180.0)
    assert denied["replicas"] == before["replicas"]

    await story.annotate("weir.dev/paused", None)
    await story.until(
        lambda now: is_ready(now) and now["replicas"] > before["replicas"], within=120.0
    )
    story.close_chapter("paused and gone on")


async def ends(story: Story) -> str:
    """Delete the StreamApp; return where its final savepoint is."""
    await story.delete(within=180.0)

    assert not await story.pods("taskmanager") + await story.pods("jobmanager")
    found = re.search(r"state is in (\S+);", (await story.events())["FinalSavepoint"])
    assert found
    story.close_chapter("deleted")
    return found[1]
