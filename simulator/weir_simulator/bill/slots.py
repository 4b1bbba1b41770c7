"""Samples of a job's series, page by page, added up to slots of equal length.

A counter's rise between two samples is spread evenly over the time between them; a gauge counts
with the mean of both. A fall of a counter, a value that is no number, and a hole of more than five
minutes leave their time uncovered: nothing is guessed. So a page is gone once it was added, and
what is kept does not grow with the interval of the scrapes.

Two series of the same subtask are one after the other where the job restarted, and beside each
other where a pair of servers scraped it twice, or a gateway repeats what a dead process pushed
last. Beside each other, the one that covers more of a slot counts, and of equal ones the greater.

Busy time may fall by some seconds without a restart: Flink counts it as what is neither idle nor
back-pressured, and an idle stretch only when it ends. A later, lower reading bounds earlier ones.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from weir_policies.model.arrays import Floats
from weir_simulator.bill.metrics import COUNTERS, Metric, Role, read_metric
from weir_simulator.errors import FitError

Halves = NDArray[np.float32]
"""Of half the size: amounts of a slot are known no better."""
LONGEST_STEP = 300.0
"""Seconds between two samples that are still neighbours: what Prometheus looks back."""
SETTLING = 10_000.0
"""Milliseconds by which busy time falls without a restart."""
MOST_HELD = 40_000_000
"""Slots of all series together that are held, of eight bytes each: six times those of ten vertices
with eight subtasks over two weeks of minutes."""
_FULL = 1.02
"""Part of a slot that series one after the other may cover, for rounding."""


class UnusableMetricsError(FitError):
    """Nothing can be said of a job from these metrics."""


@dataclass(slots=True)
class Track:
    """One series as far as it was read."""

    metric: Metric
    first: float
    """Unix seconds of its first number."""
    last: float = 0.0
    value: float = 0.0
    changed: float = 0.0
    """Unix seconds at which its value was last another than before."""
    falls: list[tuple[float, float]] = field(default_factory=list)
    """Unix seconds of the samples before and after each fall of a counter."""
    pieces: list[tuple[int, Halves, Halves]] = field(default_factory=list)
    """First slot, amounts and covered seconds of each page."""


class SlotTable:
    """Adds samples up.

    Args:
        begin: Unix seconds of the first slot.
        end: Unix seconds; what is later is left out.
        slot: Seconds.
        job: Name of the job, see `read_metric`.
    """

    def __init__(self, *, begin: float, end: float, slot: float, job: str = "") -> None:
        self.begin, self.slot = begin, slot
        self.slots = max(int((end - begin) / slot), 1)
        self._job = job
        self._metrics: dict[tuple[str, frozenset[tuple[str, str]]], Metric | None] = {}
        self._tracks: dict[tuple[str, frozenset[tuple[str, str]]], Track] = {}
        self._held = 0
        self.unread: dict[str, int] = {}
        """Series that carry a name that is read, but no vertex; by name."""
        self.with_busy_time: set[str] = set()
        """Vertices for which there is busy time, be it no number: operators have none."""

    def add(self, name: str, labels: Mapping[str, str], times: Floats, values: Floats) -> None:
        """Add samples of one series, in order of time and later than those before.

        Args:
            name: Of the series.
            labels: Without `__name__`.
            times: Unix seconds, shape `(n,)`.
            values: Shape `(n,)`; those that are no numbers are left out.
        """
        key = name, frozenset(labels.items())
        if key not in self._metrics:
            self._metrics[key] = read_metric(name, labels, job=self._job)
            if self._metrics[key] is None:
                self.unread[name] = self.unread.get(name, 0) + 1
        metric = self._metrics[key]
        if metric is not None and metric.role in (Role.BUSY, Role.BUSY_SHARE):
            self.with_busy_time.add(metric.vertex)
        known = np.isfinite(values)
        if metric is None or not known.any():
            return
        times, values = times[known], values[known]
        track = self._tracks.get(key)
        if track is None:
            first = float(times[0])
            track = self._tracks[key] = Track(metric=metric, first=first, changed=first)
        else:
            later = times > track.last
            times = np.append(track.last, times[later])
            values = np.append(track.value, values[later])
        track.last, track.value = float(times[-1]), float(values[-1])
        moved = np.flatnonzero(np.diff(values))
        if moved.size:
            track.changed = float(times[moved[-1] + 1])
        if times.size > 1:
            self._spread(track, times, values)

    def tracks(self, *roles: Role) -> Iterator[Track]:
        """Yield the series of these roles."""
        return (each for each in self._tracks.values() if each.metric.role in roles)

    def _spread(self, track: Track, times: Floats, values: Floats) -> None:
        step = np.diff(times)
        whole = (step > 0) & (step <= LONGEST_STEP)
        if track.metric.role in COUNTERS:
            rise = np.diff(values)
            allowed = SETTLING if track.metric.role is Role.BUSY else 0.0
            fell = rise < -allowed
            whole &= ~fell
            if track.metric.role is Role.BUSY and not fell.any():
                rise = np.diff(np.minimum.accumulate(values[::-1])[::-1])
            track.falls += zip(times[:-1][fell].tolist(), times[1:][fell].tolist(), strict=True)
        else:
            rise = (values[1:] + values[:-1]) / 2 * step
        first = int(np.floor((times[0] - self.begin) / self.slot))
        last = int(np.ceil((times[-1] - self.begin) / self.slot))
        first, last = max(first, 0), min(last, self.slots)
        if first >= last:
            return
        edges = self.begin + self.slot * np.arange(first, last + 1)
        amounts, covered = (
            np.diff(np.interp(edges, times, np.append(0.0, np.cumsum(np.where(whole, each, 0.0)))))
            for each in (rise, step)
        )
        self._held += last - first
        if self._held > MOST_HELD:
            raise UnusableMetricsError(
                f"Expected at most {MOST_HELD:,} minutes of all series together, got more from "
                f"{len(self._tracks):,} series; ask for fewer days with --days"
            )
        track.pieces.append((first, amounts.astype(np.float32), covered.astype(np.float32)))

    def cut(self, track: Track, end: float) -> None:
        """Drop what a series has after a Unix time."""
        last = int(np.ceil((end - self.begin) / self.slot))
        track.pieces = [
            (first, amounts[: last - first], covered[: last - first])
            for first, amounts, covered in track.pieces
            if first < last
        ]
        track.last = min(track.last, end)

    def join(self, tracks: list[Track]) -> tuple[Floats, Floats]:
        """Return the amounts and covered seconds of all slots, of the series of one subtask."""
        amounts, covered = np.zeros(self.slots), np.zeros(self.slots)
        for track in sorted(tracks, key=lambda each: each.first):
            own, its = np.zeros(self.slots), np.zeros(self.slots)
            for first, amount, seconds in track.pieces:
                own[first : first + amount.size] += amount
                its[first : first + seconds.size] += seconds
            one_after_other = covered + its <= _FULL * self.slot
            better = (its > _FULL * covered) | ((its * _FULL >= covered) & (own > amounts))
            amounts = np.where(one_after_other, amounts + own, np.where(better, own, amounts))
            covered = np.where(one_after_other, covered + its, np.where(better, its, covered))
        return amounts, covered
