"""A reverse proxy before the API server that does what networks and busy servers do.

It listens on the loopback without TLS, so that a client needs no certificate of it, and hands
everything on: bodies, headers, tokens, watches line by line. Faults wait in a list; the first that
matches a request is what happens to it, for as many requests as it was given.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn

import aiohttp
from aiohttp import web
from multidict import CIMultiDict, CIMultiDictProxy

from tests.api.client import open_session

_OF_ONE_HOP = {"connection", "content-encoding", "content-length", "host", "transfer-encoding"}


@dataclass(kw_only=True)
class Fault:
    """What happens to requests that match, instead of an answer."""

    method: str = ""
    """HTTP method; empty matches all."""
    path: str = ""
    """Regular expression that is looked for in path and query; empty matches all."""
    times: int | None = 1
    """How many requests it still happens to; `None` is for ever."""

    def matches(self, method: str, path: str) -> bool:
        """Return whether it happens to this request."""
        return (
            self.times != 0
            and self.method in ("", method)
            and re.search(self.path, path) is not None
        )


@dataclass(kw_only=True)
class Refuse(Fault):
    """Answer in the API server's place; the request never reaches it."""

    status: int
    retry_after: float | None = None
    """Seconds, for the header `Retry-After`."""


@dataclass(kw_only=True)
class Drop(Fault):
    """Close the connection; the request never reaches the API server."""


@dataclass(kw_only=True)
class LoseAnswer(Fault):
    """Hand the request on, and close the connection instead of answering."""


@dataclass(kw_only=True)
class Cut(Fault):
    """Hand on some pieces of the answer, such as events of a watch, then close the connection."""

    after: int
    """Pieces."""


@dataclass(frozen=True, slots=True)
class Seen:
    """A request as it came in."""

    method: str
    path: str


@dataclass
class FaultProxy:
    """The proxy while it runs; see `running_fault_proxy`."""

    target: str
    """The API server."""
    url: str = ""
    """Where clients connect."""
    seen: list[Seen] = field(default_factory=list)
    """All requests, those with a fault included."""
    _faults: list[Fault] = field(default_factory=list)

    def inject(self, *faults: Fault) -> None:
        """Let faults happen from now on, the earlier ones first."""
        self._faults += faults

    @property
    def waiting(self) -> list[Fault]:
        return [fault for fault in self._faults if fault.times != 0]

    def heal(self) -> None:
        self._faults.clear()

    def count(self, method: str, path: str) -> int:
        """Return how many requests came in, by method and regular expression."""
        return sum(
            each.method == method and re.search(path, each.path) is not None for each in self.seen
        )

    async def answer(
        self, request: web.Request, session: aiohttp.ClientSession
    ) -> web.StreamResponse:
        """Hand a request on, or let its fault happen."""
        self.seen.append(Seen(request.method, request.path_qs))
        match self._fault_of(request):
            case Refuse(status=status, retry_after=pause):
                return _refusal(status, pause)
            case Drop():
                _close(request)
            case LoseAnswer():
                async with self._asked(request, session) as answer:
                    await answer.read()
                _close(request)
            case Cut(after=pieces):
                return await self._hand_on(request, session, pieces)
        return await self._hand_on(request, session, None)

    def _fault_of(self, request: web.Request) -> Fault | None:
        for fault in self._faults:
            if fault.matches(request.method, request.path_qs):
                if fault.times is not None:
                    fault.times -= 1
                return fault
        return None

    @asynccontextmanager
    async def _asked(
        self, request: web.Request, session: aiohttp.ClientSession
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        async with session.request(
            request.method,
            f"{self.target}{request.path_qs}",
            headers=_without_hop(request.headers),
            data=await request.read() or None,
            skip_auto_headers=("Content-Type", "User-Agent"),  # what the client left out
        ) as answer:
            yield answer

    async def _hand_on(
        self, request: web.Request, session: aiohttp.ClientSession, pieces: int | None
    ) -> web.StreamResponse:
        """Hand on an answer as it comes, or only some pieces of it."""
        async with self._asked(request, session) as answer:
            response = web.StreamResponse(
                status=answer.status, headers=_without_hop(answer.headers)
            )
            await response.prepare(request)
            async for piece in answer.content.iter_any():
                if pieces == 0:
                    break
                await response.write(piece)
                pieces = None if pieces is None else pieces - 1
            if pieces is not None:
                _close(request)
            await response.write_eof()
            return response


@asynccontextmanager
async def running_fault_proxy(target: str, certificate: Path) -> AsyncIterator[FaultProxy]:
    """Run a proxy before the API server at `target` while the block runs."""
    proxy = FaultProxy(target)
    lasting = aiohttp.ClientTimeout(total=None)  # a watch lasts as long as its client wants
    async with open_session(certificate, connections=0, timeout=lasting) as session:

        async def answer(request: web.Request) -> web.StreamResponse:
            return await proxy.answer(request, session)

        application = web.Application(client_max_size=2**24)
        application.router.add_route("*", "/{path:.*}", answer)
        runner = web.AppRunner(application, handler_cancellation=True, shutdown_timeout=0)
        await runner.setup()
        try:
            site = web.TCPSite(runner, "127.0.0.1", 0)
            await site.start()
            [address] = runner.addresses
            proxy.url = f"http://{address[0]}:{address[1]}"
            yield proxy
        finally:
            await runner.cleanup()


def _refusal(status: int, retry_after: float | None) -> web.Response:
    """Return what the API server would say."""
    headers = {} if retry_after is None else {"Retry-After": f"{retry_after:g}"}
    body = {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "code": status,
        "message": f"a test injected {status}",
    }
    return web.json_response(body, status=status, headers=headers)


def _close(request: web.Request) -> NoReturn:
    """Close a connection without a word, and end its request."""
    if request.transport is not None:
        request.transport.abort()
    raise asyncio.CancelledError


def _without_hop(headers: CIMultiDictProxy[str]) -> CIMultiDict[str]:
    """Return headers without those that hold between two neighbours only."""
    return CIMultiDict(
        (name, value) for name, value in headers.items() if name.lower() not in _OF_ONE_HOP
    )
