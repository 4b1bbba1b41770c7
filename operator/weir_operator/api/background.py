"""Background work: an event loop in its own thread, and tasks that survive any input.

What runs on this event loop waits at most for the interpreter's lock, which a busy thread releases
about 200 times a second, and not for the work of the controller's own loop.

Background tasks read objects of all tenants: pods, nodes, events. An unexpected object may delay
such a task. It must not end the process, which would start again only to read the same object.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any, TypeVar

import structlog

from weir_operator.clock import Clock

log = structlog.get_logger()

FIRST_PAUSE = 1.0
LONGEST_PAUSE = 60.0
"""Seconds between a failure and the next start; they double from one to the next."""
HEALTHY_AFTER = 300.0
"""Seconds without a failure after which the next pause is short again."""


async def keep_running(
    name: str, work: Callable[[], Awaitable[None]], *, clock: Clock, count: Callable[[str], None]
) -> None:
    """Run `work`, which never ends, and restart it after every failure."""
    pause = FIRST_PAUSE
    while True:
        began = clock.now()
        try:
            await work()
        except Exception:
            if clock.now() - began >= HEALTHY_AFTER:
                pause = FIRST_PAUSE
            log.exception("background task failed", task=name, again_in=pause)
            count(name)
            await clock.sleep(pause)
            pause = min(LONGEST_PAUSE, 2 * pause)


async def run_unless(stop: asyncio.Event, work: Coroutine[Any, Any, object]) -> bool:
    """Do the work, or leave off where it is time to stop; return whether it was done."""
    doing, stopping = asyncio.create_task(work), asyncio.create_task(stop.wait())
    try:
        await asyncio.wait({doing, stopping}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        stopping.cancel()
        while not doing.done():
            doing.cancel()  # again, where the end waits for what was begun
            await asyncio.wait({doing}, timeout=1.0)
    if doing.cancelled():
        return False
    doing.result()
    return True


T = TypeVar("T")


class OwnLoop:
    """Runs coroutines in another thread; made by `own_loop`."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop

    async def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Do the work over there, return or raise what it does; to cancel this cancels it too.

        Connections and locks of asyncio's that it uses must not be used on another loop.
        """
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self._loop))


@contextmanager
def own_loop(name: str) -> Iterator[OwnLoop]:
    """Run an event loop in a thread called `name` while the block runs."""
    ended = asyncio.Event()
    begun: Future[asyncio.AbstractEventLoop] = Future()

    async def serve() -> None:
        begun.set_result(asyncio.get_running_loop())
        await ended.wait()

    thread = threading.Thread(target=asyncio.run, args=(serve(),), name=name, daemon=True)
    thread.start()
    loop = begun.result()
    try:
        yield OwnLoop(loop)
    finally:
        loop.call_soon_threadsafe(ended.set)
        thread.join()
