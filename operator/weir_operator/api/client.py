"""The only client of the API server: raw paths, plain JSON objects, Weir's errors.

The `kubernetes` package's own asyncio client carries the requests, so credentials work as users of
Kubernetes know them: the pod's service account (its token is read again every minute), or the
kubeconfig with certificates, tokens and plugins. A 401 reads the credentials once more.

What may be asked again is asked again, with growing pauses or after the server's `Retry-After`:
throttling always, other troubles only where the same request twice does no more than once. Whoever
creates an object therefore names it, and takes a `ConflictError` for "it is there".

Reconciling is level-based; a watch (`stream`) only shows when to check, see `changes`.
"""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from copy import copy
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Self, TypeAlias
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import aiohttp
from kubernetes.aio import client as kubernetes_client
from kubernetes.aio import config as kubernetes_config
from kubernetes.aio.client.rest import RESTResponse

from weir_operator.errors import PermanentError, TemporaryError, WeirError
from weir_operator.fence import Guard
from weir_operator.limits import (
    ERROR_TEXT,
    KUBERNETES_ANSWER,
    KUBERNETES_LIST,
    LOGGED,
    TooLargeError,
    read_content,
    read_json,
    read_lines,
)

Body: TypeAlias = dict[str, Any]
"""An object of the API server, as plain JSON values."""

CONNECTIONS = 16
"""To the API server at once. Each costs 0.8 MiB while it is kept, most of it buffers of TLS;
if all are busy, a caller waits for one."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Request:
    """What is asked."""

    method: str
    path: str
    body: Body | Sequence[Body] | None = None
    query: tuple[tuple[str, str], ...] = ()
    content_type: str = "application/json"
    accept: str = "application/json"
    repeatable: bool = True
    """Whether sending it twice does no more than sending it once."""

    def __str__(self) -> str:
        """Return how errors name it."""
        return f"{self.method} {self.path}"


class Connection:
    """The client that carries requests, opened by the first of them and again when asked for."""

    def __init__(self, max_connections: int) -> None:
        self._max_connections = max_connections
        self._client: kubernetes_client.ApiClient | None = None
        self._retired: kubernetes_client.ApiClient | None = None
        self._opening = asyncio.Lock()

    async def opened(
        self, *, instead_of: kubernetes_client.ApiClient | None = None
    ) -> kubernetes_client.ApiClient:
        """Return the client, a new one where the present one is `instead_of`."""
        async with self._opening:
            if self._client is None or self._client is instead_of:
                fresh = await open_client(self._max_connections)
                # It may still carry other requests, so it ends with the next that is replaced.
                await self._retire(self._client)
                self._client = fresh
            return self._client

    async def close(self) -> None:
        """Release the connections."""
        await self._retire(self._client)
        await self._retire(None)
        self._client = None

    async def _retire(self, client: kubernetes_client.ApiClient | None) -> None:
        client, self._retired = self._retired, client
        if client is not None:
            await client.close()


async def open_client(connections: int) -> kubernetes_client.ApiClient:
    """Return a client of the cluster that this process runs in, else that `KUBECONFIG` names.

    Args:
        connections: How many it has at once at most.

    Raises:
        PermanentError: There are no credentials, or they cannot be read.
    """
    configuration = kubernetes_client.Configuration()
    try:
        if os.environ.get("KUBERNETES_SERVICE_HOST"):
            kubernetes_config.load_incluster_config(client_configuration=configuration)
        else:
            await kubernetes_config.load_kube_config(
                client_configuration=configuration, persist_config=False
            )
    except (kubernetes_config.ConfigException, OSError) as error:
        raise PermanentError(
            f"Expected a pod's service account or a kubeconfig, got: {error};"
            " run in a cluster, or set KUBECONFIG"
        ) from error
    configuration.connection_pool_maxsize = connections
    # From Python 3.13 on, a CA without key usage is refused by default; clusters have such ones.
    configuration.disable_strict_ssl_verification = True
    # Else the session reads ~/.netrc for every request, in a thread: credentials are never there.
    configuration.client_session_kwargs = {"trust_env": False}
    configuration.proxy = configuration.proxy or find_proxy(configuration.host)
    return kubernetes_client.ApiClient(configuration)


def find_proxy(url: str) -> str | None:
    """Return the proxy that the environment names for an address: `HTTPS_PROXY`, `NO_PROXY`."""
    parts = urlsplit(url)
    return None if proxy_bypass(parts.hostname or "") else getproxies().get(parts.scheme)


async def exchange(
    client: kubernetes_client.ApiClient, request: Request, *, timeout: float
) -> RESTResponse:
    """Send a request and return its answer, unread; all of it must come within `timeout` seconds.

    Raises:
        TimeoutError, aiohttp.ClientError, OSError: It does not come.
    """
    method, url, headers, _, _ = await client.param_serialize(
        request.method,
        request.path,
        query_params=list(request.query),
        header_params={"Accept": request.accept, "Content-Type": request.content_type},
        auth_settings=["BearerToken"],
    )
    answer: RESTResponse = await client.rest_client.request(
        method,
        url,
        headers=headers,
        body=request.body,
        _request_timeout=aiohttp.ClientTimeout(total=timeout),
    )
    return answer


MERGE_PATCH = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"
FIELD_MANAGER = "weir"
"""Who has applied an object, as the API server notes it with the object."""
FIELD_MANAGER_CONFLICT = "FieldManagerConflict"
"""Reason of a conflict: another field manager has set a field to another value."""

_ABOUT_THE_BODY = ("failed to create typed patch object", "failed to convert new object")
_VALUE, _END_OF_VALUE = "&value.valueUnstructured{", "}\n"
"""A value of a wrong type, as the API server repeats it; it may be secret."""

ATTEMPTS = 4
"""How often one request is sent at most."""
FIRST_PAUSE = 0.2
"""Seconds before the second attempt at most; doubled after each further one."""
LONGEST_PAUSE = 10.0
"""Seconds; if a server asks for a longer pause, the caller gets an error instead."""
PAGE = 100
"""Objects per answer of a list. A StreamApp of ten operators is 14 kB, and takes several times as
much while it is read; kubectl asks for 500 at once."""


class NotFoundError(PermanentError):
    """The API server has no such object, or no such kind."""


class ConflictError(PermanentError):
    """An object of that name exists already, has changed since it was read, or is not to be forced.

    `reasons` has those of the answer's causes, such as `FIELD_MANAGER_CONFLICT`.
    """

    def __init__(self, sentence: str, reasons: frozenset[str] = frozenset()) -> None:
        super().__init__(sentence)
        self.reasons = reasons


class RefusedByKubernetesError(PermanentError):
    """The API server refused a request, which will not be better the next time."""

    def __init__(self, sentence: str, status: int) -> None:
        super().__init__(sentence)
        self.status = status


@dataclass(frozen=True, slots=True)
class _Answer:
    """What came back: 0 for nothing at all."""

    status: int
    content: str
    retry_after: float | None


class KubernetesApi:
    """A client of one API server; every call is bounded in time.

    Every call raises `TemporaryError` where trying again later may help, and `NotFoundError`,
    `ConflictError` or `RefusedByKubernetesError`, all of them permanent, where it cannot. Where it
    is `guarded`, what the guard raises ends a call before anything is sent.
    """

    def __init__(
        self,
        timeout: float = 10.0,
        *,
        connections: int = CONNECTIONS,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        """Create a client that connects at its first call, to the event loop of that call.

        Args:
            timeout: Seconds for each attempt of a call.
            connections: How many it has at once at most. A watch holds one as long as it lasts.
            sleep: Waits for so many seconds before a further attempt.
        """
        self._connection = Connection(connections)
        self._timeout = timeout
        self._sleep = sleep
        self._guard: Guard | None = None

    @classmethod
    async def connect(cls, timeout: float = 10.0) -> Self:
        """Return a client of the cluster that this process runs in, else that `KUBECONFIG` names.

        Args:
            timeout: Seconds for each attempt of a call.

        Raises:
            PermanentError: There are no credentials, or they cannot be read.
        """
        api = cls(timeout)
        await api._connection.opened()
        return api

    def guarded(self, guard: Guard) -> Self:
        """Return this client for one who is asked before each attempt to change something.

        It shares the connections, which belong to the client that it was made from.
        """
        other = copy(self)
        other._guard = guard
        return other

    @property
    def guard(self) -> Guard | None:
        """The check before every change; `None` if there is none."""
        return self._guard

    async def close(self) -> None:
        """Release the connections."""
        await self._connection.close()

    async def get(self, path: str) -> Body:
        """Return the object at `path`."""
        return await self._ask(Request(method="GET", path=path))

    async def read_log(self, path: str, *, container: str, most: int) -> str:
        """Return the log of a container of the pod at `path`."""
        query = (("container", container), ("limitBytes", str(most)))
        request = Request(method="GET", path=f"{path}/log", query=query)
        return (await self._answered(request, most=most)).content

    async def list(self, path: str, labels: str = "", fields: str = "") -> tuple[Body, ...]:
        """Return the objects of the collection at `path`, all pages of it.

        Args:
            path: Of the collection.
            labels: A label selector, such as `weir.dev/app=trips`.
            fields: A field selector, such as `spec.nodeName=large`.

        Raises:
            TooLargeError: They are more than anybody may keep at once.
        """
        found: list[Body] = []
        size = 0
        async for page, page_size in self._sized_pages(path, labels, fields):
            size += page_size
            if size > KUBERNETES_LIST:
                limit = f"it has more than {KUBERNETES_LIST / 2**20:g} MiB"
                raise TooLargeError(f"Weir cannot read the list at {path}: {limit}")
            found += page
        return tuple(found)

    async def pages(
        self, path: str, labels: str = "", fields: str = ""
    ) -> AsyncIterator[Sequence[Body]]:
        """Yield the same page by page, without a limit: they are never in memory at once."""
        async for page, _ in self._sized_pages(path, labels, fields):
            yield page

    async def _sized_pages(
        self, path: str, labels: str, fields: str
    ) -> AsyncIterator[tuple[Sequence[Body], int]]:
        selectors = {"labelSelector": labels, "fieldSelector": fields}
        selected = tuple((name, text) for name, text in selectors.items() if text)
        token, most = "", PAGE
        while True:
            page = (("limit", str(most)), *((("continue", token),) if token else ()))
            request = Request(method="GET", path=path, query=(*selected, *page))
            try:
                answer, size = await self._ask_for(request)
            except TooLargeError:
                if most == 1:
                    raise
                most = max(1, most // 4)  # objects are large: fewer at once, from here on
                continue
            if not isinstance(answer.get("items"), list):
                raise TemporaryError(
                    f"Expected a list of objects from the API server for {request}, got "
                    f"{str(list(answer))[:80]}"
                )
            yield answer["items"], size
            token = (answer.get("metadata") or {}).get("continue") or ""
            if not token:
                return

    async def newest(self, path: str, labels: str = "") -> str:
        """Return the resourceVersion from which a watch of the collection at `path` may begin."""
        query = (("limit", "1"), ("labelSelector", labels))
        answer = await self._ask(Request(method="GET", path=path, query=query))
        return str(answer["metadata"]["resourceVersion"])

    @asynccontextmanager
    async def stream(
        self, path: str, query: Mapping[str, str], *, accept: str, lasts: float
    ) -> AsyncIterator[AsyncIterable[bytes]]:
        """Open a streaming answer, for at most `lasts` seconds; yields its lines.

        Not retried: only the reader knows from where to continue.
        """
        request = Request(method="GET", path=path, query=tuple(query.items()), accept=accept)
        try:
            answer = await exchange(await self._connection.opened(), request, timeout=lasts)
            async with answer.response:
                if answer.status != HTTPStatus.OK:
                    content = await read_content(answer.response, KUBERNETES_ANSWER.bytes)
                    said = content.decode(errors="replace")
                    raise _error_of(request, _Answer(answer.status, said, None))
                yield read_lines(answer.response)
        except (aiohttp.ClientError, OSError) as error:  # TimeoutError is an OSError
            cause = str(error) or type(error).__name__
            raise TemporaryError(f"The answer to {request} ended early: {cause}") from error

    async def create(self, path: str, body: Body) -> Body:
        """Make an object in the collection at `path`, return it as it was stored.

        Not sent twice after a lost answer: it may have been made, and the next check shows it.
        """
        return await self._ask(Request(method="POST", path=path, body=body, repeatable=False))

    async def apply(
        self,
        path: str,
        body: Body,
        manager: str = FIELD_MANAGER,
        *,
        force: bool = True,
        dry_run: bool = False,
    ) -> Body:
        """Make or change the object at `path` so that the fields of `body` hold.

        Server-side apply: fields that this manager set before and left out now are removed, and
        those that `body` does not have are left alone. A dry run is judged as any other, and
        changes nothing.

        Raises:
            ConflictError: Not forced, and another manager set one of the fields to another value;
                or the `resourceVersion` of `body` is not current.
        """
        only_judged = (("dryRun", "All"),) if dry_run else ()
        return await self._ask(
            Request(
                method="PATCH",
                path=path,
                body=body,
                query=(("fieldManager", manager), ("force", str(force).lower()), *only_judged),
                content_type=APPLY_PATCH,
            )
        )

    async def patch(
        self, path: str, body: Body | Sequence[Body], content_type: str = MERGE_PATCH
    ) -> Body:
        """Change the object at `path`; a `resourceVersion` in a merge patch must be current."""
        return await self._ask(
            Request(
                method="PATCH",
                path=path,
                body=body,
                content_type=content_type,
                repeatable=content_type != JSON_PATCH,
            )
        )

    async def replace(self, path: str, body: Body) -> Body:
        """Replace the object at `path` by `body` if its resourceVersion is still current."""
        return await self._ask(Request(method="PUT", path=path, body=body))

    async def delete(self, path: str, grace: int | None = None) -> None:
        """Delete the object at `path`, then its dependents; one that is gone is no error.

        Args:
            path: Of the object.
            grace: Seconds that a pod's processes have to end; `None` takes the pod's own.
        """
        options: Body = {"propagationPolicy": "Background"}
        if grace is not None:
            options["gracePeriodSeconds"] = grace
        try:
            await self._answered(Request(method="DELETE", path=path, body=options))
        except NotFoundError:
            return

    async def _ask(self, request: Request) -> Body:
        found, _ = await self._ask_for(request)
        return found

    async def _ask_for(self, request: Request) -> tuple[Body, int]:
        answer = await self._answered(request)
        try:
            found = _json(answer.content)
        except TooLargeError as error:
            raise _too_large(request, error) from error
        if not isinstance(found, dict):
            raise PermanentError(
                f"Expected a JSON object from the API server for {request}, got"
                f" {answer.content[:80]!r}; is something else listening there?"
            )
        return found, len(answer.content)

    async def _answered(self, request: Request, *, most: int = KUBERNETES_ANSWER.bytes) -> _Answer:
        """Return the first answer that is neither an error nor worth another attempt."""
        answer = await self._send(request, most)
        for repetition in range(ATTEMPTS - 1):
            retry_after = answer.retry_after or 0.0
            may_pass = _may_pass(answer, repeatable=request.repeatable)
            if retry_after > LONGEST_PAUSE or not may_pass:
                break
            # Random, or all that were refused together would come again together.
            await self._sleep(retry_after + random.uniform(0.0, FIRST_PAUSE * 2**repetition))
            answer = await self._send(request, most)
        if not 200 <= answer.status < 300:
            raise _error_of(request, answer)
        return answer

    async def _send(self, request: Request, most: int) -> _Answer:
        """Send one request; where the credentials are no longer taken, again with fresh ones."""
        client = await self._connection.opened()
        answer = await self._send_by(client, request, most)
        if answer.status != HTTPStatus.UNAUTHORIZED:
            return answer
        client = await self._connection.opened(instead_of=client)
        return await self._send_by(client, request, most)

    async def _send_by(
        self, client: kubernetes_client.ApiClient, request: Request, most: int
    ) -> _Answer:
        if self._guard is not None and request.method != "GET":
            await self._guard()  # last of all: what is sent later was asked for too early
        try:
            response = await exchange(client, request, timeout=self._timeout)
            content = (await read_content(response.response, most)).decode()
        except TooLargeError as error:
            raise _too_large(request, error) from error
        except TimeoutError:
            return _Answer(0, f"no answer within {self._timeout:g} s", None)
        except UnicodeDecodeError:
            return _Answer(0, "an answer that is not UTF-8", None)
        except (aiohttp.ClientError, OSError) as error:
            return _Answer(0, str(error) or type(error).__name__, None)
        return _Answer(
            response.status, content, _seconds(response.getheader("Retry-After", default=""))
        )


def _too_large(request: Request, error: TooLargeError) -> TooLargeError:
    return TooLargeError(f"Weir cannot read the answer to {request}: {error}")


def _may_pass(answer: _Answer, *, repeatable: bool) -> bool:
    """Return whether the same request may be sent again, and to some purpose."""
    if answer.status == HTTPStatus.TOO_MANY_REQUESTS:
        return True  # it was not even looked at
    if _is_about_the_body(answer):
        return False
    return repeatable and (answer.status == 0 or answer.status >= 500)


def _error_of(request: Request, answer: _Answer) -> WeirError:
    if answer.status == 0:
        return TemporaryError(f"The API server cannot be reached for {request}: {answer.content}")
    sentence = f"The API server refused {request} ({answer.status}): {_message(answer.content)}"
    match answer.status:
        case HTTPStatus.NOT_FOUND:
            return NotFoundError(sentence)
        case HTTPStatus.CONFLICT:
            return ConflictError(sentence, _reasons(answer.content))
        case HTTPStatus.TOO_MANY_REQUESTS | HTTPStatus.REQUEST_TIMEOUT | HTTPStatus.GONE:
            return TemporaryError(sentence)
        case status if status >= 500 and not _is_about_the_body(answer):
            return TemporaryError(sentence)
    return RefusedByKubernetesError(sentence, answer.status)


def _is_about_the_body(answer: _Answer) -> bool:
    """Return whether what was to be applied has a field of a wrong type or an unknown name.

    The API server answers 500 to that, as if the fault were its own (Kubernetes 1.34,
    `structuredmerge.go`).
    """
    return answer.status == HTTPStatus.INTERNAL_SERVER_ERROR and _message(
        answer.content
    ).startswith(_ABOUT_THE_BODY)


def _message(content: str) -> str:
    """Return the sentence of a `Status`, on one line, or what else was answered."""
    found = _json_of_status(content)
    if isinstance(found, Mapping) and isinstance(found.get("message"), str):
        return " ".join(_without_values(str(found["message"])[:ERROR_TEXT]).split())
    return content[:ERROR_TEXT].strip().partition("\n")[0][:LOGGED] or "without a reason"


def _without_values(message: str) -> str:
    kept, end = [], 0
    while (begin := message.find(_VALUE, end)) >= 0:
        kept += [message[end:begin], "another type"]
        end = message.find(_END_OF_VALUE, begin) + 1 or len(message)
    return "".join([*kept, message[end:]])


def _reasons(content: str) -> frozenset[str]:
    found = _json_of_status(content)
    details = found.get("details") if isinstance(found, Mapping) else None
    causes = details.get("causes") if isinstance(details, Mapping) else None
    return frozenset(
        str(each["reason"])
        for each in (causes if isinstance(causes, list) else ())
        if isinstance(each, Mapping) and "reason" in each
    )


def _json(content: str) -> object:
    try:
        return read_json(content, KUBERNETES_ANSWER)
    except (ValueError, RecursionError):
        return None


def _json_of_status(content: str) -> object:
    try:
        return _json(content)
    except TooLargeError:
        return None


def _seconds(header: str) -> float | None:
    try:
        return float(header)
    except ValueError:
        return None  # absent, or a date, which API servers do not send
