"""Two installations that watch the same StreamApp: one looks after it."""

from __future__ import annotations

import asyncio
from inspect import signature

import pytest

from tests.operator.api.memory_api import MemoryApi
from tests.operator.cluster.process.two_controllers import PATH, OpenFence
from weir_operator.api.client import KubernetesApi, RefusedByKubernetesError
from weir_operator.api.leader import LeaseLostError
from weir_operator.api.objects import Resource
from weir_operator.cluster.status.ownership import ANNOTATION, ManagedElsewhereError
from weir_operator.cluster.status.store import (
    CONFIRMED_FOR,
    SETTLE,
    KubernetesStatusStore,
    StatusClient,
)

FIRST, SECOND = "weir-a/weir-controller", "weir-b/weir-controller"
LEASE = "/apis/coordination.k8s.io/v1/namespaces/weir-a/leases/weir-controller"


@pytest.fixture
def api():
    api = MemoryApi()
    api.put(PATH, {"metadata": {"namespace": "streams", "name": "trips", "uid": "u1"}, "spec": {}})
    renew(api, holder="weir-a-0")
    return api


def renew(api, *, holder, duration=30.0):
    spec = {"holderIdentity": holder, "leaseDurationSeconds": duration}
    api.put(LEASE, {"metadata": {"name": "weir-controller"}, "spec": spec})


def writer_of(api, home, term=""):
    fence = OpenFence(term or home, home)
    return StatusClient(api, Resource.of(api.objects[PATH]), fence)


async def managed_by_first(api):
    writer = writer_of(api, FIRST)
    await writer.open()
    return writer


def home(api):
    return api.objects[PATH]["status"]["controller"]["home"]


async def test_whoever_opens_a_stream_app_first_looks_after_it(api):
    await managed_by_first(api)

    with pytest.raises(ManagedElsewhereError, match=r"weir-a/weir-controller.*watchNamespaces"):
        await writer_of(api, SECOND).open()

    assert home(api) == FIRST


async def test_a_newer_controller_of_the_same_installation_takes_over(api):
    await managed_by_first(api)

    await writer_of(api, FIRST, term="later").open()

    assert api.objects[PATH]["status"]["controller"]["writer"] == "later"


async def test_the_home_outlives_what_the_controller_writes(api):
    store = KubernetesStatusStore(await managed_by_first(api))

    await store.save(store.load().model_copy(update={"job_id": "j1"}))

    assert home(api) == FIRST


@pytest.mark.parametrize(
    "damaged",
    [
        "weir-a",
        "weir-a/",
        "weir-a/../../../../nodes",
        "weir-a/a?watch=true",
        "A/b",
        "weir-a/b\n",
        5,
        [],
    ],
)
async def test_a_home_that_is_no_lease_is_nobodys_and_goes_into_no_path(api, damaged):
    body = api.objects[PATH]
    api.put(PATH, {**body, "status": {"controller": {"home": damaged}}})

    await writer_of(api, SECOND).open()

    assert home(api) == SECOND
    assert {path for _, path in api.calls} == {PATH, f"{PATH}/status"}


@pytest.mark.parametrize("how", ["given back", "deleted"])
async def test_an_installation_that_is_gone_is_followed_at_once(api, how):
    await managed_by_first(api)
    if how == "deleted":
        del api.objects[LEASE]
    else:
        renew(api, holder="")

    await writer_of(api, SECOND).open()

    assert home(api) == SECOND


async def test_an_installation_that_renews_no_more_is_followed_after_its_duration(api):
    await managed_by_first(api)
    renew(api, holder="weir-a-0", duration=1e-9)
    writer = writer_of(api, SECOND)

    with pytest.raises(ManagedElsewhereError):
        await writer.open()
    await writer.open()

    assert home(api) == SECOND


async def test_an_installation_that_goes_on_renewing_is_never_followed(api):
    await managed_by_first(api)
    writer = writer_of(api, SECOND)

    for _ in range(3):
        renew(api, holder="weir-a-0", duration=1e-9)
        with pytest.raises(ManagedElsewhereError):
            await writer.open()

    assert home(api) == FIRST


async def test_a_lease_that_may_not_be_read_counts_as_renewed_and_the_remedy_is_told(api):
    await managed_by_first(api)

    class Closed(MemoryApi):
        async def get(self, path):
            if path == LEASE:
                raise RefusedByKubernetesError("leases is forbidden", 403)
            return await super().get(path)

    closed = Closed()
    closed.objects = api.objects

    with pytest.raises(ManagedElsewhereError, match=f"{ANNOTATION}: {SECOND}"):
        await writer_of(closed, SECOND).open()


async def test_the_annotation_hands_it_over_and_the_one_before_leaves_off(api):
    before = await managed_by_first(api)
    await api.patch(PATH, {"metadata": {"annotations": {ANNOTATION: SECOND}}})

    await writer_of(api, SECOND).open()

    with pytest.raises(LeaseLostError):
        await before.write({"observedGeneration": 7})
    with pytest.raises(ManagedElsewhereError, match="weir-b"):
        await before.open()


async def test_who_takes_it_over_waits_until_the_one_before_must_have_noticed(api, monkeypatch):
    await managed_by_first(api)
    await api.patch(PATH, {"metadata": {"annotations": {ANNOTATION: SECOND}}})
    slept = []

    async def sleep(seconds):
        slept.append(seconds)

    monkeypatch.setattr("weir_operator.cluster.status.store.asyncio.sleep", sleep)
    taken, own = writer_of(api, SECOND), writer_of(api, SECOND, term="later")
    for writer in (taken, own):
        await writer.open()
        await writer.settle()

    assert SETTLE - 1.0 < slept[0] <= SETTLE
    assert slept[1] == 0.0, "its own installation has a Lease for that"
    assert CONFIRMED_FOR + signature(KubernetesApi).parameters["timeout"].default <= SETTLE


async def test_an_annotation_that_only_the_watch_has_shown_is_enough(api):
    writer = await managed_by_first(api)

    writer.note({ANNOTATION: SECOND})

    with pytest.raises(LeaseLostError, match="weir-b"):
        await writer.confirm()


async def test_of_two_installations_that_open_a_new_one_at_once_one_gets_it(api):
    renew_both = {"holderIdentity": "b", "leaseDurationSeconds": 30}
    api.put(LEASE.replace("weir-a", "weir-b"), {"metadata": {"name": "w"}, "spec": renew_both})

    found = await asyncio.gather(
        writer_of(api, FIRST).open(), writer_of(api, SECOND).open(), return_exceptions=True
    )

    assert sum(isinstance(each, ManagedElsewhereError) for each in found) == 1
