"""Uses a job's history from before or beside the controller, and reads it without blocking.

The program that starts the controller knows where history is and how to read it; here, it is a
value. It is an aid: without it, the loops use what they measure.

History is on a volume, and a volume can hang: a call then never returns, and nothing can end its
thread. So a process makes one read at a time, and a caller waits no longer than its limit, which
includes the queue and the read. While a read is overdue, none is started, and callers get an error
at once. The thread ends once the volume answers, and reading continues.

A defect in reading is treated like a volume that does not answer, and logged.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Collection, Mapping
from concurrent.futures import Future
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import Protocol, TypeVar

import structlog

from weir_operator.errors import TemporaryError
from weir_policies.model.season import Season
from weir_simulator.errors import FitError
from weir_simulator.fitting.fit import Fit, TooFewSamplesError, fit
from weir_simulator.fitting.history import (
    History,
    add_traffic,
    fit_history,
    is_traffic_alone,
)
from weir_simulator.fitting.samples import Samples
from weir_simulator.fitting.structure import Structure

T = TypeVar("T")

log = structlog.get_logger()

READ_WITHIN = 30.0
"""Seconds, several times what a history of the largest size takes."""


class HistorySource(Protocol):
    """The source of the history of all jobs. Its calls block."""

    def read(self, app: str, *, operators: Collection[str], node_types: Collection[str]) -> History:
        """Return what is kept of an application, by the name that its tables have.

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
        """Read from `source`; who has no answer `within` seconds of asking does without."""
        self._source = source
        self.within = within
        self._turn = asyncio.Lock()
        self._one_history = asyncio.Lock()
        self._over: Future[None] = Future()  # of the last read; what was read is not kept
        self._over.set_result(None)
        self._keeper: asyncio.Task[None] | None = None

    async def seasons(self, app: str) -> Mapping[str, Season]:
        """Return what usually arrives at an application's operators."""
        return await self._ask(partial(self._source.seasons, app))

    @asynccontextmanager
    async def opened(
        self, app: str, *, operators: Collection[str], node_types: Collection[str]
    ) -> AsyncIterator[History]:
        """Yield the history of an application; the next one is read once this one is released.

        A history takes up to 100 MB, and a controller that starts over fits all its jobs at about
        the same time.

        Raises:
            TemporaryError: Nothing is kept of it, or it cannot be read, or not in time.
        """
        read = partial(self._source.read, app, operators=operators, node_types=node_types)
        async with self._one_history:
            yield await self._ask(read)

    async def _ask(self, read: Callable[[], T]) -> T:
        try:
            async with asyncio.timeout(self.within):
                await self._turn.acquire()
                return await self._begin(read)
        except TimeoutError as error:
            raise TemporaryError(
                f"the volume does not answer: a read did not end within {self.within:g} "
                "s; check whether the volume is hung or slow"
            ) from error

    def _begin(self, read: Callable[[], T]) -> asyncio.Future[T]:
        """Begin a read, whose turn it is.

        An asker that goes does not end the read, which keeps its turn until it is over or overdue.
        """
        if not self._over.done():
            self._turn.release()
            raise TimeoutError
        try:
            answer, self._over = _read_beside(read)
        except RuntimeError as error:
            self._turn.release()
            raise TemporaryError(f"Weir cannot read it at the moment: {error}") from error
        self._keeper = asyncio.create_task(self._keep_turn(self._over))
        return asyncio.wrap_future(answer)

    async def _keep_turn(self, over: Future[None]) -> None:
        await asyncio.wait({asyncio.wrap_future(over)}, timeout=self.within)
        self._turn.release()


def _read_beside(read: Callable[[], T]) -> tuple[Future[T], Future[None]]:
    """Read in a separate thread; return the future result, and whether it is done.

    Not in an executor's: Python ends only after those, and a process that has lost its Lease must.
    """
    answer: Future[T] = Future()
    over: Future[None] = Future()
    for each in (answer, over):
        each.set_running_or_notify_cancel()  # from now on it cannot be cancelled

    def make() -> None:
        try:
            answer.set_result(_read(read))
        except TemporaryError as error:  # raised where it is awaited
            answer.set_exception(error)
        finally:
            over.set_result(None)

    threading.Thread(target=make, name="history", daemon=True).start()
    return answer, over


def _read(read: Callable[[], T]) -> T:
    """Read, and log a defect in it, because the caller may be gone."""
    try:
        return read()
    except TemporaryError:
        raise
    except Exception as error:
        log.exception("defect in reading history")
        raise TemporaryError(
            f"a defect occurred while reading it, {type(error).__name__}: {error}; see the log"
        ) from error


@dataclass(frozen=True, kw_only=True, slots=True)
class Past:
    """What is kept of one job."""

    reader: HistoryReader
    app: str
    """`namespace/name` of the StreamApp."""

    @asynccontextmanager
    async def opened(self, structure: Structure, *, since: float) -> AsyncIterator[History]:
        """Yield what is kept of it after a Unix time.

        Raises:
            TemporaryError: Nothing is, or it cannot be read.
        """
        async with self.reader.opened(
            self.app,
            operators=[each for each in structure.models if each not in structure.fixed],
            node_types=[each.name for each in structure.node_types],
        ) as whole:
            history = whole.since(since).within(structure)
            if history.end == history.begin:
                raise TemporaryError("it ends before the job was last changed")
            yield history

    async def seasons(self) -> Mapping[str, Season]:
        """Return what usually arrives at its operators."""
        return await self.reader.seasons(self.app)


@dataclass(frozen=True, kw_only=True, slots=True)
class PastFit:
    """A fit, and what the history had to do with it."""

    fit: Fit | FitError
    """Why there is none, where the simulator cannot be fitted to what was measured."""
    seasons: Mapping[str, Season] = field(default_factory=dict)
    """What usually arrives, by operator; as far as history shows it."""
    said: str = ""
    """What of it was used, for people; empty where there is none."""
    unused: str = ""
    """Why it was not used; empty where it was, or where there is none."""


def fit_with_past(
    own: Samples, structure: Structure, history: History | None, *, slot: float
) -> PastFit:
    """Fit a job to its history and to what was measured since; to the latter alone if need be.

    Where history tells of some operators only, a fit to it may not be there, or too little was held
    out to judge it by. Then it gives the traffic, as it does where it tells of none.

    Args:
        own: What the controller has measured since the job is what it is now.
        structure: The job as specified.
        history: What is kept of it since then; `None` where nothing can be read.
        slot: Seconds between two decisions.
    """
    if history is None:
        return PastFit(fit=_fit_alone(own, structure, slot=slot))
    fitted: Fit | None = None
    why = ""
    try:
        fitted = fit_history(history, structure, slot=slot, recent=own)
        why = fitted.quality.sentence
    except TooFewSamplesError as error:
        if not history.partial:  # even with it
            return PastFit(fit=error)
    except FitError as error:
        why = str(error)
    if fitted is not None and fitted.quality.good:
        return PastFit(fit=fitted, seasons=history.seasons, said=_describe_used(history, fitted))
    traffic_alone = is_traffic_alone(history, fitted)
    unused = (
        history.only_traffic
        if traffic_alone
        else f"it does not match the current measurements: {why}"
    )
    alone = _fit_alone(own, structure, slot=slot)
    if traffic_alone and not isinstance(alone, FitError):
        with_rates = add_traffic(alone, history, own)
        said = _describe_used(history, with_rates, what="the traffic of ")
        return PastFit(fit=with_rates, seasons=history.seasons, said=said)
    return PastFit(fit=alone, seasons=history.seasons, unused=unused)


def _fit_alone(own: Samples, structure: Structure, *, slot: float) -> Fit | FitError:
    try:
        return fit(own, structure, slot=slot)
    except FitError as error:
        return error


def _describe_used(history: History, fitted: Fit, *, what: str = "") -> str:
    """Return which days count, and from when on traffic does, which long holes have cut."""
    begin = datetime.fromtimestamp(fitted.begin, UTC)
    said = (
        f"fitted to {what}{len(history.used)} days of history, {history.used[0]} to "
        f"{history.used[-1]} ({len(history.left_out)} left out), and what was measured since; its "
        f"traffic begins on {begin:%Y-%m-%d at %H:%M} UTC"
    )
    return "; ".join(filter(None, (said, history.only_traffic)))
