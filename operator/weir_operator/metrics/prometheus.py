"""The Prometheus source: raw samples out of a Prometheus server, as it scraped them.

It asks an instant query with a range selector, which returns the samples themselves with their
times; a range query would resample them to a step, and rates would come from invented points.

What the scrape configuration must do: `honor_labels: true`, so that the labels of Flink's series
stay theirs, and the label `weir_app` (mangled as Flink does) on the targets, so that `up` can be
found. Without the latter there is no `up`, and nothing else is lost.
"""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypedDict
from urllib.parse import urlsplit

import requests
from prometheus_api_client.exceptions import PrometheusApiClientException
from prometheus_api_client.prometheus_connect import PrometheusConnect
from requests.auth import AuthBase
from urllib3.util.retry import Retry

from weir_operator.errors import TemporaryError
from weir_operator.metrics import names
from weir_operator.metrics.seam import Series, Window

_Key = tuple[str, tuple[tuple[str, str], ...]]


class _Result(TypedDict):
    """One series of a matrix, as the HTTP API writes it."""

    metric: dict[str, str]
    values: list[tuple[float, str]]


class PrometheusSource:
    """Reads the samples of one StreamApp from a Prometheus server; a `MetricsSource`.

    Args:
        url: Address of the server (or of what speaks its HTTP API), such as `http://prom:9090`.
        app: The StreamApp as its processes' label `weir_app` has it, before Flink mangles it;
            `None` for a job that Weir does not run, whose series `matchers` must tell apart.
        token: Sent as bearer token; a function is asked for it before each request, because
            tokens in files are renewed; `None` sends none.
        headers: Sent with every request, such as a tenant's id.
        verify: Whether the server's certificate is checked, or the path of the CA bundle to
            check it against.
        timeout: Seconds that the server may take to answer one query.
        matchers: Labels that the series must have besides `weir_app`, such as the cluster's
            name where one server sees several.
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
        chunk: float = 300.0,
    ) -> None:
        session = requests.Session()
        session.verify = verify
        session.headers.update(headers or {})
        if token is not None:
            session.auth = _Bearer((lambda: token) if isinstance(token, str) else token)
        # Without a time limit the client waits for ever; without `retry` it tries three times with
        # pauses, which is the loop's decision, not the connection's.
        self._prometheus = PrometheusConnect(
            url=url.rstrip("/"),
            session=session,
            timeout=timeout,  # type: ignore[arg-type]  # fractions of a second are fine
            retry=Retry(total=0, read=False),  # as requests itself does: a time-out stays one
        )
        self._host = urlsplit(url).netloc.rpartition("@")[2]  # no password in a message
        self._timeout = timeout
        self._chunk = chunk
        own = {} if app is None else {"weir_app": names.mangle(app)}
        self._selector = _selector({**own, **(matchers or {})})

    async def window(self, *, start: float, end: float) -> Window:
        """Return the samples that the server scraped in [start, end].

        Raises:
            TemporaryError: The server did not answer in time, refused, or answered no matrix.
        """
        tracks: dict[_Key, list[tuple[float, float]]] = {}
        for low, high in _pieces(start, end, self._chunk):
            for result in await self._query(low, high):
                labels = {
                    key: value for key, value in result["metric"].items() if key != "__name__"
                }
                key = (result["metric"]["__name__"], tuple(sorted(labels.items())))
                track = tracks.setdefault(key, [])
                newest = track[-1][0] if track else -math.inf
                # Both ends of a range may or may not belong to it, by the server's version.
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
        """Release the connections."""
        await asyncio.to_thread(self._prometheus.close)

    async def _query(self, low: float, high: float) -> Sequence[_Result]:
        """Ask for [low, high] in a thread, as the client is synchronous."""
        milliseconds = math.ceil((high - low) * 1000) + 1
        query = f"{self._selector}[{milliseconds}ms]"
        try:
            # requests bounds each read, not the whole answer: a dripping server needs the second.
            results: Sequence[_Result] = await asyncio.wait_for(
                asyncio.to_thread(self._prometheus.custom_query, query, {"time": repr(high)}),
                2 * self._timeout,
            )
        except PrometheusApiClientException as error:
            reason = str(error)[:300]  # a proxy may answer with a page
            raise TemporaryError(f"Prometheus at {self._host} refused: {reason}") from error
        except (requests.Timeout, TimeoutError) as error:
            raise TemporaryError(
                f"Prometheus at {self._host} did not answer within {self._timeout:g} s"
            ) from error
        except requests.RequestException as error:
            raise TemporaryError(
                f"Prometheus at {self._host} cannot be reached: {type(error).__name__}"
            ) from error
        except (KeyError, TypeError) as error:
            raise TemporaryError(f"{self._host} does not answer as Prometheus does") from error
        return results


class _Bearer(AuthBase):
    """Puts a token into a request."""

    def __init__(self, token: Callable[[], str]) -> None:
        self._token = token

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        """Return the request with the token as it is now."""
        request.headers["Authorization"] = f"Bearer {self._token()}"
        return request


def _selector(labels: Mapping[str, str]) -> str:
    """Build the instant selector for everything that Weir reads."""
    # A JSON string is a PromQL string: the same quotes and escapes.
    matchers = [f"{label}={json.dumps(value)}" for label, value in labels.items()]
    wanted = "|".join(sorted({*names.NAMES, names.UP}))
    quantile = names.MARKER_QUANTILE.replace(".", "[.]")
    # The empty alternative matches the series that have no such label.
    return f'{{__name__=~"{wanted}",quantile=~"|{quantile}",{",".join(matchers)}}}'


def _pieces(start: float, end: float, length: float) -> Iterator[tuple[float, float]]:
    """Cut [start, end] into pieces of at most `length` seconds, in order of time."""
    low = start
    while low + length < end:
        yield low, low + length
        low += length
    yield low, end
