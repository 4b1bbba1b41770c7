"""An event loop in a thread of its own, for what must not wait for the controller's.

What runs there waits for the interpreter's lock at most, which a busy thread gives up some 200
times a second, and not for everything that the other loop has to do before.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any, TypeVar

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
