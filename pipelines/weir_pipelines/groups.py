"""Sums over neighbouring rows, in which what is unknown is NaN and stays out.

Rows are series or tasks, columns the minutes of a day. A sum of nothing known is unknown: with a
plain sum, a task that tells no backlog would have one of 0.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from weir_policies.model.arrays import Floats

Bools = NDArray[np.bool_]
Ints = NDArray[np.int64]
Words = NDArray[np.str_]


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Groups:
    """Which neighbouring rows belong together."""

    starts: Ints
    """First row of each group, shape `(g,)`."""
    rows: int
    """How many rows there are."""

    @property
    def alone(self) -> bool:
        """Whether each row is a group of its own, so that there is nothing to sum."""
        return self.starts.size == self.rows

    @property
    def sizes(self) -> Ints:
        """Rows of each group, shape `(g,)`."""
        return np.diff(self.starts, append=self.rows)

    @property
    def numbers(self) -> Ints:
        """Which group each row belongs to, shape `(rows,)`."""
        return np.repeat(np.arange(self.starts.size), self.sizes)

    def total(self, values: Floats) -> Floats:
        """Return the sum of what is known, NaN where nothing is; groups along the first axis."""
        if self.alone:
            return values
        known = ~np.isnan(values)
        sums = np.add.reduceat(np.where(known, values, 0.0), self.starts, axis=0)
        return np.where(self.any(known), sums, np.nan)

    def mean(self, values: Floats) -> Floats:
        """Return the mean of what is known, NaN where nothing is."""
        if self.alone:
            return values
        counts = np.add.reduceat(~np.isnan(values), self.starts, axis=0, dtype=np.int64)
        return divide(self.total(values), counts)

    def least(self, values: Floats) -> Floats:
        """Return the least of what is known, NaN where nothing is."""
        return values if self.alone else np.fmin.reduceat(values, self.starts, axis=0)

    def most(self, values: Floats) -> Floats:
        """Return the most of what is known, NaN where nothing is."""
        return values if self.alone else np.fmax.reduceat(values, self.starts, axis=0)

    def at_most_of(self, values: Floats, weights: Floats) -> Floats:
        """Return the value where the weight is most, the first of equal ones; NaN without any."""
        if self.alone:
            return np.where(np.isnan(weights), np.nan, values)
        chosen = np.full((self.starts.size, *values.shape[1:]), np.nan)
        heaviest, numbers = self.most(weights), self.numbers
        # The last that is written stays.
        for row in reversed(range(self.rows)):
            here = weights[row] == heaviest[numbers[row]]
            chosen[numbers[row], here] = values[row, here]
        return chosen

    def any(self, flags: Bools) -> Bools:
        """Tell where at least one row of a group is true."""
        return flags if self.alone else np.logical_or.reduceat(flags, self.starts, axis=0)


def group_rows(*columns: Words | Ints) -> Groups:
    """Group rows that are sorted by some columns, and equal in them."""
    rows = columns[0].size
    begins = np.zeros(rows, dtype=np.bool_)
    begins[:1] = True
    for column in columns:
        begins[1:] |= column[1:] != column[:-1]
    return Groups(starts=np.flatnonzero(begins), rows=rows)


def divide(part: Floats, whole: Floats | Ints) -> Floats:
    """Return a ratio, unknown where it would be over 0."""
    ratio: Floats = np.full(np.broadcast_shapes(part.shape, whole.shape), np.nan)
    np.divide(part, whole, out=ratio, where=np.not_equal(whole, 0))
    return ratio


def share(part: Floats, whole: Floats) -> Floats:
    """Return a ratio within [0, 1].

    Flink books an idle stretch when it ends or after 5 s at the latest, so busy time may run ahead
    in one minute and be set back in the next: what is beyond the bounds is that, and no share.
    """
    return np.clip(divide(part, whole), 0.0, 1.0)


def concatenate_ranges(starts: Ints, sizes: Ints) -> Ints:
    """Return the numbers of several ranges one after the other."""
    ends = np.cumsum(sizes)
    total = int(ends[-1]) if ends.size else 0
    offsets: Ints = np.repeat(starts - (ends - sizes), sizes)
    return np.arange(total) + offsets
