"""What runs on a loop of its own goes on while the controller's is busy."""

from __future__ import annotations

import asyncio
import time

import pytest

from weir_operator.kubernetes.api.background import own_loop
from weir_operator.kubernetes.api.leader import BootClock, Leader, LeaseLostError, LeaseSettings
from weir_operator.kubernetes.api.testing import MemoryApi

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


async def test_a_controller_that_hangs_for_longer_than_the_deadline_keeps_its_lease():
    api = MemoryApi()
    leader = Leader(api, TIMES, clock=BootClock())
    with own_loop("lease") as lease_loop:
        await lease_loop.run(leader.acquire())
        keeping = asyncio.create_task(lease_loop.run(leader.keep()))
        await asyncio.sleep(0)

        hang_for(2 * TIMES.renew_deadline)

        leader.check()
        keeping.cancel()
        await asyncio.wait({keeping})


async def test_one_whose_renewals_fail_while_it_hangs_may_do_nothing_after():
    api = MemoryApi()
    leader = Leader(api, TIMES, clock=BootClock())
    with own_loop("lease") as lease_loop:
        await lease_loop.run(leader.acquire())
        keeping = asyncio.create_task(lease_loop.run(leader.keep()))
        await asyncio.sleep(0)
        api.away = True

        hang_until(lambda: not leader.holds)

        with pytest.raises(LeaseLostError):
            leader.check()
        with pytest.raises(LeaseLostError):
            await keeping


async def test_a_lease_that_another_took_while_the_controller_hangs_binds_it_at_once():
    api = MemoryApi()
    leader = Leader(api, TIMES, clock=BootClock())
    with own_loop("lease") as lease_loop:
        await lease_loop.run(leader.acquire())
        keeping = asyncio.create_task(lease_loop.run(leader.keep()))
        await asyncio.sleep(0)
        [(path, lease)] = api.objects.items()
        lease["spec"]["holderIdentity"] = "two"
        api.put(path, lease)

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
