"""Which vertex feeds which, from rates alone: what one gives out, another takes in.

Flink counts a record that a vertex gives out once for each vertex behind it. So the sum of what the
vertices behind it take in follows what it gives out, minute by minute. Vertices are placed one
after the other, from the sources on, so the result has no cycle. What fits nowhere is attached to
the nearest, and said to be guessed.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from weir_policies.model.arrays import Floats

SAME = 0.03
"""Mean difference, relative to the rate, up to which two rates are of the same records."""
MOST_BRANCHES = 3
"""Vertices behind one, or before one, that are found."""

STRETCHES = 1000
"""At most so many of the time are compared."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Edges:
    """The edges of a job."""

    pairs: tuple[tuple[str, str], ...]
    """From and to, by name."""
    guessed: tuple[tuple[str, str], ...] = ()
    """Those of them for which no rates agree."""


def find_edges(names: Sequence[str], taken: Floats, given: Floats) -> Edges:
    """Return the edges.

    Args:
        names: Of the vertices.
        taken: Records/s that each took in, shape `(vertices, slots)`, NaN where not known.
        given: The same that each gave out.
    """
    known = np.isfinite(taken).all(axis=0) & np.isfinite(given).all(axis=0)
    ins, outs = _coarsen(taken[:, known]), _coarsen(given[:, known])
    rows = range(len(names))
    placed = [row for row in rows if is_source(names[row])]
    if not placed:
        placed = [int(np.argmax(outs.sum(axis=1)))]
    waiting = [row for row in rows if row not in placed]
    free = set(rows)  # those whose output goes nowhere yet
    pairs: list[tuple[int, int]] = []
    guessed: list[tuple[int, int]] = []
    while waiting:
        passing = [row for row in waiting if outs[row].sum() > 0]
        # Sinks come last: one that gets what a source gives may as well get it from behind a join.
        best = min(_candidates(placed, passing, free, ins, outs), default=None) or min(
            _candidates(placed, waiting, free, ins, outs), default=None
        )
        if best is None:
            row = waiting[0]
            last = min(placed, key=lambda each: (_distance(outs[each], ins[row]), -each))
            guessed.append((last, row))
            best = (0.0, (last,), (row,))
        _, feeding, fed = best
        pairs += itertools.product(feeding, fed)
        free -= set(feeding)
        placed += fed
        waiting = [row for row in waiting if row not in fed]
    return Edges(
        pairs=tuple((names[a], names[b]) for a, b in pairs),
        guessed=tuple((names[a], names[b]) for a, b in guessed),
    )


def _coarsen(rates: Floats) -> Floats:
    """Return the rates of so few stretches that many pairs can be compared."""
    length = max(rates.shape[1] // STRETCHES, 1)
    whole = rates.shape[1] // length * length
    means: Floats = rates[:, :whole].reshape(rates.shape[0], -1, length).mean(axis=2)
    return means


def is_source(name: str) -> bool:
    """Return whether Flink named a vertex or an operator as a source."""
    return name.lower().startswith("source")


def _candidates(
    placed: Sequence[int], waiting: Sequence[int], free: set[int], ins: Floats, outs: Floats
) -> Iterator[tuple[float, tuple[int, ...], tuple[int, ...]]]:
    """Yield how far rates differ, and who may feed whom, of those that hardly do."""
    givers = [row for row in placed if row in free and outs[row].sum() > 0]
    for count in range(1, MOST_BRANCHES + 1):
        splits = itertools.product(itertools.combinations(givers, 1), _sets(waiting, count))
        merges = itertools.product(_sets(givers, count), itertools.combinations(waiting, 1))
        found = False
        for feeding, fed in (*splits, *merges) if count > 1 else splits:
            distance = _distance(outs[list(feeding)].sum(axis=0), ins[list(fed)].sum(axis=0))
            if distance <= SAME:
                found = True
                yield distance, feeding, fed
        if found:
            return


def _sets(rows: Sequence[int], count: int) -> Iterator[tuple[int, ...]]:
    return itertools.combinations(rows, count)


def _distance(given: Floats, taken: Floats) -> float:
    """Return the mean difference of two rates, relative to their mean; 2 where both are none."""
    total = float((given + taken).sum()) / 2
    return float(np.abs(given - taken).sum()) / total if total > 0 else 2.0
