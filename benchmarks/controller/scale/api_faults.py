"""The API server as the controller of `scale` reaches it, and its Lease as the server has it.

The controller connects through a relay of bytes, which can hold answers back for a while, or refuse
all connections. TLS is between the controller and the API server. The Lease is read past the relay.
Both run in a thread of their own.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event, Thread
from urllib.parse import urlsplit

from tests.api.client import Kube, session_for
from tests.api.control_plane import ADMIN, ControlPlane

LOOK_EVERY = 0.5
"""Seconds between two looks at the Lease."""
_PART = 2**16
"""Bytes that are handed on at once at most."""
LEASE = "/apis/coordination.k8s.io/v1/namespaces/weir/leases/weir-controller"


@dataclass(slots=True)
class ApiServer:
    """A way to the API server that can be disturbed."""

    url: str = ""
    renewals: list[float] = field(default_factory=list)
    """When the Lease was seen renewed."""
    _loop: asyncio.AbstractEventLoop | None = None
    _relay: _Relay | None = None

    def answer_after(self, seconds: float) -> None:
        """Let every answer take so many seconds more from now on."""
        self._set(delay=seconds)

    def go_away(self) -> None:
        """Close all connections, and each that is opened from now on."""
        self._set(away=True)

    def come_back(self) -> None:
        self._set()

    def longest_pause(self, since: float) -> float:
        """Return the most seconds between two renewals that were seen since a time."""
        before = [seen for seen in self.renewals if seen < since][-1:]
        times = [*before, *(seen for seen in self.renewals if seen >= since)]
        return max(
            (later - earlier for earlier, later in itertools.pairwise(times)),
            default=time.monotonic() - since,
        )

    def _set(self, *, delay: float = 0.0, away: bool = False) -> None:
        if self._loop is None or self._relay is None:
            raise RuntimeError("Expected the relay to run")
        self._loop.call_soon_threadsafe(self._relay.change, delay, away)


@dataclass(slots=True)
class _Relay:
    """Hands on the bytes of connections to the API server."""

    host: str
    port: int
    delay: float = 0.0
    """Seconds for which what the API server sends is held back."""
    away: bool = False
    _writers: set[asyncio.StreamWriter] = field(default_factory=set)

    def change(self, delay: float, away: bool) -> None:
        self.delay, self.away = delay, away
        if away:
            for writer in self._writers:
                writer.transport.abort()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.away:
            writer.transport.abort()
            return
        both = {writer}
        self._writers |= both
        try:
            from_server, to_server = await asyncio.open_connection(self.host, self.port)
            both.add(to_server)
            self._writers.add(to_server)
            if writer.transport.is_closing():  # the server has gone away in between
                return
            async with asyncio.TaskGroup() as group:
                group.create_task(_hand_on(reader, to_server))
                group.create_task(self._hand_on_later(from_server, writer))
        except* OSError:
            pass  # either side has closed the connection, which ends it for the other
        finally:
            self._writers -= both
            for each in both:
                each.transport.abort()

    async def _hand_on_later(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """Hand on what comes, each part after the delay; what comes next need not wait for it."""
        now = asyncio.get_running_loop().time
        parts: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue(maxsize=256)

        async def send() -> None:
            while True:
                due, part = await parts.get()
                await asyncio.sleep(max(0.0, due - now()))
                if not part:
                    raise ConnectionResetError
                writer.write(part)
                await writer.drain()

        async with asyncio.TaskGroup() as group:
            group.create_task(send())
            while part := await reader.read(_PART):
                await parts.put((now() + self.delay, part))
            await parts.put((now() + self.delay, b""))


async def _hand_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while part := await reader.read(_PART):
        writer.write(part)
        await writer.drain()
    raise ConnectionResetError


@asynccontextmanager
async def _running_relay(url: str) -> AsyncIterator[tuple[_Relay, str]]:
    """Run a relay to the server at `url` while the block runs; yield it and its own address."""
    target = urlsplit(url)
    if target.hostname is None or target.port is None:
        raise RuntimeError(f"Expected an address with host and port, got {url}")
    relay = _Relay(target.hostname, target.port)
    server = await asyncio.start_server(relay.serve, "127.0.0.1", 0, backlog=1024)
    try:
        port = server.sockets[0].getsockname()[1]
        yield relay, f"{target.scheme}://127.0.0.1:{port}"
    finally:
        relay.change(0.0, away=True)
        server.close()


@contextmanager
def reachable_api_server(plane: ControlPlane) -> Iterator[ApiServer]:
    """Run the relay while the block runs."""
    server, ready, stop = ApiServer(), Event(), asyncio.Event()

    async def serve() -> None:
        async with _running_relay(plane.url) as (relay, url):
            server.url, server._relay = url, relay
            server._loop = asyncio.get_running_loop()
            ready.set()
            watching = asyncio.create_task(_watch_lease(plane, server))
            await stop.wait()
            watching.cancel()

    thread = Thread(target=lambda: asyncio.run(serve()), daemon=True)
    thread.start()
    if not ready.wait(60):
        raise RuntimeError("Expected the relay to start within a minute")
    try:
        yield server
    finally:
        if server._loop is not None:
            server._loop.call_soon_threadsafe(stop.set)
        thread.join(timeout=10)


async def _watch_lease(plane: ControlPlane, server: ApiServer) -> None:
    async with session_for(certificate=plane.certificate, token=ADMIN) as session:
        kube = Kube(session, url=plane.url, namespace="", kubeconfig=Path())
        renewed = ""
        while True:
            answer = await kube.get(LEASE)
            spec = answer.body["spec"] if answer.status == 200 else {}
            if spec.get("renewTime", "") != renewed:
                renewed = spec["renewTime"]
                server.renewals.append(time.monotonic())
            await asyncio.sleep(LOOK_EVERY)
