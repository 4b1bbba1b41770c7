"""While nothing changes, a StreamApp's Flink is not asked for again at the API server."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.operator.runtime.pods.test_job_manager import DEPLOYMENT, Flink, Services
from tests.operator.runtime.pods.test_manifests import pods_of
from weir_operator.errors import PermanentError
from weir_operator.runtime.places import Place
from weir_operator.runtime.pods import job_manager, manifests, pull, runtime
from weir_operator.runtime.pods.pods import COMPONENT
from weir_operator.runtime.pods.runtime import KubernetesRuntime
from weir_operator.runtime.protocol import ReplicaSpec
from weir_operator.runtime.revision import AgentImage, Revision


class Asked(Services):
    def __init__(self):
        super().__init__()
        self.asked = []
        self.judged = []
        self.refusal = ""
        self.unpulled = {}
        """What a container waits for whose image cannot be pulled, by image."""
        self.tried = []
        """Images of each pod that tries them."""

    async def apply(self, path, body, manager="weir", *, dry_run=False):
        if not dry_run:
            return await super().apply(path, body, manager)
        self.judged.append(path)
        if self.refusal:
            raise PermanentError(self.refusal)

    def _make(self, workload):
        super()._make(workload)
        pod = next(reversed(self.pods().values()))
        if pod["metadata"]["labels"][COMPONENT] != manifests.PULL:
            return
        pod["metadata"]["annotations"] = {}
        pod["spec"]["nodeName"] = "n1"
        images = [each["image"] for each in pod["spec"]["containers"]]
        self.tried.append(images)
        pod["status"]["containerStatuses"] = [
            {"image": image, "state": {"waiting": dict(self.unpulled[image])}}
            if image in self.unpulled
            else {"image": image, "imageID": f"sha256:{image}", "state": {}}
            for image in images
        ]

    async def delete(self, path):
        gone = self.objects.get(path, {}).get("metadata", {}).get("name")
        await super().delete(path)
        if "/replicasets/" in path:
            for name, pod in self.pods().items():
                if pod["metadata"]["ownerReferences"][0]["name"] == gone:
                    await super().delete(f"/api/v1/namespaces/streams/pods/{name}")

    async def get(self, path):
        self.asked.append(path)
        return await super().get(path)

    async def list(self, path, labels="", fields=""):
        self.asked.append(path)
        return await super().list(path, labels, fields)


class Marks:
    """Says what a test says."""

    def __init__(self):
        self.now = (1, 0)

    def mark(self, key):
        return self.now


class Nodes:
    """Knows of nodes that go."""

    def __init__(self):
        self.reasons = {}
        self.misfit = ""

    async def find_misfit(self, place):
        return self.misfit

    async def going(self):
        return dict(self.reasons)


@pytest.fixture
def cluster():
    return Asked()


@pytest.fixture
def marks():
    return Marks()


@pytest.fixture
def nodes():
    return Nodes()


@pytest.fixture
def flink(cluster, marks, nodes, monkeypatch):
    monkeypatch.setattr(job_manager, "FlinkRest", Flink)
    monkeypatch.setattr(runtime, "FRESH_FOR", 0.0)
    return KubernetesRuntime(cluster, replace(pods_of(), revision="r1"), nodes, marks)


@pytest.fixture
async def started(flink, cluster):
    await flink.ensure_job_manager()
    await flink.start([ReplicaSpec(operator="match", pool="small", size="1")])
    await flink.ensure_job_manager()
    await flink.replicas()
    cluster.asked.clear()
    return flink


async def test_while_the_mark_is_the_same_nobody_is_asked(started, cluster):
    for _ in range(3):
        assert not await started.ensure_job_manager()
        assert len(await started.replicas()) == 1

    assert cluster.asked == []


async def test_what_others_change_is_seen_with_the_next_mark(started, cluster, marks):
    [pod] = [path for path in cluster.objects if "/pods/" in path]
    cluster.objects[pod]["status"]["phase"] = "Failed"
    marks.now = (1, 1)

    assert await started.replicas() == ()


async def test_own_changes_are_seen_at_once(started, marks):
    [new] = await started.start([ReplicaSpec(operator="match", pool="small", size="1")])

    assert new in {each.id for each in await started.replicas()}


async def test_a_node_that_goes_is_seen_without_a_change_of_pods(started, cluster, nodes):
    [pod] = [path for path in cluster.objects if "/pods/" in path]
    cluster.objects[pod]["spec"]["nodeName"] = "n1"
    nodes.reasons = {"n1": "cordoned"}

    [seen] = await started.replicas()

    assert seen.terminating == "cordoned"


async def test_config_maps_that_were_deleted_are_made_again_as_they_were(started, cluster, marks):
    there = {path: body for path, body in cluster.objects.items() if "/configmaps/" in path}
    for path in there:
        del cluster.objects[path]
    marks.now = (1, 1)

    await started.ensure_job_manager()

    assert len(there) == 2  # the JobManager's and the TaskManagers'
    for path, body in there.items():
        assert cluster.objects[path]["data"] == body["data"]


async def test_a_config_map_that_would_be_another_now_is_not_made_in_the_place_of_a_lost_one(
    started, cluster, marks
):
    for path in [path for path in cluster.objects if "/configmaps/" in path]:
        del cluster.objects[path]
    for body in cluster.objects.values():
        if body["kind"] in ("Deployment", "ReplicaSet"):
            for volume in body["spec"]["template"]["spec"]["volumes"]:
                if "configMap" in volume:
                    volume["configMap"]["name"] = "of-before"
    marks.now = (1, 1)

    await started.ensure_job_manager()

    assert not [path for path in cluster.objects if "/configmaps/" in path]


async def test_without_a_watch_everything_is_asked_for_at_every_look(started, cluster, marks):
    marks.now = None

    for _ in range(2):
        await started.ensure_job_manager()
        await started.replicas()

    assert cluster.asked.count(DEPLOYMENT) == 2
    assert cluster.asked.count("/api/v1/namespaces/streams/pods") >= 2


def a_revision(image="trips:1.5"):
    place = Place(memory=1024)
    return Revision(processes={"image": image}, job_manager=place, places={"small": place})


async def test_pods_that_the_api_server_refused_are_not_judged_at_each_try(flink, cluster):
    cluster.refusal = "a policy of the cluster refuses them"

    refusals = [await flink.find_misfit(a_revision(), {"small"}) for _ in range(3)]

    assert len(cluster.judged) == 1
    assert set(refusals) == {"a policy of the cluster refuses them; correct the StreamApp"}


async def test_another_revision_is_judged_at_once(flink, cluster):
    cluster.refusal = "refused"
    await flink.find_misfit(a_revision(), {"small"})
    cluster.refusal = ""

    assert await flink.find_misfit(a_revision("trips:1.6"), {"small"}) == ""


async def test_a_refusal_is_asked_for_again_after_a_while(flink, cluster, monkeypatch):
    monkeypatch.setattr(runtime, "REFUSED_FOR", 0.0)
    cluster.refusal = "refused"
    await flink.find_misfit(a_revision(), {"small"})
    cluster.refusal = ""

    assert await flink.find_misfit(a_revision(), {"small"}) == ""


async def test_pods_that_no_node_fits_are_not_judged(flink, cluster, nodes):
    nodes.misfit = "No node has the label disk=fast"

    assert "disk=fast" in await flink.find_misfit(a_revision(), {"small"})
    assert cluster.judged == []


@pytest.mark.parametrize("reason", ["ErrImagePull", "ImagePullBackOff"])
async def test_an_image_that_a_node_cannot_pull_is_named_before_anything_is_stopped(
    flink, cluster, reason
):
    cluster.unpulled = {"trips:1.6": {"reason": reason, "message": "not found"}}

    refusal = await flink.find_misfit(a_revision("trips:1.6"), {"small"})

    assert refusal.startswith(f"Node n1 cannot pull the image trips:1.6 ({reason}: not found)")
    assert cluster.pods() == {}, "the pod that tried it"


async def test_an_agents_image_that_a_node_cannot_pull_is_named_too(flink, cluster):
    agent = AgentImage(image="weir:next", digest="0" * 64)
    cluster.unpulled = {"weir:next": {"reason": "ErrImagePull"}}

    refusal = await flink.find_misfit(
        a_revision("trips:1.6").model_copy(update={"agent": agent}), {"small"}
    )

    assert "cannot pull the image weir:next (ErrImagePull)" in refusal
    assert cluster.tried == [["trips:1.6", "weir:next"]]


async def test_images_that_run_or_were_pulled_are_not_tried(flink, cluster):
    flink.use(a_revision("trips:1.5"))
    await flink.find_misfit(a_revision("trips:1.5"), {"small"})

    for _ in range(2):
        assert await flink.find_misfit(a_revision("trips:1.6"), {"small"}) == ""

    assert cluster.tried == [["trips:1.6"]]
    assert cluster.pods() == {}


async def test_a_node_that_does_not_answer_in_time_stands_in_no_ones_way(
    flink, cluster, monkeypatch
):
    monkeypatch.setattr(pull, "PULL_LIMIT", 0.05)
    cluster.unpulled = {"trips:1.6": {"reason": "ContainerCreating"}}

    assert await flink.find_misfit(a_revision("trips:1.6"), {"small"}) == ""
    assert cluster.pods() == {}
