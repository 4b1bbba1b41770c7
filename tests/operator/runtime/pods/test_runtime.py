"""While nothing changes, a StreamApp's Flink is not asked for again at the API server."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.operator.runtime.pods.test_job_manager import DEPLOYMENT, Flink, Services
from tests.operator.runtime.pods.test_manifests import pods_of
from weir_operator.errors import PermanentError, TemporaryError
from weir_operator.runtime.places import Place
from weir_operator.runtime.pods import job_manager, manifests, runtime, trial
from weir_operator.runtime.pods.pod_spec import CONTAINER
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
        self.waiting = {}
        """What containers of a JobManager that is tried wait for, by name."""
        self.unscheduled = False
        """Whether no node has room for it."""
        self.tried = []
        """Images of each JobManager that was tried."""

    async def apply(self, path, body, manager="weir", *, dry_run=False):
        if not dry_run:
            return await super().apply(path, body, manager)
        self.judged.append(path)
        if self.refusal:
            raise PermanentError(self.refusal)

    def _make(self, workload):
        super()._make(workload)
        pod = next(reversed(self.pods().values()))
        if pod["metadata"]["labels"][COMPONENT] != manifests.TRIAL:
            return
        spec = workload["spec"]["template"]["spec"]
        pod["metadata"]["annotations"] = {}
        pod["spec"]["nodeName"] = "n1"
        self.tried.append([each["image"] for each in spec["containers"]])
        pod["status"] = {"podIP": "10.0.0.9", "conditions": []}
        if self.unscheduled:
            pod["status"] = {"conditions": [{"type": "PodScheduled", "status": "False"}]}
            return
        for kind in ("initContainers", "containers"):
            pod["status"][f"{kind[:-1]}Statuses"] = [
                {
                    "name": each["name"],
                    "image": each["image"],
                    "state": {"waiting": dict(self.waiting[each["name"]])}
                    if each["name"] in self.waiting
                    else {"running": {}},
                }
                for each in spec.get(kind, ())
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


async def fits(rest_url, jar):
    """A program with which nothing is wrong."""


async def test_pods_that_the_api_server_refuses_are_not_started(flink, cluster):
    cluster.refusal = "a policy of the cluster refuses them"

    refusal = await flink.find_misfit(a_revision(), {"small"}, fits)

    assert refusal == "a policy of the cluster refuses them; correct the StreamApp"
    assert cluster.tried == []


async def test_without_a_check_only_nodes_are_asked(flink, cluster):
    cluster.refusal = "refused"

    assert await flink.find_misfit(a_revision(), {"small"}) == ""
    assert cluster.judged == []
    assert cluster.tried == []


async def test_pods_that_no_node_fits_are_not_judged(flink, cluster, nodes):
    nodes.misfit = "No node has the label disk=fast"

    assert "disk=fast" in await flink.find_misfit(a_revision(), {"small"}, fits)
    assert cluster.judged == []
    assert cluster.tried == []


@pytest.mark.parametrize(
    ("container", "waiting", "sentence"),
    [
        (
            CONTAINER,
            {"reason": "ErrImagePull", "message": "not found"},
            "Node n1 cannot pull the image trips:1.6 (ErrImagePull: not found)",
        ),
        (
            CONTAINER,
            {"reason": "ImagePullBackOff"},
            "Node n1 cannot pull the image trips:1.6 (ImagePullBackOff)",
        ),
        (
            CONTAINER,
            {"reason": "CrashLoopBackOff", "message": "back-off 10s"},
            "CrashLoopBackOff: back-off 10s",
        ),
        (
            "weir-agent",
            {"reason": "ImagePullBackOff", "message": "weir:next"},
            "Node n1 cannot pull the image weir:next (ImagePullBackOff: weir:next)",
        ),
    ],
)
async def test_a_job_manager_that_cannot_start_is_named_before_anything_is_stopped(
    flink, cluster, container, waiting, sentence
):
    cluster.waiting = {container: waiting}
    agent = AgentImage(image="weir:next", digest="0" * 64)
    revision = a_revision("trips:1.6").model_copy(update={"agent": agent})

    refusal = await flink.find_misfit(revision, {"small"}, fits)

    assert refusal.startswith(f"{sentence}; correct spec.flink")
    assert cluster.objects == {}, "what the trial made"


async def test_what_a_controller_left_that_ended_in_a_trial_is_removed_once(flink, cluster):
    for each in manifests.trial(replace(pods_of(), revision="r2")):
        path = f"/apis/apps/v1/namespaces/streams/replicasets/{each['metadata']['name']}"
        if each["kind"] == "ReplicaSet":
            await cluster.apply(path, each)
    assert cluster.pods() != {}

    for _ in range(2):
        await flink.ensure_job_manager()

    kinds = {pod["metadata"]["labels"][COMPONENT] for pod in cluster.pods().values()}
    assert manifests.TRIAL not in kinds


async def test_a_program_is_checked_on_the_job_manager_that_is_tried(flink, cluster):
    asked = []

    async def check(rest_url, jar):
        asked.append((rest_url, jar))
        raise PermanentError("The program builds no job")

    refusal = await flink.find_misfit(a_revision("trips:1.6"), {"small"}, check)

    assert refusal == "The program builds no job"
    assert asked == [("http://10.0.0.9:8081", "weir_job.jar")]
    assert cluster.tried == [["trips:1.6"]]
    assert cluster.objects == {}


async def test_a_job_manager_that_does_not_answer_yet_is_asked_again(flink, monkeypatch):
    monkeypatch.setattr(trial, "_POLL", 0.0)
    answers = iter([TemporaryError("starts"), TemporaryError("starts"), PermanentError("broken")])

    async def check(rest_url, jar):
        raise next(answers)

    assert "broken" in await flink.find_misfit(a_revision("trips:1.6"), {"small"}, check)


@pytest.mark.parametrize("without", ["an image", "room", "an answer"])
async def test_a_trial_without_an_answer_in_time_stands_in_no_ones_way(
    flink, cluster, monkeypatch, without
):
    monkeypatch.setattr(trial, "TRIAL_LIMIT", 0.05)
    monkeypatch.setattr(trial, "ROOM_LIMIT", 0.01)
    monkeypatch.setattr(trial, "_POLL", 0.001)
    cluster.unscheduled = without == "room"
    if without == "an image":
        cluster.waiting = {CONTAINER: {"reason": "ContainerCreating"}}

    async def check(rest_url, jar):
        raise TemporaryError("no answer")

    assert await flink.find_misfit(a_revision("trips:1.6"), {"small"}, check) == ""
    assert cluster.objects == {}


async def test_a_trial_keeps_nothing_and_has_no_rights(flink, cluster):
    files, workload = manifests.trial(replace(pods_of(), revision="r2"))

    spec = workload["spec"]["template"]["spec"]
    assert not [each for each in spec["volumes"] if "persistentVolumeClaim" in each]
    assert spec["automountServiceAccountToken"] is False
    assert "high-availability" not in files["data"]["config.yaml"]
    assert "jobmanager.rpc.address=$POD_IP" in files["data"]["start.sh"]


@pytest.mark.parametrize(
    ("jar", "can_read"), [("/flink-data/jobs/trips.jar", True), ("/opt/trips.jar", False)]
)
async def test_a_trial_reads_the_volume_with_the_state_only_where_the_jar_is_on_it(jar, can_read):
    pods = pods_of()
    jar_there = replace(pods, make=replace(pods.make, jar=jar), revision="r2")

    _, workload = manifests.trial(jar_there)

    volumes = workload["spec"]["template"]["spec"]["volumes"]
    claims = [each["persistentVolumeClaim"] for each in volumes if "persistentVolumeClaim" in each]
    assert claims == ([{"claimName": pods.make.claim, "readOnly": True}] if can_read else [])
