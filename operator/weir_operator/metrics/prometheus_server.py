"""One Prometheus server, asked for many StreamApps at once.

Questions that come soon after one another are put together: one query names all the StreamApps
that it is about, and its answer is dealt out. A question that comes alone is asked at once.
"""

from __future__ import annotations

import asyncio
import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypedDict
from urllib.parse import urlsplit

import requests
from prometheus_api_client.exceptions import PrometheusApiClientException
from prometheus_api_client.prometheus_connect import PrometheusConnect
from requests.auth import AuthBase
from urllib3.util.retry import Retry

from weir_operator.errors import TemporaryError
from weir_operator.metrics import names

PACE = 0.5
"""Seconds between two queries for the same kind of label; what comes in between waits together."""
TOGETHER = 32
"""Values in one query at most, so that its answer stays within what a server gives."""


class Result(TypedDict):
    """One series of a matrix, as the HTTP API writes it."""

    metric: dict[str, str]
    values: list[tuple[float, str]]


@dataclass(frozen=True, slots=True)
class _Question:
    """The samples of whatever has `value` in the label that is asked for, in [low, high]."""

    value: str
    low: float
    high: float
    answer: asyncio.Future[Sequence[Result]]


class PrometheusServer:
    """A connection to a Prometheus server (or to what speaks its HTTP API).

    Args:
        url: Its address, such as `http://prom:9090`.
        token: Sent as bearer token; a function is asked for it before each request, because
            tokens in files are renewed; `None` sends none.
        headers: Sent with every request, such as a tenant's id.
        verify: Whether the server's certificate is checked, or the path of the CA bundle to
            check it against.
        timeout: Seconds that the server may take to answer one query.
        matchers: Labels that all series must have, such as the cluster's name where one server
            sees several.
    """

    def __init__(
        self,
        url: str,
        *,
        token: str | Callable[[], str] | None = None,
        headers: Mapping[str, str] | None = None,
        verify: bool | str = True,
        timeout: float = 5.0,
        matchers: Mapping[str, str] | None = None,
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
        self._matchers = dict(matchers or {})
        self._waiting: dict[str, list[_Question]] = {}
        self._asked: dict[str, float] = {}
        self._asking: set[asyncio.Task[None]] = set()

    async def series(self, label: str, value: str, low: float, high: float) -> Sequence[Result]:
        """Return the samples in about [low, high] of the series that have a label.

        Args:
            label: Its name; empty asks for all series.
            value: What it must be.
            low: Unix seconds; samples from before may come, too.
            high: Unix seconds; samples from after may come, too.

        Raises:
            TemporaryError: The server did not answer in time, refused, or answered no matrix.
        """
        loop = asyncio.get_running_loop()
        question = _Question(value, low, high, loop.create_future())
        waiting = self._waiting.setdefault(label, [])
        waiting.append(question)
        if len(waiting) == 1:
            pause = max(0.0, self._asked.get(label, -math.inf) + PACE - loop.time())
            task = asyncio.create_task(self._ask_all(label, pause))
            self._asking.add(task)
            task.add_done_callback(self._asking.discard)
        return await question.answer

    async def close(self) -> None:
        """Release the connections; whoever still waits is let go."""
        for task in self._asking:
            task.cancel()
        await asyncio.gather(*self._asking, return_exceptions=True)
        for question in (each for waiting in self._waiting.values() for each in waiting):
            question.answer.cancel()
        await asyncio.to_thread(self._prometheus.close)

    async def _ask_all(self, label: str, pause: float) -> None:
        """Ask what waits by then, in as many queries as it takes."""
        if pause > 0:
            await asyncio.sleep(pause)
        self._asked[label] = asyncio.get_running_loop().time()
        waiting = self._waiting.pop(label)
        await asyncio.gather(
            *(
                self._deal(label, waiting[begin : begin + TOGETHER])
                for begin in range(0, len(waiting), TOGETHER)
            )
        )

    async def _deal(self, label: str, questions: Sequence[_Question]) -> None:
        """Ask some questions in one query and answer each."""
        low, high = min(q.low for q in questions), max(q.high for q in questions)
        selector = render_selector(label, sorted({q.value for q in questions}), self._matchers)
        try:
            dealt = _deal_out(await self._query(selector, low, high), label)
        except asyncio.CancelledError:
            for question in questions:
                question.answer.cancel()
            raise
        except Exception as error:  # whoever asked must hear of it, whatever it is
            for question in questions:
                if not question.answer.done():
                    question.answer.set_exception(error)
            return
        for question in questions:
            if not question.answer.done():  # whoever asked may be gone
                question.answer.set_result(dealt.get(question.value, ()))

    async def _query(self, selector: str, low: float, high: float) -> Sequence[Result]:
        """Ask for [low, high] in a thread, as the client is synchronous."""
        milliseconds = math.ceil((high - low) * 1000) + 1
        query = f"{selector}[{milliseconds}ms]"
        try:
            # requests bounds each read, not the whole answer: a dripping server needs the second.
            results: Sequence[Result] = await asyncio.wait_for(
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


def render_selector(label: str, values: Sequence[str], matchers: Mapping[str, str]) -> str:
    """Return the instant selector for everything that Weir reads of whatever has these labels.

    Args:
        label: Name of a label; empty for none.
        values: Which it may have.
        matchers: Labels that must be there besides.
    """
    # A JSON string is a PromQL string: the same quotes and escapes.
    found = [f"{name}={json.dumps(value)}" for name, value in matchers.items()]
    if label:
        found.append(f"{label}=~{json.dumps('|'.join(map(re.escape, values)))}")
    wanted = "|".join(sorted({*names.NAMES, names.UP}))
    quantile = names.MARKER_QUANTILE.replace(".", "[.]")
    # The empty alternative matches the series that have no such label.
    return f'{{__name__=~"{wanted}",quantile=~"|{quantile}",{",".join(found)}}}'


def _deal_out(results: Sequence[Result], label: str) -> dict[str, list[Result]]:
    """Return the results by the value that they have in a label, those without it by none."""
    dealt: dict[str, list[Result]] = {}
    for result in results:
        dealt.setdefault(result["metric"].get(label, ""), []).append(result)
    return dealt
