"""Another size for running pods, against a node in memory."""

from __future__ import annotations

import copy

import pytest

from tests.operator.runtime.pods.test_manifests import pods_of
from weir_operator.api.client import NotFoundError, RefusedByKubernetesError
from weir_operator.errors import ResizeRefusedError, TemporaryError
from weir_operator.runtime.pods import resize as resize_module
from weir_operator.runtime.pods.objects import AppObjects
from weir_operator.runtime.pods.pod_spec import CONTAINER, merge
from weir_operator.runtime.pods.resize import resize

PATH = "/api/v1/namespaces/streams/pods/"


class Node:
    """An API server whose node gives what it has, or says why not."""

    def __init__(self, *, verdicts=None, forbidden=False) -> None:
        self.verdicts = verdicts or {}
        self.forbidden = forbidden
        self.pods = {name: self._pod(name, "250m") for name in ("a", "b")}

    def _pod(self, name, cpu):
        limits = {"limits": {"cpu": cpu}}
        return {
            "metadata": {"name": name, "annotations": {}},
            "spec": {
                "nodeName": "n1",
                "containers": [{"name": CONTAINER, "resources": limits}],
            },
            "status": {
                "phase": "Running",
                "containerStatuses": [{"name": CONTAINER, "resources": limits}],
            },
        }

    async def get(self, path):
        name = path.removeprefix(PATH)
        if name not in self.pods:
            raise NotFoundError(path)
        return copy.deepcopy(self.pods[name])

    async def patch(self, path, body, content_type=""):
        name, _, subresource = path.removeprefix(PATH).partition("/")
        if subresource == "resize" and self.forbidden:
            raise RefusedByKubernetesError("pods/resize is forbidden", 403)
        pod = self.pods[name] = merge(self.pods[name], body)
        notes = pod["metadata"]["annotations"]
        pod["metadata"]["annotations"] = {key: text for key, text in notes.items() if text}
        if subresource == "resize":
            self._judge(name, pod)

    def _judge(self, name, pod) -> None:
        cpu = pod["spec"]["containers"][0]["resources"]["limits"]["cpu"]
        verdict = self.verdicts.get((name, cpu))
        if verdict is None:
            self.pods[name]["status"] = self._pod(name, cpu)["status"]
        else:
            pod["status"]["conditions"] = [
                {"type": "PodResizePending", "status": "True", "reason": verdict, "message": "full"}
            ]

    def sizes(self):
        return {
            name: pod["spec"]["containers"][0]["resources"]["limits"]["cpu"]
            for name, pod in self.pods.items()
        }


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch):
    monkeypatch.setattr(resize_module, "DEFERRED_LIMIT", 0.0)
    monkeypatch.setattr(resize_module, "RESIZE_LIMIT", 0.3)


def objects(node):
    return AppObjects(node, pods_of())


async def test_all_get_their_sizes_and_say_so():
    node = Node()

    await resize(objects(node), {"a": "500m", "b": "500m"})

    assert node.sizes() == {"a": "500m", "b": "500m"}
    assert node.pods["a"]["metadata"]["annotations"]["weir.dev/size"] == "500m"


@pytest.mark.parametrize("verdict", ["Infeasible", "Deferred"])
async def test_one_that_is_refused_takes_the_others_back(verdict):
    node = Node(verdicts={("b", "500m"): verdict})

    with pytest.raises(ResizeRefusedError, match=f"500m.*{verdict}, full"):
        await resize(objects(node), {"a": "500m", "b": "500m"})

    assert node.sizes() == {"a": "250m", "b": "250m"}


async def test_a_node_that_says_nothing_is_given_up_and_all_is_taken_back():
    node = Node(verdicts={("a", "500m"): "Unheard"})

    with pytest.raises(TemporaryError, match="500m"):
        await resize(objects(node), {"a": "500m"})

    assert node.sizes()["a"] == "250m"


async def test_a_pod_that_is_gone_is_refused_before_anything_changes():
    node = Node()
    del node.pods["b"]

    with pytest.raises(ResizeRefusedError, match=r"\bb\b"):
        await resize(objects(node), {"b": "500m"})

    assert node.sizes() == {"a": "250m"}


async def test_a_cluster_that_allows_no_resize_leads_to_a_rescale():
    with pytest.raises(ResizeRefusedError, match="forbidden"):
        await resize(objects(Node(forbidden=True)), {"a": "500m"})
