"""Several processes, a Lease for each shard, and never two numbers of shards at once."""

from __future__ import annotations

import asyncio
import random
from collections import deque
from contextlib import suppress

import pytest

from weir_operator.errors import PermanentError
from weir_operator.kubernetes.api.client import RefusedByKubernetesError
from weir_operator.kubernetes.api.leader import LeaseLostError, LeaseSettings
from weir_operator.kubernetes.api.objects import Key
from weir_operator.kubernetes.api.shard_leader import ShardLeader
from weir_operator.kubernetes.api.shards import Shard, shard_of
from weir_operator.kubernetes.api.testing import MemoryApi
from weir_operator.rescale.testing import FakeClock

LEASES = "/apis/coordination.k8s.io/v1/namespaces/weir/leases"


def a_leader(api, identity, shards, clock=None):
    settings = LeaseSettings(namespace="weir", identity=identity)
    return ShardLeader(api, settings, shards, clock=clock or FakeClock())


def holder(api, name):
    return api.objects[f"{LEASES}/{name}"]["spec"]["holderIdentity"]


async def test_before_it_has_a_shard_a_process_may_do_nothing(api):
    leader = a_leader(api, "one", 2)

    assert not leader.holds
    assert leader.shard is None
    assert not leader.owns(Key("streams", "trips"))
    with pytest.raises(LeaseLostError):
        leader.check()


async def test_one_shard_has_the_lease_and_the_home_that_one_controller_always_had(api):
    leader = a_leader(api, "one", 1)

    await leader.acquire()

    leader.check()
    assert list(api.objects) == [f"{LEASES}/weir-controller"]
    assert leader.home == "weir/weir-controller"
    assert leader.owns(Key("streams", "trips"))


async def test_each_process_gets_a_shard_and_owns_the_apps_of_it(api):
    leaders = [a_leader(api, name, 3) for name in ("one", "two", "three")]

    for each in leaders:
        await each.acquire()

    assert [each.shard for each in leaders] == [Shard(0, 3), Shard(1, 3), Shard(2, 3)]
    assert leaders[1].home == "weir/weir-controller-1-of-3"
    for number in range(20):
        key = Key("streams", f"app-{number}")
        assert [each.owns(key) for each in leaders].index(True) == shard_of(key, 3)


async def test_a_process_beyond_the_shards_stands_by_and_takes_what_is_given_back(api):
    first, second, standby = (a_leader(api, name, 2) for name in ("one", "two", "three"))
    await first.acquire()
    await second.acquire()

    idle = await standby._try()
    known = standby.failure == "" and not idle
    await second.release()
    await standby.acquire()

    assert known
    assert standby.shard == Shard(1, 2)
    assert holder(api, "weir-controller-1-of-2") == "three"


async def test_a_lease_of_a_process_that_died_is_taken_after_its_duration(api):
    clock = FakeClock()
    await a_leader(api, "one", 2).acquire()
    await a_leader(api, "two", 2).acquire()

    standby = a_leader(api, "three", 2, clock)
    await standby.acquire()

    assert standby.shard == Shard(0, 2)
    assert clock.now() - 1000.0 >= 30.0


async def test_a_process_that_starts_again_takes_its_own_lease_before_a_free_one(api):
    await a_leader(api, "one", 3).acquire()
    await a_leader(api, "two", 3).acquire()

    again = a_leader(api, "two", 3)
    await again.acquire()

    assert again.shard == Shard(1, 3)


async def test_nobody_acts_while_a_lease_of_another_number_is_renewed(api):
    for shards in (1, 2):
        old = a_leader(api, f"old-{shards}", shards)
        await old.acquire()
        new = a_leader(api, "new", 3)

        acted = await new._try()
        await old.release()
        later = await new._try()
        await new.release()

        assert not acted
        assert new.failure == "", "it stands by, and is ready"
        assert later


async def test_an_old_number_that_was_not_given_back_is_over_after_its_duration(api):
    clock = FakeClock()
    await a_leader(api, "old", 1).acquire()

    new = a_leader(api, "new", 2, clock)
    await new.acquire()

    assert clock.now() - 1000.0 >= 30.0


async def test_a_deleted_lease_of_another_number_is_awaited_for_its_duration(api):
    clock = FakeClock()
    await a_leader(api, "old", 1).acquire()
    new = a_leader(api, "new", 2, clock)
    await new._try()
    del api.objects[f"{LEASES}/weir-controller"]

    await new.acquire()

    assert clock.now() - 1000.0 >= 30.0


async def test_who_meets_another_number_after_acquiring_gives_its_own_lease_back(api):
    class MeetingApi(MemoryApi):
        """One where another number is acquired right after this process acquired its own."""

        async def create(self, path, body):
            made = await super().create(path, body)
            spec = {"holderIdentity": "old", "leaseDurationSeconds": 30}
            self.put(f"{LEASES}/weir-controller", {
                "metadata": {"name": "weir-controller"}, "spec": spec,
            })  # fmt: skip
            return made

    meeting = MeetingApi()
    leader = a_leader(meeting, "new", 2)

    acquired = await leader._try()

    assert not acquired
    assert not leader.holds
    assert holder(meeting, "weir-controller-0-of-2") == ""


async def test_other_leases_of_the_namespace_are_nobodys_business(api):
    for name in ("another", "weir-controller-x-of-2", "weir-controllers"):
        spec = {"holderIdentity": "somebody", "leaseDurationSeconds": 30}
        api.put(f"{LEASES}/{name}", {"metadata": {"name": name}, "spec": spec})
    leader = a_leader(api, "one", 2)

    assert await leader._try()


async def test_without_the_right_to_list_the_process_ends_with_what_was_refused():
    class RefusingApi(MemoryApi):
        async def list(self, path, labels="", fields=""):
            raise RefusedByKubernetesError("cannot list leases", status=403)

    with pytest.raises(PermanentError, match="cannot list leases"):
        await a_leader(RefusingApi(), "one", 1).acquire()


async def test_an_api_server_that_does_not_answer_is_why_a_standby_is_not_ready(api):
    leader = a_leader(api, "one", 2)
    api.away = True

    assert not await leader._try()
    assert "cannot be reached" in leader.failure


async def test_how_often_each_lease_changed_its_holder_is_known(api):
    first, second, standby = (a_leader(api, name, 2) for name in ("one", "two", "three"))
    await first.acquire()
    await second.acquire()
    await second.release()
    again = a_leader(api, "four", 2)
    await again.acquire()

    await standby._try()

    assert first.transitions == {0: 0}
    assert again.transitions == {1: 1}
    assert standby.transitions == {0: 0, 1: 1}


# Many processes in simulated time, with an API server that takes its time.


class SimulatedLoop(asyncio.SelectorEventLoop):
    """An event loop on which time jumps to what comes next."""

    _present = 0.0
    _ready: deque[asyncio.Handle]
    _scheduled: list[asyncio.TimerHandle]

    def time(self):
        return self._present

    def _run_once(self):
        if not self._ready and self._scheduled:
            self._present = max(self._present, self._scheduled[0].when())
        super()._run_once()  # type: ignore[misc]


class LoopClock:
    """The loop's time."""

    def now(self):
        return asyncio.get_running_loop().time()

    monotonic = now

    async def sleep(self, seconds):
        await asyncio.sleep(seconds)


class SlowApi(MemoryApi):
    """One whose requests are under way for a random time before and after they are done."""

    def __init__(self, rng, slowest):
        super().__init__()
        self._rng = rng
        self._slowest = slowest

    async def _travel(self):
        await asyncio.sleep(self._rng.uniform(0.0, self._slowest))

    async def get(self, path):
        await self._travel()
        found = await super().get(path)
        await self._travel()
        return found

    async def list(self, path, labels="", fields=""):
        await self._travel()
        found = await super().list(path)
        await self._travel()
        return found

    async def create(self, path, body):
        await self._travel()
        made = await super().create(path, body)
        await self._travel()
        return made

    async def replace(self, path, body):
        await self._travel()
        made = await super().replace(path, body)
        await self._travel()
        return made


class Process:
    """A controller as far as its Lease goes: it acts, ends a term, and seeks another."""

    def __init__(self, api, name, shards):
        self.shards = shards
        self._make = lambda: a_leader(api, name, shards, LoopClock())
        self.leader = self._make()
        self._task = asyncio.create_task(self._run())

    @property
    def acting(self):
        return self.leader.shard if self.leader.holds else None

    async def _run(self):
        while True:
            await self.leader.acquire()
            with suppress(LeaseLostError):
                await self.leader.keep()
            self.leader = self._make()

    async def end(self):
        """Stop renewing and give the Lease back."""
        await self.kill()
        if self.acting is not None:
            await self.leader.release()

    async def kill(self):
        """Stop renewing."""
        self._task.cancel()
        await asyncio.wait({self._task})


async def watch(processes):
    """Look ten times a second; two processes must never act for one StreamApp."""
    while True:
        acting = [each.acting for each in processes if each.acting is not None]
        assert len({shard.of for shard in acting}) <= 1, acting
        assert len({*acting}) == len(acting), acting
        await asyncio.sleep(0.1)


async def until_all_act(processes, shards, within):
    async with asyncio.timeout(within):
        while {each.acting for each in processes} - {None} != {
            Shard(number, shards) for number in range(shards)
        }:
            await asyncio.sleep(0.1)


def simulate(work):
    with asyncio.Runner(loop_factory=SimulatedLoop) as runner:
        runner.run(work())


@pytest.mark.parametrize("slowest", [0.01, 1.0])
@pytest.mark.parametrize("seed", range(10))
def test_a_rollout_to_another_number_has_never_two_managers(seed, slowest):
    async def work():
        rng = random.Random(seed)
        api = SlowApi(rng, slowest)
        before, after = rng.sample(range(1, 6), 2)
        old = [Process(api, f"old-{number}", before) for number in range(before + 1)]
        processes = [*old]
        watching = asyncio.create_task(watch(processes))
        await until_all_act(old, before, within=600.0)

        for number in range(after + 1):
            processes.append(Process(api, f"new-{number}", after))
            await asyncio.sleep(rng.uniform(0.0, 10.0))
            if old:
                leaving = old.pop(rng.randrange(len(old)))
                await (leaving.end() if rng.random() < 0.5 else leaving.kill())
        for leaving in old:
            await leaving.end()

        await until_all_act(processes, after, within=300.0)
        assert not watching.done(), watching.result()
        watching.cancel()

    simulate(work)


@pytest.mark.parametrize("slowest", [0.01, 1.0])
@pytest.mark.parametrize("seed", range(10))
def test_of_two_numbers_that_start_at_once_one_comes_to_act_and_the_other_waits(seed, slowest):
    async def work():
        rng = random.Random(seed)
        api = SlowApi(rng, slowest)
        groups = [
            [Process(api, f"{shards}-{n}", shards) for n in range(shards)] for shards in (2, 3)
        ]
        processes = [*groups[0], *groups[1]]
        watching = asyncio.create_task(watch(processes))

        async with asyncio.timeout(1200.0):
            while not any(each.acting for each in processes):
                await asyncio.sleep(0.1)
        winner, loser = sorted(groups, key=lambda group: -sum(bool(p.acting) for p in group))
        await until_all_act(winner, winner[0].shards, within=1200.0)
        for each in winner:
            await each.end()

        await until_all_act(loser, loser[0].shards, within=300.0)
        assert not watching.done(), watching.result()
        watching.cancel()

    simulate(work)
