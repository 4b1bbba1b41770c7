"""Reads what Weir's agent counted of a job's keys. Pure.

Every task that sends records by key has a text (`java/agent`, `KeyCounts`), a line per output:

    OPERATORS GROUPS COUNTED SHIFT WIDTH c,c,...  KEY:GROUP:c,...

Numbers are to base 36, weights shifted right by SHIFT. Each count is of WIDTH neighbouring key
groups; what the named keys did not bring is then taken as spread evenly over these. Lines of
several tasks are added.
"""

from __future__ import annotations

from collections.abc import Iterable
from urllib.parse import unquote_plus

import numpy as np

from weir_operator.errors import PermanentError
from weir_operator.limits import KEY_LINE, MAX_KEY_GROUPS
from weir_policies.model.arrays import Floats
from weir_policies.model.keys import HeavyKey, KeyShares

MOST_KEYS = 5
"""Keys of an operator that are named."""
NAMED_FROM = 0.008
"""Part of the records from which a key is named: less than 1 %, which may be counted too low."""
_LONGEST = 40  # characters of a key's text


def read_keys(texts: Iterable[str]) -> dict[str, KeyShares]:
    """Return what was counted of each operator's keys, by the operator's name.

    Where an operator has inputs of different numbers of key groups, the one with most records
    counts.

    Raises:
        PermanentError: A text is not what the agent writes.
    """
    found: dict[tuple[str, int], _Sum] = {}
    for text in texts:
        for line in text.splitlines():
            try:
                operators, counts = _read_line(line)
            except (ValueError, IndexError, OverflowError) as error:
                raise PermanentError(
                    f"Expected counts of keys as Weir's agent writes them, got {line[:80]!r}"
                ) from error
            for name in operators:
                found.setdefault((name, counts.weights.size), _Sum(counts.weights.size)).add(counts)
    by_operator: dict[str, _Sum] = {}
    for (name, _), counts in sorted(found.items(), key=lambda each: each[1].total):
        if counts.total > 0:
            by_operator[name] = counts
    return {name: counts.shares() for name, counts in sorted(by_operator.items())}


class _Sum:
    """Weights of key groups and keys, added up."""

    def __init__(self, groups: int) -> None:
        self.weights: Floats = np.zeros(groups)
        self.counted = 0
        self.keys: dict[tuple[str, int], float] = {}

    @property
    def total(self) -> float:
        return float(self.weights.sum())

    def add(self, other: _Sum) -> None:
        self.weights += other.weights
        self.counted += other.counted
        for key, weight in other.keys.items():
            self.keys[key] = self.keys.get(key, 0.0) + weight

    def shares(self) -> KeyShares:
        total = self.total
        heaviest = sorted(self.keys.items(), key=lambda each: -each[1])[:MOST_KEYS]
        return KeyShares(
            by_group=tuple((self.weights / total).tolist()),
            counted=float(self.counted),
            heavy=tuple(
                HeavyKey(name=name, group=group, share=min(weight / total, 1.0))
                for (name, group), weight in heaviest
                if weight >= NAMED_FROM * total
            ),
        )


def _read_line(line: str) -> tuple[list[str], _Sum]:
    if len(line) > KEY_LINE:
        raise ValueError("too long")
    names, *numbers, counts = line.split(" ")[:6]
    groups, counted, shift, width = (int(number, 36) for number in numbers)
    blocks = [int(count, 36) for count in counts.split(",")]
    if not (0 < groups <= MAX_KEY_GROUPS and 0 <= shift < 64 and 0 < width <= groups):
        raise ValueError("no such key groups")
    if len(blocks) != -(-groups // width):
        raise ValueError("not so many counts")
    if counted < 0 or min(blocks) < 0:
        raise ValueError("below zero")
    read = _Sum(groups)
    read.counted = counted
    rest = np.array(blocks, dtype=np.float64)
    for key in line.split(" ")[6:7]:
        for each in key.split(","):
            name, number, count = each.split(":")
            group, weight = int(number, 36), int(count, 36)
            if not (0 <= group < groups and weight >= 0):
                raise ValueError("no such key group")
            read.keys[_readable(name), group] = float(weight << shift)
            if width > 1:
                # What a key brings is in its own group, not spread over its neighbours.
                own = min(float(weight), rest[group // width])
                rest[group // width] -= own
                read.weights[group] += own
    sizes = np.bincount(np.arange(groups) // width)
    read.weights += np.repeat(rest / sizes, sizes)
    read.weights *= 2.0**shift
    return names.split(","), read


def _readable(name: str) -> str:
    if not name.startswith("="):
        return name[:_LONGEST]
    text = unquote_plus(name[1:])[:_LONGEST]
    return "=" + "".join(sign if sign.isprintable() else "?" for sign in text)
