"""Bounds how many StreamApps are brought up at once, and orders those that wait.

A controller that starts finds a thousand. In turns, each takes a second or so: what it has read of
its status still counts when it acts (see `StatusClient.confirm`), and it is managed while others
wait. If all began together, each would take as long as all of them, and read its status again
before each step.

Ticks have fixed places in their interval. So the next turn is given to the StreamApp whose tick
comes soonest after it has been brought up; in order of arrival, each would wait for half an
interval more until it is decided on. Nothing else bounds the wait for a turn.

A JobManager that hangs must not hold up the others. So a turn ends after `LONGEST` at the latest,
and what was begun in it goes on beside.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

AT_ONCE = 16
"""StreamApps: as many as may ask the API server at once, see `client.CONNECTIONS`."""
LONGEST = 2.0
"""Seconds of a turn: after as many, what was read of a status counts no more."""
MARGIN = 1.0
"""Seconds by which bringing one up may take longer than a turn and the longest of the latest ones.
One that takes longer still may miss its tick, and then waits for the next one."""


class Turn:
    """One StreamApp's; it may begin again after its end."""

    def __init__(self, turns: Turns, until_tick: Callable[[float], float]) -> None:
        self._turns = turns
        self._until_tick = until_tick
        self._began: float | None = None
        self._ending: asyncio.TimerHandle | None = None

    async def begin(self) -> None:
        """Wait for the turn, unless it has begun."""
        if self._ending is None:
            await self._turns.wait_for_place(self._until_tick)
            loop = asyncio.get_running_loop()
            self._began = loop.time()
            self._ending = loop.call_later(self._turns.longest, self._let_another_begin)

    def end(self) -> None:
        """Note that what was begun is done, and let another one begin, unless one could already."""
        if self._began is not None:
            self._turns.note_duration(asyncio.get_running_loop().time() - self._began)
            self._began = None
        self._let_another_begin()

    def _let_another_begin(self) -> None:
        if self._ending is not None:
            self._ending.cancel()
            self._ending = None
            self._turns.give_place_away()


class Turns:
    """Those of all StreamApps."""

    def __init__(self, at_once: int = AT_ONCE, longest: float = LONGEST) -> None:
        """Begin with all places free.

        Args:
            at_once: Turns that may have begun at once.
            longest: Seconds after which each ends.
        """
        self.longest = longest
        self._free = at_once
        self._durations: deque[float] = deque(maxlen=at_once)
        self._waiting: dict[asyncio.Future[None], Callable[[float], float]] = {}

    def turn(self, until_tick: Callable[[float], float]) -> Turn:
        """Return a turn that has not begun.

        Args:
            until_tick: Returns the seconds from `after` seconds from now until the StreamApp's next
                tick.
        """
        return Turn(self, until_tick)

    def note_duration(self, seconds: float) -> None:
        """Remember for how long a StreamApp was brought up, its turn and what went on beside."""
        self._durations.append(seconds)

    async def wait_for_place(self, until_tick: Callable[[float], float]) -> None:
        """Take a place, once one is free and no other StreamApp's tick is sooner."""
        if self._free:
            self._free -= 1
            return
        given = asyncio.get_running_loop().create_future()
        self._waiting[given] = until_tick
        try:
            await given
        except asyncio.CancelledError:
            if self._waiting.pop(given, None) is None:
                self.give_place_away()  # it was given, and is not needed
            raise

    def give_place_away(self) -> None:
        """Give a place to the StreamApp whose tick is the soonest, or leave it free."""
        # One that has just been cancelled has not left yet.
        waiting = [given for given in self._waiting if not given.done()]
        if not waiting:
            self._free += 1
            return
        brought_up = max([self.longest, *self._durations]) + MARGIN
        soonest = min(waiting, key=lambda given: self._waiting[given](brought_up))
        del self._waiting[soonest]
        soonest.set_result(None)
