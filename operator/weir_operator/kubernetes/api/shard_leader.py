"""One active controller for each shard: the Lease of any shard that is free, held and renewed.

Two processes that believe in different numbers of shards must never act at the same time, because
both may take a StreamApp for their own. So a process acts only if it holds the Lease of a shard and
has then found no live Lease with another number:

    look: no Lease of another number is live -> acquire a free Lease -> look again -> act

It writes its own Lease before it looks at the others, and the API server answers with nothing older
than what it has stored. So of two processes of different numbers that acquire at the same time, at
least one sees the other. Whoever sees another gives its own Lease back and tries again after a
random pause; the pauses double, so one of the two is through before the other looks again. A
process that acts is not asked to stop: the number of shards changes when those of the old number
have ended, as they do when a Deployment replaces its pods. The first look is not needed for this.
It keeps those who wait from writing, and from keeping a standby of the old number from a Lease.

As with a single Lease (see `leader`), one of another number is over when it was given back or was
not renewed for its duration as this process saw it, and one that was deleted when its duration has
passed. What acts until then is fenced in the same way.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import structlog

from weir_operator.clock import Clock
from weir_operator.errors import TemporaryError
from weir_operator.kubernetes.api.leader import (
    Leader,
    LeaseLostError,
    LeaseSettings,
    StandingLease,
    leases_of,
)
from weir_operator.kubernetes.api.objects import Key, LeaseApi
from weir_operator.kubernetes.api.shards import Shard, read_lease_name

log = structlog.get_logger()

LONGEST_PAUSE = 60.0
"""Seconds between two tries of a process that met one of another number each time."""


@dataclass(frozen=True, slots=True)
class _Look:
    """The Leases of the installation at one time."""

    others: Sequence[str]
    """Names of those with another number of shards whose holders may act."""
    free: Sequence[Shard]
    """Shards of this number that nobody else holds; first those that are still this process's."""


class ShardLeader:
    """Seeks the Lease of a shard, keeps it and gives it back: a `Leader` of any shard."""

    def __init__(
        self, api: LeaseApi, settings: LeaseSettings, shards: int, *, clock: Clock
    ) -> None:
        """Begin without a Lease.

        Args:
            api: The API server.
            settings: Of the Lease of an installation with one shard.
            shards: How many there are.
            clock: A `BootClock`.
        """
        self._api = api
        self._settings = settings
        self._clock = clock
        self._standing: dict[Shard, StandingLease] = {}
        self._leaders = {
            shard: Leader(
                api,
                replace(settings, name=shard.lease_name(settings.name)),
                clock=clock,
                another=self._standing_of(shard),
            )
            for shard in (Shard(number, shards) for number in range(shards))
        }
        self._shards = shards
        self._own: Shard | None = None
        self._transitions: dict[int, float] = {}
        self._encounters = 0
        self._told = ""
        self.failure = "The controller has not read the Leases yet"
        """Why it is not known who holds the Leases; empty where it is."""

    @property
    def shard(self) -> Shard | None:
        """The shard whose Lease it has acquired; `None` before."""
        return self._own

    @property
    def term(self) -> str:
        """Names this time in context."""
        return self._leader.term

    @property
    def home(self) -> str:
        """`namespace/name` of the Lease that it has acquired."""
        return self._leader.home

    @property
    def holds(self) -> bool:
        """Whether this process may act."""
        return self._own is not None and self._leader.holds

    @property
    def transitions(self) -> Mapping[int, float]:
        """How often each Lease has changed its holder; of its own alone once it has one."""
        if self._own is None:
            return self._transitions
        return {self._own.number: self._leader.transitions}

    def owns(self, key: Key) -> bool:
        """Return whether a StreamApp is in the shard that it has acquired."""
        return self._own is not None and self._own.owns(key)

    def check(self) -> None:
        """Return if this process holds the Lease of its shard now.

        Raises:
            LeaseLostError: It does not, or cannot know.
        """
        self._leader.check()

    async def confirm(self) -> None:
        """Do what `check` does, for those who ask a `Guard`."""
        self.check()

    async def acquire(self) -> None:
        """Wait until this process may act for a shard.

        Raises:
            PermanentError: The API server refuses for good, such as for missing rights.
        """
        while not await self._try():
            await self._clock.sleep(self._pause())
        log.info("shard acquired", shard=self._own, term=self.term)

    async def keep(self) -> None:
        """Renew for as long as it goes well.

        Raises:
            LeaseLostError: Another holds it, or it could not be renewed in time.
        """
        await self._leader.keep()

    async def release(self) -> None:
        """Give the Lease back, so that the next need not wait for it to run out."""
        await self._leader.release()

    @property
    def _leader(self) -> Leader:
        """The one of its shard.

        Raises:
            LeaseLostError: It has acquired none yet.
        """
        if self._own is None:
            raise LeaseLostError("Expected the Lease of a shard, got none yet")
        return self._leaders[self._own]

    async def _try(self) -> bool:
        look = await self._look()
        if look is None:
            return False
        if look.others:
            self._report(f"{_list(look.others)} of another number of shards held")
            return False
        for shard in look.free:
            leader = self._leaders[shard]
            if await leader.try_acquire():
                return await self._stay_if_alone(shard, leader)
            self.failure = leader.failure
        self._report(f"all Leases of {self._shards} held by others")
        return False

    async def _stay_if_alone(self, shard: Shard, leader: Leader) -> bool:
        """Take the shard as its own unless one of another number is there; return whether."""
        try:
            look = await self._look()
            if look is not None and not look.others:
                self._own = shard
                return True
            self._encounters += 1
            if look is not None:
                self._report(f"{_list(look.others)} of another number acquired at the same time")
            return False
        finally:
            if self._own is None:
                await leader.release()

    async def _look(self) -> _Look | None:
        """Return what the Leases are; `None` if the API server does not say so soon."""
        began = self._clock.now()
        try:
            found = await asyncio.wait_for(
                self._api.list(leases_of(self._settings.namespace)),
                self._settings.renew_deadline / 2,
            )
        except (TemporaryError, TimeoutError) as error:
            self.failure = f"The Leases could not be read: {str(error) or type(error).__name__}"
            self._report(self.failure)
            return None
        self.failure = ""
        leases = {
            shard: lease
            for lease in found
            if (shard := read_lease_name(lease["metadata"]["name"], self._settings.name))
        }
        over = {
            shard
            for shard, lease in leases.items()
            if self._standing_of(shard).is_over({"spec": {}, **lease}, began)
        }
        held = {shard for shard in leases if shard not in over}
        gone = {shard for shard, each in self._standing.items() if each.was_held(began)} - {*leases}
        own = {
            shard
            for shard in held
            if leases[shard]["spec"].get("holderIdentity") == self._settings.identity
        }
        self._transitions = {
            shard.number: float(leases[shard].get("spec", {}).get("leaseTransitions") or 0)
            for shard in self._leaders
            if shard in leases
        }
        return _Look(
            others=[
                shard.lease_name(self._settings.name)
                for shard in sorted(held | gone)
                if shard.of != self._shards
            ],
            free=sorted(
                (shard for shard in self._leaders if shard not in held - own),
                key=lambda shard: (shard not in own, shard),
            ),
        )

    def _standing_of(self, shard: Shard) -> StandingLease:
        return self._standing.setdefault(shard, StandingLease(self._settings.duration))

    def _pause(self) -> float:
        if not self._encounters:
            return self._settings.retry_every
        longest = min(LONGEST_PAUSE, self._settings.retry_every * 2**self._encounters)
        return random.uniform(0.0, longest)

    def _report(self, why: str) -> None:
        if why != self._told:
            log.info("no shard acquired", reason=why)
            self._told = why


def _list(names: Sequence[str]) -> str:
    return ", ".join(names)
