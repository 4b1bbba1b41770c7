"""Kubernetes events about StreamApps, de-duplicated and rate-limited: kopf does neither.

The same message again within an hour increases the count of the existing event, at most every five
minutes; a message with other figures is another event. A StreamApp may post a burst of events and
then one at intervals. Each reason has such a limit too, so that a reason whose figures always
change leaves room for the others. A bounded queue and one task post the events in the background;
if the API server does not accept them, nothing else stops.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections import OrderedDict
from dataclasses import dataclass, replace
from typing import NamedTuple

import structlog

from weir_operator.api.client import KubernetesApi, NotFoundError
from weir_operator.api.objects import Body, Key, Resource
from weir_operator.clock import Clock
from weir_operator.cluster.status.conditions import stamp
from weir_operator.errors import WeirError
from weir_operator.loop.events import Severity, severity_of

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
BURST_OF_REASON = 10
"""Events of one reason that a StreamApp may cause at once."""
REFILL_OF_REASON = 300.0
"""Seconds until it may cause one more of that reason."""
REMEMBERED = 5000
"""Facts that are remembered, over all StreamApps."""
WAITING = 1000
"""Events that wait to be written; more are dropped."""

_ALL = ""
"""Stands for all reasons of a StreamApp together."""


@dataclass(frozen=True, slots=True)
class _PostedEvent:
    """An event that was posted."""

    event: str
    """Name of the event."""
    first: float
    """Unix time."""
    since: float
    """The same moment on the monotonic clock."""
    last_written: float
    """On the monotonic clock."""
    count: int


@dataclass(frozen=True, slots=True)
class _Note:
    resource: Resource
    level: Severity
    reason: str
    message: str
    posted: _PostedEvent
    now: float


class _Bucket(NamedTuple):
    left: float
    """How many events may still be caused."""
    since: float
    """When that was so, on the monotonic clock."""


class EventPoster:
    """Tells facts about StreamApps as events."""

    def __init__(self, api: KubernetesApi, *, instance: str, clock: Clock) -> None:
        self._api = api
        self._instance = instance
        self._clock = clock
        self._posted: OrderedDict[tuple[str, str, str], _PostedEvent] = OrderedDict()
        self._buckets: dict[Key, dict[str, _Bucket]] = {}  # by reason
        self._waiting: asyncio.Queue[_Note] = asyncio.Queue(WAITING)
        self.dropped = 0
        """Facts that were not posted because there were too many."""

    def post(self, resource: Resource, reason: str, message: str) -> None:
        """Post a fact soon, unless it was posted recently or too many were.

        Raises:
            UndeclaredReasonError: The reason is in no list of `loop.events`.
        """
        level, message = severity_of(reason), message[:LONGEST_NOTE]
        wall, now = self._clock.now(), self._clock.monotonic()
        key = (resource.uid, reason, message)
        known = self._posted.pop(key, None)
        if known is not None and now - known.since < REPEAT_WITHIN:
            posted = replace(known, count=known.count + 1)
            self._posted[key] = posted
            if now - known.last_written < COUNT_EVERY:
                return  # the count goes out with a later repetition
        else:
            digest = hashlib.sha256("\0".join((*key, f"{wall:.3f}")).encode()).hexdigest()[:16]
            posted = _PostedEvent(f"{resource.key.name}.{digest}", wall, now, -COUNT_EVERY, 1)
        if not self._may(resource.key, reason, now):
            self.dropped += 1
            return
        posted = replace(posted, last_written=now)
        self._posted[key] = posted
        while len(self._posted) > REMEMBERED:
            self._posted.popitem(last=False)
        try:
            self._waiting.put_nowait(_Note(resource, level, reason, message, posted, wall))
        except asyncio.QueueFull:
            self.dropped += 1

    def forget(self, key: Key) -> None:
        """Forget a StreamApp that is gone."""
        self._buckets.pop(key, None)

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
        last = stamp(note.now)
        try:
            if note.posted.count > 1:
                try:
                    counted = {
                        "count": note.posted.count,
                        "lastTimestamp": last,
                        "message": note.message,
                    }
                    await self._api.patch(f"{events}/{note.posted.event}", counted)
                    return
                except NotFoundError:
                    pass  # the API server forgets events after an hour: it is reported again
            await self._api.create(events, self._body(note, last))
        except WeirError as error:
            log.warning("event not written", reason=note.reason, failure=str(error))
        except Exception:  # of this event alone: others wait behind it
            log.exception("event not written", reason=note.reason)

    def _body(self, note: _Note, last: str) -> Body:
        return {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": note.posted.event, "namespace": note.resource.key.namespace},
            "involvedObject": note.resource.reference,
            "type": note.level,
            "reason": note.reason,
            "message": note.message,
            "count": note.posted.count,
            "firstTimestamp": stamp(note.posted.first),
            "lastTimestamp": last,
            "source": {"component": "weir"},
            "reportingComponent": "weir.dev/controller",
            "reportingInstance": self._instance[:128],
        }

    def _may(self, key: Key, reason: str, now: float) -> bool:
        known = self._buckets.setdefault(key, {})
        left: dict[str, float] = {}
        limits = {_ALL: (BURST, REFILL), reason: (BURST_OF_REASON, REFILL_OF_REASON)}
        for name, (burst, refill) in limits.items():
            before = known.get(name, _Bucket(burst, now))
            left[name] = min(float(burst), before.left + (now - before.since) / refill)
        may = all(each >= 1 for each in left.values())
        known |= {name: _Bucket(each - 1 if may else each, now) for name, each in left.items()}
        return may
