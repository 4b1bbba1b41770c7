"""HTTP to one JobManager: time limits, and foreign errors turned into Weir's.

Knows nothing of what the answers mean. Flink reports errors as `{"errors": [text, ...]}`, whose
text is often a whole stack trace; only its root cause goes on.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias, TypeVar

import aiohttp

from weir_operator.errors import PermanentError, TemporaryError
from weir_operator.flink.causes import root_cause

T = TypeVar("T")
Json: TypeAlias = Any
"""What a JSON text holds; the one place where Flink's answers are not yet typed."""


class NotKnownToFlinkError(PermanentError):
    """Flink does not know the job, operation or jar that was named."""


class RefusedByFlinkError(PermanentError):
    """Flink refused a request; `trace` is the whole text that it gave as the reason."""

    def __init__(self, sentence: str, trace: str) -> None:
        super().__init__(sentence)
        self.trace = trace


class FlinkTransport:
    """A connection pool to one REST address."""

    def __init__(self, base_url: str, *, timeout: float) -> None:
        self.base_url = base_url.rstrip("/")
        self._timeout = timeout
        self._session: aiohttp.ClientSession | None = None

    async def ask(
        self,
        method: str,
        path: str,
        parse: Callable[[Json], T],
        *,
        body: Mapping[str, Json] | None = None,
        form: aiohttp.FormData | None = None,
        timeout: float | None = None,
    ) -> T:
        """Send one request and return its answer, parsed.

        Args:
            method: `GET`, `POST`, ...
            path: Path and query, beginning with `/`.
            parse: Reads the decoded JSON.
            body: Sent as JSON.
            form: Sent instead of `body`, for files.
            timeout: Seconds; the transport's own where `None`.

        Raises:
            NotKnownToFlinkError: Flink answered 404.
            RefusedByFlinkError: Any other status that blames the request.
            TemporaryError: No answer in time, or a status that blames the server.
            PermanentError: The answer is not what Flink 2.x gives.
        """
        limit = self._timeout if timeout is None else timeout
        what = f"{method} {self.base_url}{path}"
        try:
            async with self._opened().request(
                method,
                f"{self.base_url}{path}",
                json=body,
                data=form,
                timeout=aiohttp.ClientTimeout(total=limit),
            ) as response:
                status, text = response.status, await response.text()
        except TimeoutError as error:
            raise TemporaryError(f"Flink did not answer {what} within {limit:g} s") from error
        except (aiohttp.ClientError, OSError) as error:
            raise TemporaryError(f"Flink cannot be reached for {what}: {error}") from error
        if status >= 400:
            raise _error_of(what, status, text)
        try:
            return parse(json.loads(text))
        except (KeyError, IndexError, TypeError, ValueError) as error:
            raise PermanentError(
                f"Expected an answer of Flink 2.x to {what}, got {text[:80]!r}"
                f" ({type(error).__name__}: {error}); is something else listening there?"
            ) from error

    async def close(self) -> None:
        """Release the connections."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    def _opened(self) -> aiohttp.ClientSession:
        # Not in the constructor: a session belongs to the event loop that runs when it is made.
        if self._session is None:
            self._session = aiohttp.ClientSession()
        return self._session


def _error_of(what: str, status: int, text: str) -> TemporaryError | PermanentError:
    trace = _reported(text)
    sentence = f"Flink refused {what} ({status}): {root_cause(trace)}"
    if status == 404:
        return NotKnownToFlinkError(sentence)
    # Flink blames itself for a program that cannot be run, and the request for its own time-outs.
    at_fault = status < 500 or "ProgramInvocationException" in trace
    if at_fault and "TimeoutException" not in trace:
        return RefusedByFlinkError(sentence, trace)
    return TemporaryError(sentence)


def _reported(text: str) -> str:
    """Return the longest of the errors that Flink lists; the others only announce it."""
    try:
        errors = json.loads(text)["errors"]
        return max((str(error) for error in errors), key=len, default=text)
    except (KeyError, TypeError, ValueError):
        return text
