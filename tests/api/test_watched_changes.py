"""What the shared watches tell, by a real API server."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager

import pytest

from tests.api.fault_proxy import Drop
from weir_operator.kubernetes.api.objects import Key
from weir_operator.runtime.kubernetes import changes
from weir_operator.runtime.kubernetes.changes import Changes

pytestmark = pytest.mark.kubernetes_api

PATIENCE = 30.0


def a_pod(app, number=0):
    return {
        "metadata": {
            "name": f"{app}-{number}",
            "labels": {"app.kubernetes.io/managed-by": "weir", "weir.dev/app": app},
        },
        "spec": {"containers": [{"name": "flink", "image": "example/chain:1"}]},
    }


async def until(condition, patience=PATIENCE):
    async with asyncio.timeout(patience):
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


async def test_a_watch_that_its_server_ends_goes_on_where_it_was(api, kube, proxy, monkeypatch):
    monkeypatch.setattr(changes, "LASTS", 1)
    trips = Key(kube.namespace, "trips")
    async with watching(api, kube) as watched:
        before, begun = watched.mark(trips), proxy.count("GET", "pods.*watch=true")

        await until(lambda: proxy.count("GET", "pods.*watch=true") >= begun + 2)
        still = watched.mark(trips)
        await kube.create(f"/api/v1/namespaces/{kube.namespace}/pods", a_pod("trips"))
        await until(lambda: watched.mark(trips) != still)

        assert still == before
        assert proxy.count("GET", "pods.*limit=1") == 1


async def test_while_a_watch_is_lost_nothing_is_known_and_then_every_mark_is_another(
    api, kube, proxy, monkeypatch
):
    monkeypatch.setattr(changes, "LASTS", 1)
    monkeypatch.setattr(changes, "PAUSE", 0.1)
    trips = Key(kube.namespace, "trips")
    async with watching(api, kube) as watched:
        before = watched.mark(trips)

        proxy.inject(Drop(path="pods.*watch=true", times=2))
        await until(lambda: watched.mark(trips) is None)
        await until(lambda: watched.mark(trips) is not None)

        assert watched.mark(trips) != before
