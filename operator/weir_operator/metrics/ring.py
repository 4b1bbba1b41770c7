"""The last minutes of samples in memory, bounded by age and by the number of series."""

from __future__ import annotations

import math
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from weir_operator.metrics.seam import Series, Window

_Key = tuple[str, tuple[tuple[str, str], ...]]
_SWEEPS = 60
"""Looks for series that have ended, in the time that samples are kept."""


@dataclass(slots=True)
class _Track:
    labels: Mapping[str, str]
    times: array[float] = field(default_factory=lambda: array("d"))
    """Rising. Eight bytes each, where a list would have its objects besides: 10 KiB of ten minutes
    at a second, instead of 40."""
    values: array[float] = field(default_factory=lambda: array("d"))

    def drop(self, before: float) -> None:
        """Drop the samples of before a time."""
        first = bisect_left(self.times, before)
        del self.times[:first], self.values[:first]


class SampleRing:
    """Samples of many series, each dropped once it is older than `keep` seconds."""

    def __init__(self, keep: float, *, most: float = math.inf) -> None:
        """Begin empty.

        Args:
            keep: Seconds for which a sample is kept.
            most: Series that are kept at once.
        """
        self._keep = keep
        self._most = most
        self._tracks: dict[_Key, _Track] = {}
        self._swept = -math.inf

    def add(self, time: float, samples: Iterable[tuple[str, Mapping[str, str], float]]) -> int:
        """Add samples (name, labels, value) of one moment and drop what has become too old.

        Of two samples of a series at one moment the first is kept, as Prometheus does. Samples
        that are newer than `time` are from a clock that was set back, and go.

        Returns:
            How many were left out, being of a series too many.
        """
        oldest = time - self._keep
        if abs(time - self._swept) >= self._keep / _SWEEPS:
            self._sweep(oldest)
            self._swept = time
        left_out = 0
        for name, labels, value in samples:
            key = (name, tuple(sorted(labels.items())))
            track = self._tracks.get(key)
            if track is None:
                if len(self._tracks) >= self._most:
                    left_out += 1
                    continue
                track = self._tracks[key] = _Track(dict(labels))
            later = bisect_right(track.times, time)
            del track.times[later:], track.values[later:]
            if not track.times or track.times[-1] < time:
                track.times.append(time)
                track.values.append(value)
            track.drop(oldest)
        return left_out

    def window(self, start: float, end: float) -> Window:
        """Return what was sampled in [start, end]."""
        found = []
        for (name, _), track in self._tracks.items():
            first, last = bisect_left(track.times, start), bisect_right(track.times, end)
            if first < last:
                found.append(
                    Series(
                        name=name,
                        labels=track.labels,
                        times=tuple(track.times[first:last]),
                        values=tuple(track.values[first:last]),
                    )
                )
        return Window(start=start, end=end, series=tuple(found))

    def _sweep(self, before: float) -> None:
        for key, track in list(self._tracks.items()):
            track.drop(before)
            if not track.times:
                del self._tracks[key]
