"""More CPU for pods while they start, against a node in memory."""

from __future__ import annotations

import asyncio
import copy

import pytest

from tests.operator.runtime.pods.test_manifests import pods_of
from tests.operator.runtime.pods.test_resize import Node, objects
from weir_operator.clock import SystemClock, wait_until
from weir_operator.runtime.pods import boost as boost_module
from weir_operator.runtime.pods import resize as resize_module
from weir_operator.runtime.pods.boost import Boosts
from weir_operator.runtime.pods.pod_states import replica
from weir_operator.runtime.pods.pods import UNBOOSTED


class Starting(Node):
    """A node on which nothing runs at first, and then what is told."""

    def __init__(self, **keywords) -> None:
        super().__init__(**keywords)
        self.running: set[str] = set()
        self.looks = 0

    async def list(self, path, labels="", fields=""):
        self.looks += 1
        found = []
        for name, pod in copy.deepcopy(self.pods).items():
            if name in self.running:
                pod["status"]["containerStatuses"][0]["state"] = {"running": {}}
            found.append(pod)
        return tuple(found)

    def boosted(self):
        notes = {name: pod["metadata"]["annotations"] for name, pod in self.pods.items()}
        return {name for name, each in notes.items() if UNBOOSTED in each}


@pytest.fixture(autouse=True)
def _quick(monkeypatch):
    monkeypatch.setattr(boost_module, "_POLL", 0.01)
    monkeypatch.setattr(boost_module, "ROOM_LIMIT", 0.0)
    monkeypatch.setattr(resize_module, "RESIZE_LIMIT", 0.3)


async def until(is_so):
    async def probe():
        return is_so() or None

    assert await wait_until(probe, clock=SystemClock(), timeout=5.0, period=0.01)


async def looked_again(node):
    before = node.looks
    await until(lambda: node.looks >= before + 2)


async def test_a_pod_that_begins_to_run_has_a_core_until_the_change_has_ended():
    node = Starting()
    boosts = Boosts(objects(node))
    boosts.begin()
    await looked_again(node)
    assert node.sizes() == {"a": "250m", "b": "250m"}

    node.running.add("a")
    await until(lambda: node.sizes() == {"a": "1", "b": "250m"})

    await boosts.end()
    assert node.sizes() == {"a": "250m", "b": "250m"}
    assert node.boosted() == set()


async def test_a_pod_that_has_run_before_is_left_alone():
    node = Starting()
    node.running.add("b")
    boosts = Boosts(objects(node))
    boosts.begin()
    await looked_again(node)

    node.running.add("a")
    await until(lambda: node.sizes()["a"] == "1")
    assert node.sizes()["b"] == "250m"
    await boosts.stop()


async def test_while_a_pod_waits_for_a_node_no_other_one_takes_the_room_that_it_needs():
    node = Starting()
    boosts = Boosts(objects(node))
    boosts.begin()
    await looked_again(node)
    place = node.pods["b"]["spec"].pop("nodeName")
    node.running.add("a")
    await looked_again(node)
    assert node.sizes() == {"a": "250m", "b": "250m"}

    node.pods["b"]["spec"]["nodeName"] = place
    await until(lambda: node.sizes() == {"a": "1", "b": "250m"})
    await boosts.stop()


async def test_a_pod_that_finds_no_room_gets_that_of_boosts():
    node = Starting()
    place = node.pods["b"]["spec"].pop("nodeName")
    later = node.pods.pop("b")
    boosts = Boosts(objects(node))
    boosts.begin()
    await looked_again(node)
    node.running.add("a")
    await until(lambda: node.sizes() == {"a": "1"} and node.boosted() == {"a"})

    later["status"]["conditions"] = [{"type": "PodScheduled", "status": "False"}]
    node.pods["b"] = later
    await until(lambda: node.sizes() == {"a": "250m", "b": "250m"} and not node.boosted())

    later["spec"]["nodeName"] = place
    later["status"]["conditions"] = []
    await looked_again(node)
    assert node.sizes()["a"] == "250m", "it has started by now"
    await boosts.end()


@pytest.mark.parametrize(
    "trouble",
    [{"verdicts": {("a", "1"): "Deferred"}}, {"verdicts": {("a", "1"): "Infeasible"}}],
    ids=["full", "small"],
)
async def test_a_node_without_room_starts_the_pod_at_its_size(trouble):
    node = Starting(**trouble)
    boosts = Boosts(objects(node))
    boosts.begin()
    await looked_again(node)
    node.running |= {"a", "b"}

    await until(lambda: node.sizes() == {"a": "250m", "b": "1"} and node.boosted() == {"b"})
    await boosts.stop()


async def test_a_cluster_that_allows_no_resize_starts_pods_at_their_size():
    node = Starting(forbidden=True)
    boosts = Boosts(objects(node))
    boosts.begin()
    await looked_again(node)
    node.running.add("a")
    await looked_again(node)

    await boosts.end()

    assert node.sizes() == {"a": "250m", "b": "250m"}


async def test_a_boost_that_a_controller_left_is_ended_by_the_next():
    node = Starting()
    first = Boosts(objects(node))
    first.begin()
    await looked_again(node)
    node.running.add("a")
    await until(lambda: node.sizes()["a"] == "1")
    await first.stop()

    await Boosts(objects(node)).end()

    assert node.sizes()["a"] == "250m"
    assert node.boosted() == set()


async def test_a_node_that_does_not_answer_is_asked_again_and_nobody_else_is():
    node = Starting()
    boosts = Boosts(objects(node))
    boosts.begin()
    await looked_again(node)
    node.running |= {"a", "b"}
    await until(lambda: node.sizes() == {"a": "1", "b": "1"})
    node.verdicts[("a", "250m")] = "Unheard"
    await boosts.end()
    assert node.boosted() == {"a"}

    node.verdicts.clear()
    await boosts.end()
    assert node.boosted() == set()

    looks = node.looks
    await boosts.end()
    assert node.looks == looks


async def test_a_boosted_replica_counts_as_one_of_its_size():
    node = Starting()
    boosts = Boosts(objects(node))
    boosts.begin()
    await looked_again(node)
    node.running.add("a")
    await until(lambda: node.sizes()["a"] == "1" and node.boosted() == {"a"})
    pod = copy.deepcopy(node.pods["a"])
    pod["metadata"] |= {
        "creationTimestamp": "2026-11-21T10:00:00Z",
        "labels": {"weir.dev/operator": "match", "weir.dev/pool": "small"},
    }

    assert replica(pod, pods_of(), terminating="", now=0.0).size == "250m"
    await asyncio.wait_for(boosts.end(), timeout=5.0)
