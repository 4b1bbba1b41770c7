"""Turns samples into what each series did minute by minute; knows no labels.

A *step* leads from one sample of a series to the next. It is *sound* if the two are as far apart as
usual: then its rise is spread evenly over its time. A step over missing samples shows how much came
but not when, and a step down shows nothing; both leave their time uncovered.

Each day is computed from its own samples and a margin of its neighbours', so the result is the same
alone or among others. All samples are processed at once, without a loop over them, in blocks of
whole operators, so that a block's minutes fit into a processor's cache.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from datetime import date

import numpy as np

from weir_pipelines.samples import (
    Bools,
    Groups,
    Ints,
    Labels,
    Samples,
    Stretches,
    Words,
    concatenate_ranges,
    day_number,
    divide,
    group_rows,
)
from weir_pipelines.settings import DAY_MINUTES, GAP_AFTER, MINUTE_MS
from weir_policies.model.arrays import Floats

AROUND = 10
"""Steps before and after one whose median is the usual distance: scrape intervals may change within
a day, and a step is to be held against its own time's."""

_AT_ONCE = 1 << 15
"""Steps whose medians are looked for at once, as memory is bounded."""
_NEVER = np.iinfo(np.int64).max


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class SeriesMinutes:
    """What each series did in each minute of a day, each of shape `(s, minutes)`."""

    present: Bools
    """Whether anything is known of the minute, be it that it lies inside a gap."""
    rise: Floats
    """Sum over sound steps that do not fall."""
    rise_ms: Floats
    """Milliseconds that these cover."""
    change: Floats
    """Sum over all sound steps."""
    change_ms: Floats
    """Milliseconds that these cover."""
    elapsed_ms: Floats
    """Time of all steps that end here, sound or not."""
    moved: Floats
    """Difference over them."""
    last: Floats
    """The last value; NaN without a sample."""
    first_ms: Floats
    """Unix milliseconds of the first sample here; NaN without one."""
    last_ms: Floats
    """And of the last."""
    is_gap: Bools
    is_reset: Bools
    is_duplicate: Bools
    is_late: Bools
    is_nan: Bools

    def take(self, rows: Bools) -> SeriesMinutes:
        """Return what some series did."""
        if rows.all():
            return self
        return SeriesMinutes(**{each.name: getattr(self, each.name)[rows] for each in fields(self)})


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class _Steps:
    """The step that leads to each sample, each of shape `(n,)`; of length 0 where none does."""

    samples: Samples
    usable: Bools
    """Whether the sample is a number that a counter can have."""
    follows: Bools
    length: Ints
    """Milliseconds."""
    rise: Floats
    gap: Bools


def measure_series(samples: Samples, count: int, day: int) -> SeriesMinutes:
    """Return what each series did in each minute of a day.

    Args:
        samples: Of the day and its margins; series are numbered from 0.
        count: How many series there are.
        day: Days since 1970 began.
    """
    steps = _find_steps(samples)
    return _sum_by_minute(steps, _Day(count=count, midnight=day * DAY_MINUTES))


def _find_steps(samples: Samples) -> _Steps:
    usable = np.isfinite(samples.value) & (samples.value >= 0)
    # Unusable samples form their own group, and so break no step.
    group = 2 * samples.series + ~usable
    order = _order(group, samples)
    if order is not None:
        samples, usable, group = samples.take(order), usable[order], group[order]
    groups = group_rows(group)
    follows = np.ones(group.size, dtype=np.bool_)
    follows[groups.starts] = False
    value = np.where(usable, samples.value, 0.0)
    length = np.where(follows, np.diff(samples.time_ms, prepend=0), 0)
    rise = np.where(follows, np.diff(value, prepend=0.0), 0.0)
    gap = usable & _is_long(length, groups)
    return _Steps(
        samples=samples, usable=usable, follows=follows, length=length, rise=rise, gap=gap
    )


def _order(group: Ints, samples: Samples) -> Ints | None:
    """Return the order by group, time and value; `None` if they are in it, as they mostly are."""
    same = group[1:] == group[:-1]
    if np.all((group[1:] > group[:-1]) | same & (samples.time_ms[1:] > samples.time_ms[:-1])):
        return None
    return np.lexsort((samples.value, samples.time_ms, group))


def _is_long(length: Ints, groups: Groups) -> Bools:
    """Tell which steps are longer than so many usual ones around them, the lower median.

    No median is below the group's shortest step: only steps that are long beside that one are
    looked at more closely, which are few.
    """
    found = np.zeros(length.size, dtype=np.bool_)
    if not length.size:
        return found
    # Two samples at one time are no distance.
    distance = np.where(length > 0, length, _NEVER)
    shortest = np.minimum.reduceat(distance, groups.starts).astype(np.float64)
    suspects = np.flatnonzero(length > GAP_AFTER * np.repeat(shortest, groups.sizes))
    low = np.repeat(groups.starts, groups.sizes)
    high = low + np.repeat(groups.sizes, groups.sizes)
    for first in range(0, suspects.size, _AT_ONCE):
        some = suspects[first : first + _AT_ONCE]
        around = some[:, None] + np.arange(-AROUND, AROUND + 1)  # suspects x steps around
        inside = (around >= low[some, None]) & (around < high[some, None])
        lengths = np.where(inside, distance[np.clip(around, 0, length.size - 1)], _NEVER)
        lengths.sort(axis=1)
        known = np.count_nonzero(lengths < _NEVER, axis=1)
        usual = lengths[np.arange(some.size), (known - 1) // 2]
        found[some] = length[some] > GAP_AFTER * usual
    return found


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class _Parts:
    """The parts of some steps, each within one minute, of shape `(m,)`."""

    cell: Ints
    rise: Floats
    """0 where the step is not sound."""
    covered: Floats
    """Milliseconds of sound steps."""
    falls: Bools
    gap: Bools


@dataclass(frozen=True, kw_only=True, slots=True)
class _Day:
    """The minutes of a day, numbered through series by series; all of other days are one more."""

    count: int
    """Series."""
    midnight: int
    """The day's first minute, counted from 1970."""

    @property
    def size(self) -> int:
        return self.count * DAY_MINUTES + 1

    def cells(self, series: Ints, minute: Ints) -> Ints:
        of_day = minute - self.midnight
        own = (of_day >= 0) & (of_day < DAY_MINUTES)
        return np.where(own, series * DAY_MINUTES + of_day, self.size - 1)

    def total(self, *sums: tuple[Ints, Floats]) -> Floats:
        """Sum values by cell."""
        found = np.zeros(self.size)
        for cells, values in sums:
            found += np.bincount(cells, values, minlength=self.size)
        return self.grid(found)

    def flags(self, *marked: Ints) -> Bools:
        found = np.zeros(self.size, dtype=np.bool_)
        for cells in marked:
            found[cells] = True
        return found[:-1].reshape(self.count, DAY_MINUTES)

    def grid(self, cells: Floats) -> Floats:
        return cells[:-1].reshape(self.count, DAY_MINUTES)


def _sum_by_minute(steps: _Steps, day: _Day) -> SeriesMinutes:
    samples = steps.samples
    ends, befores = _cut(steps, day)
    parts = (ends, befores)
    change = day.total(*((each.cell, each.rise) for each in parts))
    change_ms = day.total(*((each.cell, each.covered) for each in parts))
    rise, rise_ms = change, change_ms
    falls = steps.rise < 0
    if falls.any():
        rise = day.total(*((each.cell, each.rise * ~each.falls) for each in parts))
        rise_ms = day.total(*((each.cell, each.covered * ~each.falls) for each in parts))
    first_ms, last_ms, last = (np.full(day.size, np.nan) for _ in range(3))
    times = samples.time_ms.astype(np.float64)
    np.fmin.at(first_ms, ends.cell, times)
    np.fmax.at(last_ms, ends.cell, times)
    # In order of time: of several in one minute the last one stays.
    last[ends.cell[steps.usable]] = samples.value[steps.usable]
    return SeriesMinutes(
        present=day.flags(ends.cell, befores.cell),
        rise=rise,
        rise_ms=rise_ms,
        change=change,
        change_ms=change_ms,
        elapsed_ms=day.total((ends.cell, (steps.length * steps.usable).astype(np.float64))),
        moved=day.total((ends.cell, steps.rise)),
        last=day.grid(last),
        first_ms=day.grid(first_ms),
        last_ms=day.grid(last_ms),
        is_gap=day.flags(*(each.cell[each.gap] for each in parts)),
        is_reset=day.flags(ends.cell[falls]),
        is_duplicate=day.flags(ends.cell[steps.follows & (steps.length == 0)]),
        is_late=day.flags(ends.cell[samples.is_late]),
        is_nan=day.flags(ends.cell[~steps.usable]),
    )


def _cut(steps: _Steps, day: _Day) -> tuple[_Parts, _Parts]:
    """Return each step's parts in the minute in which it ends, and in those before.

    A step that nothing can be used of touches only the minute of its sample.
    """
    time_ms = steps.samples.time_ms
    begin_ms = time_ms - steps.length
    # A sample on the stroke of the minute ends the minute before.
    last = (time_ms - 1) // MINUTE_MS
    first = np.where(steps.usable & (steps.length > 0), begin_ms // MINUTE_MS, last)
    sound = steps.usable & ~steps.gap & (steps.length > 0)
    slope = np.where(sound, divide(steps.rise, steps.length), 0.0)

    def part(rows: Ints | slice, minute: Ints) -> _Parts:
        from_ms = np.maximum(begin_ms[rows], minute * MINUTE_MS)
        covered = np.minimum(time_ms[rows], (minute + 1) * MINUTE_MS) - from_ms
        return _Parts(
            cell=day.cells(steps.samples.series[rows], minute),
            rise=slope[rows] * covered,
            covered=(covered * sound[rows]).astype(np.float64),
            falls=steps.rise[rows] < 0,
            gap=steps.gap[rows],
        )

    crossing = np.flatnonzero(last > first)
    befores = (last - first)[crossing]
    crossed = part(np.repeat(crossing, befores), concatenate_ranges(first[crossing], befores))
    return part(slice(None), last), crossed


TOGETHER = 64
"""Series of a block, about: an operator with more of them is a block of its own."""


def measure_blocks(
    samples: Samples, labels: Labels, day: date
) -> Iterator[tuple[Labels, SeriesMinutes]]:
    """Yield some operators' series of which anything is known, and what each did in each minute.

    Args:
        samples: Of the day and its margins.
        labels: Of their series, sorted by operator before all else.
        day: Which day.
    """
    stretches = Stretches(samples)
    for block in split_operators(labels):
        minutes = measure_series(stretches.of(block.series), block.series.size, day_number(day))
        known = np.logical_or.reduce(minutes.present, axis=1)
        if known.any():
            yield block.take(known), minutes.take(known)


def split_operators(labels: Labels) -> Iterator[Labels]:
    """Yield the labels of whole operators, about `TOGETHER` series at a time."""
    begin = 0
    for end in (*labels.group("operator").starts[1:].tolist(), labels.series.size):
        if end - begin >= TOGETHER or end == labels.series.size:
            yield labels.take(slice(begin, end))
            begin = end


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Roles:
    """What the series of some groups are for, and where anything is known of them."""

    metric: Words
    """Role of each series, shape `(s,)`."""
    present: Bools
    """Shape `(s, minutes)`."""
    groups: Groups

    def total(self, role: str, values: Floats) -> Floats:
        """Sum values over the series of one role.

        Args:
            role: Which one.
            values: Of each series, shape `(s, minutes)`.

        Returns:
            A row per group, NaN where none of its series has the role.
        """
        rows = np.flatnonzero(self.metric == role)
        totals = np.full((self.groups.starts.size, values.shape[1]), np.nan)
        if rows.size:
            within = self.groups.numbers[rows]
            own = group_rows(within)
            known = np.where(self.present[rows], values[rows], np.nan)
            totals[within[own.starts]] = own.total(known)
        return totals

    def seen(self, roles: tuple[str, ...], flags: Bools) -> Bools:
        """Tell where a series of some roles has a flag, a row per group."""
        return self.groups.any(flags & np.isin(self.metric, roles)[:, None])
