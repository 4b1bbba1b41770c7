"""What the shared watches tell, by a real API server."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager

import pytest

from weir_operator.api.objects import Key
from weir_operator.runtime.pods.changes import Changes

pytestmark = pytest.mark.kubernetes_api


def a_pod(app, number=0):
    return {
        "metadata": {
            "name": f"{app}-{number}",
            "labels": {"app.kubernetes.io/managed-by": "weir", "weir.dev/app": app},
        },
        "spec": {"containers": [{"name": "flink", "image": "example/chain:1"}]},
    }


async def until(condition):
    async with asyncio.timeout(30.0):
        while not condition():
            await asyncio.sleep(0.02)


@asynccontextmanager
async def watching(api, kube):
    """Watch the test's namespace while the block runs; yields what is known, once it is."""
    watched = Changes(api, [kube.namespace])
    running = asyncio.create_task(watched.watch())
    try:
        await until(lambda: watched.mark(Key(kube.namespace, "any")) is not None)
        yield watched
    finally:
        running.cancel()
        await asyncio.wait({running})


async def test_a_pod_that_comes_changes_and_goes_is_told_for_its_streamapp(api, kube):
    trips, rides = Key(kube.namespace, "trips"), Key(kube.namespace, "rides")
    pods = f"/api/v1/namespaces/{kube.namespace}/pods"
    async with watching(api, kube) as watched:
        calm = watched.mark(rides)

        for step in (
            lambda: kube.create(pods, a_pod("trips")),
            lambda: kube.merge(f"{pods}/trips-0", {"metadata": {"annotations": {"a": "b"}}}),
            lambda: kube.delete(f"{pods}/trips-0"),
        ):
            before = watched.mark(trips)
            await step()
            await until(lambda before=before: watched.mark(trips) != before)

        assert watched.mark(rides) == calm
