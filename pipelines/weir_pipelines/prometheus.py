"""Reads history from Prometheus, Thanos, Mimir, or another server with Prometheus' HTTP API.

Each request asks for a limited piece of time, of one application and only the series that history
uses; between two requests, it waits as long as the last one took. A piece that is too large for the
server, or that it does not answer in time, is halved. It asks for the samples themselves (an
instant query with a range selector): a range query would resample them to a step, and rates would
come from invented points (docs/decisions/0022).
"""

from __future__ import annotations

import hashlib
import json
import math
import ssl
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

import requests
from prometheus_api_client.exceptions import PrometheusApiClientException
from prometheus_api_client.prometheus_connect import PrometheusConnect
from requests.adapters import HTTPAdapter
from requests.auth import AuthBase, HTTPBasicAuth
from tenacity import Retrying, retry_if_exception, stop_after_attempt, wait_exponential
from urllib3.util.retry import Retry
from urllib3.util.ssl_ import create_urllib3_context

from weir_pipelines.errors import SourceError
from weir_pipelines.ingest import Scraped
from weir_pipelines.metrics import ROLES

T = TypeVar("T")

LABEL = "weir_app"
"""Label that names the application."""
SMALLEST = 15.0
"""Seconds; a server that refuses even this little refuses for another reason."""
_SHOWN = 300
"""Characters of an answer that a message shows."""
_BUSY = 429
"""HTTP status of a server that cannot answer so many questions at the moment."""
_SLOW = 504
"""HTTP status of a proxy before a server that does not answer in time."""
_TOO_LARGE = (
    "exceeded",  # Prometheus' resolution; Thanos' series, chunks and bytes; Mimir's chunks, series
    "exceeds",  # Mimir's length of a query
    "larger than max",  # a message between the processes of Thanos or Mimir
    "timed out",
    "too large",
    "too long",
    "too many samples",  # Prometheus'
)
"""What servers and proxies say where asking for less may help."""
_PASSING = ("no storeapis available", "code = unavailable")
"""What Thanos says, as errors of a query, while the stores behind it are away."""
_RAW: Mapping[str, str] = {"max_source_resolution": "0s", "partial_response": "false"}
"""For Thanos: no means over minutes in the place of samples, and nothing left out. Others ignore
what they do not know."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PrometheusSettings:
    """How a server is asked."""

    url: str
    """Its address, such as http://prometheus:9090."""
    matchers: Mapping[str, str] = field(default_factory=dict)
    """Labels that all series must have besides, such as the cluster's."""
    headers: Mapping[str, str] = field(default_factory=dict)
    """Sent with every request, such as the name of a tenant."""
    auth: AuthBase | None = None
    """Puts a token or a password into each request."""
    verify: bool | str = True
    """Whether the server's certificate is checked, or the file of certificates to check it by."""
    timeout: float = 30.0
    """Seconds that the server may take to answer."""
    attempts: int = 5
    """How often a question is asked that is not answered, with growing pauses. One that is not
    answered in time is divided instead, while that is possible."""
    rest: float = 1.0
    """How long the server rests after an answer, as a multiple of what that took it."""


class TokenFromFile(AuthBase):
    """Sends the bearer token in a file, which is read each time because tokens are renewed."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        """Return the request with the token as it is now."""
        request.headers["Authorization"] = f"Bearer {_read_secret(self._file)}"
        return request


class PasswordFromFolder(AuthBase):
    """Sends the user and password in the files `username` and `password` of a folder.

    These are the keys of a Kubernetes Secret of type `kubernetes.io/basic-auth`.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        """Return the request with the user and password as they are now."""
        user, password = (_read_secret(self._folder / name) for name in ("username", "password"))
        # requests encodes text as Latin-1, servers read UTF-8.
        basic = HTTPBasicAuth(user.encode(), password.encode())
        return basic(request)


def _read_secret(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8").strip()
    except OSError as error:
        raise SourceError(
            f"Expected a secret for Prometheus in {file}, got {error.strerror}"
        ) from error


class PrometheusHistory:
    """Asks one server for its samples."""

    def __init__(
        self, settings: PrometheusSettings, *, sleep: Callable[[float], None] = time.sleep
    ) -> None:
        self._settings = settings
        self._sleep = sleep
        session = requests.Session()
        session.headers.update(settings.headers)
        session.auth = settings.auth
        session.verify = settings.verify
        session.hooks["response"].append(_refuse_partial)
        url = settings.url.rstrip("/")
        self._prometheus = PrometheusConnect(
            url=url,
            session=session,
            timeout=settings.timeout,  # type: ignore[arg-type]  # fractions of a second are fine
        )
        session.mount(url, _Adapter(max_retries=Retry(total=0, read=False)))

    def apps(self, start: float, end: float) -> tuple[str, ...]:
        """Return the applications that have samples in [start, end), by the label that names them.

        A server that looks its blocks up whole may name one besides that has samples shortly before
        or after.

        Args:
            start: Unix seconds.
            end: Unix seconds.

        Raises:
            SourceError: The server refuses or does not answer.
        """
        selector = _render_selector(self._settings.matchers)
        asked = {**_RAW, "match[]": selector, "start": start, "end": end}
        found = self._ask(lambda: self._prometheus.get_label_values(LABEL, dict(asked)))
        return tuple(sorted(map(str, found)))

    @property
    def address(self) -> str:
        """The server's address without a user and password, for messages."""
        parts = urlsplit(self._settings.url)
        return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()

    @property
    def key(self) -> str:
        """What distinguishes this server's series from others: a digest of how it is queried."""
        asked = self._settings
        labels, headers = sorted(asked.matchers.items()), sorted(asked.headers.items())
        parts = [asked.url.rstrip("/"), LABEL, labels, headers]
        return hashlib.blake2b(json.dumps(parts).encode(), digest_size=8).hexdigest()

    def samples(self, app: str, start: float, end: float) -> Iterator[Scraped]:
        """Yield the samples in [start, end), Unix seconds.

        Raises:
            SourceError: The server refuses, or does not answer though it was asked repeatedly.
        """
        # From version 3 on, Prometheus leaves a range's first instant out.
        milliseconds = math.ceil((end - start) * 1000) + 1
        selector = _render_selector({**self._settings.matchers, LABEL: app})
        query = f"{selector}[{milliseconds}ms]"
        asked = {**_RAW, "time": repr(end)}
        is_divisible = end - start > 2 * SMALLEST
        began = time.monotonic()
        try:
            results = self._ask(
                lambda: self._prometheus.custom_query(query, dict(asked)), is_divisible=is_divisible
            )
        except _TooLargeError:
            middle = (start + end) / 2
            yield from self.samples(app, start, middle)
            yield from self.samples(app, middle, end)
            return
        for result in results:
            yield from _scraped(result, start, end)
        self._sleep(self._settings.rest * (time.monotonic() - began))

    def _ask(
        self, question: Callable[[], Sequence[T]], *, is_divisible: bool = False
    ) -> Sequence[T]:
        """Ask, and ask again while that may help."""

        def may_pass(error: BaseException) -> bool:
            if not isinstance(error, _UnansweredError):
                return False
            return error.may_pass and not (error.is_too_large and is_divisible)

        retrying = Retrying(
            retry=retry_if_exception(may_pass),
            stop=stop_after_attempt(self._settings.attempts),
            wait=wait_exponential(max=60),
            sleep=self._sleep,
            reraise=True,
        )
        try:
            return retrying(lambda: self._ask_once(question))
        except _UnansweredError as error:
            if error.is_too_large and is_divisible:
                raise _TooLargeError from error
            times = f"did not answer {self._settings.attempts} times"
            raise SourceError(
                f"{self.address} {times if error.may_pass else 'refused'}: {error}"
            ) from error

    def _ask_once(self, question: Callable[[], Sequence[T]]) -> Sequence[T]:
        try:
            return question()
        except PrometheusApiClientException as error:
            raise _UnansweredError(str(error)) from error
        except requests.RequestException as error:
            raise _UnansweredError(
                type(error).__name__,
                may_pass=True,
                is_too_large=isinstance(error, requests.ReadTimeout),
            ) from error


class _Adapter(HTTPAdapter):
    """Trusts a CA without key usage, too: from Python 3.13 on, it would be refused by default."""

    def init_poolmanager(self, *args: Any, **kwargs: Any) -> None:
        """Make the connections with a less strict context. Any: what requests hands on."""
        context = create_urllib3_context()
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT
        super().init_poolmanager(*args, ssl_context=context, **kwargs)


def _render_selector(matchers: Mapping[str, str]) -> str:
    """Return the series of the history that have these labels, in PromQL."""
    # A JSON string is a PromQL string: the same quotes and escapes.
    metrics = "|".join(sorted(ROLES))
    rendered = [f"{name}={json.dumps(value)}" for name, value in matchers.items()]
    return "{" + ",".join([f'__name__=~"{metrics}"', *rendered]) + "}"


def _refuse_partial(response: requests.Response, **_: object) -> None:
    """Reject an error, or an answer that says that something is missing.

    Prometheus, Thanos and Mimir warn where a store behind them did not answer, or had more than a
    limit allows, and they gave the rest. VictoriaMetrics marks such an answer.
    """
    if response.status_code == _BUSY:
        raise _UnansweredError(f"HTTP status {_BUSY}: {response.text}", may_pass=True)
    if not response.ok:
        raise _UnansweredError(
            f"HTTP status {response.status_code}: {response.text}",
            may_pass=response.status_code >= 500 or _has_one_of(_PASSING, response.text),
            is_too_large=response.status_code == _SLOW or _has_one_of(_TOO_LARGE, response.text),
        )
    if b'"warnings"' in response.content or b'"isPartial"' in response.content:
        answer = response.json()
        warnings = "; ".join(map(str, answer.get("warnings") or ()))
        if answer.get("isPartial"):
            warnings = warnings or "a store behind the server did not answer"
        if warnings:
            raise _UnansweredError(
                f"only a part: {warnings}",
                may_pass=True,
                is_too_large=_has_one_of(_TOO_LARGE, warnings),
            )


def _has_one_of(words: Sequence[str], text: str) -> bool:
    return any(word in text.lower() for word in words)


class _TooLargeError(Exception):
    """A smaller piece may be granted."""


class _UnansweredError(Exception):
    """A question was not answered, or not wholly."""

    def __init__(self, text: str, *, may_pass: bool = False, is_too_large: bool = False) -> None:
        """Create it with what asking again may help: the same question, or one for less."""
        super().__init__(text[:_SHOWN])
        self.may_pass = may_pass
        self.is_too_large = is_too_large


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
