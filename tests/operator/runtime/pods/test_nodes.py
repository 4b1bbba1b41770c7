"""Nodes that are about to go are seen once for all StreamApps, and whose replicas are on them."""

import asyncio
import weakref
from typing import Any

import pytest

from weir_operator.api.client import KubernetesApi, RefusedByKubernetesError
from weir_operator.api.objects import Key
from weir_operator.runtime.places import Place
from weir_operator.runtime.pods.nodes import NodeNotices, explain_misfit


def a_pod(namespace, app, node, phase="Running"):
    return {
        "metadata": {"name": "p", "namespace": namespace, "labels": {"weir.dev/app": app}},
        "spec": {"nodeName": node},
        "status": {"phase": phase},
    }


class Cluster(KubernetesApi):
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

    async def pages(self, path, labels="", fields=""):
        yield await self.list(path, labels, fields)

    async def list(self, path, labels="", fields=""):
        self.asked.append(path)
        if path == "/api/v1/nodes":
            if self.forbidden:
                raise RefusedByKubernetesError("nodes is forbidden", 403)
            return tuple(
                {"metadata": {"name": name}, "spec": {"unschedulable": name in self.cordoned}}
                for name in ("n1", "n2")
            )
        namespace = path.removeprefix("/api/v1/").removesuffix("pods").strip("/").split("/")[-1]
        node = fields.removeprefix("spec.nodeName=")
        return tuple(
            pod
            for pod in self.pods
            if pod["spec"]["nodeName"] == node
            and (not namespace or pod["metadata"]["namespace"] == namespace)
            and ("weir.dev/app" in pod["metadata"]["labels"] or "weir.dev/app" not in labels)
        )


@pytest.fixture
def without_cache(monkeypatch):
    monkeypatch.setattr("weir_operator.runtime.pods.nodes.FRESH_FOR", 0.0)


async def test_nodes_that_go_are_known_and_asked_for_once_for_all():
    cluster = Cluster()
    notices = NodeNotices(cluster)

    first, second = await notices.going(), await notices.going()

    assert first == second == {"n1": "Node n1 is cordoned"}
    assert cluster.asked == ["/api/v1/nodes"]


async def test_of_many_nodes_only_those_of_a_page_are_in_memory_with_their_status():
    class Node(dict[str, Any]):
        """One that can be referred to weakly."""

    known: list[weakref.ref[Node]] = []
    most = 0

    class LargeCluster(Cluster):
        async def pages(self, path, labels="", fields=""):
            nonlocal most
            for number in range(5):
                names = [f"n{number}-{n}" for n in range(10)]
                page = [Node(metadata={"name": name}, spec={}, status={}) for name in names]
                known.extend(map(weakref.ref, page))
                most = max(most, sum(each() is not None for each in known))
                yield tuple[dict[str, Any], ...](page)

    await NodeNotices(LargeCluster()).going()

    assert most <= 20


async def test_a_slow_api_server_is_asked_once_and_nobody_waits_for_it_in_turn(monkeypatch):
    monkeypatch.setattr("weir_operator.runtime.pods.nodes.LONGEST_WAIT", 0.01)
    answers = asyncio.Event()

    class SlowCluster(Cluster):
        async def list(self, path, labels="", fields=""):
            await answers.wait()
            return await super().list(path, labels, fields)

    cluster = SlowCluster()
    notices = NodeNotices(cluster)

    meanwhile = await asyncio.wait_for(asyncio.gather(*(notices.going() for _ in range(100))), 5.0)
    answers.set()
    monkeypatch.setattr("weir_operator.runtime.pods.nodes.LONGEST_WAIT", 5.0)
    afterwards = await notices.going()

    assert meanwhile == [{}] * 100
    assert afterwards == {"n1": "Node n1 is cordoned"}
    assert cluster.asked == ["/api/v1/nodes"]


@pytest.mark.usefixtures("without_cache")
async def test_a_controller_that_may_not_see_nodes_goes_on_without():
    cluster = Cluster(forbidden=True)
    notices = NodeNotices(cluster)

    found = [await notices.going() for _ in range(3)]

    assert found == [{}, {}, {}]
    assert await notices.threatened() == set()
    assert cluster.asked == ["/api/v1/nodes"]


async def test_a_pod_that_names_no_app_is_nobodys_replica_and_hides_no_other():
    cluster = Cluster()
    stray = a_pod("elsewhere", "trips", "n1")
    del stray["metadata"]["labels"]["weir.dev/app"]
    cluster.pods.insert(0, stray)

    threatened = await NodeNotices(cluster).threatened()

    assert threatened == {Key("north", "trips"), Key("south", "rides")}


async def test_only_namespaces_that_are_looked_after_are_asked_about():
    cluster = Cluster()

    threatened = await NodeNotices(cluster, ["south"]).threatened()

    assert threatened == {Key("south", "rides")}
    assert cluster.asked == ["/api/v1/nodes", "/api/v1/namespaces/south/pods"]


@pytest.mark.usefixtures("without_cache")
async def test_a_namespace_that_is_refused_hides_no_threat_in_another_and_is_asked_again(
    monkeypatch,
):
    cluster = Cluster()
    lists, refused = cluster.list, {"north"}

    async def list_what_is_allowed(path, labels="", fields=""):
        if any(f"/namespaces/{name}/" in path for name in refused):
            raise RefusedByKubernetesError("pods is forbidden", 403)
        return await lists(path, labels, fields)

    monkeypatch.setattr(cluster, "list", list_what_is_allowed)
    notices = NodeNotices(cluster, ["north", "south"])

    without = await notices.threatened()
    refused.clear()
    with_it = await notices.threatened()
    refused.add("north")
    later = await notices.threatened()

    assert without == {Key("south", "rides")}
    assert with_it == later == {Key("north", "trips"), Key("south", "rides")}


async def test_pods_are_listed_no_more_often_than_nodes():
    cluster = Cluster()
    notices = NodeNotices(cluster)

    first, second = await notices.threatened(), await notices.threatened()

    assert first == second
    assert len(cluster.asked) == 2


@pytest.mark.usefixtures("without_cache")
async def test_a_node_that_stays_after_all_threatens_nobody():
    cluster = Cluster()
    notices = NodeNotices(cluster)
    before = await notices.threatened()

    cluster.cordoned.clear()

    assert before
    assert await notices.threatened() == set()


def a_node(labels, *, taints=(), **spec):
    return {"metadata": {"name": "n", "labels": labels}, "spec": {"taints": taints, **spec}}


def a_place(**asked):
    return Place(**{"memory": 1024, "node_selector": {"disk": "fast"}, **asked})


TAINT = {"key": "team", "value": "a", "effect": "NoSchedule"}


FAST, TAINTED = a_node({"disk": "fast"}), a_node({"disk": "fast"}, taints=[TAINT])
PREFERRED = a_node({"disk": "fast"}, taints=[{**TAINT, "effect": "PreferNoSchedule"}])
CORDONED = a_node({"disk": "fast"}, unschedulable=True)
NOT_TOLERATED = "a taint that the pool does not tolerate"


@pytest.mark.parametrize(
    ("nodes", "selector", "tolerations", "misfit"),
    [
        ([], "fast", (), ""),
        ([a_node({"disk": "fast", "zone": "1"})], "fast", (), ""),
        ([a_node({"disk": "slow"})], "fast", (), "No node has the labels disk=fast"),
        ([a_node({})], None, (), ""),
        ([CORDONED], "fast", (), "cordoned"),
        ([TAINTED], "fast", (), NOT_TOLERATED),
        ([TAINTED, FAST], "fast", (), ""),
        ([PREFERRED], "fast", (), ""),
        ([TAINTED], "fast", (TAINT,), ""),
        ([TAINTED], "fast", ({"key": "team", "operator": "Exists"},), ""),
        ([TAINTED], "fast", ({"operator": "Exists"},), ""),
        ([TAINTED], "fast", ({"key": "team", "value": "b"},), NOT_TOLERATED),
        ([TAINTED], "fast", ({**TAINT, "effect": "NoExecute"},), NOT_TOLERATED),
    ],
)
def test_whether_some_node_takes_a_pod(nodes, selector, tolerations, misfit):
    place = a_place(node_selector={"disk": selector} if selector else {}, tolerations=tolerations)

    found = explain_misfit(nodes, place)

    assert misfit in found
    assert bool(found) == bool(misfit)


async def test_a_revision_is_held_against_the_nodes_there_are():
    notices = NodeNotices(Cluster())

    assert "disk=fast" in await notices.find_misfit(a_place())
    assert await notices.find_misfit(a_place(node_selector={})) == ""


async def test_where_nodes_may_not_be_seen_nothing_is_held_against_a_revision():
    assert await NodeNotices(Cluster(forbidden=True)).find_misfit(a_place()) == ""
