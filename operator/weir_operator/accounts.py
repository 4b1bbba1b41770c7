"""What the answers to single StreamApps take of the one controller.

Each StreamApp has an account of the bytes that came for it and are not parsed yet, and all have one
together. Who holds more than its share is refused, not who comes after it. Large answers are parsed
one at a time in the whole process, and of each StreamApp one waits for that: what is made of an
answer takes several times its memory. Nobody holds that place while it reads from a socket.

An answer beyond a limit is an error that names it, and a condition of the StreamApp. It is asked
for again after a pause, which doubles from one time to the next; until then the error comes at
once. The account is that of the context, as the name of the StreamApp in the log is: whoever opens
a connection takes it by `current_account`.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TypeVar

from weir_operator.limits import INLINE, Raw, TooLargeError, decompress

T = TypeVar("T")

MAX_HELD = 32 * 2**20
"""Bytes of a StreamApp's answers, as they came, that wait to be parsed."""
MAX_HELD_BY_ALL = 128 * 2**20
"""The same of all StreamApps together: a sixth of the controller's memory."""
ALWAYS_FREE = 2**20
"""Bytes that a StreamApp may hold whatever the others do."""
FIRST_PAUSE, LONGEST_PAUSE = 20.0, 600.0
"""Seconds until something is asked again whose answer was too large."""
_MOST_REFUSALS = 100
"""Addresses whose refusal is remembered."""
_LARGE = ThreadPoolExecutor(max_workers=1, thread_name_prefix="weir-large-answer")


@dataclass(slots=True)
class _Total:
    """What all accounts hold."""

    held: int = 0


_ALL = _Total()


@dataclass(frozen=True, slots=True)
class _Refusal:
    """An answer that was too large."""

    sentence: str
    pause: float
    again: float
    """When it is asked for again."""


class Account:
    """What the answers to one StreamApp take; of one event loop."""

    def __init__(
        self,
        *,
        on_change: Callable[[str], None] = lambda _: None,
        now: Callable[[], float] = time.monotonic,
        total: _Total = _ALL,
    ) -> None:
        """Open it.

        Args:
            on_change: Told `refusal` whenever it has changed.
            now: Seconds that only go on.
            total: What all hold together.
        """
        self._on_change = on_change
        self._now = now
        self._total = total
        self._held = 0
        self._refusals: dict[str, _Refusal] = {}
        self._turn = asyncio.Lock()

    @property
    def refusal(self) -> str:
        """What cannot be read at present, and why, in a sentence; empty where all can."""
        return next((each.sentence for each in self._refusals.values()), "")

    def refusal_of(self, address: str) -> str:
        """Return why the answer of an address cannot be read; empty where it can."""
        refusal = self._refusals.get(address)
        return "" if refusal is None else refusal.sentence

    def is_paused(self, address: str) -> bool:
        """Return whether an address is not to be asked now."""
        refusal = self._refusals.get(address)
        return refusal is not None and self._now() < refusal.again

    def forget(self, address: str) -> None:
        """Forget an address that nobody asks any more, or whose answer was read."""
        before = self.refusal
        if self._refusals.pop(address, None) is not None and self.refusal != before:
            self._on_change(self.refusal)

    def use(self) -> None:
        """Make it that of the present context, and of tasks that begin there."""
        _CURRENT.set(self)

    @contextmanager
    def asking(
        self, address: str, what: str, *, remedy: str = ""
    ) -> Iterator[Callable[[int], None]]:
        """Ask an address in the block, which is given what counts the bytes that come.

        Args:
            address: Tells apart what has pauses of its own.
            what: Names the answer in errors, such as `the metrics page of 10.0.0.1:9249`.
            remedy: What people can do about one that is too large, if that is known.

        Raises:
            TooLargeError: The block has raised one, or an earlier one, whose pause is not over.
        """
        if self.is_paused(address):
            raise TooLargeError(self.refusal_of(address))
        held = 0

        def hold(count: int) -> None:
            nonlocal held
            held += count
            self._held += count
            self._total.held += count
            self._check()

        try:
            yield hold
        except TooLargeError as error:
            why = f"Weir cannot read {what}: {error}"
            raise self._refuse(address, f"{why}; {remedy}" if remedy else why) from error
        else:
            self.forget(address)
        finally:
            self._held -= held
            self._total.held -= held

    async def work_on(self, raw: Raw, most: int, work: Callable[[bytes], T]) -> T:
        """Decompress a body and return what `work` makes of it: a large one in a thread, in turn.

        Raises:
            TooLargeError: It has more.
            ValueError: It is compressed in a way that was not asked for, or damaged.
        """
        try:
            body = decompress(raw, INLINE)
        except TooLargeError:
            return await self.parse(lambda: work(decompress(raw, most)))
        return work(body)

    async def parse(self, work: Callable[[], T]) -> T:
        """Do what takes long with an answer: in a thread, and one at a time in the process."""
        async with self._turn:
            return await asyncio.get_running_loop().run_in_executor(_LARGE, work)

    def _check(self) -> None:
        if self._held > MAX_HELD:
            raise TooLargeError(f"it and others have more than {MAX_HELD / 2**20:g} MiB")
        if self._total.held > MAX_HELD_BY_ALL and self._held > ALWAYS_FREE:
            raise TooLargeError(
                f"the answers to all StreamApps have more than {MAX_HELD_BY_ALL / 2**20:g} MiB"
            )

    def _refuse(self, address: str, why: str) -> TooLargeError:
        former = self._refusals.pop(address, None)
        pause = FIRST_PAUSE if former is None else min(LONGEST_PAUSE, 2 * former.pause)
        sentence = f"{why}; Weir asks again after {pause:g} s"
        if len(self._refusals) >= _MOST_REFUSALS:
            del self._refusals[next(iter(self._refusals))]
        self._refusals[address] = _Refusal(sentence, pause, self._now() + pause)
        self._on_change(self.refusal)
        return TooLargeError(sentence)


_CURRENT: ContextVar[Account | None] = ContextVar("account", default=None)


def current_account() -> Account:
    """Return the account of the StreamApp whose task this is, else a new one."""
    return _CURRENT.get() or Account()
