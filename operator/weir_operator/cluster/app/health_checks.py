"""Spreads the health checks of all jobs over time, so that many StreamApps stay cheap.

A check (does the JobManager answer, do the pods run) costs the controller some milliseconds, and is
due every five seconds for every job. Checking less often loses nothing: Kubernetes replaces pods,
Flink recovers jobs, and control intervals keep their own time. So the number of checks per second
is limited over all jobs.

Only a node that is about to be removed cannot wait, because only Weir moves replicas before they
are lost. Jobs with a replica there are checked at once, and then as often as if they were alone.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator, Set
from contextlib import contextmanager, suppress

import structlog

from weir_operator.api.objects import Key
from weir_operator.clock import Clock
from weir_operator.errors import PermanentError, TemporaryError
from weir_operator.runtime.pods.nodes import NodeNotices

log = structlog.get_logger()

LOOKS_PER_SECOND = 16.0
"""Over all jobs: a thousand are checked once a minute, eighty every five seconds."""
WATCH_EVERY = 2.0
"""Seconds between two checks of jobs with replicas on nodes that are about to be removed; nodes are
listed less often, see `nodes`."""


class HealthCheckScheduler:
    """Knows the StreamApps whose loops run, and which are on nodes about to be removed."""

    def __init__(self) -> None:
        self._wakers: dict[Key, asyncio.Event] = {}
        self._joined: Counter[Key] = Counter()
        self._threatened: Set[Key] = frozenset()

    @contextmanager
    def joined(self, key: Key) -> Iterator[None]:
        """Count one StreamApp more while the block runs.

        One that is deleted and created again joins before the loops of the former have ended.
        """
        self._wakers.setdefault(key, asyncio.Event())
        self._joined[key] += 1
        try:
            yield
        finally:
            self._joined[key] -= 1
            if not self._joined[key]:
                del self._joined[key], self._wakers[key]

    def look_every(self, key: Key, least: float) -> float:
        """Return seconds between two checks of one job."""
        equals = self._threatened if key in self._threatened else self._wakers
        return max(least, len(equals) / LOOKS_PER_SECOND)

    async def rest(self, key: Key, least: float) -> None:
        """Wait until the next check of the job of one that has joined; see `look_every`."""
        woken = self._wakers[key]
        with suppress(TimeoutError):
            await asyncio.wait_for(woken.wait(), self.look_every(key, least))
        woken.clear()

    def warn(self, threatened: Set[Key]) -> None:
        """Store which apps have a replica on a node about to be removed; wake the new ones."""
        for key in threatened - self._threatened:
            if key in self._wakers:
                self._wakers[key].set()
        self._threatened = threatened

    async def watch(self, notices: NodeNotices, clock: Clock) -> None:
        """Find, for ever, the StreamApps with replicas on nodes about to be removed."""
        while True:
            try:
                self.warn(await notices.threatened())
            except (TemporaryError, PermanentError) as error:
                log.warning("replicas on nodes that go are not seen", failure=str(error))
            await clock.sleep(WATCH_EVERY)
