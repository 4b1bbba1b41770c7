"""Other autoscalers are looked for, and one look serves a namespace."""

from __future__ import annotations

import asyncio

import pytest

from tests.operator.advise.fakes import FakeCluster, flink_deployment_objects
from tests.operator.rescale.fakes import FakeClock
from tests.operator.streamapp.builders import a_stream_app
from weir_operator.api.objects import Key, Resource
from weir_operator.cluster.app.autoscaler_conflicts import LOOK_EVERY, AutoscalerConflicts

SCALERS = "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers"
REPLICA_SETS = "/apis/apps/v1/namespaces/default/replicasets"


@pytest.fixture
def rivals(api, clock):
    return AutoscalerConflicts(api, clock=clock)


def put_scaler(api, target):
    reference = {"kind": "ReplicaSet", "name": target}
    body = {"metadata": {"name": "hpa"}, "spec": {"scaleTargetRef": reference}}
    api.put(f"{SCALERS}/hpa", body)


async def test_a_scaler_of_weirs_own_workload_is_found(api, rivals):
    app = a_stream_app()
    api.put(f"{REPLICA_SETS}/trips-match-small", {"metadata": {"name": "trips-match-small"}})
    put_scaler(api, "trips-match-small")

    [found] = await rivals.find(app)

    assert "hpa" in found


async def test_a_scaler_of_something_else_is_none(api, rivals):
    put_scaler(api, "shop")

    assert await rivals.find(a_stream_app()) == ()


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


REF = {"kind": "FlinkDeployment", "name": "trips"}


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
