"""Where a foreign job is found in the cluster, and what its pods cost."""

import pytest

from tests.operator.advise.fakes import (
    FakeCluster,
    a_pod,
    a_service,
    blue_green_objects,
    flink_deployment_objects,
)
from tests.operator.streamapp.builders import a_stream_app
from weir_operator.advise.reference import (
    find_reference,
    job_manager_places,
    place_task_managers,
    pool_of,
)
from weir_operator.errors import PermanentError, TemporaryError
from weir_operator.flink.answers import TaskManager

DEPLOYMENT = "/apis/apps/v1/namespaces/default/deployments/jobmanager"
SERVICES = "/api/v1/namespaces/default/services"
PODS = "/api/v1/namespaces/default/pods"
POOLS = [
    {"name": "any", "price": "0.1"},
    {"name": "small", "nodeSelector": {"weir.dev/pool": "small"}, "price": "0.04"},
    {
        "name": "small-arm",
        "nodeSelector": {"weir.dev/pool": "small", "kubernetes.io/arch": "arm64"},
        "price": "0.03",
    },
]


def an_app(kind="FlinkDeployment", name="trips"):
    return a_stream_app(mode="Advise", flink={"ref": {"kind": kind, "name": name}}, nodePools=POOLS)


def a_deployment(annotations=None):
    labels = {"app": "flink", "component": "jobmanager"}
    return {
        "metadata": {"name": "jobmanager", "annotations": annotations},
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels | {"version": "7"}}},
        },
    }


def selecting(service, selector):
    service["spec"]["selector"] = selector
    return service


def a_task_manager(name, host="10.1.2.3", cores=4):
    return TaskManager(id=name, slots=2, extended_resources={}, host=host, cores=cores)


async def test_a_flink_deployment_is_reached_through_its_rest_service():
    objects = flink_deployment_objects(port=8081, **{"job.autoscaler.enabled": "true"})

    found = await find_reference(FakeCluster(objects), an_app())

    assert found.rest_url == "http://127.0.0.1:8081"
    assert found.configuration == {"job.autoscaler.enabled": "true"}


async def test_a_headless_service_is_reached_by_its_name():
    objects = flink_deployment_objects()
    objects[f"{SERVICES}/trips-rest"] = a_service(ip="None")

    found = await find_reference(FakeCluster(objects), an_app())

    assert found.rest_url == "http://trips-rest.default.svc:8081"


async def test_what_the_reference_names_must_exist():
    with pytest.raises(PermanentError, match="flinkdeployments/nights"):
        await find_reference(FakeCluster({}), an_app(name="nights"))


@pytest.mark.parametrize(
    ("state", "name"), [("ACTIVE_BLUE", "trips-blue"), ("ACTIVE_GREEN", "trips-green")]
)
async def test_the_active_one_of_a_blue_green_deployment_is_followed(state, name):
    objects = blue_green_objects(state, blue=8081, green=9091)

    found = await find_reference(FakeCluster(objects), an_app("FlinkBlueGreenDeployment"))

    assert found.rest_url == f"http://127.0.0.1:{8081 if name == 'trips-blue' else 9091}"
    assert found.job_manager_labels == f"app={name},component=jobmanager"
    assert found.deployment is not None
    assert found.deployment.name == name


@pytest.mark.parametrize("state", ["TRANSITIONING_TO_GREEN", None])
async def test_a_blue_green_deployment_without_an_active_one_is_waited_for(state):
    objects = blue_green_objects(state, blue=8081, green=9091)

    with pytest.raises(TemporaryError, match=f"expected ACTIVE_BLUE .*, got {state or 'none'}"):
        await find_reference(FakeCluster(objects), an_app("FlinkBlueGreenDeployment"))


async def test_a_deployment_is_reached_through_the_service_that_selects_its_pods():
    other = selecting(a_service("queue", port=8081), {"app": "queue"})
    metrics = selecting(a_service("metrics", port=9249), {"app": "flink"})
    metrics["spec"]["ports"][0]["name"] = "metrics"
    rest = selecting(a_service("flink", port=80), {"app": "flink", "component": "jobmanager"})
    cluster = FakeCluster({DEPLOYMENT: a_deployment(), SERVICES: [other, metrics, rest]})

    found = await find_reference(cluster, an_app("Deployment", "jobmanager"))

    assert found.rest_url == "http://127.0.0.1:80"
    assert found.job_manager_labels == "app=flink,component=jobmanager"


async def test_a_deployment_without_such_a_service_says_how_to_name_one():
    cluster = FakeCluster({DEPLOYMENT: a_deployment(), SERVICES: []})

    with pytest.raises(PermanentError, match=r"weir\.dev/rest-service"):
        await find_reference(cluster, an_app("Deployment", "jobmanager"))


async def test_an_annotation_names_the_service_and_its_port():
    deployment = a_deployment({"weir.dev/rest-service": "web:9000"})
    cluster = FakeCluster({DEPLOYMENT: deployment, f"{SERVICES}/web": a_service("web", port=1)})

    found = await find_reference(cluster, an_app("Deployment", "jobmanager"))

    assert found.rest_url == "http://127.0.0.1:9000"


@pytest.mark.parametrize(
    "note",
    [
        "../../kube-system/services/etcd-admin:2379",
        "../pods/secret",
        "a%2F..%2Fb",
        "web?watch=true",
        "web:9000:1",
        "web:http",
        "web:0",
        "web:99999",
        "web:",
        "Web",
        "",
        "w" * 64,
    ],
)
async def test_an_annotation_that_names_no_service_is_refused_and_nothing_is_asked_for(note):
    cluster = FakeCluster({DEPLOYMENT: a_deployment({"weir.dev/rest-service": note})})

    with pytest.raises(PermanentError, match="NAME:PORT"):
        await find_reference(cluster, an_app("Deployment", "jobmanager"))

    assert cluster.asked == [DEPLOYMENT]


async def test_a_service_that_stands_for_a_name_elsewhere_is_refused():
    service = {**a_service("web"), "spec": {"type": "ExternalName", "externalName": "etcd.local"}}
    deployment = a_deployment({"weir.dev/rest-service": "web:2379"})
    cluster = FakeCluster({DEPLOYMENT: deployment, f"{SERVICES}/web": service})

    with pytest.raises(PermanentError, match="ExternalName"):
        await find_reference(cluster, an_app("Deployment", "jobmanager"))


async def test_a_task_manager_is_placed_by_the_name_or_the_address_of_its_pod():
    nodes = {
        "/api/v1/nodes/node-1": {"metadata": {"labels": {"weir.dev/pool": "small"}}},
        "/api/v1/nodes/node-2": {"metadata": {"labels": {}}},
    }
    pods = [a_pod("tm-a", cpu="1500m"), a_pod("tm-x", cpu="500m", node="node-2", ip="10.1.2.9")]
    cluster = FakeCluster({PODS: pods, **nodes})
    members = [a_task_manager("tm-a"), a_task_manager("10.1.2.9:6122-4f2a", host="10.1.2.9")]

    places = await place_task_managers(cluster, "default", members, an_app().spec.node_pools)

    assert [(each.pool, each.cores) for each in places.values()] == [("small", 1.5), ("any", 0.5)]


async def test_where_nodes_may_not_be_read_the_pods_own_selector_tells_the_pool():
    pod = a_pod("tm-a")
    pod["spec"]["nodeSelector"] = {"weir.dev/pool": "small"}

    places = await place_task_managers(
        FakeCluster({PODS: [pod]}), "default", [a_task_manager("tm-a")], an_app().spec.node_pools
    )

    assert places["tm-a"].pool == "small"


async def test_a_pod_that_asks_for_no_cpu_has_what_its_jvm_sees():
    cluster = FakeCluster({PODS: [a_pod("tm-a", cpu=None)]})

    places = await place_task_managers(
        cluster, "default", [a_task_manager("tm-a", cores=4)], an_app().spec.node_pools
    )

    assert places["tm-a"].cores == 4


async def test_the_job_managers_pods_are_paid_for_too():
    cluster = FakeCluster(flink_deployment_objects())
    app = an_app()

    (place,) = await job_manager_places(
        cluster, await find_reference(cluster, app), app.spec.node_pools
    )

    assert (place.pool, place.cores) == ("small", 1.0)


def test_the_pool_whose_selector_says_most_wins():
    labels = {"weir.dev/pool": "small", "kubernetes.io/arch": "arm64"}

    assert pool_of(labels, an_app().spec.node_pools) == "small-arm"
    assert pool_of({}, an_app().spec.node_pools) == "any"
