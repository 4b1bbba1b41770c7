"""The Prometheus source: raw samples from a Prometheus server, as it scraped them.

It sends an instant query with a range selector, which returns the samples themselves with their
times; a range query would resample them to a step, and rates would come from invented points.

The server must set the label `weir_app` on its targets, from what the cluster says of each pod: its
namespace, a slash, and the StreamApp's name. A page must not replace it (`honor_labels: false`): a
pod can write any page, and Flink's own `weir_app` is equal for `team/a-trips` and `team-a/trips`.
The server keeps that one as `exported_weir_app`, and a page that names another StreamApp there is
left out: its address belonged to another process before.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from weir_operator.accounts import current_account
from weir_operator.limits import MAX_SERIES, TooLargeError
from weir_operator.metrics.names import APP_LABEL, LABELS, UP, mangle
from weir_operator.metrics.prometheus_server import PrometheusServer
from weir_operator.metrics.source import Series, Window

_Key = tuple[str, tuple[tuple[str, str], ...]]

PAGE_LABEL = f"exported_{APP_LABEL}"
"""What the page itself says, as the server keeps it beside the label of the target."""
CHUNK = 300.0
"""Seconds of samples asked for at once; a longer window takes several queries."""


@dataclass(slots=True)
class _Track:
    labels: Mapping[str, str]
    times: list[float] = field(default_factory=list)
    values: list[float] = field(default_factory=list)


class PrometheusSource:
    """Reads the samples of one StreamApp from a server that others may ask, too."""

    def __init__(
        self,
        server: PrometheusServer,
        *,
        label: str,
        value: str,
        namespace: str | None = None,
    ) -> None:
        """Create the source for one StreamApp, whose series have this label.

        Where pods of others could claim it, theirs are told by the namespace, if one is given.
        Series without a namespace are the StreamApp's.
        """
        self._server = server
        self._account = current_account()
        self._label = label
        self._value = value
        self._namespace = namespace
        self._on_page = mangle(value)

    async def window(self, *, start: float, end: float) -> Window:
        """Return the samples that the server scraped in [start, end].

        Raises:
            TemporaryError: The server did not answer in time, refused, or answered no matrix, or
                more than is read.
        """
        host = self._server.host
        with self._account.asking(
            f"{host} {self._value}",
            f"what Prometheus at {host} has of {self._value or 'the job'}",
            remedy="run fewer replicas, or scrape them less often",
        ):
            return await self._read(start, end)

    async def _read(self, start: float, end: float) -> Window:
        tracks: dict[_Key, _Track] = {}
        for low, high in _pieces(start, end, CHUNK):
            for found in await self._server.series(self._label, self._value, low, high):
                if found.labels.get(PAGE_LABEL, self._on_page) != self._on_page:
                    continue
                if self._namespace not in (None, found.labels.get("namespace", self._namespace)):
                    continue
                # Servers of a pair, or monitors of the same pods, add labels of their own.
                kept = (*LABELS, "instance") if found.name == UP else LABELS
                labels = {name: found.labels[name] for name in kept if name in found.labels}
                track = tracks.setdefault((found.name, tuple(labels.items())), _Track(labels))
                # Both ends of a range may or may not belong to it, by the server's version.
                newest = track.times[-1] if track.times else -math.inf
                first = max(bisect_left(found.times, low), bisect_right(found.times, newest))
                last = bisect_right(found.times, high)
                track.times += found.times[first:last]
                track.values += found.values[first:last]
            if len(tracks) > MAX_SERIES:
                raise TooLargeError(f"it has more than {MAX_SERIES} series")
        return Window(
            start=start,
            end=end,
            series=tuple(
                Series(
                    name=name,
                    labels=track.labels,
                    times=tuple(track.times),
                    values=tuple(track.values),
                )
                for (name, _), track in tracks.items()
                if track.times
            ),
        )

    async def close(self) -> None:
        """Do nothing: the server's connections are for all StreamApps."""


def _pieces(start: float, end: float, length: float) -> Iterator[tuple[float, float]]:
    """Cut [start, end] into pieces of at most `length` seconds, in order of time."""
    low = start
    while low + length < end:
        yield low, low + length
        low += length
    yield low, end
