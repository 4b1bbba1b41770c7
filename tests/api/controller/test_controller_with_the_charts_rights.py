"""The controller works with the rights that the chart gives it, and has no others."""

from __future__ import annotations

import asyncio
import json
import time

import pytest

from tests.api.control_plane import GUEST
from tests.helm.program import render_chart
from weir_operator.api.client import RefusedByKubernetesError
from weir_operator.api.objects import collection
from weir_operator.clock import SystemClock
from weir_operator.cluster.process import handlers, health, process, reconcile
from weir_operator.cluster.process.removal import stop_controllers
from weir_operator.errors import TemporaryError

pytestmark = pytest.mark.kubernetes_api

RBAC = "/apis/rbac.authorization.k8s.io/v1"
PATHS = {
    "Role": "/namespaces/{}/roles",
    "RoleBinding": "/namespaces/{}/rolebindings",
    "ClusterRole": "/clusterroles",
    "ClusterRoleBinding": "/clusterrolebindings",
}
SUBJECTS = [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "guest"}]


def rights(namespace, *, watched=(), finalizers=True, hooks=False):
    """Return the chart's roles and bindings for a controller of its own namespace, or of others.

    With `hooks`, those of what `helm uninstall` runs first.
    """
    found = render_chart(
        namespace,
        *("--set-json", f"watchNamespaces={json.dumps(watched)}"),
        *("--set", f"rbac.finalizers={json.dumps(finalizers)}"),
    )
    return [each for each in found if each["kind"] in PATHS and is_hook(each) is hooks]


def is_hook(each):
    return "helm.sh/hook" in each["metadata"].get("annotations", {})


async def grant(kube, objects):
    """Bind the chart's roles to the user `guest`; return the paths of what was made."""
    paths = []
    for each in objects:
        if "subjects" in each:
            each["subjects"] = SUBJECTS
        place = PATHS[each["kind"]].format(each["metadata"].get("namespace", ""))
        paths.append(f"{RBAC}{place}/{each['metadata']['name']}")
        made = await kube.apply(paths[-1], each)
        assert made.status in (200, 201), made.message
    return paths


@pytest.fixture
async def grant_for_now(kube):
    """Grant as `grant` does; what is not of a namespace is taken away after the test."""
    paths = []

    async def grant_and_note(objects):
        made = await grant(kube, objects)
        paths.extend(made)
        return made

    yield grant_and_note
    for path in paths:
        if "/namespaces/" not in path:
            await kube.delete(path)


@pytest.fixture
async def bench_with_the_charts_rights(bench, kube, control_plane, tmp_path, monkeypatch):
    """The bench; its controllers are the user `guest`, to whom the chart's roles are bound."""
    await grant(kube, rights(kube.namespace))
    folder = tmp_path / "guest"
    folder.mkdir()
    config = str(control_plane.kubeconfig(folder, token=GUEST))
    monkeypatch.setenv("KUBECONFIG", config)
    monkeypatch.setattr("kubernetes.aio.config.kube_config.KUBE_CONFIG_DEFAULT_LOCATION", config)
    return bench


async def test_a_job_is_brought_up_and_ended(bench_with_the_charts_rights):
    bench = bench_with_the_charts_rights
    await bench.bring_up()

    await bench.delete()

    assert "FinalSavepoint" in await bench.events()
    canary = await bench.app("weir-canary")
    assert canary["metadata"]["labels"]["weir.dev/canary"] == "true"
    assert "finalizers" not in canary["metadata"]  # it would outlive the controller
    assert "canary" in canary["status"]["lastAction"]


async def test_a_watched_namespace_that_is_gone_costs_no_other_one_anything(
    bench_with_the_charts_rights, bench_beside, monkeypatch
):
    """The chart's Role in it goes with it, and without `rbac.finalizers` all is refused there."""
    monkeypatch.setattr(handlers, "PAUSES", (0.5,))
    monkeypatch.setattr(handlers, "WATCH_LASTS", 2)
    monkeypatch.setattr(handlers, "TRY_DELETION_AGAIN", 1.0)
    monkeypatch.setattr(process, "LIST_EVERY", 1.0)
    monkeypatch.setattr(reconcile, "PASS_EVERY", 1.0)
    monkeypatch.setattr(health, "LOOK_EVERY", 1.0)
    monkeypatch.setattr(health, "MAX_PASS_AGE", 15.0)
    bench, beside = bench_with_the_charts_rights, bench_beside
    names = [bench.kube.namespace, beside.kube.namespace]
    made = await grant(bench.kube, rights(names[0], watched=names, finalizers=False))
    one = bench.start(namespaces=names[1:])
    await bench.create("trips")
    await beside.create("rides")
    await bench.until_ready(name="trips")
    await beside.until_ready(name="rides")

    [binding] = [path for path in made if f"{names[1]}/rolebindings" in path]
    await bench.kube.delete(binding)
    refused = time.monotonic()
    await beside.kube.delete(f"{beside.kube.stream_apps}/rides")

    async def lists_are_refused():
        page = await bench.ask(one, "metrics")
        return (
            f'weir_watch_refused{{namespace="{names[1]}"}} 1.0' in page
            and f'weir_watch_refused{{namespace="{names[0]}"}} 0.0' in page
            and 'weir_background_task_failures_total{task="lists"}' in page
            and 'weir_background_task_failures_total{task="kopf"}' in page
        )

    await bench.until(lists_are_refused, "expected lists of the namespace to be refused")
    await bench.create("late")
    await bench.until_ready(name="late")
    # For longer than a watch lasts, than kopf's own nine tries, and than a pass may be old.
    await asyncio.sleep(max(0.0, refused + 20.0 - time.monotonic()))
    await bench.create("later")
    await bench.until_ready(name="later")
    assert one.failure is None
    assert one.terms == 1
    assert await beside.app("rides") is not None

    await grant(bench.kube, [each for each in rights(names[0], watched=names) if
                             each["metadata"].get("namespace") == names[1]])  # fmt: skip

    await beside.until_gone("rides")
    assert bench.dependencies.of["rides"].positions, "its last savepoint"
    assert one.failure is None


@pytest.mark.parametrize("away", [False, True], ids=["at once", "by a controller started later"])
async def test_a_streamapp_of_a_namespace_that_is_deleted_is_released(
    bench_with_the_charts_rights, bench_beside, grant_for_now, away
):
    """Kubernetes deletes the chart's Role there in the pass in which it deletes the StreamApp."""
    bench, beside = bench_with_the_charts_rights, bench_beside
    names = [bench.kube.namespace, beside.kube.namespace]
    made = await grant_for_now(rights(names[0], watched=names))
    one = bench.start(namespaces=names[1:])
    await bench.create("trips")
    await beside.create("rides")
    await bench.until_ready(name="trips")
    await beside.until_ready(name="rides")
    if away:
        await bench.stop()

    await bench.kube.delete(f"/api/v1/namespaces/{names[1]}")
    for path in made:
        if f"/namespaces/{names[1]}/" in path:
            await bench.kube.delete(path)
    await beside.kube.delete(f"{beside.kube.stream_apps}/rides")
    if away:
        one = bench.start(namespaces=names[1:])

    await beside.until_gone("rides")
    await bench.until_ready(name="trips")
    assert one.failure is None


async def test_a_controller_of_the_whole_cluster_reaches_every_namespace_and_no_other_one_does(
    kube, connected
):
    guest = await connected(GUEST)
    await grant(kube, rights(kube.namespace))
    with pytest.raises(RefusedByKubernetesError, match="cannot list"):
        await guest.list(collection(None))

    made = await grant(kube, rights(kube.namespace, watched=["*"]))
    try:
        everywhere = await granted(guest, collection(None), "/api/v1/pods", "/api/v1/nodes")
    finally:
        for path in made:
            await kube.delete(path)

    assert everywhere == [True, True, True]


async def test_a_controller_of_one_namespace_reads_that_namespace_and_no_other_one(kube, connected):
    guest = await connected(GUEST)
    await grant(kube, rights(kube.namespace))
    await granted(guest, f"/api/v1/namespaces/{kube.namespace}/pods")

    found = await guest.get(f"/api/v1/namespaces/{kube.namespace}")

    assert found["metadata"]["name"] == kube.namespace
    with pytest.raises(RefusedByKubernetesError, match="cannot get"):
        await guest.get("/api/v1/namespaces/kube-system")


LABELS = {"app.kubernetes.io/name": "weir"}
CONTAINERS = {"containers": [{"name": "controller", "image": "weir"}]}
CONTROLLERS = {
    "metadata": {"name": "weir"},
    "spec": {
        "replicas": 1,
        "selector": {"matchLabels": LABELS},
        "template": {"metadata": {"labels": LABELS}, "spec": CONTAINERS},
    },
}


def a_pod(name, labels=LABELS):
    return {"metadata": {"name": name, "labels": labels}, "spec": CONTAINERS}


async def test_the_hook_of_the_removal_waits_for_the_end_of_the_controllers_pods(kube, connected):
    guest = await connected(GUEST)
    await grant(kube, rights(kube.namespace, hooks=True))
    place = f"/apis/apps/v1/namespaces/{kube.namespace}/deployments"
    pods = f"/api/v1/namespaces/{kube.namespace}/pods"
    await granted(guest, pods)
    await kube.create(place, CONTROLLERS)
    account = f"/api/v1/namespaces/{kube.namespace}/serviceaccounts"
    await kube.create(account, {"metadata": {"name": "default"}})  # as its controller would
    for pod in (a_pod("weir-0"), a_pod("other", {})):
        assert (await kube.create(pods, pod)).status == 201

    removing = asyncio.create_task(
        stop_controllers(
            guest, namespace=kube.namespace, deployment="weir", limit=30.0, clock=SystemClock()
        )
    )
    ended, _ = await asyncio.wait({removing}, timeout=2.0)
    wanted = (await kube.get(f"{place}/weir")).body["spec"]["replicas"]
    await kube.ask("DELETE", f"{pods}/weir-0", {"gracePeriodSeconds": 0})
    await removing

    assert not ended
    assert wanted == 0
    assert (await kube.create(pods, a_pod("weir-1"))).status == 201
    with pytest.raises(TemporaryError, match=r"still there: weir-1; uninstall with --no-hooks"):
        await stop_controllers(
            guest, namespace=kube.namespace, deployment="weir", limit=0.0, clock=SystemClock()
        )


async def test_the_hook_of_the_removal_does_nothing_where_there_is_no_controller(kube, connected):
    guest = await connected(GUEST)
    await grant(kube, rights(kube.namespace, hooks=True))
    await granted(guest, f"/api/v1/namespaces/{kube.namespace}/pods")

    await stop_controllers(
        guest, namespace=kube.namespace, deployment="weir", limit=1.0, clock=SystemClock()
    )


async def granted(guest, *paths):
    """Return which of these collections may be listed, once the API server knows of the roles."""
    async with asyncio.timeout(30):
        while True:
            found = [await may_list(guest, path) for path in paths]
            if all(found):
                return found
            await asyncio.sleep(0.1)


async def may_list(guest, path):
    try:
        await guest.list(path)
    except RefusedByKubernetesError:
        return False
    return True
