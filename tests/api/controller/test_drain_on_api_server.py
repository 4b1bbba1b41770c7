"""A node that is drained is acted on at once, however rarely jobs are looked at."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.kubernetes_api


@pytest.fixture
async def node(kube):
    """A node with a name of its own; nodes are shared by all tests."""
    name = f"node-of-{kube.namespace}"
    made = await kube.create("/api/v1/nodes", {"metadata": {"name": name}})
    assert made.status == 201, made.message
    yield name
    await kube.ask("DELETE", f"/api/v1/nodes/{name}")


async def place_a_replica(kube, app, node):
    """Put a TaskManager's pod on a node, as a scheduler would."""
    labels = {
        "app.kubernetes.io/managed-by": "weir",
        "weir.dev/app": app,
        "weir.dev/component": "taskmanager",
    }
    made = await kube.create(
        f"/api/v1/namespaces/{kube.namespace}/pods",
        {
            "metadata": {"name": f"{app}-replica", "labels": labels},
            "spec": {"nodeName": node, "containers": [{"name": "flink", "image": "flink"}]},
        },
    )
    assert made.status == 201, made.message


async def test_a_cordoned_node_wakes_the_apps_with_a_replica_there(bench, kube, node, monkeypatch):
    monkeypatch.setattr("weir_operator.cluster.opening.LOOK_EVERY", 3600.0)
    monkeypatch.setattr("weir_operator.cluster.nodes.FRESH_FOR", 0.5)
    bench.start()
    await bench.create()
    await bench.until_ready()
    await place_a_replica(kube, "trips", node)
    world = bench.worlds.of["trips"]
    doomed = dict.fromkeys(world.alive, "its node is cordoned")

    world.doomed = doomed
    await kube.merge(f"/api/v1/nodes/{node}", {"spec": {"unschedulable": True}})

    async def replaced():
        return world.alive and not set(doomed) & set(world.alive)

    await bench.until(replaced, "expected other replicas in the place of those that are lost")
