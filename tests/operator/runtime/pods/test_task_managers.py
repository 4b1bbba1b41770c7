"""Starting and ending TaskManagers by ReplicaSets, against a cluster in memory."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

import pytest

from tests.operator.runtime.pods.test_manifests import pods_of
from weir_operator.api.client import NotFoundError
from weir_operator.errors import PodsPendingError
from weir_operator.runtime.places import Place
from weir_operator.runtime.pods import task_managers as task_managers_module
from weir_operator.runtime.pods.nodes import NodeNotices
from weir_operator.runtime.pods.objects import AppObjects
from weir_operator.runtime.pods.pod_spec import merge
from weir_operator.runtime.pods.task_managers import DELETION_COST, TaskManagerPods
from weir_operator.runtime.protocol import ReplicaSpec

SMALL = ReplicaSpec(operator="match", pool="small", size="250m")
LARGE = ReplicaSpec(operator="match", pool="large", size="1")


class Cluster:
    """An API server with a controller of ReplicaSets that acts at once, and as the real one would.

    Pods that do not run go first, then those that are not ready, then those of the lowest deletion
    cost, then the newest.
    """

    def __init__(self) -> None:
        self.objects: dict[str, dict[str, Any]] = {}
        self.quota: int | None = None
        self.patched: list[str] = []
        self._next = 0

    async def get(self, path):
        if path not in self.objects:
            raise NotFoundError(path)
        return copy.deepcopy(self.objects[path])

    async def list(self, path, labels="", fields=""):
        wanted = dict(each.split("=") for each in labels.split(",") if each)
        return tuple(
            copy.deepcopy(body)
            for at, body in sorted(self.objects.items())
            if at.rpartition("/")[0] == path
            and wanted.items() <= body["metadata"].get("labels", {}).items()
        )

    async def apply(self, path, body, manager="weir", *, dry_run=False):
        kept = {"status": self.objects.get(path, {}).get("status", {})}
        self.objects[path] = {**copy.deepcopy(body), **kept}
        self._control()

    async def patch(self, path, body, content_type=""):
        self.patched.append(path)
        self.objects[path] = merge(await self.get(path), body)
        self._control()

    async def delete(self, path):
        self.objects.pop(path, None)
        self._control()

    def pods(self):
        return {
            at.rpartition("/")[2]: body
            for at, body in self.objects.items()
            if body["kind"] == "Pod"
        }

    def _control(self) -> None:
        for body in [each for each in self.objects.values() if each["kind"] == "ReplicaSet"]:
            self._match(body)

    def _match(self, workload) -> None:
        name = workload["metadata"]["name"]
        own = [
            pod
            for pod in self.pods().values()
            if pod["metadata"]["ownerReferences"][0]["name"] == name
        ]
        for _ in range(workload["spec"]["replicas"] - len(own)):
            if self.quota is not None and len(self.pods()) >= self.quota:
                failed = {"type": "ReplicaFailure", "status": "True", "message": "exceeded quota"}
                workload["status"] = {"conditions": [failed]}
                return
            self._make(workload)
        own.sort(
            key=lambda pod: (
                pod["status"]["phase"] == "Running",
                {"type": "Ready", "status": "False"} not in pod["status"].get("conditions", ()),
                int(pod["metadata"]["annotations"].get(DELETION_COST, 0)),
                -int(pod["metadata"]["name"].rpartition("-")[2]),
            )
        )
        for pod in own[: max(0, len(own) - workload["spec"]["replicas"])]:
            del self.objects[f"/api/v1/namespaces/streams/pods/{pod['metadata']['name']}"]

    def _make(self, workload) -> None:
        self._next += 1
        pod = copy.deepcopy(workload["spec"]["template"])
        pod["kind"] = "Pod"
        pod["metadata"] |= {
            "name": f"{workload['metadata']['name']}-{self._next}",
            "creationTimestamp": "2026-01-02T03:04:05Z",
            "ownerReferences": [{"kind": "ReplicaSet", "name": workload["metadata"]["name"]}],
        }
        pod["status"] = {"phase": "Running"}
        self.objects[f"/api/v1/namespaces/streams/pods/{pod['metadata']['name']}"] = pod


class NoNotices(NodeNotices):
    def __init__(self):
        """Ask nobody."""

    async def going(self):
        return {}


@pytest.fixture
def cluster():
    return Cluster()


@pytest.fixture
def pods():
    return pods_of()


@pytest.fixture
def task_managers(cluster, pods, monkeypatch):
    monkeypatch.setattr(task_managers_module, "CHOICE_LIMIT", 0.0)
    return TaskManagerPods(AppObjects(cluster, pods), NoNotices())


async def sizes(task_managers, pods):
    return sorted(each.node_type for each in await task_managers.replicas(pods))


async def test_started_replicas_are_of_the_sizes_that_were_asked_for(task_managers, pods):
    other = ReplicaSpec(operator="match", pool="small", size="500m")

    ids = await task_managers.start(pods, [SMALL, other, LARGE, SMALL])

    assert len(set(ids)) == 4
    assert await sizes(task_managers, pods) == [
        "large/1", "small/250m", "small/250m", "small/500m",
    ]  # fmt: skip


async def test_only_the_replicas_that_must_avoid_a_node_are_kept_off_it(
    task_managers, pods, cluster
):
    (first,) = await task_managers.start(pods, [SMALL])
    (kept_off,) = await task_managers.start(pods, [replace(SMALL, avoid=("n2",))])

    await cluster.delete(f"/api/v1/namespaces/streams/pods/{first}")

    affine = {name for name, pod in cluster.pods().items() if "affinity" in pod["spec"]}
    assert len(cluster.pods()) == 2
    assert affine == {kept_off}


async def test_a_pod_with_only_some_of_the_labels_is_no_replica_and_hides_none(
    task_managers, pods, cluster
):
    (replica,) = await task_managers.start(pods, [SMALL])
    [own] = cluster.pods().values()
    stray = copy.deepcopy(own)
    stray["metadata"] |= {"name": "stray", "labels": dict(own["metadata"]["labels"])}
    del stray["metadata"]["labels"]["weir.dev/operator"]
    cluster.objects["/api/v1/namespaces/streams/pods/stray"] = stray

    found = await task_managers.replicas(pods)

    assert [each.id for each in found] == [replica]


async def test_what_was_made_ready_to_go_ends_without_another_change_of_its_pod(
    task_managers, pods, cluster
):
    first, second, third = await task_managers.start(pods, [SMALL, SMALL, SMALL])
    await task_managers.prepare_stop([first])
    cluster.patched.clear()

    await task_managers.stop(pods, [first])

    assert {each.id for each in await task_managers.replicas(pods)} == {second, third}
    assert not [path for path in cluster.patched if path.rpartition("/")[2] == first]


async def test_what_was_made_ready_to_go_may_stay_after_all(task_managers, pods):
    first, second, third = await task_managers.start(pods, [SMALL, SMALL, SMALL])
    await task_managers.prepare_stop([first])

    await task_managers.stop(pods, [third])

    assert {each.id for each in await task_managers.replicas(pods)} == {first, second}


async def test_a_chosen_replica_that_is_passed_over_ends_all_the_same(task_managers, pods, cluster):
    first, second = await task_managers.start(pods, [SMALL, SMALL])
    cluster.pods()[second]["status"]["phase"] = "Pending"

    await task_managers.stop(pods, [first])

    (left,) = await task_managers.replicas(pods)
    assert left.id != first


async def test_ending_what_is_gone_changes_nothing(task_managers, pods):
    ids = await task_managers.start(pods, [SMALL, SMALL])
    await task_managers.stop(pods, [ids[0]])

    await task_managers.stop(pods, [ids[0], "never-was"])

    assert [each.id for each in await task_managers.replicas(pods)] == [ids[1]]


async def test_a_quota_that_is_used_up_is_told_and_nothing_is_left_behind(
    task_managers, pods, cluster
):
    await task_managers.start(pods, [SMALL])
    cluster.quota = 2

    with pytest.raises(PodsPendingError, match="match on small: exceeded quota") as refused:
        await task_managers.start(pods, [LARGE, SMALL])

    cluster.quota = None
    cluster._control()
    assert refused.value.groups == (("match", "small"),)
    assert await sizes(task_managers, pods) == ["small/250m"]


async def test_a_lost_replica_comes_back_with_the_size_that_was_given_last(
    task_managers, pods, cluster
):
    (first,) = await task_managers.start(pods, [SMALL])
    await task_managers.remember_sizes({("match", "small"): "500m"}, pods)

    await cluster.delete(f"/api/v1/namespaces/streams/pods/{first}")

    assert await sizes(task_managers, pods) == ["small/500m"]


async def test_a_lost_replica_comes_back_in_the_place_that_a_failed_change_left(
    task_managers, pods, cluster
):
    (first,) = await task_managers.start(pods, [SMALL])
    wrong = replace(pods, places={**pods.places, "small": Place(memory=9000)})
    (other,) = await task_managers.start(wrong, [SMALL])
    await task_managers.stop(pods, [other])

    await cluster.delete(f"/api/v1/namespaces/streams/pods/{first}")

    (back,) = await task_managers.replicas(pods)
    assert back.place == pods.place_id("match", "small")
    assert back.size == "250m"


async def test_config_maps_that_nobody_uses_are_cleared_away(task_managers, pods, cluster):
    old = pods_of(config={"pipeline.generic-types": "false"})
    (first,) = await task_managers.start(old, [SMALL])
    kept = {at for at, body in cluster.objects.items() if body["kind"] == "ConfigMap"}
    await task_managers.start(pods, [SMALL])
    await task_managers.stop(pods, [first])

    await task_managers.start(pods, [LARGE])

    left = {at for at, body in cluster.objects.items() if body["kind"] == "ConfigMap"}
    assert len(left) == 2
    assert not kept & left
