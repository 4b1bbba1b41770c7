"""One active controller at a time: the Lease, and what its holder may do."""

from __future__ import annotations

import asyncio

import pytest

from weir_operator.cluster.leader import Leader, LeaseLostError, LeaseSettings
from weir_operator.cluster.testing import MemoryApi
from weir_operator.rescale.testing import FakeClock

LEASE = "/apis/coordination.k8s.io/v1/namespaces/weir/leases/weir-controller"


@pytest.fixture
def api():
    return MemoryApi()


def a_leader(api, identity, clock=None):
    settings = LeaseSettings(namespace="weir", identity=identity)
    return Leader(api, settings, clock=clock or FakeClock())


async def test_who_comes_first_holds_the_lease(api):
    leader = a_leader(api, "one")

    await leader.acquire()

    leader.check()
    assert api.objects[LEASE]["spec"]["holderIdentity"] == "one"


async def test_before_it_was_acquired_nobody_may_act(api):
    leader = a_leader(api, "one")

    with pytest.raises(LeaseLostError):
        leader.check()


async def test_a_lease_that_stands_still_for_its_duration_is_taken(api):
    clock = FakeClock()
    await a_leader(api, "one", FakeClock()).acquire()
    second = a_leader(api, "two", clock)

    await second.acquire()

    assert clock.now() - 1000.0 >= 30.0
    assert api.objects[LEASE]["spec"]["holderIdentity"] == "two"
    assert api.objects[LEASE]["spec"]["leaseTransitions"] == 1


async def test_a_lease_that_is_renewed_is_never_taken(api):
    first = a_leader(api, "one")
    await first.acquire()
    second = a_leader(api, "two", FakeClock())
    renewals = 0

    class RenewingClock(FakeClock):
        async def sleep(self, seconds):
            nonlocal renewals
            await super().sleep(seconds)
            await first._try()  # the other process goes on meanwhile
            renewals += 1
            if renewals == 30:
                raise asyncio.CancelledError

    second._clock = RenewingClock()
    with pytest.raises(asyncio.CancelledError):
        await second.acquire()

    assert api.objects[LEASE]["spec"]["holderIdentity"] == "one"


async def test_a_holder_that_cannot_renew_stops_before_its_lease_is_over(api):
    clock = FakeClock()
    leader = a_leader(api, "one", clock)
    await leader.acquire()
    began = clock.now()
    api.away = True

    with pytest.raises(LeaseLostError):
        await leader.keep()

    assert clock.now() - began < 30.0
    assert not leader.holds


async def test_a_holder_that_slept_too_long_may_not_act_even_before_it_renews(api):
    clock = FakeClock()
    leader = a_leader(api, "one", clock)
    await leader.acquire()

    clock.time += 60.0

    with pytest.raises(LeaseLostError):
        leader.check()


async def test_a_holder_whose_lease_another_took_loses_it_at_once(api):
    clock = FakeClock()
    leader = a_leader(api, "one", clock)
    await leader.acquire()
    taken = await api.get(LEASE)
    taken["spec"]["holderIdentity"] = "two"
    api.put(LEASE, taken)

    with pytest.raises(LeaseLostError, match="Another controller"):
        await leader.keep()

    assert not leader.holds


async def test_a_lease_that_was_given_back_is_free_at_once(api):
    first = a_leader(api, "one")
    await first.acquire()
    clock = FakeClock()

    await first.release()
    await a_leader(api, "two", clock).acquire()

    assert clock.now() == 1000.0
    assert not first.holds


async def test_a_process_that_starts_anew_in_its_pod_need_not_wait_for_itself(api):
    first = a_leader(api, "pod-1")
    await first.acquire()
    clock = FakeClock()
    second = a_leader(api, "pod-1", clock)

    await second.acquire()

    assert clock.now() == 1000.0
    assert second.term != first.term
