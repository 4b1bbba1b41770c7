"""The Prometheus source: raw samples out of a Prometheus server, as it scraped them.

It asks an instant query with a range selector, which returns the samples themselves with their
times; a range query would resample them to a step, and rates would come from invented points.

What the scrape configuration must do: `honor_labels: true`, so that the labels of Flink's series
stay theirs, and the label `weir_app` (mangled as Flink does) on the targets, so that `up` can be
found. Without the latter there is no `up`, and nothing else is lost.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping

from weir_operator.metrics import names
from weir_operator.metrics.prometheus_server import PrometheusServer
from weir_operator.metrics.seam import Series, Window

_Key = tuple[str, tuple[tuple[str, str], ...]]

CHUNK = 300.0
"""Seconds of samples asked for at once; a longer window takes several queries."""


class SharedPrometheusSource:
    """Reads the samples of one StreamApp from a server that others ask, too; a `MetricsSource`."""

    def __init__(
        self, server: PrometheusServer, *, label: str, value: str, chunk: float = CHUNK
    ) -> None:
        """Take over what tells the StreamApp's series from others.

        Args:
            server: Closed by whoever made it.
            label: Name of a label; empty takes all series.
            value: What it is on this StreamApp's series.
            chunk: Seconds of samples asked for at once.
        """
        self._server = server
        self._label = label
        self._value = value
        self._chunk = chunk

    async def window(self, *, start: float, end: float) -> Window:
        """Return the samples that the server scraped in [start, end].

        Raises:
            TemporaryError: The server did not answer in time, refused, or answered no matrix.
        """
        tracks: dict[_Key, list[tuple[float, float]]] = {}
        for low, high in _pieces(start, end, self._chunk):
            for result in await self._server.series(self._label, self._value, low, high):
                labels = {
                    key: value for key, value in result["metric"].items() if key != "__name__"
                }
                key = (result["metric"]["__name__"], tuple(sorted(labels.items())))
                track = tracks.setdefault(key, [])
                newest = track[-1][0] if track else -math.inf
                # Both ends of a range may or may not belong to it, by the server's version; and
                # the answer may be for others as well, whose ends are other ones.
                track += [
                    (time, float(value))
                    for time, value in result["values"]
                    if newest < time and low <= time <= high
                ]
        return Window(
            start=start,
            end=end,
            series=tuple(
                Series(
                    name=name,
                    labels=dict(labels),
                    times=tuple(time for time, _ in track),
                    values=tuple(value for _, value in track),
                )
                for (name, labels), track in tracks.items()
                if track
            ),
        )

    async def close(self) -> None:
        """Hold nothing: the server is others', too."""


class PrometheusSource(SharedPrometheusSource):
    """Reads the samples of one StreamApp over a connection of its own; a `MetricsSource`.

    Args:
        url: Address of the server (or of what speaks its HTTP API), such as `http://prom:9090`.
        app: The StreamApp as its processes' label `weir_app` has it, before Flink mangles it;
            `None` for a job that Weir does not run, whose series `matchers` must tell apart.
        token: See `PrometheusServer`, as for `headers`, `verify` and `timeout`.
        headers: Sent with every request.
        verify: How the server's certificate is checked.
        timeout: Seconds that the server may take to answer one query.
        matchers: Labels that the series must have besides `weir_app`.
        chunk: Seconds of samples asked for at once; a longer window takes several queries.
    """

    def __init__(
        self,
        url: str,
        app: str | None,
        *,
        token: str | Callable[[], str] | None = None,
        headers: Mapping[str, str] | None = None,
        verify: bool | str = True,
        timeout: float = 5.0,
        matchers: Mapping[str, str] | None = None,
        chunk: float = CHUNK,
    ) -> None:
        server = PrometheusServer(
            url, token=token, headers=headers, verify=verify, timeout=timeout, matchers=matchers
        )
        label, value = ("", "") if app is None else ("weir_app", names.mangle(app))
        super().__init__(server, label=label, value=value, chunk=chunk)

    async def close(self) -> None:
        """Release the connections."""
        await self._server.close()


def _pieces(start: float, end: float, length: float) -> Iterator[tuple[float, float]]:
    """Cut [start, end] into pieces of at most `length` seconds, in order of time."""
    low = start
    while low + length < end:
        yield low, low + length
        low += length
    yield low, end
