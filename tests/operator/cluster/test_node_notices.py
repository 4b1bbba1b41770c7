"""Nodes that are about to go are seen once for all StreamApps, and whose replicas are on them."""

import pytest

from weir_operator.cluster.api import RefusedByKubernetesError
from weir_operator.cluster.nodes import NodeNotices
from weir_operator.cluster.objects import Key


def a_pod(namespace, app, node, phase="Running"):
    return {
        "metadata": {"name": "p", "namespace": namespace, "labels": {"weir.dev/app": app}},
        "spec": {"nodeName": node},
        "status": {"phase": phase},
    }


class Cluster:
    """An API server that lists nodes, or refuses to, and the pods of a node."""

    def __init__(self, *, forbidden=False):
        self.forbidden, self.asked = forbidden, []
        self.cordoned = {"n1"}
        self.pods = [
            a_pod("north", "trips", "n1"),
            a_pod("north", "trips", "n1"),
            a_pod("south", "rides", "n1"),
            a_pod("south", "calm", "n2"),
            a_pod("south", "over", "n1", phase="Failed"),
        ]

    async def get(self, path):
        raise AssertionError(f"nobody asks for {path}")

    async def list(self, path, labels="", fields=""):
        self.asked.append(path)
        if path == "/api/v1/nodes":
            if self.forbidden:
                raise RefusedByKubernetesError("nodes is forbidden", 403)
            return [
                {"metadata": {"name": name}, "spec": {"unschedulable": name in self.cordoned}}
                for name in ("n1", "n2")
            ]
        namespace = path.removeprefix("/api/v1/").removesuffix("pods").strip("/").split("/")[-1]
        node = fields.removeprefix("spec.nodeName=")
        return [
            pod
            for pod in self.pods
            if pod["spec"]["nodeName"] == node
            and (not namespace or pod["metadata"]["namespace"] == namespace)
        ]


@pytest.fixture
def always_anew(monkeypatch):
    monkeypatch.setattr("weir_operator.cluster.nodes.FRESH_FOR", 0.0)


async def test_nodes_that_go_are_known_and_asked_for_once_for_all():
    cluster = Cluster()
    notices = NodeNotices(cluster)

    first, second = await notices.going(), await notices.going()

    assert first == second == {"n1": "Node n1 is cordoned"}
    assert cluster.asked == ["/api/v1/nodes"]


@pytest.mark.usefixtures("always_anew")
async def test_a_controller_that_may_not_see_nodes_goes_on_without():
    cluster = Cluster(forbidden=True)
    notices = NodeNotices(cluster)

    found = [await notices.going() for _ in range(3)]

    assert found == [{}, {}, {}]
    assert await notices.threatened() == set()
    assert cluster.asked == ["/api/v1/nodes"]


async def test_the_apps_with_a_living_replica_on_a_node_that_goes_are_threatened():
    notices = NodeNotices(Cluster())

    threatened = await notices.threatened()

    assert threatened == {Key("north", "trips"), Key("south", "rides")}


async def test_only_namespaces_that_are_looked_after_are_asked_about():
    cluster = Cluster()

    threatened = await NodeNotices(cluster, ["south"]).threatened()

    assert threatened == {Key("south", "rides")}
    assert cluster.asked == ["/api/v1/nodes", "/api/v1/namespaces/south/pods"]


async def test_pods_are_listed_no_more_often_than_nodes():
    cluster = Cluster()
    notices = NodeNotices(cluster)

    first, second = await notices.threatened(), await notices.threatened()

    assert first == second
    assert len(cluster.asked) == 2


@pytest.mark.usefixtures("always_anew")
async def test_a_node_that_stays_after_all_threatens_nobody():
    cluster = Cluster()
    notices = NodeNotices(cluster)
    before = await notices.threatened()

    cluster.cordoned.clear()

    assert before
    assert await notices.threatened() == set()
