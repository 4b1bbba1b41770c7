"""Which shard a StreamApp belongs to, and the name of a shard's Lease. Pure.

Where one process is not enough, several share the StreamApps: each holds the Lease of one shard and
manages the StreamApps of that shard. Which those are follows from their names and from the number
of shards alone, so nobody has to store or agree on it.

The shard is the one with the highest score, a hash of the StreamApp's name and the shard's number
(rendezvous hashing). From N to N + 1 shards, only those StreamApps move for which the new shard has
the highest score: one in N + 1.

Source: Thaler, Ravishankar, IEEE/ACM Transactions on Networking 1998 (highest random weight).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from hashlib import blake2b

from weir_operator.kubernetes.api.objects import Key

MAX_SHARDS = 10
"""The chart grants the Leases of every number of shards up to this one, each by its name."""

_SHARD = re.compile(r"-(0|[1-9][0-9]*)-of-([1-9][0-9]*)")


@dataclass(frozen=True, slots=True, order=True)
class Shard:
    """One of several shards."""

    number: int
    """From 0."""
    of: int
    """How many there are."""

    def owns(self, key: Key) -> bool:
        """Return whether a StreamApp belongs to this shard."""
        return shard_of(key, self.of) == self.number

    def lease_name(self, base: str) -> str:
        """Return the name of its Lease; a single shard has the name of the installation."""
        return base if self.of == 1 else f"{base}-{self.number}-of-{self.of}"


ONLY = Shard(0, 1)


def shard_of(key: Key, shards: int) -> int:
    """Return the number of the shard, of so many, to which a StreamApp belongs."""
    return max(range(shards), key=lambda shard: _score(key, shard))


def read_lease_name(name: str, base: str) -> Shard | None:
    """Return whose Lease it is; `None` if it is none of the installation called `base`."""
    if name == base:
        return ONLY
    found = _SHARD.fullmatch(name.removeprefix(base)) if name.startswith(base) else None
    if found is None:
        return None
    shard = Shard(int(found[1]), int(found[2]))
    return shard if shard.number < shard.of and shard.of > 1 else None


def installation_of(home: str) -> str:
    """Return the installation, `namespace/name`, that the Lease `home` is of.

    All shards of an installation are one: a StreamApp may go from one to another of them.
    """
    return re.sub(rf"{_SHARD.pattern}$", "", home)


def _score(key: Key, shard: int) -> bytes:
    # No two StreamApps run together: a slash is in no name. Bytes are compared from the first on.
    return blake2b(f"{key}/{shard}".encode(), digest_size=8).digest()
