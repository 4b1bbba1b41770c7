"""Retries requests whose failure may be temporary."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from weir_operator.clock import Clock, wait_until
from weir_operator.errors import TemporaryError

T = TypeVar("T")


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
