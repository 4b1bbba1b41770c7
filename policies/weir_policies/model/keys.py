"""How much of a keyed operator's work its fullest replica gets, from what each key group gets.

Flink deals records to key groups by their key, and key groups to p replicas in M/p neighbours each:
group g of M goes to replica g * p // M. So the shares of all parallelisms follow from those of the
groups, and are not monotone in p: one more replica may put two heavy groups together. What a group
brings are its records; where these take far longer than those of others, its part of the work.

Source: Flink 2.3, `KeyGroupRangeAssignment.computeOperatorIndexForKeyGroup`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from weir_policies.errors import ParameterError
from weir_policies.model.arrays import Floats

CHANCE = 3.0
"""Standard deviations by which a replica gets more of the counted records by chance."""
UNEVEN = 1.1
"""How many times its even part the fullest replica gets where keys matter: less is the unevenness
of many keys of equal weight, which the rounding to key groups leaves out as well."""
UNLIKE = 0.5
"""By how much longer or shorter than elsewhere the records of a group take, as a part, where that
counts: a difference between the nodes on which the groups are is less."""
TIMED = 30
"""Timed records of a group from which their time is believed."""
NO_HELP = 1.1
"""How many times the smallest share within reach one may be for more replicas not to help."""


@dataclass(frozen=True, kw_only=True, slots=True)
class HeavyKey:
    """A key that brings many of the records."""

    name: str
    """Hash of the key, or `=text` where the user asked for the text."""
    group: int
    """Its key group."""
    share: float
    """Part of the operator's records, in [0, 1]."""

    @property
    def label(self) -> str:
        """The key for people: its text in quotes, or its hash."""
        return repr(self.name[1:]) if self.name.startswith("=") else self.name


@dataclass(frozen=True, kw_only=True, slots=True)
class KeyShares:
    """What was measured of an operator's keys.

    Raises:
        ParameterError: There are no groups, or their shares do not sum to 1.
    """

    by_group: tuple[float, ...]
    """Part of the records of each key group, shape `(M,)`; sums to 1."""
    counted: float
    """Records that this comes from: of few, the fullest replica is so by chance."""
    heavy: tuple[HeavyKey, ...] = ()
    """The heaviest keys, the first first."""
    work: tuple[float, ...] = ()
    """Part of the work of each key group, shape `(M,)`; empty where it is that of the records."""

    def __post_init__(self) -> None:
        """Refuse shares that are none."""
        total = sum(self.by_group)
        if not (self.by_group and min(self.by_group) >= 0 and abs(total - 1) < 1e-6):
            raise ParameterError(f"Expected shares of key groups that sum to 1, got {total}")

    @property
    def heaviest(self) -> int:
        """The key group with the most records."""
        return int(np.argmax(self.by_group))


def replica_shares(by_group: Sequence[float] | Floats, parallelism: int) -> Floats:
    """Return the part of the records that each replica gets, shape `(p,)`.

    Args:
        by_group: Part of each key group, shape `(M,)`.
        parallelism: Replicas p, at least 1; those above M get nothing.
    """
    groups = len(by_group)
    replica = np.arange(groups) * parallelism // groups
    weights = np.asarray(by_group, dtype=np.float64)
    return np.bincount(replica, weights=weights, minlength=parallelism).astype(np.float64)


def measure_lengths(records: Floats, time: Floats, samples: float) -> Floats:
    """Return how many times the mean a record takes in each group, shape `(m,)`; 1 in most jobs.

    Groups whose records differ by less than `UNLIKE`, or by chance, count as alike.

    Args:
        records: Part of the records of each group, shape `(m,)`; sums to 1.
        time: Part of the time that the groups took in timed records, shape `(m,)`; sums to 1.
        samples: How many timed records that comes from.
    """
    timed = samples * records
    known = timed >= TIMED
    least = np.full(records.size, np.inf)
    least[known] = np.maximum(CHANCE / np.sqrt(timed[known]), UNLIKE)
    lengths = np.divide(time, records, out=np.ones(records.size), where=records > 0)
    usual, own = 1.0, np.zeros(records.size, dtype=bool)
    for _ in range(2):  # the mean first, then that of those which are alike
        own = np.abs(lengths / usual - 1) > least
        rest = records[~own].sum()
        usual = time[~own].sum() / rest if rest > 0 else 1.0
        if usual == 0:
            break
    return np.where(own, lengths, usual) if own.any() else np.ones(records.size)


def fullest_share(by_group: Sequence[float] | Floats, parallelism: int) -> float:
    """Return the part of the records that the fullest of so many replicas gets."""
    return float(replica_shares(by_group, parallelism).max())


def even_share(groups: int, parallelism: int) -> float:
    """Return the same where every key group gets as much."""
    return math.ceil(groups / parallelism) / groups


def fullest_shares(keys: KeyShares, max_replicas: int) -> tuple[float, ...]:
    """Return the share of the fullest replica at each parallelism from 1 to the most, of the work.

    What may be chance counts as even, and as no better than at fewer replicas. Empty where nothing
    is uneven beyond that.
    """
    groups = len(keys.by_group)
    shares: list[float] = []
    uneven, least = False, 1.0
    for size in range(1, max_replicas + 1):
        even, share = even_share(groups, size), fullest_share(keys.work or keys.by_group, size)
        chance = CHANCE * math.sqrt(even * (1 - even) / max(keys.counted, 1.0))
        matters = share - even > chance
        uneven = uneven or (matters and share > UNEVEN * even)
        share = share if matters else even
        # Of the difference between two parts of the same records.
        chance = CHANCE * math.sqrt((least + share) / max(keys.counted, 1.0))
        if least - chance < share < least:
            share = least
        least = min(least, share)
        shares.append(share)
    return tuple(shares) if uneven else ()


def most_useful(fullest: Sequence[float]) -> int:
    """Return the parallelism above which no other, within reach, makes the fullest replica emptier.

    Args:
        fullest: Share of the fullest replica at each parallelism from 1, shape `(p,)`.
    """
    least = min(fullest)
    return next(size for size, share in enumerate(fullest, 1) if share <= NO_HELP * least)


def zipf_shares(exponent: float, keys: int) -> Floats:
    """Return the part of the records of each of so many keys under Zipf's law, shape `(keys,)`."""
    weights = np.arange(1, keys + 1, dtype=np.float64) ** -exponent
    return weights / weights.sum()


def group_of(key_hash: int, groups: int) -> int:
    """Return the key group of a key, by its Java hash code, any 32 bits.

    Source: Flink 2.3, `MathUtils.murmurHash`.
    """
    code = key_hash & 0xFFFFFFFF
    code = code * 0xCC9E2D51 & 0xFFFFFFFF
    code = (code << 15 | code >> 17) & 0xFFFFFFFF
    code = code * 0x1B873593 & 0xFFFFFFFF
    code = (code << 13 | code >> 19) & 0xFFFFFFFF
    code = (code * 5 + 0xE6546B64) & 0xFFFFFFFF
    code ^= 4
    code = (code ^ code >> 16) * 0x85EBCA6B & 0xFFFFFFFF
    code = (code ^ code >> 13) * 0xC2B2AE35 & 0xFFFFFFFF
    code ^= code >> 16
    if code == 0x80000000:
        return 0
    return (code if code < 0x80000000 else 0x100000000 - code) % groups


def shares_of_groups(shares: Sequence[float] | Floats, groups: int) -> tuple[float, ...]:
    """Return the part of each key group, where the keys are the integers from 0.

    Args:
        shares: Part of each key, shape `(keys,)`; sums to 1.
        groups: Key groups M.
    """
    group = np.fromiter((group_of(key, groups) for key in range(len(shares))), dtype=np.int64)
    dealt = np.bincount(group, weights=np.asarray(shares), minlength=groups)
    return tuple((dealt / dealt.sum()).tolist())
