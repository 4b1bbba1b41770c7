"""The last minutes of samples in memory, bounded by age."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from weir_operator.metrics.seam import Series, Window

_Key = tuple[str, tuple[tuple[str, str], ...]]


@dataclass(slots=True)
class _Track:
    labels: Mapping[str, str]
    times: deque[float] = field(default_factory=deque)
    values: deque[float] = field(default_factory=deque)


class SampleRing:
    """Samples of many series, each dropped once it is older than `keep` seconds."""

    def __init__(self, keep: float) -> None:
        self._keep = keep
        self._tracks: dict[_Key, _Track] = {}

    def add(self, time: float, samples: Iterable[tuple[str, Mapping[str, str], float]]) -> None:
        """Add samples (name, labels, value) of one moment and drop what has become too old.

        Of two samples of a series at one moment the first is kept, as Prometheus does. Samples
        that are newer than `time` are from a clock that was set back, and go.
        """
        for name, labels, value in samples:
            key = (name, tuple(sorted(labels.items())))
            track = self._tracks.setdefault(key, _Track(dict(labels)))
            while track.times and track.times[-1] > time:
                track.times.pop()
                track.values.pop()
            if not track.times or track.times[-1] < time:
                track.times.append(time)
                track.values.append(value)
        self._drop(before=time - self._keep)

    def window(self, start: float, end: float) -> Window:
        """Return what was sampled in [start, end]."""
        found = []
        for (name, _), track in self._tracks.items():
            times: list[float] = []
            values: list[float] = []
            # From the newest backwards: a window is usually a short end of a long track.
            for time, value in zip(reversed(track.times), reversed(track.values), strict=True):
                if time < start:
                    break
                if time <= end:
                    times.append(time)
                    values.append(value)
            if times:
                found.append(
                    Series(
                        name=name,
                        labels=track.labels,
                        times=tuple(reversed(times)),
                        values=tuple(reversed(values)),
                    )
                )
        return Window(start=start, end=end, series=tuple(found))

    def _drop(self, *, before: float) -> None:
        for key, track in list(self._tracks.items()):
            while track.times and track.times[0] < before:
                track.times.popleft()
                track.values.popleft()
            if not track.times:
                del self._tracks[key]
