"""One controller becomes one for each shard, with its state on another volume, as the page says."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from benchmarks.cluster.installation import IMAGE, RELEASE
from benchmarks.cluster.place import Place, delete_volume, make_claim
from tests.cluster.installed_chart import installed_chart
from weir_operator.clock import SystemClock, wait_until
from weir_operator.flink.jars import REPOSITORY
from weir_operator.kubernetes.api.objects import Key
from weir_operator.kubernetes.api.shards import shard_of

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(900)]

SHARDS = 2
NAMES = tuple("abcdef")
OLD, NEW = "weir-state", "weir-state-shared"
"""Claims, as the page calls them."""
COPY = "weir-copy-state"


@pytest.fixture
async def volumes(place):
    """Make the two claims; return their folders on this machine."""
    folders = {claim: place.state / claim for claim in (OLD, NEW)}
    for claim, folder in folders.items():
        folder.mkdir()
        folder.chmod(0o777)
        volume = f"{place.namespace}-{claim}"
        await make_claim(place.api, place.namespace, claim, volume=volume, folder=folder)
    yield folders
    for claim in folders:
        await delete_volume(place.api, f"{place.namespace}-{claim}")


@pytest.fixture
async def upgrade(place, volumes) -> AsyncIterator[Callable[..., Awaitable[None]]]:
    """Install the chart with the old claim; return what upgrades it with other values."""
    async with installed_chart(place, state={"existingClaim": OLD}) as run:

        async def upgrade_chart(*settings: str) -> None:
            given = [each for setting in settings for each in ("--set", setting)]
            await asyncio.to_thread(
                run, "upgrade", RELEASE, str(REPOSITORY / "helm/weir"), *given,
                "--reset-then-reuse-values", "--wait", "--timeout", "3m",
            )  # fmt: skip

        yield upgrade_chart


def stream_app(name: str) -> dict[str, Any]:
    """Return a StreamApp that refers to a job that is not there: it is managed and costs no pod."""
    return {
        "apiVersion": "weir.dev/v1alpha1",
        "kind": "StreamApp",
        "metadata": {"name": name},
        "spec": {
            "mode": "Advise",
            "flink": {"ref": {"kind": "FlinkDeployment", "name": name}},
            "objective": {"responseTime": "1s"},
            "nodePools": [{"name": "small", "sizes": ["1"], "memory": "1Gi", "price": 1.0}],
        },
    }


def path_of(place: Place, name: str = "") -> str:
    return f"/apis/weir.dev/v1alpha1/namespaces/{place.namespace}/streamapps/{name}".rstrip("/")


async def until_managed(
    place: Place, fits: Callable[[Mapping[str, str]], bool]
) -> Mapping[str, str]:
    """Return the pod that manages each StreamApp, once that fits."""

    async def managed() -> Mapping[str, str] | None:
        found = {
            each["metadata"]["name"]: str(
                each.get("status", {}).get("controller", {}).get("writer")
            )
            for each in await place.api.list(path_of(place))
            if each["metadata"]["name"] in NAMES
        }
        pods = {name: writer.partition("/")[0] for name, writer in found.items()}
        return pods if fits(pods) else None

    pods = await wait_until(managed, clock=SystemClock(), timeout=120.0, period=1.0)
    assert pods is not None, "StreamApps were not managed as expected within two minutes"
    return pods


def job_of_the_page() -> dict[str, Any]:
    """Return the Job that copies the state, with an image that the nodes have."""
    page = (REPOSITORY / "docs/operating.md").read_text()
    [text] = [
        each
        for each in re.findall(r"<<'END'\n(.*?)\n +END", page, re.DOTALL)
        if f"name: {COPY}" in each
    ]
    job: dict[str, Any] = yaml.safe_load(text)
    [container] = job["spec"]["template"]["spec"]["containers"]
    container["image"] = IMAGE
    return job


async def until_copied(place: Place) -> None:
    jobs = f"/apis/batch/v1/namespaces/{place.namespace}/jobs"
    await place.api.create(jobs, job_of_the_page())

    async def ended() -> bool | None:
        status = (await place.api.get(f"{jobs}/{COPY}")).get("status", {})
        assert not status.get("failed"), status
        return True if status.get("succeeded") else None

    assert await wait_until(ended, clock=SystemClock(), timeout=120.0, period=1.0)


def files_in(folder: Path, namespace: str) -> set[str]:
    """Return the files of StreamApps; those of the controller itself come and go."""
    return {
        str(path.relative_to(folder))
        for each in folder.glob(f"{namespace}.*")
        for path in each.rglob("*")
        if path.is_file()
    }


async def test_a_controller_becomes_one_for_each_shard_and_its_state_comes_along(
    place, volumes, upgrade
):
    for name in NAMES:
        await place.api.create(path_of(place), stream_app(name))
    alone = await until_managed(
        place, lambda pods: set(pods) == set(NAMES) and "None" not in pods.values()
    )
    assert len(set(alone.values())) == 1

    await upgrade("replicas=0")
    await until_copied(place)
    kept = files_in(volumes[OLD], place.namespace)
    assert kept
    assert files_in(volumes[NEW], place.namespace) == kept
    await upgrade(f"state.existingClaim={NEW}", f"shards={SHARDS}", f"replicas={SHARDS}")

    shared = await until_managed(place, lambda pods: not set(pods.values()) & set(alone.values()))
    of_shards = {shard_of(Key(place.namespace, name), SHARDS): pod for name, pod in shared.items()}
    assert len(set(of_shards.values())) == SHARDS
    assert shared == {
        name: of_shards[shard_of(Key(place.namespace, name), SHARDS)] for name in NAMES
    }
