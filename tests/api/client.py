"""What a test says to the API server, in plain values: no model judges them on the way."""

from __future__ import annotations

import asyncio
import json
import socket
import ssl
from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from weakref import WeakSet

import aiohttp

MERGE_PATCH = "application/merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"


@dataclass(frozen=True)
class Answer:
    """What the API server said."""

    status: int
    body: dict[str, Any]

    @property
    def message(self) -> str:
        """The sentence of a refusal."""
        return str(self.body.get("message", ""))


class Kube:
    """A client of the API server with an own namespace."""

    def __init__(
        self, session: aiohttp.ClientSession, *, url: str, namespace: str, kubeconfig: Path
    ) -> None:
        self._session = session
        self.url = url
        self.namespace = namespace
        self.kubeconfig = kubeconfig
        """A file for clients under test; names no namespace."""

    @property
    def stream_apps(self) -> str:
        return f"/apis/weir.dev/v1alpha1/namespaces/{self.namespace}/streamapps"

    async def ask(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        content_type: str = "application/json",
        accept: str = "application/json",
    ) -> Answer:
        """Send one request and return the answer, whatever it is."""
        async with self._session.request(
            method,
            f"{self.url}{path}",
            data=None if body is None else json.dumps(body),
            headers={"Content-Type": content_type, "Accept": accept},
        ) as response:
            if response.content_type == "application/json":
                return Answer(response.status, await response.json())
            return Answer(response.status, {"message": await response.text()})

    async def get(self, path: str, *, accept: str = "application/json") -> Answer:
        return await self.ask("GET", path, accept=accept)

    async def watch(self, path: str, version: str) -> AsyncIterator[dict[str, Any]]:
        """Yield the events of the collection at `path` after `version`, for ever."""
        async with self._session.get(
            f"{self.url}{path}?watch=true&resourceVersion={version}",
            timeout=aiohttp.ClientTimeout(total=None),
        ) as response:
            async for line in response.content:
                yield json.loads(line)

    async def create(self, path: str, body: object) -> Answer:
        """Add `body` to the collection at `path`; an unknown field is an error."""
        return await self.ask("POST", f"{path}?fieldValidation=Strict", body)

    async def replace(self, path: str, body: object) -> Answer:
        return await self.ask("PUT", path, body)

    async def merge(self, path: str, body: object) -> Answer:
        return await self.ask("PATCH", path, body, content_type=MERGE_PATCH)

    async def apply(self, path: str, body: object, *, manager: str = "test") -> Answer:
        """Apply `body` at `path` on the server's side, as `kubectl apply --server-side`."""
        return await self.ask(
            "PATCH",
            f"{path}?fieldManager={manager}&force=true",
            body,
            content_type=APPLY_PATCH,
        )

    async def delete(self, path: str) -> Answer:
        return await self.ask("DELETE", path)


@asynccontextmanager
async def open_session(
    certificate: Path,
    *,
    timeout: aiohttp.ClientTimeout,
    headers: Mapping[str, str] | None = None,
    connections: int = 100,
) -> AsyncIterator[aiohttp.ClientSession]:
    """Open a session that trusts `certificate` alone; at the end, every connection is closed.

    aiohttp forgets a TLS connection whose request was cancelled, while its transport still waits
    for the server to end it. If the loop is closed before, the socket stays open, and pytest blames
    a later test.

    Args:
        certificate: The server's.
        timeout: Of one request.
        headers: Of every request.
        connections: How many at most at once; 0 sets no limit.
    """
    sockets: WeakSet[socket.socket] = WeakSet()

    def make_socket(address: aiohttp.AddrInfoType) -> socket.socket:
        family, kind, protocol, _, _ = address
        made = socket.socket(family, kind, protocol)
        sockets.add(made)
        return made

    trust = ssl.create_default_context(cafile=certificate)
    connector = aiohttp.TCPConnector(ssl=trust, limit=connections, socket_factory=make_socket)
    try:
        async with aiohttp.ClientSession(
            connector=connector, headers=headers, timeout=timeout
        ) as session:
            yield session
    finally:
        await _close(sockets)


async def _close(sockets: Collection[socket.socket]) -> None:
    """End connections, and wait until their transports have closed the sockets."""
    for each in sockets:
        with suppress(OSError):  # closed already, or never connected
            each.shutdown(socket.SHUT_RDWR)
    async with asyncio.timeout(10.0):
        while any(each.fileno() >= 0 for each in sockets):
            await asyncio.sleep(0.01)


@asynccontextmanager
async def session_for(*, certificate: Path, token: str) -> AsyncIterator[aiohttp.ClientSession]:
    """Open a session that trusts `certificate` alone and shows `token`."""
    async with open_session(
        certificate,
        headers={"Authorization": f"Bearer {token}"},
        timeout=aiohttp.ClientTimeout(total=30),
    ) as session:
        yield session
