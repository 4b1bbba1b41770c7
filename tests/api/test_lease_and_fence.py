"""Two controllers at once: what the Lease and the fenced status promise, on a real API server."""

from __future__ import annotations

import asyncio

import pytest

from tests.api.fault_proxy import Drop, LoseAnswer
from tests.operator.rescale.fakes import TurnTakingClock
from tests.operator.streamapp.builders import a_manifest
from weir_operator.api.leader import Leader, LeaseLostError, LeaseSettings
from weir_operator.api.objects import Resource
from weir_operator.clock import SystemClock
from weir_operator.cluster.status.store import KubernetesStatusStore, StatusClient
from weir_operator.rescale.status import AppStatus

pytestmark = pytest.mark.kubernetes_api


TIMES = LeaseSettings(namespace="", identity="")
"""The defaults."""


@pytest.fixture
def leader(api, kube):
    """Make a candidate for the namespace's Lease."""

    def make(identity, clock=None, **times):
        settings = LeaseSettings(namespace=kube.namespace, identity=identity, **times)
        return Leader(api, settings, clock=clock or SystemClock())

    return make


async def lease(kube):
    path = f"/apis/coordination.k8s.io/v1/namespaces/{kube.namespace}/leases/weir-controller"
    return (await kube.get(path)).body["spec"]


async def test_of_many_candidates_one_at_a_time_gets_the_lease(leader, kube):
    candidates = [leader(f"pod-{number}", retry_every=0.01) for number in range(5)]
    waiting = {asyncio.create_task(each.acquire()) for each in candidates}

    served = []
    while waiting:
        done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        assert len(done) == 1
        (holder,) = [each for each in candidates if each.holds]
        served.append((await lease(kube))["holderIdentity"])
        await holder.release()

    assert sorted(served) == [f"pod-{number}" for number in range(5)]


async def test_a_lost_answer_is_no_lost_lease_but_a_server_that_stays_away_is(leader, proxy):
    clock = TurnTakingClock()
    holder = leader("holder", clock)
    await holder.acquire()
    proxy.inject(LoseAnswer(method="PUT", path="leases"))
    keeping = asyncio.create_task(holder.keep())
    while proxy.count("PUT", "leases") < 4:
        assert not keeping.done(), keeping
        await asyncio.sleep(0.01)
    assert holder.holds

    renewed = clock.now()
    proxy.inject(Drop(path="leases", times=None))
    with pytest.raises(LeaseLostError):
        await keeping

    assert not holder.holds
    assert clock.now() - renewed < TIMES.duration, "another may hold it by now"


@pytest.fixture
async def resource(kube):
    made = await kube.create(kube.stream_apps, a_manifest())
    return Resource.of(made.body)


async def an_open_writer(api, resource, fence):
    writer = StatusClient(api, resource, fence)
    await writer.open()
    return writer


async def controller_status(kube):
    return (await kube.get(f"{kube.stream_apps}/trips")).body["status"]["controller"]


async def test_a_status_whose_answer_was_lost_is_written_once_and_kept(
    api, proxy, kube, leader, resource
):
    holder = leader("holder")
    await holder.acquire()
    store = KubernetesStatusStore(await an_open_writer(api, resource, holder))
    proxy.inject(LoseAnswer(method="PUT", path="status"))

    await store.save(AppStatus(job_id="j", restore_path="s3://bucket/42"))

    assert (await controller_status(kube))["restore_path"] == "s3://bucket/42"
    assert store.load().restore_path == "s3://bucket/42"
