"""How late the event loop is can be seen, and for long enough to be scraped."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator

import pytest

from tests.operator.rescale.fakes import FakeClock
from weir_operator.clock import SystemClock
from weir_operator.cluster.status.telemetry import (
    LAG_EVERY,
    LAG_ROUNDS,
    Telemetry,
    watch_event_loop,
)


class EnoughError(Exception):
    """The clock of a test ends the watch."""


class LateClock(FakeClock):
    """Wakes late by the seconds given, one after the other, then ends the watch."""

    def __init__(self, delays: Iterator[float]) -> None:
        super().__init__()
        self._delays = delays

    async def sleep(self, seconds: float) -> None:
        delay = next(self._delays, None)
        if delay is None:
            raise EnoughError
        await super().sleep(seconds + delay)


async def shown_after(*delays):
    telemetry = Telemetry()
    with pytest.raises(EnoughError):
        await watch_event_loop(telemetry, clock=LateClock(iter(delays)))
    return telemetry.registry.get_sample_value("weir_event_loop_lag_seconds")


async def test_the_longest_delay_is_shown():
    assert await shown_after(0.1, 2.0, 0.5) == pytest.approx(2.0)


async def test_a_delay_is_shown_for_at_least_a_minute():
    rounds = int(60.0 / LAG_EVERY)

    assert await shown_after(*[0.0] * (LAG_ROUNDS - 1), 2.0, *[0.0] * rounds) == pytest.approx(2.0)


async def test_a_delay_of_long_ago_is_not_shown():
    assert await shown_after(2.0, *[0.0] * (2 * LAG_ROUNDS)) == pytest.approx(0.0)


async def test_a_step_that_keeps_the_loop_busy_is_seen():
    telemetry = Telemetry()
    task = asyncio.create_task(watch_event_loop(telemetry, clock=SystemClock()))
    await asyncio.sleep(0)

    time.sleep(LAG_EVERY + 0.3)
    await asyncio.sleep(0.05)
    task.cancel()

    seen = telemetry.registry.get_sample_value("weir_event_loop_lag_seconds")
    assert seen is not None
    assert seen >= 0.3
