"""One active controller at a time: a Lease of coordination.k8s.io, held and renewed.

kopf has no Lease; two controllers of the same job would each take the other's TaskManagers
for orphans. So one holds the Lease, and the others wait. As client-go does it, nobody compares
clocks of two machines: a Lease is over when it was not renewed for its duration *as this process
saw it*. The holder counts from before it asked for the renewal, stops two thirds through, and
whoever asks `check` after that is refused: a process that was stopped or hung in between steers
nothing with a Lease that is another's by now. What is left of the duration is for requests that are
under way: none may take longer. A term that has lapsed is not renewed, though the Lease may still
be free: the process continues as another `Leader`, once all work of this one has ended.

All of a `Leader` but `holds` and `check` belongs on its own event loop (`own_loop`): a
controller that is busy renews all the same. One whose own loop hangs for good keeps the Lease too,
until the kubelet, which asks for its health there, ends it.

Time is the boot clock: it goes on while the machine sleeps, and cannot be set.
"""

from __future__ import annotations

import asyncio
import math
import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Protocol

import structlog

from weir_operator.api.client import ConflictError, KubernetesApi, NotFoundError
from weir_operator.api.objects import Body
from weir_operator.clock import Clock
from weir_operator.errors import PermanentError, TemporaryError, WeirError

log = structlog.get_logger()


class LeaseLostError(WeirError):
    """Another controller is, or may be, the active one: this one must change nothing.

    Neither temporary nor permanent, so that nobody who retries or goes back holds it up: it ends
    whatever it meets.
    """


class Fence(Protocol):
    """Whether this process may act."""

    @property
    def term(self) -> str:
        """Names this time in context: no two controllers, nor two times of one, share it."""
        ...

    @property
    def home(self) -> str:
        """Names the installation: `namespace/name` of the Lease that its controllers share."""
        ...

    def check(self) -> None:
        """Return if this process holds the Lease now.

        Raises:
            LeaseLostError: It does not, or cannot know.
        """


class BootClock:
    """Seconds since the machine was started, sleep included: a `Clock` that cannot be set."""

    def now(self) -> float:
        """Return seconds since boot."""
        return time.clock_gettime(time.CLOCK_BOOTTIME)

    def monotonic(self) -> float:
        """Return the same."""
        return self.now()

    async def sleep(self, seconds: float) -> None:
        """Sleep on the event loop."""
        await asyncio.sleep(seconds)


DURATION = 45
"""Seconds of a Lease. Three times the usual: jobs keep running without a controller, and an API
server that is away for 20 s costs no term."""


@dataclass(frozen=True, kw_only=True, slots=True)
class LeaseSettings:
    """Which Lease, and its times in seconds."""

    namespace: str
    identity: str
    """Who holds it; the pod's name, which no two processes alive share."""
    name: str = "weir-controller"
    duration: int = DURATION
    """After which a Lease that was not renewed is free."""
    renew_deadline: float = 35.0
    """After which a holder that could not renew stops acting: before `duration`, by the time that a
    request to the API server or to Flink may take."""
    retry_every: float = 3.0
    """Between two looks, and between two renewals."""


def leases_of(namespace: str) -> str:
    """Return where the API server has the Leases of a namespace."""
    return f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"


class StandingLease:
    """Somebody else's Lease: over once it has stood still for its duration, as seen from here."""

    def __init__(self, duration: float) -> None:
        """Begin with none seen; `duration`, seconds, is for one that does not name its own."""
        self._duration = duration
        self._seen: tuple[str, float] | None = None  # resourceVersion, and since when

    def is_over(self, lease: Body, now: float) -> bool:
        """Return whether the Lease has no holder any more, at a time of a `BootClock`."""
        if not lease["spec"].get("holderIdentity"):
            return True
        version = lease["metadata"]["resourceVersion"]
        if self._seen is None or self._seen[0] != version:
            self._seen = (version, now)
            return False
        lasts = float(lease["spec"].get("leaseDurationSeconds") or self._duration)
        return now - self._seen[1] >= lasts

    def was_held(self, now: float) -> bool:
        """Return whether it was seen so lately that its holder may act, though it is gone."""
        return self._seen is not None and now - self._seen[1] < self._duration


class Leader:
    """Seeks, keeps and gives back the Lease."""

    def __init__(self, api: KubernetesApi, settings: LeaseSettings, *, clock: Clock) -> None:
        self._api = api
        self._settings = settings
        self._clock = clock
        self._collection = leases_of(settings.namespace)
        self._path = f"{self._collection}/{settings.name}"
        self._renewed: float | None = None  # when the last successful renewal was asked for
        self._another = StandingLease(settings.duration)
        self._told = ""
        self.failure = "The controller has not read the Lease yet"
        """Why it is not known who holds the Lease; empty where it is."""
        self.transitions = math.nan
        """How often the Lease has changed its holder, as it last said; NaN before it was read."""
        self.term = f"{settings.identity}/{uuid.uuid4().hex[:12]}"
        """Names this time in context."""
        self.home = f"{settings.namespace}/{settings.name}"
        """Names the installation."""

    @property
    def holds(self) -> bool:
        """Whether this process may act."""
        renewed = self._renewed  # read once: another thread writes it
        return renewed is not None and self._clock.now() - renewed < self._settings.renew_deadline

    def check(self) -> None:
        """Return if this process holds the Lease now."""
        if not self.holds:
            raise LeaseLostError(
                f"Expected to renew the Lease {self._settings.name!r}, got no renewal "
                f"within {self._settings.renew_deadline:g} s; another controller may be "
                "active"
            )

    async def confirm(self) -> None:
        """Do what `check` does, for those who ask a `Guard`."""
        self.check()

    async def acquire(self) -> None:
        """Wait until this process holds the Lease.

        Raises:
            PermanentError: The API server refuses for good, such as for missing rights.
        """
        while not await self._try(within=self._settings.renew_deadline / 2):
            await self._clock.sleep(self._settings.retry_every)
        log.info("lease acquired", lease=self._settings.name, term=self.term)

    async def keep(self) -> None:
        """Renew for as long as it goes well.

        Raises:
            LeaseLostError: Another holds it, or it could not be renewed in time.
        """
        while True:
            await self._clock.sleep(min(self._settings.retry_every, self._left))
            self.check()
            if not await self._renew() and self._renewed is None:
                raise LeaseLostError(f"Another controller holds {self._settings.name!r}")
            self.check()

    async def _renew(self) -> bool:
        """Renew once; no single answer, whatever it says, ends what the Lease still allows."""
        try:
            return await self._try(within=self._left)
        except Exception as error:
            self.failure = f"The Lease could not be renewed: {str(error) or type(error).__name__}"
            log.exception("lease not renewed")
            return False

    async def release(self) -> None:
        """Give the Lease back, so that the next need not wait for it to run out."""
        if not self.holds:
            return
        self._renewed = None
        try:
            lease = await self._api.get(self._path)
            if lease["spec"].get("holderIdentity") == self._settings.identity:
                lease["spec"] |= {"holderIdentity": "", "leaseDurationSeconds": 1}
                await self._api.replace(self._path, lease)
        except (TemporaryError, PermanentError) as error:
            log.info("lease not given back", failure=str(error))  # it runs out by itself

    @property
    def _left(self) -> float:
        """Seconds until the holder must stop acting."""
        began = self._clock.now() if self._renewed is None else self._renewed
        return max(0.0, began + self._settings.renew_deadline - self._clock.now())

    async def _try(self, *, within: float) -> bool:
        """Acquire or renew the Lease within so many seconds; return whether that succeeded."""
        began = self._clock.now()
        try:
            await asyncio.wait_for(
                self._claim(began), min(within, self._settings.renew_deadline / 2)
            )
        except _HeldByAnotherError as error:
            self._renewed, self.failure = None, ""
            self._report(str(error))
            return False
        except (ConflictError, TemporaryError, TimeoutError) as error:
            # Somebody else wrote it in between, or nobody answered: the next check shows it.
            cause = str(error) or type(error).__name__
            self.failure = f"The Lease could not be written: {cause}"
            self._report(self.failure)
            return False
        self._renewed, self.failure = began, ""
        return True

    async def _claim(self, now: float) -> None:
        try:
            lease = await self._api.get(self._path)
        except NotFoundError:
            if self._another.was_held(now):
                raise _HeldByAnotherError(
                    "The Lease was deleted, and its holder may still be active"
                ) from None
            await self._make()
            return
        spec = lease.setdefault("spec", {})
        holder = spec.get("holderIdentity") or ""
        self.transitions = int(spec.get("leaseTransitions") or 0)
        own = holder == self._settings.identity
        if holder and not own and not self._another.is_over(lease, now):
            raise _HeldByAnotherError(f"{holder} holds the Lease")
        changes = int(spec.get("leaseTransitions") or 0) + (not own)
        try:
            await self._api.replace(self._path, {**lease, "spec": self._spec(changes, spec)})
        except NotFoundError as error:
            raise ConflictError("It was deleted in the meantime") from error
        self.transitions = changes

    async def _make(self) -> None:
        body = {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": self._settings.name, "namespace": self._settings.namespace},
            "spec": self._spec(0, {}),
        }
        await self._api.create(self._collection, body)
        self.transitions = 0

    def _spec(self, changes: int, before: Mapping[str, Any]) -> Body:
        now = datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
        own = before.get("holderIdentity") == self._settings.identity
        return {
            "holderIdentity": self._settings.identity,
            "leaseDurationSeconds": self._settings.duration,
            "acquireTime": before.get("acquireTime", now) if own else now,
            "renewTime": now,
            "leaseTransitions": changes,
        }

    def _report(self, why: str) -> None:
        if why != self._told:
            log.info("lease not held", reason=why)
            self._told = why


class _HeldByAnotherError(Exception):
    """Somebody else renews the Lease."""
