"""HTTP to one JobManager: limits of time and size, and foreign errors turned into Weir's.

Does not interpret the answers. Flink reports errors as `{"errors": [text, ...]}`, often a whole
stack trace; only its root cause is passed on.

The owner of a job decides what answers at its address. So Weir follows no redirect, and only logs
an error that does not have the form of Flink's: people who may not call that address themselves can
read events and statuses.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from typing import TypeVar

import aiohttp
import structlog

from weir_operator.accounts import current_account
from weir_operator.errors import PermanentError, TemporaryError
from weir_operator.fence import Guard
from weir_operator.flink.causes import root_cause
from weir_operator.limits import (
    FLINK_ANSWER,
    FLINK_SUBTASKS,
    LOGGED,
    Json,
    Limit,
    cut_end,
    open_session,
    read_json,
    read_raw,
)

log = structlog.get_logger()

T = TypeVar("T")
_OF_SUBTASKS = re.compile(r"/taskmanagers|/jobs/[0-9a-f]{32}(/vertices/.*)?")
_UPLOAD = re.compile(r"^/jars/[0-9a-f-]{36}_")
"""What Flink puts before the name of a jar: another one at each upload."""
_PASSING = (
    "TimeoutException",
    "ConnectException",
    "ConnectionException",
    "SocketException",
    "NoRouteToHostException",
    "UnknownHostException",
    "ClosedChannelException",
    "RecipientUnreachableException",
    "FencingTokenException",
    "LeaderRetrievalException",
)
"""Causes that pass: a part of Flink that does not answer another one, as while it starts."""
_STILL_WORKS = ("Another update to the job ", " is in progress")
"""What Flink says while it works on the request before."""


class NotKnownToFlinkError(PermanentError):
    """Flink does not know the job, operation or jar that was named."""


class RefusedByFlinkError(PermanentError):
    """Flink refused a request; `trace` is the whole text that it gave as the reason."""

    def __init__(self, sentence: str, trace: str) -> None:
        super().__init__(sentence)
        self.trace = trace


class FlinkTransport:
    """A connection pool to one REST address."""

    def __init__(self, base_url: str, *, timeout: float, guard: Guard | None = None) -> None:
        self.base_url = base_url.rstrip("/")
        self._timeout = timeout
        self._guard = guard
        self._account = current_account()
        self._session: aiohttp.ClientSession | None = None
        self._logged_failure = ""  # of the last request; "" once Flink answered again

    async def ask(
        self,
        method: str,
        path: str,
        parse: Callable[[Json], T],
        *,
        body: Mapping[str, Json] | None = None,
        form: aiohttp.FormData | None = None,
        timeout: float | None = None,
        what: str = "",
    ) -> T:
        """Send one request and return its answer, parsed.

        Args:
            method: `GET`, `POST`, ...
            path: Path and query, beginning with `/`.
            parse: Reads the decoded JSON.
            body: Sent as JSON.
            form: Sent instead of `body`, for files.
            timeout: Seconds; the transport's own where `None`.
            what: Names the request in errors, which people read; by default method and path.

        Raises:
            NotKnownToFlinkError: Flink answered 404.
            RefusedByFlinkError: Any other status that blames the request.
            TemporaryError: No answer in time, one that is too large, a status that blames the
                server, or a cause that passes.
            PermanentError: The answer is not what Flink 2.x gives, a redirect among others.
        """
        limit = self._timeout if timeout is None else timeout
        url = f"{self.base_url}{path}"
        plain = _UPLOAD.sub("/jars/", path.partition("?")[0])
        address = f"{method} {self.base_url}{plain}"
        allowed = FLINK_SUBTASKS if _OF_SUBTASKS.fullmatch(plain) else FLINK_ANSWER
        what = what or f"{method} {plain}"
        if self._guard is not None and method != "GET":
            await self._guard()
        try:
            with self._account.asking(address, f"Flink's answer to {what}") as hold:
                async with self._opened().request(
                    method,
                    url,
                    json=body,
                    data=form,
                    timeout=aiohttp.ClientTimeout(total=limit),
                    allow_redirects=False,
                ) as response:
                    status = response.status
                    raw = await read_raw(response, allowed.bytes, hold=hold)
                self._logged_failure = ""
                return await self._account.work_on(
                    raw, allowed.bytes, lambda body: _understand(what, status, body, parse, allowed)
                )
        except TimeoutError as error:
            raise TemporaryError(f"Flink did not answer {what} within {limit:g} s") from error
        except (aiohttp.ClientError, OSError) as error:
            # Flink is asked several times a second while it starts: one line, not hundreds.
            if (failure := str(error)) != self._logged_failure:
                log.info("Flink cannot be reached", request=f"{method} {url}", failure=failure)
                self._logged_failure = failure
            raise TemporaryError(f"Flink cannot be reached for {what}: {_reason(error)}") from error
        except ValueError as error:
            raise _not_flink(what, f"a damaged answer ({error})", b"") from error

    async def close(self) -> None:
        """Release the connections."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    def _opened(self) -> aiohttp.ClientSession:
        # Not in the constructor: a session belongs to the event loop that runs when it is made.
        if self._session is None:
            self._session = open_session(timeout=self._timeout)
        return self._session


def _understand(
    what: str, status: int, content: bytes, parse: Callable[[Json], T], limit: Limit
) -> T:
    if status >= 400:
        raise _error_of(what, status, content, limit)
    if status >= 300:
        raise _not_flink(what, f"a redirect ({status})", content)
    try:
        return parse(read_json(content, limit))
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise _not_flink(what, f"something else ({type(error).__name__})", content) from error
    except RecursionError as error:
        raise _not_flink(what, "one with too many levels of nesting", content) from error


def _not_flink(what: str, got: str, content: bytes) -> PermanentError:
    _log_answer(what, content)
    return PermanentError(
        f"Expected an answer of Flink 2.x to {what}, got {got}; check whether "
        "another program listens there"
    )


def _log_answer(what: str, content: bytes) -> None:
    log.info("not an answer of Flink", request=what, answer=repr(content[:LOGGED]))


def _reason(error: Exception) -> str:
    """Return why a connection failed; the text of other errors may quote what was sent."""
    reason = error.os_error if isinstance(error, aiohttp.ClientConnectorError) else error
    if not isinstance(reason, OSError):
        return type(error).__name__
    # Not the error's own text, in which asyncio names the address; a name that is not found has
    # no number of the system's.
    number = reason.errno or 0
    return (os.strerror(number) if number > 0 else reason.strerror) or type(error).__name__


def _error_of(
    what: str, status: int, content: bytes, limit: Limit
) -> TemporaryError | PermanentError:
    trace = _reported(content, limit)
    if trace is None:
        if status < 500:
            return _not_flink(what, f"status {status} without Flink's reason", content)
        _log_answer(what, content)
        return TemporaryError(f"Flink cannot be reached for {what}: status {status}")
    sentence = f"Flink refused {what} ({status}): {root_cause(trace)}"
    if status == 404:
        return NotKnownToFlinkError(sentence)
    # Flink blames itself for a program that cannot be run, and the request for its own troubles.
    at_fault = status < 500 or "ProgramInvocationException" in trace
    if at_fault and not may_pass(trace):
        return RefusedByFlinkError(sentence, trace)
    return TemporaryError(sentence)


def may_pass(trace: str) -> bool:
    """Return whether a stack trace names a cause that passes."""
    return any(each in trace for each in _PASSING) or all(each in trace for each in _STILL_WORKS)


def _reported(content: bytes, limit: Limit) -> str | None:
    """Return the end of the longest of the errors that Flink lists; the others only announce it.

    `None` for what is no such list.
    """
    try:
        answer = read_json(content, limit)
    except (RecursionError, ValueError):
        return None
    errors = answer.get("errors") if isinstance(answer, dict) else None
    if not isinstance(errors, list) or not errors:
        return None
    return cut_end(max((str(error) for error in errors), key=len))
