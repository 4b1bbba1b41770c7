"""Bounds how many StreamApps are brought up at once.

A controller that starts finds a thousand. In turns, each takes a second or so: what it has read of
its status still counts when it acts (see `StatusClient.confirm`), and it is managed while others
wait. If all began together, each would take as long as all of them, and read its status again
before each step.

A JobManager that hangs must not hold up the others. So a turn ends after `LONGEST` at the latest,
and what was begun in it goes on beside.
"""

from __future__ import annotations

import asyncio

AT_ONCE = 16
"""StreamApps: as many as may ask the API server at once, see `client.CONNECTIONS`."""
LONGEST = 2.0
"""Seconds of a turn: after as many, what was read of a status counts no more."""


class Turn:
    """One StreamApp's; it may begin again after its end."""

    def __init__(self, places: asyncio.Semaphore, longest: float) -> None:
        self._places = places
        self._longest = longest
        self._ending: asyncio.TimerHandle | None = None

    async def begin(self) -> None:
        """Wait for the turn, unless it has begun."""
        if self._ending is None:
            await self._places.acquire()
            self._ending = asyncio.get_running_loop().call_later(self._longest, self.end)

    def end(self) -> None:
        """Let another one begin; once over, it is over."""
        if self._ending is not None:
            self._ending.cancel()
            self._ending = None
            self._places.release()


class Turns:
    """Those of all StreamApps."""

    def __init__(self, at_once: int = AT_ONCE, longest: float = LONGEST) -> None:
        """Begin with all places free.

        Args:
            at_once: Turns that may have begun at once.
            longest: Seconds after which each ends.
        """
        self._places = asyncio.Semaphore(at_once)
        self._longest = longest

    def turn(self) -> Turn:
        """Return a turn that has not begun."""
        return Turn(self._places, self._longest)
