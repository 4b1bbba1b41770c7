"""The API server as the controller of `scale` reaches it, and its Lease as the server has it.

The controller connects to a proxy (`tests/api/fault_proxy`), which can answer slowly or not at all.
The Lease is read past it. Both run in a thread of their own.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event, Thread

from tests.api.client import Kube, session_for
from tests.api.control_plane import ADMIN, ControlPlane
from tests.api.fault_proxy import Delay, Drop, FaultProxy, running_fault_proxy

LOOK_EVERY = 0.5
"""Seconds between two looks at the Lease."""
LEASE = "/apis/coordination.k8s.io/v1/namespaces/weir/leases/weir-controller"


@dataclass(slots=True)
class ApiServer:
    """A way to the API server that can be disturbed."""

    url: str = ""
    renewals: list[float] = field(default_factory=list)
    """When the Lease was seen renewed."""
    _loop: asyncio.AbstractEventLoop | None = None
    _proxy: FaultProxy | None = None

    def answer_after(self, seconds: float) -> None:
        """Let every answer take so many seconds more from now on."""
        self._set(Delay(seconds=seconds, times=None))

    def go_away(self) -> None:
        """Close all connections, and each that is opened from now on."""
        self._set(Drop(times=None))

    def come_back(self) -> None:
        """Answer as ever."""
        self._set(None)

    def longest_pause(self, since: float) -> float:
        """Return the most seconds between two renewals that were seen since a time."""
        before = [seen for seen in self.renewals if seen < since][-1:]
        times = [*before, *(seen for seen in self.renewals if seen >= since)]
        return max(
            (later - earlier for earlier, later in itertools.pairwise(times)),
            default=time.monotonic() - since,
        )

    def _set(self, fault: Delay | Drop | None) -> None:
        loop, proxy = self._loop, self._proxy
        if loop is None or proxy is None:
            raise RuntimeError("Expected the proxy to run")

        def change() -> None:
            proxy.heal()
            if fault is not None:
                proxy.inject(fault)
            if isinstance(fault, Drop):
                proxy.disconnect()

        loop.call_soon_threadsafe(change)


@contextmanager
def reachable_api_server(plane: ControlPlane) -> Iterator[ApiServer]:
    """Run the proxy while the block runs."""
    server, ready, stop = ApiServer(), Event(), asyncio.Event()

    async def serve() -> None:
        async with running_fault_proxy(plane.url, plane.certificate) as proxy:
            server.url, server._proxy = proxy.url, proxy
            server._loop = asyncio.get_running_loop()
            ready.set()
            watching = asyncio.create_task(_watch_lease(plane, server))
            await stop.wait()
            watching.cancel()

    thread = Thread(target=lambda: asyncio.run(serve()), daemon=True)
    thread.start()
    if not ready.wait(60):
        raise RuntimeError("Expected the proxy to start within a minute")
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
