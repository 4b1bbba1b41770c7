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


A_REPLICA = {"app.kubernetes.io/managed-by": "weir", "weir.dev/component": "taskmanager"}


async def place_a_replica(kube, app, node):
    """Put a TaskManager's pod on a node, as a scheduler would."""
    await place_a_pod(kube, f"{app}-replica", node, {**A_REPLICA, "weir.dev/app": app})


async def place_a_pod(kube, name, node, labels):
    made = await kube.create(
        f"/api/v1/namespaces/{kube.namespace}/pods",
        {
            "metadata": {"name": name, "labels": labels},
            "spec": {"nodeName": node, "containers": [{"name": "flink", "image": "flink"}]},
        },
    )
    assert made.status == 201, made.message


async def drain(bench, kube, node):
    """Cordon the node of the app's replicas; return once others run in their place."""
    world = bench.dependencies.of["trips"]
    terminating = dict.fromkeys(world.alive, "its node is cordoned")
    world.terminating = terminating
    await kube.merge(f"/api/v1/nodes/{node}", {"spec": {"unschedulable": True}})

    async def replaced():
        return world.alive and not set(terminating) & set(world.alive)

    await bench.until(replaced, "expected other replicas in the place of those that are lost")


@pytest.fixture(autouse=True)
def _only_the_drain_wakes_the_loops(monkeypatch):
    monkeypatch.setattr("weir_operator.cluster.app.opening.LOOK_EVERY", 3600.0)
    monkeypatch.setattr("weir_operator.runtime.pods.nodes.FRESH_FOR", 0.5)


async def test_a_stray_pod_with_labels_of_weirs_on_a_cordoned_node_hides_nobody(bench, kube, node):
    running = bench.start()
    await bench.create()
    await bench.until_ready()
    await place_a_pod(kube, "stray", node, A_REPLICA)
    await place_a_replica(kube, "trips", node)

    await drain(bench, kube, node)
    assert not running.ended
    assert "weir_background_task_failures_total{" not in await bench.ask(running, "metrics")
