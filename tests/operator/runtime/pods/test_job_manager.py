"""Bringing a JobManager about, against a cluster in memory and a Flink that answers at once."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
import yaml

from tests.operator.runtime.pods.test_boost import looked_again
from tests.operator.runtime.pods.test_manifests import pods_of
from tests.operator.runtime.pods.test_task_managers import Cluster
from weir_operator.errors import PermanentError, PodsPendingError, TemporaryError
from weir_operator.runtime.pods import job_manager as job_manager_module
from weir_operator.runtime.pods.job_manager import JobManagerPod
from weir_operator.runtime.pods.objects import AppObjects
from weir_operator.runtime.pods.pods import REVISION

DEPLOYMENT = "/apis/apps/v1/namespaces/streams/deployments/trips-jobmanager"
RECOVERY = "/api/v1/namespaces/streams/configmaps/weir-trips-uid-1-cluster-config-map"


class Services(Cluster):
    """A cluster that gives Services their address."""

    guard = None

    def __init__(self) -> None:
        super().__init__()
        self.looks = 0

    async def list(self, path, labels="", fields=""):
        self.looks += 1
        return await super().list(path, labels, fields)

    async def apply(self, path, body, manager="weir", *, dry_run=False):
        await super().apply(path, body, manager)
        if body["kind"] == "Service":
            self.objects[path]["spec"]["clusterIP"] = "10.0.0.7"


class Flink:
    """Flink's REST interface, or the silence in its place."""

    silent = False

    def __init__(self, url, timeout) -> None:
        self.url = url

    async def __aenter__(self):
        return self

    async def __aexit__(self, *error):
        return None

    async def jobs(self):
        if Flink.silent:
            raise TemporaryError("nobody is there")
        return ()


@pytest.fixture
def cluster():
    return Services()


@pytest.fixture
def pods():
    return replace(pods_of(), revision="r1")


@pytest.fixture
def job_manager(cluster, pods, monkeypatch):
    monkeypatch.setattr(job_manager_module, "FlinkRest", Flink)
    monkeypatch.setattr(Flink, "silent", False)
    return JobManagerPod(AppObjects(cluster, pods), pods, lambda: None)


def with_job_manager(pods, **place):
    changed = pods.make.job_manager.model_copy(update=place)
    return replace(pods, make=replace(pods.make, job_manager=changed))


def image(cluster):
    return cluster.objects[DEPLOYMENT]["spec"]["template"]["spec"]["containers"][0]["image"]


def keep_recovery_data(cluster, pods):
    cluster.objects[RECOVERY] = {
        "kind": "ConfigMap",
        "metadata": {
            "name": RECOVERY.rpartition("/")[2],
            "labels": {"app": pods.cluster_id, "type": "flink-native-kubernetes"},
        },
    }


async def test_the_first_start_has_no_session_before_it(job_manager, pods, cluster):
    gone = await job_manager.ensure(pods)

    assert gone
    assert job_manager.rest_url == "http://10.0.0.7:8081"
    assert DEPLOYMENT in cluster.objects


async def test_one_that_runs_is_found_and_its_session_with_it(job_manager, pods, cluster):
    await job_manager.ensure(pods)
    next_controller = JobManagerPod(AppObjects(cluster, pods), pods, lambda: None)

    gone = await next_controller.ensure(pods)

    assert not gone
    assert next_controller.rest_url == "http://10.0.0.7:8081"


async def test_a_weir_that_renders_it_otherwise_leaves_one_that_runs_alone(
    job_manager, pods, cluster
):
    await job_manager.ensure(pods)
    before = cluster.objects[DEPLOYMENT]

    await job_manager.ensure(with_job_manager(pods, cpu="2"))

    assert cluster.objects[DEPLOYMENT] == before


async def test_an_upgrade_makes_it_again(job_manager, pods, cluster):
    await job_manager.ensure(pods)
    upgraded = replace(pods, revision="r2", make=replace(pods.make, image="example/trips:2"))

    gone = await job_manager.ensure(upgraded)

    assert not gone, "the session's jobs are recovered"
    assert image(cluster) == "example/trips:2"


def a_pod(pods, **spec):
    labels = pods.labels("jobmanager") | {REVISION: pods.revision}
    return {
        "kind": "Pod",
        "metadata": {
            "name": f"jm-{pods.revision}",
            "labels": labels,
            "ownerReferences": [{"name": "jm"}],
        },
        "spec": spec,
        "status": {"phase": "Pending"},
    }


def without_a_node(pods):
    waiting = a_pod(pods)
    no_node = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    waiting["status"]["conditions"] = [{**no_node, "message": "0/3 nodes are available"}]
    return waiting


async def test_one_that_begins_is_waited_for_until_it_has_its_place_though_it_does_not_answer(
    job_manager, pods, cluster, monkeypatch
):
    monkeypatch.setattr(job_manager_module, "_POLL", 0.001)
    await job_manager.ensure(pods)
    upgraded = replace(pods, revision="r2", make=replace(pods.make, image="example/trips:2"))
    before, after = (f"/api/v1/namespaces/streams/pods/jm-{each}" for each in ("r1", "r2"))
    cluster.objects[before] = a_pod(pods, nodeName="n1")
    monkeypatch.setattr(Flink, "silent", True)

    begun = asyncio.create_task(job_manager.begin(upgraded))
    await looked_again(cluster)
    assert image(cluster) == "example/trips:2"
    assert not begun.done(), "the one of before could still answer"

    cluster.objects[after] = a_pod(upgraded)
    del cluster.objects[before]
    await looked_again(cluster)
    assert not begun.done(), "it has no node"

    cluster.objects[after]["spec"]["nodeName"] = "n2"
    await asyncio.wait_for(begun, timeout=5.0)


async def test_one_that_begins_and_gets_no_node_is_given_up_with_the_reason(
    job_manager, pods, cluster, monkeypatch
):
    monkeypatch.setattr(job_manager_module, "PENDING_LIMIT", 0.0)
    cluster.objects["/api/v1/namespaces/streams/pods/jm-r1"] = without_a_node(pods)

    with pytest.raises(PodsPendingError, match="0/3 nodes"):
        await job_manager.begin(pods)


async def test_that_a_session_is_gone_is_said_once_whoever_made_the_next(
    job_manager, pods, cluster
):
    cluster.objects["/api/v1/namespaces/streams/pods/jm-r1"] = a_pod(pods, nodeName="n1")
    await job_manager.begin(pods)

    assert await job_manager.ensure(pods)
    assert not await job_manager.ensure(pods)


async def test_one_that_was_deleted_is_made_again_and_takes_up_its_jobs(job_manager, pods, cluster):
    await job_manager.ensure(pods)
    keep_recovery_data(cluster, pods)
    del cluster.objects[DEPLOYMENT]

    gone = await job_manager.ensure(pods)

    assert not gone
    assert DEPLOYMENT in cluster.objects


async def test_without_storage_a_deleted_one_takes_its_jobs_with_it(cluster, job_manager):
    pods = replace(pods_of(storage=None), revision="r1")
    await job_manager.ensure(pods)
    del cluster.objects[DEPLOYMENT]

    gone = await job_manager.ensure(pods)

    assert gone


async def test_what_an_earlier_streamapp_of_the_name_kept_is_not_taken_up(
    job_manager, pods, cluster
):
    keep_recovery_data(cluster, replace(pods, owner=replace(pods.owner, uid="before")))

    gone = await job_manager.ensure(pods)

    assert gone


async def test_what_an_earlier_streamapp_left_is_waited_for(job_manager, pods, cluster):
    await job_manager.ensure(pods)
    later = replace(pods, owner=replace(pods.owner, uid="uid-2"))

    with pytest.raises(TemporaryError, match="StreamApp trips"):
        await JobManagerPod(AppObjects(cluster, later), later, lambda: None).ensure(later)


async def test_a_deployment_of_somebody_else_is_not_taken(job_manager, pods, cluster):
    cluster.objects[DEPLOYMENT] = {
        "kind": "Deployment",
        "metadata": {"name": "trips-jobmanager", "labels": {"app": "other"}},
    }

    with pytest.raises(PermanentError, match="did not create it"):
        await job_manager.ensure(pods)


SERVICE = "/api/v1/namespaces/streams/services/trips-jobmanager"


def a_service(pods, **meta):
    labels = pods.labels("jobmanager")
    return {
        "kind": "Service",
        "metadata": {"name": "trips-jobmanager", "labels": labels, **meta},
        "spec": {"selector": {"app": "other"}},
    }


FOREIGN = {
    "nobody's": {},
    "a person's": {"managedFields": [{"manager": "kubectl", "operation": "Apply"}]},
    "somebody's, whose status Weir has written": {
        "managedFields": [{"manager": "weir", "operation": "Update"}]
    },
    "another kind's": {"ownerReferences": [{"kind": "Job", "name": "trips", "uid": "uid-9"}]},
    "another StreamApp's": {
        "ownerReferences": [{"kind": "StreamApp", "name": "other", "uid": "uid-9"}]
    },
}


@pytest.mark.parametrize("meta", FOREIGN.values(), ids=FOREIGN)
async def test_a_label_alone_does_not_make_an_object_weirs(job_manager, pods, cluster, meta):
    foreign = a_service(pods, **meta)
    cluster.objects[SERVICE] = foreign

    with pytest.raises(PermanentError, match="did not create it"):
        await job_manager.ensure(pods)

    assert cluster.objects == {SERVICE: foreign}


async def test_an_object_of_weirs_that_lost_its_owner_is_taken_back(job_manager, pods, cluster):
    applied = [{"manager": "weir", "operation": "Apply"}]
    cluster.objects[SERVICE] = a_service(pods, managedFields=applied)

    await job_manager.ensure(pods)

    (owner,) = cluster.objects[SERVICE]["metadata"]["ownerReferences"]
    assert owner["uid"] == pods.owner.uid


async def test_a_pod_that_no_node_takes_is_told_instead_of_waited_for(
    job_manager, pods, cluster, monkeypatch
):
    monkeypatch.setattr(Flink, "silent", True)
    monkeypatch.setattr(job_manager_module, "PENDING_LIMIT", 0.0)
    cluster.objects["/api/v1/namespaces/streams/pods/jm-r1"] = without_a_node(pods)

    with pytest.raises(PodsPendingError, match="0/3 nodes"):
        await job_manager.ensure(pods)


@pytest.mark.parametrize(
    "refusal",
    [
        'pods "trips-" is forbidden: exceeded quota: q, requested: pods=1',
        'pods "trips-" is forbidden: error looking up service account streams/nobody',
        'admission webhook "guard" denied the request',
    ],
)
async def test_what_refuses_its_pod_is_told_in_the_servers_words(
    job_manager, pods, cluster, monkeypatch, refusal
):
    await job_manager.ensure(pods)
    monkeypatch.setattr(Flink, "silent", True)
    monkeypatch.setattr(job_manager_module, "PENDING_LIMIT", 0.0)
    failure = {"type": "ReplicaFailure", "status": "True", "message": refusal}
    deployment = cluster.objects[DEPLOYMENT]
    deployment["metadata"]["generation"] = 1
    deployment["status"] = {"observedGeneration": 1, "conditions": [failure]}

    with pytest.raises(PodsPendingError, match="rejects the JobManager") as raised:
        await job_manager.ensure(pods)

    assert refusal in str(raised.value)


async def test_a_silence_without_a_reason_ends(job_manager, pods, monkeypatch):
    monkeypatch.setattr(Flink, "silent", True)
    monkeypatch.setattr(job_manager_module, "START_LIMIT", 0.0)

    with pytest.raises(TemporaryError):
        await job_manager.ensure(pods)


REFUSED = (
    "org.apache.flink.util.FlinkException: Unexpected termination of DispatcherService.\n"
    "Caused by: java.lang.IllegalStateException\n"
    "\tat org.apache.flink.util.Preconditions.checkState(Preconditions.java:177)\n"
    "\tat org.apache.flink.runtime.dispatcher.Dispatcher.onStart(Dispatcher.java:497)\n"
)


def crashing(pods, message):
    """A pod of the JobManager whose last process ended with a message."""
    container = {
        "name": "flink-main-container",
        "state": {"waiting": {"reason": "CrashLoopBackOff"}},
        "lastState": {"terminated": {"exitCode": 239, "message": message}},
    }
    return a_pod(pods) | {"status": {"phase": "Running", "containerStatuses": [container]}}


@pytest.fixture
def crashes(cluster, pods, monkeypatch):
    """Let the JobManager crash as it is told to, until its Deployment is another."""

    def begin(message):
        monkeypatch.setattr(Flink, "silent", True)
        monkeypatch.setattr(job_manager_module, "PENDING_LIMIT", 0.0)
        keep_recovery_data(cluster, pods)
        cluster.objects[RECOVERY]["data"] = {"executionPlan-aa": "x", "leader": "me"}
        cluster.objects["/api/v1/namespaces/streams/pods/jm-r1"] = crashing(pods, message)

        async def jobs(self):
            if job_manager_module.results_of(cluster.objects[DEPLOYMENT]):
                return ()
            raise TemporaryError("nobody is there")

        monkeypatch.setattr(Flink, "jobs", jobs)

    return begin


def results_path(cluster):
    mounted = cluster.objects[DEPLOYMENT]["spec"]["template"]["spec"]["volumes"]
    [name] = [each["configMap"]["name"] for each in mounted if "configMap" in each]
    files = cluster.objects[f"/api/v1/namespaces/streams/configmaps/{name}"]["data"]
    return yaml.safe_load(files["config.yaml"]).get("job-result-store.storage-path", "")


async def test_a_result_that_no_jobmanager_can_start_with_is_left_behind_with_all_jobs(
    job_manager, pods, cluster, crashes
):
    crashes(REFUSED)

    await job_manager.ensure(pods)

    assert cluster.objects[RECOVERY]["data"] == {"executionPlan-aa": None, "leader": "me"}
    assert results_path(cluster).startswith(f"{pods.recovery_folder}/results-")


async def test_an_upgrade_keeps_away_from_the_result_that_was_left(
    job_manager, pods, cluster, crashes
):
    crashes(REFUSED)
    await job_manager.ensure(pods)
    del cluster.objects["/api/v1/namespaces/streams/pods/jm-r1"]
    path = results_path(cluster)
    upgraded = replace(pods, revision="r2", make=replace(pods.make, image="example/trips:2"))

    await JobManagerPod(AppObjects(cluster, upgraded), upgraded, lambda: None).ensure(upgraded)

    assert image(cluster) == "example/trips:2"
    assert results_path(cluster) == path


async def test_any_other_crash_forgets_nothing(job_manager, pods, cluster, crashes):
    crashes("java.lang.OutOfMemoryError: Java heap space")

    with pytest.raises(PodsPendingError, match="CrashLoopBackOff"):
        await job_manager.ensure(pods)

    assert "executionPlan-aa" in cluster.objects[RECOVERY]["data"]
    assert results_path(cluster) == ""


async def test_results_that_the_user_has_put_elsewhere_are_left_to_the_user(
    job_manager, pods, cluster, crashes
):
    crashes(REFUSED)
    config = {"job-result-store.storage-path": "s3://mine"}
    chosen = replace(pods, make=replace(pods.make, config=config))

    with pytest.raises(PodsPendingError, match="CrashLoopBackOff"):
        await job_manager.ensure(chosen)

    assert "executionPlan-aa" in cluster.objects[RECOVERY]["data"]


async def test_what_surrounds_it_is_made_right(job_manager, pods, cluster):
    await job_manager.ensure(pods)
    account = next(path for path in cluster.objects if "/serviceaccounts/" in path)
    role = next(path for path in cluster.objects if "/roles/" in path)
    before = dict(cluster.objects[role])
    del cluster.objects[account]
    cluster.objects[role] = {**before, "rules": []}

    await JobManagerPod(AppObjects(cluster, pods), pods, lambda: None).ensure(pods)

    assert account in cluster.objects
    assert cluster.objects[role]["rules"] == before["rules"]
