"""Samples and labels as arrays: a day of an application, with the margins of its neighbours.

Files store samples by series and time, so that a series is a few stretches of them. Series are
found by their stretches; nothing is sorted as a whole.

Sums over neighbouring rows ignore unknown values (NaN). Rows are series or tasks, columns the
minutes of a day. A sum of unknown values is unknown: with a plain sum, a task that reports no
backlog would have one of 0.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from datetime import date

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from weir_pipelines.settings import DAY_MS, LATE_AFTER_MS, MARGIN_MS
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
        """Whether each row is its own group, so that there is nothing to sum."""
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

    Flink counts an idle stretch when it ends or after 5 s at the latest, so busy time may run ahead
    in one minute and be set back in the next: what is beyond the bounds is that, and no share.
    """
    return np.clip(divide(part, whole), 0.0, 1.0)


def concatenate_ranges(starts: Ints, sizes: Ints) -> Ints:
    """Return the numbers of several ranges one after the other."""
    ends = np.cumsum(sizes)
    total = int(ends[-1]) if ends.size else 0
    offsets: Ints = np.repeat(starts - (ends - sizes), sizes)
    return np.arange(total) + offsets


EPOCH = date(1970, 1, 1).toordinal()


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Samples:
    """Samples, each of shape `(n,)`."""

    series: Ints
    """Number of the series."""
    time_ms: Ints
    """Unix milliseconds at which it was scraped."""
    value: Floats
    is_late: Bools
    """Whether it was received long after."""

    def take(self, rows: Ints | Bools) -> Samples:
        """Return some of them."""
        return Samples(**{each.name: getattr(self, each.name)[rows] for each in fields(self)})

    def between(self, begin_ms: int, end_ms: int) -> Samples:
        """Return those that were scraped from a time on and before another."""
        inside = (self.time_ms >= begin_ms) & (self.time_ms < end_ms)
        return self if inside.all() else self.take(inside)


DayFunction = Callable[[Samples, pa.Table, date], pa.Table]
"""From an application's day, with margins, and the labels of its series, to the rows of a table."""


def as_samples(table: pa.Table) -> Samples:
    """Return the rows of the table `samples` as arrays."""
    time_ms, received = table["time_ms"].to_numpy(), table["received_ms"]
    if received.null_count == len(received):
        is_late = np.zeros(len(received), dtype=np.bool_)
    else:
        # Where nobody noted when, it was in time.
        is_late = received.fill_null(0).to_numpy() - time_ms > LATE_AFTER_MS
    return Samples(
        series=table["series"].to_numpy(),
        time_ms=time_ms,
        value=table["value"].to_numpy(),
        is_late=is_late,
    )


def day_number(day: date) -> int:
    """Return the days since 1970 began."""
    return day.toordinal() - EPOCH


def begin_ms(day: date) -> int:
    """Return the Unix milliseconds at which a UTC day begins."""
    return day_number(day) * DAY_MS


def cut_day(parts: Sequence[Samples], day: date) -> Samples:
    """Return a day's samples and the margins of its neighbours."""
    begin, end = begin_ms(day) - MARGIN_MS, begin_ms(day) + DAY_MS + MARGIN_MS
    inside = [each.between(begin, end) for each in parts]
    return Samples(
        **{
            each.name: np.concatenate([getattr(part, each.name) for part in inside])
            for each in fields(Samples)
        }
    )


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Labels:
    """What each series is, one row per series, in an order that puts groups together."""

    series: Ints
    """Number of each, shape `(s,)`."""
    words: dict[str, Words]
    """The other columns of the table `series`, each of shape `(s,)`."""

    def __getitem__(self, name: str) -> Words:
        """Return a column."""
        return self.words[name]

    def take(self, rows: Ints | Bools | slice) -> Labels:
        """Return some of them."""
        return Labels(
            series=self.series[rows], words={name: each[rows] for name, each in self.words.items()}
        )

    def group(self, *names: str) -> Groups:
        """Group series that are equal in some columns, by which they are sorted."""
        return group_rows(*(self.words[name] for name in names))


def sort_labels(table: pa.Table, *names: str) -> Labels:
    """Return labels sorted by some columns, and each series once."""
    columns = [name for name in table.column_names if name != "series"]
    numbers, rows = np.unique(table["series"].to_numpy(), return_index=True)
    words = {name: np.array(table[name].to_pylist(), dtype=np.str_)[rows] for name in columns}
    # The last key counts most. By number at the end, for sums to be the same each time.
    order = np.lexsort((numbers, *(words[name] for name in reversed(names))))
    return Labels(series=numbers, words=words).take(order)


class Stretches:
    """Where the samples of each series are."""

    def __init__(self, samples: Samples) -> None:
        self._samples = samples
        found = group_rows(samples.series)
        numbers = samples.series[found.starts]
        order = np.argsort(numbers, kind="stable")
        self._numbers = numbers[order]
        self._starts = found.starts[order]
        self._sizes = found.sizes[order]

    def of(self, series: Ints) -> Samples:
        """Return the samples of some series, numbered by their place among these."""
        low = np.searchsorted(self._numbers, series, side="left")
        counts = np.searchsorted(self._numbers, series, side="right") - low
        chosen = concatenate_ranges(low, counts)
        sizes = self._sizes[chosen]
        taken = self._samples.take(concatenate_ranges(self._starts[chosen], sizes))
        place = np.repeat(np.repeat(np.arange(series.size), counts), sizes)
        return Samples(
            series=place, time_ms=taken.time_ms, value=taken.value, is_late=taken.is_late
        )
