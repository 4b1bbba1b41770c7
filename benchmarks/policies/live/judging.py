"""Judges a run by how late its records came out, whoever scaled the job.

An interval holds the records that were due in it, whenever they came out. So one that a change has
held up is judged like any other, and so is one that never came. A record that came out again after
a failure counts when it first came out.

Compares two sides in pairs of runs with equal arrivals. Pure.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean

import numpy as np

from benchmarks.flink.ledger import Arrival
from weir_policies.model.arrays import Floats

CONFIDENCE = 0.95
RESAMPLES = 10_000
SEED = 1


@dataclass(frozen=True, kw_only=True, slots=True)
class Judged:
    """What the arrivals at a plain sink say of a run."""

    late: tuple[bool, ...]
    """Of each interval, whether its mean response time was over the bound."""
    records: int
    missing: int
    """Records that did not come, although a later one did."""
    doubled: int
    """Records that came out again."""


def judge(
    arrivals: Sequence[Arrival], *, start: float, interval: float, intervals: int, bound: float
) -> Judged:
    first: dict[int, Arrival] = {}
    for each in sorted(arrivals, key=lambda arrival: arrival.time):
        first.setdefault(each.id, each)
    ordered = [first[number] for number in sorted(first)]
    responses: list[list[float]] = [[] for _ in range(intervals)]
    missing = 0

    def enter(due: float, response: float) -> None:
        place = math.floor((due - start) / interval)
        if 0 <= place < intervals:
            responses[place].append(response)

    for each in ordered:
        enter(each.due, each.time - each.due)
    for one, next_one in pairwise(ordered):
        if next_one.id > one.id + 1:
            missing += next_one.id - one.id - 1
            enter(one.due, math.inf)
            enter(next_one.due, math.inf)
    return Judged(
        late=tuple(not each or fmean(each) > bound for each in responses),
        records=len(ordered),
        missing=missing,
        doubled=len(arrivals) - len(ordered),
    )


def mean_over_time(samples: Sequence[tuple[float, float]], *, begin: float, end: float) -> float:
    """Return the mean of a value that stays until the next sample."""
    if not samples:
        raise ValueError("Expected at least one sample, got none")
    times = [begin, *(min(max(time, begin), end) for time, _ in samples[1:]), end]
    held = [later - earlier for earlier, later in pairwise(times)]
    values = [value for _, value in samples]
    return sum(value * seconds for value, seconds in zip(values, held, strict=True)) / (end - begin)


@dataclass(frozen=True, kw_only=True, slots=True)
class Compared:
    """Ours against theirs, over pairs."""

    value: float
    """Of all pairs; `inf` for a ratio where theirs is zero and ours is not."""
    low: float | None
    """Lower end of the interval; `None` for fewer than two pairs."""
    high: float | None

    def is_at_most(self, limit: float) -> bool | None:
        """Return whether it is at most so much; `None` where the pairs do not show it."""
        if self.low is None or self.high is None:
            return None
        return True if self.high <= limit else False if self.low > limit else None


def ratio(ours: Sequence[float], theirs: Sequence[float]) -> Compared:
    """Return the ratio of the sums over pairs, see `_compare`."""
    return _compare(ours, theirs, _ratio_of_sums)


def difference(ours: Sequence[float], theirs: Sequence[float]) -> Compared:
    """Return by how much our mean over pairs is greater, see `_compare`."""
    return _compare(ours, theirs, lambda mine, other: (mine - other).mean(axis=-1))


def _compare(
    ours: Sequence[float], theirs: Sequence[float], measure: Callable[[Floats, Floats], Floats]
) -> Compared:
    """Return a measure of all pairs, with 95 % of bootstrap resamples of the pairs."""
    if not ours:
        raise ValueError("Expected at least one pair, got none")
    mine, other = np.array(ours, dtype=float), np.array(theirs, dtype=float)
    value = float(measure(mine, other))
    if len(ours) < 2:
        return Compared(value=value, low=None, high=None)
    chosen = np.random.default_rng(SEED).integers(len(ours), size=(RESAMPLES, len(ours)))
    resampled = measure(mine[chosen], other[chosen])
    tail = (1 - CONFIDENCE) / 2
    low, high = np.quantile(resampled, [tail, 1 - tail], method="inverted_cdf")
    return Compared(value=value, low=float(low), high=float(high))


def _ratio_of_sums(ours: Floats, theirs: Floats) -> Floats:
    """Return the ratios of the sums along the last axis; of nothing to nothing it is 0."""
    above, below = ours.sum(axis=-1), theirs.sum(axis=-1)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(above == 0, 0.0, above / below)
