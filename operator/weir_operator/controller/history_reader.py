"""Reads what is kept of jobs, beside the event loop, and does not wait for it for ever.

History lies on a volume, and a volume can hang: a call on one whose server is gone never returns,
and nothing can end the thread that made it. So a process makes one read at a time, nobody waits for
it longer than it is given, and while one is overdue none is begun: whoever asks is told so at once.
The thread ends once the volume answers, and the next read is made as ever.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Collection, Mapping
from concurrent.futures import Future
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Protocol, TypeVar

from weir_operator.errors import TemporaryError
from weir_policies.model.season import Season
from weir_simulator.fitting.history import History

T = TypeVar("T")

READ_WITHIN = 30.0
"""Seconds, several times what a history of the largest size takes."""


class HistorySource(Protocol):
    """Where the history of all jobs lies. Its calls block."""

    def read(self, app: str, *, operators: Collection[str], node_types: Collection[str]) -> History:
        """Return what is kept of an application, as its label `weir_app` has it.

        Raises:
            TemporaryError: Nothing is kept of it, or it cannot be read; says why.
        """
        ...

    def seasons(self, app: str) -> Mapping[str, Season]:
        """Return what usually arrives at its operators; empty where that is not known.

        Raises:
            TemporaryError: It cannot be read.
        """
        ...


class HistoryReader:
    """Reads for all StreamApps of a process, one after the other; of one event loop."""

    def __init__(self, source: HistorySource, *, within: float = READ_WITHIN) -> None:
        """Read from `source`; a read that takes longer than `within` seconds is given up."""
        self._source = source
        self.within = within
        self._turn = asyncio.Lock()
        self._one_history = asyncio.Lock()
        self._last: Future[Any] | None = None  # Any: whatever was asked for last

    async def seasons(self, app: str) -> Mapping[str, Season]:
        """Return what usually arrives at an application's operators.

        Raises:
            TemporaryError: It cannot be read, or not in time.
        """
        return await self._ask(partial(self._source.seasons, app))

    @asynccontextmanager
    async def opened(
        self, app: str, *, operators: Collection[str], node_types: Collection[str]
    ) -> AsyncIterator[History]:
        """Yield what is kept of an application; the next history is read once this one is let go.

        A history takes up to 100 MB, and a controller that begins anew fits all its jobs at about
        the same time.

        Raises:
            TemporaryError: Nothing is kept of it, or it cannot be read, or not in time.
        """
        read = partial(self._source.read, app, operators=operators, node_types=node_types)
        async with self._one_history:
            yield await self._ask(read)

    async def _ask(self, read: Callable[[], T]) -> T:
        # An asker that goes does not end the read, which keeps its turn until it is over.
        return await asyncio.shield(asyncio.create_task(self._read_in_turn(read)))

    async def _read_in_turn(self, read: Callable[[], T]) -> T:
        async with self._turn:
            try:
                if self._last is not None and not self._last.done():
                    raise TimeoutError
                self._last = answer = _read_beside(read)
                async with asyncio.timeout(self.within):
                    return await asyncio.wrap_future(answer)
            except TimeoutError as error:
                raise TemporaryError(
                    f"it is not answering: a read has not ended within {self.within:g} s; "
                    "look whether the volume hangs that it lies on"
                ) from error


def _read_beside(read: Callable[[], T]) -> Future[T]:
    """Make a read in a thread of its own.

    Not in an executor's: Python ends only after those, and a process that has lost its Lease must.
    """
    answer: Future[T] = Future()
    answer.set_running_or_notify_cancel()  # from now on it cannot be cancelled

    def make() -> None:
        try:
            answer.set_result(read())
        except Exception as error:  # raised where it is awaited
            answer.set_exception(error)

    threading.Thread(target=make, name="history", daemon=True).start()
    return answer
