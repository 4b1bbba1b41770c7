"""What runs on a loop of its own goes on while the controller's is busy."""

from __future__ import annotations

import asyncio
import time
from contextlib import asynccontextmanager

import pytest

from tests.operator.api.memory_api import MemoryApi
from weir_operator.api.background import own_loop
from weir_operator.api.leader import BootClock, Leader, LeaseLostError, LeaseSettings

PATIENCE = 30.0
TIMES = LeaseSettings(namespace="weir", identity="one", renew_deadline=1.0, retry_every=0.05)


def hang_until(is_over):
    """Keep the event loop from everything else until it is over, or for long."""
    end = time.monotonic() + PATIENCE
    while not is_over() and time.monotonic() < end:
        time.sleep(0.01)


def hang_for(seconds):
    end = time.monotonic() + seconds
    hang_until(lambda: time.monotonic() >= end)


@asynccontextmanager
async def a_kept_lease(api):
    """Acquire the Lease and keep it from a loop of its own; yield its holder and the keeping."""
    leader = Leader(api, TIMES, clock=BootClock())
    with own_loop("lease") as lease_loop:
        await lease_loop.run(leader.acquire())
        keeping = asyncio.create_task(lease_loop.run(leader.keep()))
        await asyncio.sleep(0)
        yield leader, keeping


async def test_a_controller_that_hangs_for_longer_than_the_deadline_keeps_its_lease():
    async with a_kept_lease(MemoryApi()) as (leader, keeping):
        hang_for(2 * TIMES.renew_deadline)

        leader.check()
        keeping.cancel()
        await asyncio.wait({keeping})


def let_renewals_fail(api):
    api.away = True


def let_another_take_it(api):
    [(path, lease)] = api.objects.items()
    lease["spec"]["holderIdentity"] = "two"
    api.put(path, lease)


@pytest.mark.parametrize("happens", [let_renewals_fail, let_another_take_it])
async def test_a_lease_that_is_lost_while_the_controller_hangs_binds_it_at_once(happens):
    api = MemoryApi()
    async with a_kept_lease(api) as (leader, keeping):
        happens(api)

        hang_until(lambda: not leader.holds)

        with pytest.raises(LeaseLostError):
            leader.check()
        with pytest.raises(LeaseLostError):
            await keeping


async def test_to_cancel_the_wait_cancels_the_work():
    ended = []

    async def work():
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(True)

    with own_loop("other") as lease_loop:
        waiting = asyncio.create_task(lease_loop.run(work()))
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.wait({waiting})

    assert ended == [True]


async def test_what_the_work_raises_is_raised_here():
    async def fail():
        raise ValueError("over there")

    with own_loop("other") as lease_loop, pytest.raises(ValueError, match="over there"):
        await lease_loop.run(fail())
