"""The clock of the controller, passed in so that tests can set it.

Wall time is for people, for what is stored, and for the times of samples. It may be set, even by an
hour and in either direction, so nothing waits by it: durations and deadlines use the monotonic
reading.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Protocol, TypeVar

T = TypeVar("T")


class Clock(Protocol):
    """Wall time, time that cannot be set, and waiting."""

    def now(self) -> float:
        """Return Unix time in seconds."""
        ...

    def monotonic(self) -> float:
        """Return seconds that only ever go on; nothing but their differences means anything."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Wait for `seconds`."""


class SystemClock:
    """The machine's clock."""

    def now(self) -> float:
        """Return Unix time in seconds."""
        return time.time()

    def monotonic(self) -> float:
        """Return seconds that only ever go on."""
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        """Sleep on the event loop."""
        await asyncio.sleep(seconds)


async def wait_until(
    probe: Callable[[], Awaitable[T | None]], *, clock: Clock, timeout: float, period: float = 0.05
) -> T | None:
    """Call `probe` until it gives something else than `None`, or `timeout` seconds have passed.

    Returns:
        What the probe gave, `None` past the time limit; the probe always runs at least once.
    """
    deadline = clock.monotonic() + timeout
    while True:
        found = await probe()
        if found is not None or clock.monotonic() >= deadline:
            return found
        await clock.sleep(period)
