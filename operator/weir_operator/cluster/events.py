"""Kubernetes events about StreamApps: de-duplicated and rate-limited here, as kopf does neither.

The same fact told again within an hour counts up the event that is there, at most every five
minutes; figures in a message do not make it another fact. A StreamApp that tells many facts gets
a burst of them and then one every while. Events are told by the way: a queue of bounded length and
one task; an API server that does not take them stops nobody.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections import OrderedDict
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Literal

import structlog

from weir_operator.clock import Clock
from weir_operator.cluster.api import NotFoundError
from weir_operator.cluster.objects import Body, Key, ObjectApi, Resource
from weir_operator.errors import WeirError

log = structlog.get_logger()

LONGEST_NOTE = 1024
"""Characters that Kubernetes allows in an event's message."""
REPEAT_WITHIN = 3600.0
"""Seconds within which the same fact is the same event."""
COUNT_EVERY = 300.0
"""Seconds between two writes of the same event's count."""
BURST = 20
"""Events that a StreamApp may cause at once."""
REFILL = 60.0
"""Seconds until it may cause one more."""
REMEMBERED = 5000
"""Facts that are remembered, over all StreamApps."""
WAITING = 1000
"""Events that wait to be written; more are dropped."""

Level = Literal["Normal", "Warning"]
_NUMBERS = re.compile(r"\d+(\.\d+)?|[0-9a-f]{12,}")


@dataclass(frozen=True, slots=True)
class _Told:
    """A fact that was told."""

    event: str
    """Name of the event."""
    first: float
    last_written: float
    count: int


@dataclass(frozen=True, slots=True)
class _Allowance:
    """How many events a StreamApp may still cause."""

    left: float
    since: float


@dataclass(frozen=True, slots=True)
class _Note:
    resource: Resource
    level: Level
    reason: str
    message: str
    told: _Told
    now: float


class EventPoster:
    """Tells facts about StreamApps as events."""

    def __init__(self, api: ObjectApi, *, instance: str, clock: Clock) -> None:
        """Begin with nothing told.

        Args:
            api: Where events go.
            instance: Name of this process, such as the pod's.
            clock: Wall time.
        """
        self._api = api
        self._instance = instance
        self._clock = clock
        self._told: OrderedDict[tuple[str, str, str], _Told] = OrderedDict()
        self._allowances: dict[Key, _Allowance] = {}
        self._waiting: asyncio.Queue[_Note] = asyncio.Queue(WAITING)
        self.dropped = 0
        """Facts that were not told, because there were too many."""

    def post(self, resource: Resource, level: Level, reason: str, message: str) -> None:
        """Tell a fact soon, unless it was told lately or too many were."""
        now = self._clock.now()
        key = (resource.uid, reason, _NUMBERS.sub("#", message))
        known = self._told.pop(key, None)
        if known is not None and now - known.first < REPEAT_WITHIN:
            told = replace(known, count=known.count + 1)
            self._told[key] = told
            if now - known.last_written < COUNT_EVERY:
                return  # the count goes out with a later repetition
        else:
            digest = hashlib.sha256("\0".join((*key, f"{now:.3f}")).encode()).hexdigest()[:16]
            told = _Told(f"{resource.key.name}.{digest}", now, -COUNT_EVERY, 1)
        if not self._may(resource.key, now):
            self.dropped += 1
            return
        told = replace(told, last_written=now)
        self._told[key] = told
        while len(self._told) > REMEMBERED:
            self._told.popitem(last=False)
        try:
            self._waiting.put_nowait(_Note(resource, level, reason, message, told, now))
        except asyncio.QueueFull:
            self.dropped += 1

    def forget(self, key: Key) -> None:
        """Forget a StreamApp that is gone."""
        self._allowances.pop(key, None)

    async def run(self) -> None:
        """Write what waits, for ever."""
        while True:
            await self._write(await self._waiting.get())

    async def flush(self) -> None:
        """Write what waits now."""
        while not self._waiting.empty():
            await self._write(self._waiting.get_nowait())

    async def _write(self, note: _Note) -> None:
        events = f"/api/v1/namespaces/{note.resource.key.namespace}/events"
        last = _stamp(note.now)
        try:
            if note.told.count > 1:
                try:
                    counted = {
                        "count": note.told.count,
                        "lastTimestamp": last,
                        "message": note.message[:LONGEST_NOTE],
                    }
                    await self._api.patch(f"{events}/{note.told.event}", counted)
                    return
                except NotFoundError:
                    pass  # the API server forgets events after an hour: it is told anew
            await self._api.create(events, self._body(note, last))
        except WeirError as error:
            log.warning("event not written", reason=note.reason, failure=str(error))

    def _body(self, note: _Note, last: str) -> Body:
        return {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": note.told.event, "namespace": note.resource.key.namespace},
            "involvedObject": note.resource.reference,
            "type": note.level,
            "reason": note.reason,
            "message": note.message[:LONGEST_NOTE],
            "count": note.told.count,
            "firstTimestamp": _stamp(note.told.first),
            "lastTimestamp": last,
            "source": {"component": "weir"},
            "reportingComponent": "weir.dev/controller",
            "reportingInstance": self._instance[:128],
        }

    def _may(self, key: Key, now: float) -> bool:
        known = self._allowances.get(key, _Allowance(BURST, now))
        left = min(float(BURST), known.left + (now - known.since) / REFILL)
        self._allowances[key] = _Allowance(left - 1 if left >= 1 else left, now)
        return left >= 1


def _stamp(now: float) -> str:
    return datetime.fromtimestamp(now, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
