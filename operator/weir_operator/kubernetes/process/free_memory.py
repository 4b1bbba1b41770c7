"""Gives memory that is no longer used back to the system.

Answers of the API server and of Prometheus come and go by the megabyte. glibc keeps what is freed
between two pieces that are still used, for later: with a thousand StreamApps, a quarter of the
controller's memory after a start. `malloc_trim` releases these pages. It takes .1 s for 300 MiB,
in which other threads go on until they need memory.
"""

from __future__ import annotations

import asyncio
import ctypes

from weir_operator.clock import Clock

RELEASE_EVERY = 30.0
"""Seconds."""


async def release_free_memory(*, clock: Clock) -> None:
    """Release what is free now and then, for ever; other C libraries than glibc are left alone."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    while True:
        await clock.sleep(RELEASE_EVERY)
        if trim is not None:
            await asyncio.to_thread(trim, 0)
