"""One Prometheus server, queried for all StreamApps.

The jobs decide how large an answer is, so it is read up to a limit, and a server has limits of its
own for a query (`--query.max-samples`), which it says by status 422.
"""

from __future__ import annotations

import asyncio
import json
import math
import ssl
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from http import HTTPStatus
from typing import Any, TypeVar
from urllib.parse import quote, urlsplit

import requests
import structlog
from requests.adapters import HTTPAdapter
from requests.auth import AuthBase, HTTPBasicAuth
from urllib3.exceptions import HTTPError, ReadTimeoutError
from urllib3.util.ssl_ import create_urllib3_context

from weir_operator.accounts import current_account
from weir_operator.errors import TemporaryError
from weir_operator.limits import (
    INLINE,
    LOGGED,
    PROMETHEUS_ANSWER,
    PROMETHEUS_ERROR,
    Json,
    Raw,
    TooLargeError,
    check_size,
    decompress,
    join_pieces,
    read_json,
)
from weir_operator.metrics import names
from weir_operator.metrics.source import Series

log = structlog.get_logger()

T = TypeVar("T")

_SERIES = b'{"metric":'
"""How each series of an answer begins, as Prometheus, Thanos, Mimir and VictoriaMetrics write it.
"""


AT_ONCE = 4
"""Queries that are sent at once; the others wait for a place."""
WAIT_FOR_PLACE = 6.0
"""How long a query waits for a place, as a multiple of the timeout: a tick must not wait until all
others have failed."""

_AS_SCRAPED: Mapping[str, str] = {"max_source_resolution": "0s", "partial_response": "false"}
"""For Thanos: no means over minutes in the place of samples, and nothing left out. Others ignore
what they do not know."""

_PIECE = 65536  # bytes
_REFUSALS = (
    "bad_data",
    "canceled",
    "execution",
    "internal",
    "not_acceptable",
    "not_found",
    "timeout",
    "unavailable",
)
"""Prometheus' own words for why it refuses. Any other text may be of somebody else."""


_TOO_MUCH = (
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    HTTPStatus.UNPROCESSABLE_ENTITY,
    HTTPStatus.INTERNAL_SERVER_ERROR,  # Thanos, of a limit in a store behind it
    HTTPStatus.SERVICE_UNAVAILABLE,
    HTTPStatus.GATEWAY_TIMEOUT,
)
"""What servers and proxies answer where a question for less may be answered."""


class TooMuchAskedError(TemporaryError):
    """A server did not answer in time, or has a limit that a query exceeds."""


class PrometheusServer:
    """A connection to a Prometheus server (or to what speaks its HTTP API).

    Args:
        url: Its address, such as `http://prom:9090`.
        token: Asked before each request for a bearer token, which is sent: files of tokens are
            renewed. `None` sends none.
        password: Asked before each request for a user and password, which are sent.
        headers: Sent with every request, such as a tenant's id.
        verify: Whether the server's certificate is checked, or the path of the CA bundle to
            check it against.
        certificate: Files of the certificate and the key that are shown to the server.
        timeout: Seconds that the server may take to answer one query.
        matchers: Labels that all series must have, such as the cluster's name where one server
            sees several.
    """

    def __init__(
        self,
        url: str,
        *,
        token: Callable[[], str] | None = None,
        password: Callable[[], tuple[str, str]] | None = None,
        headers: Mapping[str, str] | None = None,
        verify: bool | str = True,
        certificate: tuple[str, str] | None = None,
        timeout: float = 5.0,
        matchers: Mapping[str, str] | None = None,
    ) -> None:
        session = requests.Session()
        session.verify = verify
        session.cert = certificate
        session.headers.update({"Accept-Encoding": "gzip", **(headers or {})})
        if token is not None:
            session.auth = _Bearer(token)
        if password is not None:
            session.auth = _Basic(password)
        session.mount("https://", _Adapter())
        self._session = session
        self._url = f"{url.rstrip('/')}/api/v1"
        self.host = urlsplit(url).netloc.rpartition("@")[2]  # no password in a message
        self._timeout = timeout
        self._matchers = dict(matchers or {})
        self._places = asyncio.Semaphore(AT_ONCE)

    async def series(self, label: str, value: str, low: float, high: float) -> Sequence[Series]:
        """Return the samples in about [low, high] of the series that have a label.

        Args:
            label: Its name.
            value: What it must be.
            low: Unix seconds; samples from before may come, too.
            high: Unix seconds; samples from after may come, too.

        Raises:
            TemporaryError: The server did not answer in time, refused, or answered no matrix, or
                more than is read.
        """
        return await self.samples(render_selector({**self._matchers, label: value}), low, high)

    async def samples(self, selector: str, low: float, high: float) -> Sequence[Series]:
        """Return the samples in about [low, high] of the series that an instant selector selects.

        Raises:
            TemporaryError: As with `series`.
        """
        milliseconds = math.ceil((high - low) * 1000) + 1
        asked = {"query": f"{selector}[{milliseconds}ms]", "time": repr(high), **_AS_SCRAPED}
        return await self._ask(
            "query", asked, lambda data: [_read(each) for each in data["result"]]
        )

    async def label_values(
        self, label: str, selector: str, low: float, high: float
    ) -> Sequence[str]:
        """Return the values that a label has in [low, high] at the series that are selected.

        Raises:
            TemporaryError: As with `series`.
        """
        asked = {"match[]": selector, "start": repr(low), "end": repr(high), **_AS_SCRAPED}
        return await self._ask(
            f"label/{quote(label)}/values", asked, lambda data: [str(each) for each in data]
        )

    async def close(self) -> None:
        """Release the connections."""
        await asyncio.to_thread(self._session.close)

    async def _ask(
        self, path: str, asked: Mapping[str, str], read: Callable[[Json], Sequence[T]]
    ) -> Sequence[T]:
        """Return what a question gets; in a thread, as the client is synchronous."""
        waits = WAIT_FOR_PLACE * self._timeout
        try:
            async with asyncio.timeout(waits):
                await self._places.acquire()
        except TimeoutError as error:
            raise TemporaryError(
                f"Prometheus at {self.host} was not asked within {waits:g} s: the queries of other "
                "StreamApps come first"
            ) from error
        began = time.monotonic()
        fetching = asyncio.ensure_future(asyncio.to_thread(self._fetch, path, asked))
        # Not when the caller is cancelled: its thread reads on.
        fetching.add_done_callback(self._free_place)
        try:
            content = await asyncio.shield(fetching)
            return await current_account().parse(partial(self._parse, content, read))
        except (requests.Timeout, ReadTimeoutError) as error:
            raise TooMuchAskedError(
                f"Prometheus at {self.host} did not answer within {time.monotonic() - began:.1f} s"
            ) from error
        except (requests.RequestException, HTTPError) as error:
            raise TemporaryError(
                f"Prometheus at {self.host} cannot be reached: {type(error).__name__}"
            ) from error

    def _free_place(self, fetching: asyncio.Future[bytes]) -> None:
        self._places.release()
        if not fetching.cancelled():
            fetching.exception()  # read, or asyncio reports it where the caller is gone

    def _fetch(self, path: str, asked: Mapping[str, str]) -> bytes:
        """Return the answer that a question gets; blocks."""
        ends = time.monotonic() + 2 * self._timeout
        with self._session.get(
            f"{self._url}/{path}",
            params=dict(asked),
            verify=self._session.verify,  # else the environment's bundle would go before it
            timeout=self._timeout,
            stream=True,
            allow_redirects=False,
        ) as response:
            raw = Raw(
                join_pieces(_pieces(response, ends), PROMETHEUS_ANSWER.bytes),
                response.headers.get("Content-Encoding", "").lower(),
            )
        try:
            content = decompress(raw, PROMETHEUS_ANSWER.bytes)
        except ValueError as error:
            raise TemporaryError(f"{self.host} does not answer like a Prometheus server") from error
        if response.status_code != HTTPStatus.OK:
            kind = TooMuchAskedError if response.status_code in _TOO_MUCH else TemporaryError
            raise kind(self._describe_refusal(response.status_code, content))
        return content

    def _parse(self, content: bytes, read: Callable[[Json], Sequence[T]]) -> Sequence[T]:
        """Return what an answer holds that is whole; takes up to a second."""
        try:
            answer = read_matrix(content)
            # Thanos and Mimir warn, VictoriaMetrics marks the answer, where a store behind them did
            # not answer: then some series are not there, and their records would be no traffic.
            if answer.get("isPartial") or answer.get("warnings"):
                log.info(
                    "partial answer", host=self.host, warnings=str(answer.get("warnings"))[:LOGGED]
                )
                raise TemporaryError(
                    f"Prometheus at {self.host} answered only in part: a store behind it did not "
                    "answer; see the log"
                )
            return read(answer["data"])
        except (
            ArithmeticError,
            AttributeError,
            LookupError,
            RecursionError,
            TypeError,
            ValueError,
        ) as error:
            log.info("not Prometheus", host=self.host, answer=repr(content[:LOGGED]))
            raise TemporaryError(f"{self.host} does not answer like a Prometheus server") from error

    def _describe_refusal(self, status: int, content: bytes) -> str:
        log.info("Prometheus refused", host=self.host, answer=repr(content[:LOGGED]))
        try:
            kind = read_json(content, PROMETHEUS_ERROR)["errorType"]
        except (LookupError, RecursionError, TypeError, ValueError, TooLargeError):
            kind = None
        reason = f", {kind}" if kind in _REFUSALS else ""
        return f"Prometheus at {self.host} rejected the query: status {status}{reason}; see the log"


def _pieces(response: requests.Response, ends: float) -> Iterator[bytes]:
    """Yield a body as it comes, still compressed, until a time of the monotonic clock.

    requests bounds each read only, and a server that drips would keep its thread for ever.
    """
    while piece := response.raw.read1(_PIECE, decode_content=False):
        if time.monotonic() > ends:
            raise requests.Timeout
        yield piece


class _Bearer(AuthBase):
    """Puts a token into a request."""

    def __init__(self, token: Callable[[], str]) -> None:
        self._token = token

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        """Return the request with the token as it is now."""
        request.headers["Authorization"] = f"Bearer {self._token()}"
        return request


class _Basic(AuthBase):
    """Puts a user and a password into a request."""

    def __init__(self, password: Callable[[], tuple[str, str]]) -> None:
        self._password = password

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        """Return the request with them as they are now."""
        user, password = self._password()
        # requests encodes text as Latin-1, servers read UTF-8.
        return HTTPBasicAuth(user.encode(), password.encode())(request)


class _Adapter(HTTPAdapter):
    """Trusts a CA without key usage, too: from Python 3.13 on, it would be refused by default."""

    def init_poolmanager(self, *args: Any, **kwargs: Any) -> None:
        """Make the connections with a less strict context. Any: what requests hands on."""
        context = create_urllib3_context()
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT
        super().init_poolmanager(*args, ssl_context=context, **kwargs)


def render_selector(labels: Mapping[str, str]) -> str:
    """Return the instant selector for everything that Weir reads of whatever has these labels."""
    # A JSON string is a PromQL string: the same quotes and escapes.
    found = [f"{name}={json.dumps(value)}" for name, value in labels.items()]
    wanted = "|".join((*sorted({*names.NAMES, names.UP}), names.NESTED))
    quantile = names.MARKER_QUANTILE.replace(".", "[.]")
    # The empty alternative matches the series that have no such label.
    return f'{{__name__=~"{wanted}",quantile=~"|{quantile}",{",".join(found)}}}'


def read_matrix(content: bytes) -> Json:
    """Return an answer with many series, parsed some series at a time.

    Parsed in one call, one of 16 MiB would stop every thread for up to a second. What a series
    begins with is nowhere else, because a quotation mark within a text is escaped.

    Raises:
        TooLargeError: It has more bytes or values than the limit.
        ValueError: It is no JSON.
    """
    check_size(content, PROMETHEUS_ANSWER)
    head, *series = content.split(_SERIES)
    results: list[Json] = []
    waiting: list[bytes] = []
    size = 0
    for each in series[:-1]:
        waiting.append(each)
        size += len(_SERIES) + len(each)
        if size >= INLINE:
            some = _SERIES + _SERIES.join(waiting).rstrip(b",")
            results += read_json(b"[%b]" % some, PROMETHEUS_ANSWER)
            waiting, size = [], 0
    answer = read_json(_SERIES.join((head, *waiting, *series[-1:])), PROMETHEUS_ANSWER)
    if results:
        answer["data"]["result"] = [*results, *answer["data"]["result"]]
    return answer


def _read(result: Mapping[str, Any]) -> Series:
    """Read one series of a matrix, as the HTTP API writes it."""
    found = dict(result["metric"])
    name, labels = names.read_name(found.pop("__name__"), found)
    return Series(
        name=name,
        labels=labels,
        times=tuple(float(time) for time, _ in result["values"]),
        values=tuple(float(value) for _, value in result["values"]),
    )
