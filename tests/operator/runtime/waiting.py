"""How tests wait for what a real cluster does."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from weir_operator.clock import SystemClock, wait_until


async def until(
    probe: Callable[[], Awaitable[Any]], *, limit: float = 180.0, period: float = 0.2
) -> Any:
    """Wait until a probe returns something true, and return that; fail past the limit."""

    async def ask() -> Any:
        return await probe() or None

    found = await wait_until(ask, clock=SystemClock(), timeout=limit, period=period)
    assert found, "the condition did not come true in time"
    return found
