"""A second autoscaler on the same job is found and named, with the way to end it."""

from __future__ import annotations

import asyncio

import pytest

from tests.operator.advise.fakes import FakeCluster, blue_green_objects, flink_deployment_objects
from tests.operator.rescale.fakes import FakeClock
from tests.operator.streamapp.builders import a_stream_app
from weir_operator.api.client import RefusedByKubernetesError
from weir_operator.api.objects import Key, Resource
from weir_operator.cluster.app.autoscaler_conflicts import (
    LOOK_EVERY,
    AutoscalerConflicts,
    refuse_scaling,
)
from weir_operator.streamapp.models import Mode

SCALERS = "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers"
SCALED = "/apis/keda.sh/v1alpha1/namespaces/default/scaledobjects"
REPLICA_SETS = "/apis/apps/v1/namespaces/default/replicasets"
MINE = {"app.kubernetes.io/managed-by": "weir", "weir.dev/app": "trips"}
REF = {"kind": "FlinkDeployment", "name": "trips"}


def a_scaler(name, kind, target, *, owner=None):
    return {
        "metadata": {"name": name, "ownerReferences": [{"kind": owner}] if owner else []},
        "spec": {"scaleTargetRef": {"kind": kind, "name": target} if kind else {"name": target}},
    }


async def find_beside(*, horizontal=(), keda=(), flink=None, app=None):
    """Return what scales a job beside Weir: its own one, or one that `flink`'s objects are."""
    own = [{"metadata": {"name": "trips-match-small", "labels": MINE}}]
    objects = {SCALERS: horizontal, SCALED: keda, REPLICA_SETS: own, **(flink or {})}
    app = app or a_stream_app(**({"mode": "Advise", "flink": {"ref": REF}} if flink else {}))
    return await AutoscalerConflicts(FakeCluster(objects), clock=FakeClock()).find(app)


async def test_a_job_that_weir_alone_scales_has_no_other_autoscaler():
    other = a_scaler("web", "Deployment", "trips-match-small")

    assert await find_beside(horizontal=[other]) == ()  # of that name, but of another kind


async def test_an_hpa_on_a_workload_of_the_app_is_named():
    [found] = await find_beside(horizontal=[a_scaler("busy", "ReplicaSet", "trips-match-small")])

    assert found.startswith("HorizontalPodAutoscaler busy scales ReplicaSet trips-match-")


@pytest.mark.parametrize(("mode", "refusal"), [(Mode.AUTO, "a; b"), (Mode.ADVISE, "")])
def test_scaling_is_refused_and_advice_is_not(mode, refusal):
    assert refuse_scaling(mode, {"b", "a"}) == refusal


async def test_keda_is_named_once_though_it_makes_an_hpa_of_its_own():
    made = a_scaler("keda-hpa-lag", "Deployment", "trips-taskmanager", owner="ScaledObject")

    [found] = await find_beside(
        keda=[a_scaler("lag", None, "trips-taskmanager")],
        horizontal=[made],
        flink=flink_deployment_objects(),
    )

    assert found.startswith("ScaledObject lag ")


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("job.autoscaler.enabled", "true"),
        ("kubernetes.operator.job.autoscaler.enabled", "true"),
        ("scheduler-mode", "reactive"),
    ],
)
async def test_flinks_own_autoscaler_is_told_of_and_advice_goes_on(key, value):
    on, off = [
        await find_beside(flink=flink_deployment_objects(**{key: each}))  # type: ignore[arg-type]
        for each in (value.upper(), "false")
    ]

    assert [f"{key}: {value}" in each for each in on] == [True]
    assert off == ()


@pytest.mark.parametrize(
    ("ref", "kind", "target"),
    [
        ("FlinkDeployment", "FlinkDeployment", "trips"),
        ("FlinkDeployment", "Deployment", "trips-taskmanager"),
        ("FlinkBlueGreenDeployment", "FlinkDeployment", "trips-green"),
        ("FlinkBlueGreenDeployment", "Deployment", "trips-blue-taskmanager"),
    ],
)
async def test_whatever_scales_a_flink_deployment_is_found(ref, kind, target):
    pair = blue_green_objects("ACTIVE_BLUE", blue=1, green=2)
    flink = flink_deployment_objects() if ref == "FlinkDeployment" else pair
    app = a_stream_app(mode="Advise", flink={"ref": {"kind": ref, "name": "trips"}})

    [found] = await find_beside(horizontal=[a_scaler("hpa", kind, target)], flink=flink, app=app)

    assert found.startswith("HorizontalPodAutoscaler hpa ")


async def test_no_autoscaler_is_found_of_a_kind_that_is_missing_or_forbidden():
    class Closed(FakeCluster):
        async def list(self, path, labels="", fields=""):
            if path == SCALERS:
                raise RefusedByKubernetesError("horizontalpodautoscalers is forbidden", 403)
            return await super().list(path, labels, fields)

    assert await AutoscalerConflicts(Closed({}), clock=FakeClock()).find(a_stream_app()) == ()


@pytest.fixture
def rivals(api, clock):
    return AutoscalerConflicts(api, clock=clock)


def put_scaler(api, target):
    reference = {"kind": "ReplicaSet", "name": target}
    body = {"metadata": {"name": "hpa"}, "spec": {"scaleTargetRef": reference}}
    api.put(f"{SCALERS}/hpa", body)


async def test_an_autoscaler_that_only_its_configmap_shows_is_found():
    objects = flink_deployment_objects()
    path = "/apis/flink.apache.org/v1beta1/namespaces/default/flinkdeployments/trips"
    objects[path]["metadata"]["namespace"] = "default"
    clock = FakeClock(1_000_000.0)
    meta = {"name": "autoscaler-trips", "managedFields": [{"time": "1970-01-12T13:46:00Z"}]}
    objects["/api/v1/namespaces/default/configmaps/autoscaler-trips"] = {"metadata": meta}
    app = a_stream_app(mode="Auto", flink={"ref": {"kind": "FlinkDeployment", "name": "trips"}})
    search = AutoscalerConflicts(FakeCluster(objects), clock=clock)

    [found] = await search.find(app)
    clock.set_by(3600.0)
    later = await search.find(app)

    assert "autoscaler-trips" in found
    assert later == ()


async def test_many_apps_of_a_namespace_take_one_look(api, rivals):
    for _ in range(50):
        await rivals.find(a_stream_app())

    assert api.calls.count(("list", SCALERS)) == 1


async def test_a_later_look_sees_what_is_new(api, clock, rivals):
    await rivals.find(a_stream_app())
    api.put(f"{REPLICA_SETS}/trips-match-small", {"metadata": {"name": "trips-match-small"}})
    put_scaler(api, "trips-match-small")
    clock.time += LOOK_EVERY

    assert len(await rivals.find(a_stream_app())) == 1


async def test_a_look_that_failed_is_made_again_and_tells_nothing_meanwhile(api):
    api.put(f"{REPLICA_SETS}/trips-match-small", {"metadata": {"name": "trips-match-small"}})
    put_scaler(api, "trips-match-small")
    api.away = True

    class TwoLooks(FakeClock):
        async def sleep(self, seconds):
            if not api.away:
                raise asyncio.CancelledError
            api.away = False
            await super().sleep(seconds)

    told: list[tuple[object, ...]] = []
    with pytest.raises(asyncio.CancelledError):
        await AutoscalerConflicts(api, clock=TwoLooks()).watch(a_stream_app(), told.append)

    assert [len(found) for found in told] == [1]


def advised(name, namespace="default", job="trips"):
    return Resource.of(
        {
            "metadata": {"namespace": namespace, "name": name, "uid": name},
            "spec": {"flink": {"ref": {"kind": "FlinkDeployment", "name": job}}},
        }
    )


async def test_two_stream_apps_for_one_job_are_told_of_each_other_until_one_is_gone():
    rivals = AutoscalerConflicts(FakeCluster(flink_deployment_objects()), clock=FakeClock())
    app = a_stream_app(mode="Advise", flink={"ref": REF})
    for each in (
        advised("trips"),
        advised("trips-again"),
        advised("trips-there", namespace="elsewhere"),
        advised("shop", job="shop"),
    ):
        rivals.note(each)

    found = await rivals.find(app)
    rivals.forget(Key("default", "trips-again"))
    later = await rivals.find(app)

    assert [each.split()[:2] for each in found] == [["StreamApp", "trips-again"]]
    assert later == ()
