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

from weir_operator.errors import TemporaryError

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


class Retrier:
    """Waits on a clock."""

    def __init__(self, clock: Clock, *, limit: float) -> None:
        """Create the retrier.

        Args:
            clock: What waits.
            limit: Seconds for which `retried` asks again.
        """
        self._clock = clock
        self._limit = limit

    async def until(
        self,
        probe: Callable[[], Awaitable[T | None]],
        timeout: float,
        *,
        period: float = 0.05,
    ) -> T | None:
        """Return what `probe` gives; a temporary error counts as `not yet` until the time is up."""
        last: TemporaryError | None = None

        async def patient() -> T | None:
            nonlocal last
            try:
                found = await probe()
            except TemporaryError as error:
                last = error
                return None
            last = None
            return found

        found = await wait_until(patient, clock=self._clock, timeout=timeout, period=period)
        if found is None and last is not None:
            raise last
        return found

    async def retried(self, call: Callable[[], Awaitable[T]]) -> T:
        """Return the answer of `call`, asked again while it fails in a way that may pass."""

        async def boxed() -> tuple[T] | None:
            return (await call(),)

        found = await self.until(boxed, self._limit)
        if found is None:  # unreachable: a box is never None, and errors are raised
            raise TemporaryError("No answer")
        return found[0]
