"""The objects of a StreamApp's Flink, made on a real API server by somebody with no more rights
than the controller's rules give.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from tests.api.control_plane import GUEST
from tests.operator.runtime.pods.controller_rules import CONTROLLER_RULES
from tests.operator.streamapp.builders import a_manifest
from weir_operator.api.client import KubernetesApi
from weir_operator.errors import PermanentError
from weir_operator.runtime.pods import manifests, trial
from weir_operator.runtime.pods.configuration import (
    config_map,
    job_manager_files,
    task_manager_files,
)
from weir_operator.runtime.pods.nodes import NodeNotices
from weir_operator.runtime.pods.objects import AppObjects
from weir_operator.runtime.pods.pod_spec import CONTAINER
from weir_operator.runtime.pods.pods import FlinkPods
from weir_operator.runtime.pods.runtime import KubernetesRuntime
from weir_operator.runtime.pods.task_managers import TaskManagerPods
from weir_operator.runtime.revision import AgentImage
from weir_operator.streamapp.loading import parse_manifest
from weir_operator.wiring import assembly

pytestmark = pytest.mark.kubernetes_api

POOLS = [
    {"name": "small", "sizes": ["250m", "500m"], "price": "0.04"},
    {
        "name": "large",
        "sizes": ["1", "2"],
        "memory": "2Gi",
        "price": "0.05",
        "nodeSelector": {"weir.dev/pool": "large"},
        "tolerations": [
            {"key": "dedicated", "value": "streams", "effect": "NoSchedule"},
            {"operator": "Exists", "effect": "PreferNoSchedule"},
        ],
    },
]
TEMPLATE = {
    "metadata": {"labels": {"team": "rides"}, "annotations": {"example.com/scrape": "no"}},
    "spec": {
        "volumes": [{"name": "keys", "secret": {"secretName": "trips-keys"}}],
        "priorityClassName": "streams",
    },
}


@pytest.fixture
async def guest(kube, connected):
    """A client for a user with the controller's rules and no others."""
    await kube.create(
        f"/apis/rbac.authorization.k8s.io/v1/namespaces/{kube.namespace}/roles",
        {"metadata": {"name": "controller"}, "rules": list(CONTROLLER_RULES)},
    )
    await kube.create(
        f"/apis/rbac.authorization.k8s.io/v1/namespaces/{kube.namespace}/rolebindings",
        {
            "metadata": {"name": "controller"},
            "roleRef": {
                "apiGroup": "rbac.authorization.k8s.io",
                "kind": "Role",
                "name": "controller",
            },
            "subjects": [
                {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "guest"}
            ],
        },
    )
    return await connected(GUEST)


@pytest.fixture
def pods_of(kube):
    """Make what a StreamApp's pods are; the StreamApp exists."""

    async def make(**flink):
        manifest = a_manifest(
            flink={"image": "example/trips:1.4", "storage": {"claim": "trips-state"}} | flink,
            nodePools=POOLS,
            operators=[{"name": "match", "managedMemory": "128Mi"}, {"name": "sink"}],
        )
        manifest["metadata"]["namespace"] = kube.namespace
        made = await kube.create(kube.stream_apps, manifest)
        assert made.status == 201, made.message
        return FlinkPods.of(
            parse_manifest(manifest),
            uid=made.body["metadata"]["uid"],
            controller_namespace="weir-system",
        )

    return make


def objects_of(pods):
    """Return everything that a running StreamApp has, in the order it is made."""
    files = config_map(
        pods, pods.job_manager, pods.labels(manifests.JOB_MANAGER), job_manager_files(pods)
    )
    found = [
        *manifests.accounts(pods),
        manifests.network_policy(pods),
        manifests.service(pods),
        manifests.disruption_budget(pods),
        files,
        manifests.job_manager(pods, files["metadata"]["name"]),
    ]
    for operator, pool, size in (("match", "large", "1"), ("sink", "small", "250m")):
        files = config_map(
            pods,
            pods.workload(operator, pool),
            pods.labels(manifests.TASK_MANAGER, operator=operator, pool=pool),
            task_manager_files(pods, operator, pool),
        )
        workload = manifests.task_managers(
            pods, operator, pool, size=size, replicas=2, config_map=files["metadata"]["name"]
        )
        found += [files, workload]
    return found


async def versions(kube, objects, made):
    """Return the resourceVersion of each object."""
    return [
        (await kube.get(objects.path_of(each))).body["metadata"]["resourceVersion"] for each in made
    ]


async def test_the_controllers_rules_are_enough_to_make_everything(kube, guest, pods_of):
    pods = await pods_of(podTemplate=TEMPLATE)
    objects, wanted = AppObjects(guest, pods), objects_of(pods)

    await objects.apply(*wanted)

    for each in wanted:
        found = await kube.get(objects.path_of(each))
        assert found.status == 200, (each["kind"], found.message)
        (owner,) = found.body["metadata"]["ownerReferences"]
        assert (owner["kind"], owner["uid"]) == ("StreamApp", pods.owner.uid)


async def test_applying_what_is_there_already_changes_nothing(kube, guest, pods_of):
    """Else each pass would start a rollout, or at least a storm of watches."""
    pods = await pods_of(podTemplate=TEMPLATE)
    objects, wanted = AppObjects(guest, pods), objects_of(pods)
    await objects.apply(*wanted)
    before = await versions(kube, objects, wanted)

    await objects.apply(*wanted)

    assert await versions(kube, objects, wanted) == before


class Applied:
    """The API server's client, which notes the names of what it is to apply."""

    def __init__(self, api):
        self._api = api
        self.names = []

    async def get(self, path):
        return await self._api.get(path)

    async def apply(self, path, body):
        self.names.append(body["metadata"]["name"])
        return await self._api.apply(path, body)


async def test_what_is_there_already_is_not_applied_again(kube, guest, pods_of):
    """A controller that starts finds the objects of all StreamApps."""
    pods = await pods_of(podTemplate=TEMPLATE)
    api, wanted = Applied(guest), manifests.accounts(pods)
    wanted += (manifests.network_policy(pods), manifests.service(pods))
    wanted += (manifests.disruption_budget(pods),)
    await AppObjects(guest, pods).apply(*wanted)

    await AppObjects(cast(KubernetesApi, api), pods).apply(*wanted)

    assert api.names == []


@pytest.mark.parametrize("change", ["rule", "peer", "selector"])
async def test_what_somebody_has_changed_is_applied_again(kube, guest, pods_of, change):
    pods = await pods_of()
    api, policy = Applied(guest), manifests.network_policy(pods)
    objects = AppObjects(cast(KubernetesApi, api), pods)
    await objects.apply(policy)
    path = objects.path_of(policy)
    made = (await kube.get(path)).body["spec"]
    opened = copy.deepcopy(made)
    match change:
        case "rule":
            opened["ingress"] = [{}]
        case "peer":  # pods of every namespace, instead of the job's own
            opened["ingress"][0]["from"][0]["namespaceSelector"] = {}
        case _:  # of no pod
            opened["podSelector"]["matchLabels"]["team"] = "none"
    changed = await kube.merge(path, {"spec": opened})
    assert changed.status == 200, changed.message

    await objects.apply(policy)

    assert api.names == [pods.account, pods.account]
    assert (await kube.get(path)).body["spec"] == made


NULLS = {
    "spec": {
        "securityContext": dict.fromkeys(
            ("runAsNonRoot", "runAsUser", "runAsGroup", "fsGroup", "seccompProfile")
        ),
        "containers": [
            {"name": CONTAINER, "securityContext": {"capabilities": {"drop": None}}},
        ],
    }
}


@pytest.mark.parametrize("template", [{}, NULLS], ids=["no template", "nulls"])
@pytest.mark.parametrize("agent", [None, AgentImage(image="example/weir:1", digest="0" * 64)])
async def test_pods_are_let_in_where_pod_security_is_restricted(
    kube, guest, pods_of, agent, template
):
    pods = replace(await pods_of(podTemplate=template), agent=agent)
    wanted = objects_of(pods)
    await kube.merge(
        f"/api/v1/namespaces/{kube.namespace}",
        {"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "restricted"}}},
    )

    for each in wanted:
        if each["kind"] not in ("Deployment", "ReplicaSet"):
            continue
        template = each["spec"]["template"]
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": template["metadata"] | {"name": each["metadata"]["name"]},
            "spec": template["spec"],
        }
        answer = await kube.create(f"/api/v1/namespaces/{kube.namespace}/pods", pod)
        assert answer.status == 201, answer.message


async def test_a_pod_can_be_given_another_size_with_the_controllers_rules(kube, guest, pods_of):
    pods = await pods_of()
    (workload,) = [
        each
        for each in objects_of(pods)
        if each["metadata"]["name"] == pods.workload("sink", "small")
    ]
    collection = f"/api/v1/namespaces/{kube.namespace}/pods"
    template = workload["spec"]["template"]
    made = await kube.create(
        collection,
        {"metadata": template["metadata"] | {"name": "sink-1"}, "spec": template["spec"]},
    )
    assert made.status == 201, made.message
    (container,) = made.body["spec"]["containers"]
    cpu = {"cpu": "500m"}

    await guest.patch(
        f"{collection}/sink-1/resize",
        {
            "spec": {
                "containers": [
                    {"name": container["name"], "resources": {"requests": cpu, "limits": cpu}}
                ]
            }
        },
        content_type="application/strategic-merge-patch+json",
    )

    (container,) = (await kube.get(f"{collection}/sink-1")).body["spec"]["containers"]
    assert container["resources"]["requests"]["cpu"] == "500m"
    assert container["resources"]["limits"]["cpu"] == "500m"


async def test_everything_is_deleted_and_what_is_not_weirs_stays(kube, guest, pods_of):
    pods = await pods_of()
    objects, wanted = AppObjects(guest, pods), objects_of(pods)
    await objects.apply(*wanted)
    config_maps = f"/api/v1/namespaces/{kube.namespace}/configmaps"
    await kube.create(config_maps, {"metadata": {"name": "somebody-elses"}})

    await objects.delete_all(timeout=5.0)

    for each in wanted:
        assert (await kube.get(objects.path_of(each))).status == 404, each["kind"]
    assert (await kube.get(f"{config_maps}/somebody-elses")).status == 200


NAMESAKES: Mapping[str, Mapping[str, Any]] = {
    "a ServiceAccount": {},
    "a Role": {"rules": []},
    "a RoleBinding": {
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "other"}
    },
    "a NetworkPolicy": {"spec": {"podSelector": {}}},
    "a Service": {"spec": {"ports": [{"port": 80}]}},
    "a PodDisruptionBudget": {"spec": {"maxUnavailable": 1}},
    "a ConfigMap": {"data": {"theirs": "kept"}},
}
"""What somebody else has made under a name that a StreamApp's own object would get."""


@pytest.mark.parametrize("namesake", NAMESAKES)
async def test_an_object_of_somebody_else_is_refused_and_left_as_it_is(
    kube, guest, pods_of, namesake
):
    pods = await pods_of()
    objects, wanted = AppObjects(guest, pods), objects_of(pods)
    own = next(each for each in wanted if f"a {each['kind']}" == namesake)
    name = own["metadata"]["name"]
    path = objects.path_of(own)
    head = {"apiVersion": own["apiVersion"], "kind": own["kind"], "metadata": {"name": name}}
    made = await kube.create(path.rpartition("/")[0], {**head, **NAMESAKES[namesake]})
    assert made.status == 201, made.message

    with pytest.raises(PermanentError) as refused:
        await objects.apply(*wanted)

    assert str(refused.value) == (
        f"{own['kind']} {name} exists in {kube.namespace}, but Weir did not create it; rename or "
        "delete it, or rename the StreamApp"
    )
    assert (await kube.get(path)).body == made.body
    for each in wanted:
        if each is not own:
            assert (await kube.get(objects.path_of(each))).status == 404, each["kind"]


async def test_old_files_go_and_those_in_use_stay(kube, guest, pods_of):
    pods = await pods_of()
    objects, wanted = AppObjects(guest, pods), objects_of(pods)
    await objects.apply(*wanted)
    old = config_map(
        pods, pods.job_manager, pods.labels(manifests.JOB_MANAGER), {"start.sh": "exit 1"}
    )
    await objects.apply(old)

    await objects.prune_config_maps()

    assert (await kube.get(objects.path_of(old))).status == 404
    for each in wanted:
        assert (await kube.get(objects.path_of(each))).status == 200, each["metadata"]["name"]


def in_container(**fields):
    return {"spec": {"containers": [{"name": "a", "image": "a", **fields}]}}


@pytest.mark.parametrize(
    ("template", "words"),
    [
        ({"metadata": {"labels": {"team": "a b"}}}, 'labels: Invalid value: "a b"'),
        ({"metadata": {"annotations": {"": "a"}}}, "annotations: Invalid value"),
        ({"spec": {"toleration": []}}, ".spec.template.spec.toleration: field not declared"),
        ({"spec": {"affinity": "none"}}, ".spec.template.spec.affinity: expected map, got"),
        (in_container(args="--fast"), ".args: expected list, got"),
        (
            in_container(env=[{"name": "A", "value": 271828}]),
            '.env[name="A"].value: expected string, got another type',
        ),
        (in_container(resources={"limits": {"memory": "1GB"}}), "quantities must match"),
    ],
)
async def test_an_upgrade_to_pods_that_the_api_server_refuses_is_known_before_it(
    kube, guest, pods_of, template, words
):
    pods = await pods_of()
    runtime = KubernetesRuntime(guest, pods, NodeNotices(guest))

    refusal = await runtime.find_misfit(revision_of(podTemplate=template), {"large"}, fits)

    assert refusal.startswith("The API server refused PATCH")
    assert words in refusal
    assert refusal.endswith("; correct the StreamApp")
    assert "271828" not in refusal
    path = AppObjects(guest, pods).path("Deployment")
    assert (await kube.get(path)).body["items"] == []


async def test_an_upgrade_to_pods_that_the_api_server_takes_is_let_through(
    guest, pods_of, monkeypatch
):
    monkeypatch.setattr(trial, "TRIAL_LIMIT", 1.0)  # there is no node that could run a JobManager
    pods = await pods_of()
    runtime = KubernetesRuntime(guest, pods, NodeNotices(guest))

    assert await runtime.find_misfit(revision_of(podTemplate=TEMPLATE), {"large"}, fits) == ""

    objects = AppObjects(guest, pods)
    tried = await guest.get(objects.path("ReplicaSet"))
    assert tried["items"] == [], "that of the JobManager that was tried"
    agent = AgentImage(image="example/weir:1", digest="0" * 64)
    for each in manifests.trial(replace(pods, agent=agent)):
        await objects.check(each)


async def test_a_name_that_somebody_else_has_taken_is_known_before_an_upgrade(kube, guest, pods_of):
    pods = await pods_of()
    runtime = KubernetesRuntime(guest, pods, NodeNotices(guest))
    taken = manifests.job_manager(pods, "config")
    labels = {"app": "of-somebody-else"}
    taken["metadata"] = {"name": taken["metadata"]["name"]}
    taken["spec"]["selector"]["matchLabels"] = labels
    taken["spec"]["template"]["metadata"]["labels"] = labels
    path = AppObjects(guest, pods).path("Deployment")
    assert (await kube.create(path, taken)).status == 201

    refusal = await runtime.find_misfit(revision_of(), {"large"}, fits)

    assert "exists in" in refusal
    assert "but Weir did not create it" in refusal


async def fits(rest_url, jar):
    """A program with which nothing is wrong."""


def revision_of(**flink):
    app = parse_manifest(a_manifest(flink={"image": "trips:1.4"} | flink, nodePools=POOLS))
    return assembly.revision_of(app, assembly.job_spec(app, beside=Path("/")))


async def test_one_task_manager_may_be_evicted_and_is_held_for_its_move(kube, guest, pods_of):
    pods = await pods_of()
    objects = AppObjects(guest, pods)
    budget = manifests.disruption_budget(pods)
    await objects.apply(*manifests.accounts(pods), budget)
    workload = manifests.task_managers(
        pods, "match", "small", size="250m", replicas=2, config_map="files"
    )
    path = f"/api/v1/namespaces/{kube.namespace}/pods"
    template = workload["spec"]["template"]
    for name in ("one", "two"):
        made = await kube.create(
            path,
            {
                "metadata": {**template["metadata"], "name": name},
                "spec": {**template["spec"], "nodeName": "n1"},
            },
        )
        assert made.status == 201, made.message
        running = {"name": CONTAINER, "state": {"running": {}}, "ready": True, "restartCount": 0}
        status = {
            "phase": "Running",
            "conditions": [{"type": "Ready", "status": "True"}],
            "containerStatuses": [{**running, "image": "i", "imageID": "i"}],
        }
        done = await kube.merge(f"{path}/{name}/status", {"status": status})
        assert done.status == 200, done.message
    # As the controller manager would: there is none here.
    at = objects.path_of(budget)
    counted = {
        "observedGeneration": (await kube.get(at)).body["metadata"]["generation"],
        "disruptionsAllowed": budget["spec"]["maxUnavailable"],
        "currentHealthy": 2,
        "desiredHealthy": 1,
        "expectedPods": 2,
    }
    await kube.merge(f"{at}/status", {"status": counted})

    first, second = [
        await kube.create(
            f"{path}/{name}/eviction",
            {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}},
        )
        for name in ("one", "two")
    ]
    one, two = await TaskManagerPods(objects, NodeNotices(guest)).replicas(pods)

    assert (first.status, second.status) == (201, 429)
    assert (one.id, one.evicted, two.id, two.evicted) == ("one", True, "two", False)
    assert one.terminating.startswith("EvictionByEvictionAPI: ")
    assert two.terminating == ""
    kept = (await kube.get(f"{path}/one")).body["metadata"]
    assert kept["deletionGracePeriodSeconds"] == 330
