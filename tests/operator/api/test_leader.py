"""One active controller at a time: the Lease, and what its holder may do."""

from __future__ import annotations

import asyncio
import math
from inspect import signature

import pytest

from tests.operator.rescale.fakes import FakeClock, TurnTakingClock
from weir_operator.api.client import KubernetesApi, RefusedByKubernetesError
from weir_operator.api.leader import Leader, LeaseLostError, LeaseSettings
from weir_operator.errors import PermanentError
from weir_operator.flink.rest import FlinkRest

LEASE = "/apis/coordination.k8s.io/v1/namespaces/weir/leases/weir-controller"


def a_leader(api, identity, clock=None):
    settings = LeaseSettings(namespace="weir", identity=identity)
    return Leader(api, settings, clock=clock or FakeClock())


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


async def test_how_often_the_lease_changed_its_holder_is_known_to_holder_and_standby(api):
    first, second, third = (a_leader(api, name) for name in ("one", "two", "three"))
    assert math.isnan(first.transitions)
    await first.acquire()
    before = first.transitions

    await second.acquire()
    await third._try(within=1.0)

    assert (before, second.transitions, third.transitions) == (0, 1, 1)


async def test_a_lease_that_is_renewed_is_never_taken(api):
    first = a_leader(api, "one")
    await first.acquire()
    second = a_leader(api, "two", FakeClock())
    renewals = 0

    class RenewingClock(FakeClock):
        async def sleep(self, seconds):
            nonlocal renewals
            await super().sleep(seconds)
            await first._try(within=1.0)  # the other process goes on meanwhile
            renewals += 1
            if renewals == 30:
                raise asyncio.CancelledError

    second._clock = RenewingClock()
    with pytest.raises(asyncio.CancelledError):
        await second.acquire()

    assert api.objects[LEASE]["spec"]["holderIdentity"] == "one"


async def test_it_says_why_nobody_knows_who_leads_until_somebody_does(api):
    leader = a_leader(api, "two")
    before = leader.failure
    api.away = True
    await leader._try(within=1.0)
    away = leader.failure

    api.away = False
    await a_leader(api, "one").acquire()
    await leader._try(within=1.0)

    assert before != ""
    assert away not in ("", before)
    assert leader.failure == "", "it stands by for the one that holds the Lease"


async def test_a_holder_that_cannot_renew_stops_before_its_lease_is_over(api):
    clock = FakeClock()
    leader = a_leader(api, "one", clock)
    await leader.acquire()
    began = clock.now()
    api.away = True

    with pytest.raises(LeaseLostError):
        await leader.keep()

    assert clock.now() - began <= LeaseSettings(namespace="weir", identity="one").renew_deadline
    assert not leader.holds


async def test_an_api_server_that_is_away_for_20_seconds_costs_no_term(api):
    class OverError(Exception):
        """The test has seen enough."""

    class Outage(FakeClock):
        async def sleep(self, seconds):
            await super().sleep(seconds)
            api.away = 10.0 <= self.now() - began < 30.0
            if self.now() - began > 60.0:
                raise OverError

    clock = Outage()
    began = clock.now()
    leader = a_leader(api, "one", clock)
    await leader.acquire()

    with pytest.raises(OverError):
        await leader.keep()

    assert leader.holds


async def test_a_holder_that_slept_through_its_term_does_not_renew_it(api):
    """The Lease may be free still; but what this process began in that term is not to go on."""
    clock = FakeClock()
    leader = a_leader(api, "one", clock)
    await leader.acquire()
    renewed = api.count("replace")

    class SleepingMachine(FakeClock):
        async def sleep(self, seconds):
            clock.time += 60.0

    leader._clock.sleep = SleepingMachine().sleep
    with pytest.raises(LeaseLostError):
        await leader.keep()

    assert api.count("replace") == renewed


async def test_a_request_fits_into_what_a_lost_lease_has_left():
    times = LeaseSettings(namespace="weir", identity="one")
    left = times.duration - times.renew_deadline

    for client in (KubernetesApi, FlinkRest):
        assert signature(client).parameters["timeout"].default <= left


async def test_a_lease_that_was_deleted_is_not_taken_while_its_holder_may_act(api):
    await a_leader(api, "one").acquire()
    clock = FakeClock()
    second = a_leader(api, "two", clock)
    assert not await second._try(within=1.0)
    del api.objects[LEASE]

    await second.acquire()

    assert clock.now() - 1000.0 >= 30.0


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

    with pytest.raises(LeaseLostError):
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


async def test_a_process_that_starts_again_in_its_pod_need_not_wait_for_itself(api):
    first = a_leader(api, "pod-1")
    await first.acquire()
    clock = FakeClock()
    second = a_leader(api, "pod-1", clock)

    await second.acquire()

    assert clock.now() == 1000.0
    assert second.term != first.term


@pytest.mark.parametrize(
    "error",
    [
        RefusedByKubernetesError("The API server refused GET lease (403): RBAC", 403),
        PermanentError("Expected a JSON object from the API server"),
        KeyError("spec"),
    ],
    ids=lambda error: type(error).__name__,
)
async def test_one_strange_answer_does_not_end_a_lease_that_still_holds(api, monkeypatch, error):
    leader = a_leader(api, "one", TurnTakingClock())
    await leader.acquire()
    real, answers = api.get, [error]
    renewed = asyncio.Event()

    async def get(path):
        if answers:
            raise answers.pop()
        renewed.set()
        return await real(path)

    monkeypatch.setattr(api, "get", get)
    keeping = asyncio.create_task(leader.keep())
    async with asyncio.timeout(10):
        await renewed.wait()

    assert not keeping.done()
    assert leader.holds
    keeping.cancel()
