"""Reads history from a Prometheus server (or one with its HTTP API) without overloading it.

Each request asks for a limited piece of time, of one application and only the series that history
uses; between two requests, it waits as long as the last one took. A piece that is too large for the
server is halved. It asks for the samples themselves (an instant query with a range selector): a
range query would resample them to a step, and rates would come from invented points.
"""

from __future__ import annotations

import hashlib
import json
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import requests
from prometheus_api_client.exceptions import PrometheusApiClientException
from prometheus_api_client.prometheus_connect import PrometheusConnect
from tenacity import Retrying, retry_if_exception_type, stop_after_attempt, wait_exponential
from urllib3.util.retry import Retry

from weir_pipelines.errors import SourceError
from weir_pipelines.ingest import Scraped
from weir_pipelines.metrics import ROLES

T = TypeVar("T")

SMALLEST = 15.0
"""Seconds; a server that refuses even this little refuses for another reason."""
_BUSY = (429, 502, 503, 504)
"""HTTP status of a server, or of a proxy before it, that cannot answer at the moment."""
_TOO_LARGE = ("too many samples", "exceeded", "too large", "maximum")


class _UnreachableError(Exception):
    """The server did not answer, or not wholly; asking again may help."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PrometheusSettings:
    """How a server is asked."""

    url: str
    """Its address, such as http://prometheus:9090."""
    label: str = "weir_app"
    """Label that names the application; empty if `matchers` alone select it."""
    matchers: Mapping[str, str] = field(default_factory=dict)
    """Labels that all series must have besides, such as the cluster's."""
    headers: Mapping[str, str] = field(default_factory=dict)
    """Sent with every request, such as a tenant's id or a token."""
    verify: bool | str = True
    """Whether the server's certificate is checked, or the file of certificates to check it by."""
    timeout: float = 30.0
    """Seconds that the server may take to answer."""
    attempts: int = 5
    """How often a question is asked that is not answered, with growing pauses."""
    rest: float = 1.0
    """How long the server rests after an answer, as a multiple of what that took it."""


class PrometheusHistory:
    """Asks one server for its samples.

    Args:
        settings: How it is asked.
        sleep: Waits between requests.
    """

    def __init__(
        self, settings: PrometheusSettings, *, sleep: Callable[[float], None] = time.sleep
    ) -> None:
        self._settings = settings
        self._sleep = sleep
        session = requests.Session()
        session.headers.update(settings.headers)
        session.verify = settings.verify
        session.hooks["response"].append(_refuse_partial)
        self._prometheus = PrometheusConnect(
            url=settings.url.rstrip("/"),
            session=session,
            timeout=settings.timeout,  # type: ignore[arg-type]  # fractions of a second are fine
            retry=Retry(total=0, read=False),
        )

    def apps(self, start: float, end: float) -> tuple[str, ...]:
        """Return the applications that have samples in [start, end), by the label that names them.

        A server that looks its blocks up whole may name one besides that has samples shortly before
        or after.

        Args:
            start: Unix seconds.
            end: Unix seconds.

        Raises:
            SourceError: The server refuses or does not answer, or no label names applications.
        """
        label = self._settings.label
        if not label:
            raise SourceError("Expected the name of an application, because no label tells it")
        asked = {"match[]": _render_selector(self._settings.matchers), "start": start, "end": end}
        try:
            found = self._ask(lambda: self._prometheus.get_label_values(label, dict(asked)))
        except _RefusedError as refusal:
            raise SourceError(f"{self._settings.url} refused: {refusal}") from refusal
        return tuple(sorted(map(str, found)))

    @property
    def key(self) -> str:
        """What distinguishes this server's series from others: a digest of how it is queried."""
        asked = self._settings
        parts = [asked.url.rstrip("/"), asked.label, sorted(asked.matchers.items())]
        return hashlib.blake2b(json.dumps(parts).encode(), digest_size=8).hexdigest()

    def samples(self, app: str, start: float, end: float) -> Iterator[Scraped]:
        """Yield the samples in [start, end), Unix seconds.

        Raises:
            SourceError: The server refuses, or does not answer though it was asked repeatedly.
        """
        # From version 3 on, Prometheus leaves a range's first instant out.
        milliseconds = math.ceil((end - start) * 1000) + 1
        query = f"{self._selector(app)}[{milliseconds}ms]"
        began = time.monotonic()
        try:
            results = self._ask(lambda: self._prometheus.custom_query(query, {"time": repr(end)}))
        except _RefusedError as refusal:
            if refusal.is_too_large and end - start > 2 * SMALLEST:
                middle = (start + end) / 2
                yield from self.samples(app, start, middle)
                yield from self.samples(app, middle, end)
                return
            raise SourceError(f"{self._settings.url} refused: {refusal}") from refusal
        for result in results:
            yield from _scraped(result, start, end)
        self._sleep(self._settings.rest * (time.monotonic() - began))

    def _selector(self, app: str) -> str:
        matchers = dict(self._settings.matchers)
        if self._settings.label:
            matchers[self._settings.label] = app
        return _render_selector(matchers)

    def _ask(self, question: Callable[[], Sequence[T]]) -> Sequence[T]:
        retrying = Retrying(
            retry=retry_if_exception_type(_UnreachableError),
            stop=stop_after_attempt(self._settings.attempts),
            wait=wait_exponential(max=60),
            sleep=self._sleep,
            reraise=True,
        )
        try:
            return retrying(lambda: self._ask_once(question))
        except _UnreachableError as error:
            raise SourceError(
                f"{self._settings.url} did not answer {self._settings.attempts} times: {error}"
            ) from error

    def _ask_once(self, question: Callable[[], Sequence[T]]) -> Sequence[T]:
        try:
            return question()
        except PrometheusApiClientException as error:
            raise _RefusedError(str(error)[:300]) from error
        except requests.RequestException as error:
            raise _UnreachableError(type(error).__name__) from error


def _render_selector(matchers: Mapping[str, str]) -> str:
    """Return the series of the history that have these labels, in PromQL."""
    # A JSON string is a PromQL string: the same quotes and escapes.
    metrics = "|".join(sorted(ROLES))
    rendered = [f"{name}={json.dumps(value)}" for name, value in matchers.items()]
    return "{" + ",".join([f'__name__=~"{metrics}"', *rendered]) + "}"


def _refuse_partial(response: requests.Response, **_: object) -> None:
    """Reject an answer of a busy server, or one that says that something is missing.

    Prometheus, Thanos and Mimir warn where a store behind them did not answer and they gave the
    rest.
    """
    if response.status_code in _BUSY:
        raise _UnreachableError(f"HTTP status {response.status_code}")
    if response.ok and b'"warnings"' in response.content:
        warnings = response.json().get("warnings")
        if warnings:
            raise _UnreachableError(f"only a part: {'; '.join(map(str, warnings))[:300]}")


class _RefusedError(Exception):
    """The server answered, with an error."""

    @property
    def is_too_large(self) -> bool:
        """Whether a smaller piece may be granted."""
        return any(word in str(self).lower() for word in _TOO_LARGE)


def _scraped(result: object, start: float, end: float) -> Iterator[Scraped]:
    """Turn one series of a matrix, as the HTTP API writes it, into samples of [start, end)."""
    if not isinstance(result, dict):
        raise SourceError(f"Expected a series, got {type(result).__name__}: is this Prometheus?")
    kept = [(time, value) for time, value in result["values"] if start <= time < end]
    if kept:
        labels = dict(result["metric"])
        yield Scraped(
            name=labels.pop("__name__"),
            labels=labels,
            times_ms=[round(1000 * time) for time, _ in kept],
            values=[float(value) for _, value in kept],
        )
