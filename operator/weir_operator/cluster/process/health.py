"""Health of the process for Kubernetes and Prometheus: /healthz, /readyz, /metrics, the watchdog.

Healthy means that StreamApps are reconciled and the watch shows what is written. That HTTP answers
proves neither, so the watchdog uses the same check and ends the process: a controller that sees no
changes is worse than one that restarts.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST

from weir_operator.clock import Clock
from weir_operator.errors import WeirError

MAX_PASS_AGE = 180.0
"""Seconds since a pass after which the controller counts as dead: passes come every 30 s."""
MAX_WATCH_SILENCE = 180.0
"""Seconds for which the watch may not have shown a change that was written: kopf restarts a silent
watch after 70 s."""
LOOK_EVERY = 15.0
"""Seconds between two looks of the watchdog."""
COMPRESSED_IN_A_THREAD_FROM = 2**16
"""Bytes of a page."""


class DeadControllerError(WeirError):
    """The controller does not reconcile any more; only a new process helps."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Pulse:
    """Whether the controller reconciles, as it is now."""

    leads: bool
    """Whether it is the active one: a standby has nothing to reconcile."""
    oldest_pass: float
    """Seconds since the last pass over the StreamApp that waits longest; 0 where there is none."""
    oldest: str
    """Which one that is."""
    watch_silence: float
    """Seconds for which something written has not come back by the watch."""


def find_fault(pulse: Pulse) -> str:
    """Return why the controller counts as dead; empty if it is alive. Pure."""
    if not pulse.leads:
        return ""
    if pulse.oldest_pass > MAX_PASS_AGE:
        return f"The last pass over {pulse.oldest} was {pulse.oldest_pass:.0f} s ago"
    if pulse.watch_silence > MAX_WATCH_SILENCE:
        return f"The watch has not shown a change that was written {pulse.watch_silence:.0f} s ago"
    return ""


class HealthServer:
    """Serves health and metrics over HTTP."""

    def __init__(
        self,
        *,
        pulse: Callable[[], Pulse],
        find_unready: Callable[[], str],
        metrics: Callable[[], bytes],
    ) -> None:
        """Create the server.

        Args:
            pulse: Returns how the controller is.
            find_unready: Returns why it cannot work yet; empty where it can.
            metrics: Returns the page of metrics; called in its own thread.
        """
        self._pulse = pulse
        self._find_unready = find_unready
        self._metrics = metrics
        self._runner: web.AppRunner | None = None

    async def start(self, port: int, host: str | None = None) -> int:
        """Serve on `port` (0: any that is free) of all addresses, or of `host`; return the port."""
        app = web.Application()
        app.add_routes(
            [
                web.get("/healthz", self._healthz),
                web.get("/readyz", self._readyz),
                web.get("/metrics", self._page),
            ]
        )
        self._runner = web.AppRunner(app, access_log=None)
        await self._runner.setup()
        site = web.TCPSite(self._runner, host, port)
        await site.start()
        addresses: list[tuple[str, int]] = self._runner.addresses
        return addresses[0][1]

    async def close(self) -> None:
        """Stop serving."""
        if self._runner is not None:
            await self._runner.cleanup()

    async def _healthz(self, _: web.Request) -> web.Response:
        return _answer(find_fault(self._pulse()))

    async def _readyz(self, _: web.Request) -> web.Response:
        return _answer(self._find_unready())

    async def _page(self, _: web.Request) -> web.Response:
        page = await asyncio.to_thread(self._metrics)
        response = web.Response(
            body=page,
            headers={"Content-Type": CONTENT_TYPE_LATEST},
            zlib_executor_size=COMPRESSED_IN_A_THREAD_FROM,
        )
        response.enable_compression()
        return response


async def watch_over(pulse: Callable[[], Pulse], *, clock: Clock) -> None:
    """Look after the controller for ever.

    Raises:
        DeadControllerError: It does not reconcile any more.
    """
    while True:
        await clock.sleep(LOOK_EVERY)
        fault = find_fault(pulse())
        if fault:
            raise DeadControllerError(f"{fault}; the process exits to be restarted")


def _answer(fault: str) -> web.Response:
    return web.Response(status=503 if fault else 200, text=f"{fault or 'ok'}\n")
