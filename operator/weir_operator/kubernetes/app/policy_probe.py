"""Tests whether the network enforces NetworkPolicies, at a port that one of them closes.

Flink's REST interface runs the code of anybody who reaches it, and only a NetworkPolicy keeps
others away; a network that does not support policies ignores it silently. The policy of each job
must also block the controller at the ports between Flink's own pods. So the controller tries one of
them regularly: if it gets through, every pod of the cluster does.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Callable
from urllib.parse import urlsplit

from weir_operator.clock import Clock, SystemClock
from weir_operator.kubernetes.status.conditions import Aspect
from weir_operator.runtime.kubernetes.configuration import RPC_PORT

TYPE = "NetworkPolicyEnforced"
LOOK_EVERY = 600.0
"""Seconds between two tries."""
SURE_AFTER = 60.0
"""Seconds until a port that was open is tried again before it is reported: a network may need a
moment for the policy of a pod that has just started."""
ANSWER_LIMIT = 3.0
"""Seconds for a connection; a policy is mostly a silence."""

See = Callable[[Aspect], None]


class PolicyProbe:
    """Tries the closed port of JobManagers."""

    def __init__(
        self, *, clock: Clock, port: int = RPC_PORT, sure_after: float = SURE_AFTER
    ) -> None:
        """Create the probe.

        Args:
            clock: Between two tries.
            port: One that a JobManager listens on, and that its policy closes to the controller.
            sure_after: Seconds until an open port is tried again before it is reported.
        """
        self._clock = clock
        self._port = port
        self._sure_after = sure_after

    async def watch(self, rest_url: Callable[[], str], see: See) -> None:
        """Try for ever, and pass each result to `see`.

        Args:
            rest_url: Returns the address of Flink's REST interface, which the policy leaves open.
            see: Told only of what is certain.
        """
        was_open = False
        while True:
            rest = urlsplit(rest_url())
            host = rest.hostname or ""
            is_open = await can_connect(host, self._port)
            if is_open and was_open:
                see(_not_enforced(self._port))
            # A port that is closed says something only of a JobManager that is there.
            elif not is_open and await can_connect(host, rest.port or 80):
                see(_enforced(self._port))
            is_news = is_open and not was_open
            was_open = is_open
            await self._clock.sleep(self._sure_after if is_news else LOOK_EVERY)


def probe_from_here() -> PolicyProbe | None:
    """Return a probe where this process is in a pod; policies know no others."""
    return PolicyProbe(clock=SystemClock()) if "KUBERNETES_SERVICE_HOST" in os.environ else None


async def can_connect(host: str, port: int) -> bool:
    """Return whether a connection to a port succeeds; nothing is sent."""
    try:
        async with asyncio.timeout(ANSWER_LIMIT):
            _, writer = await asyncio.open_connection(host, port)
    except OSError:  # TimeoutError is one
        return False
    writer.close()
    with contextlib.suppress(OSError):
        await writer.wait_closed()
    return True


def _enforced(port: int) -> Aspect:
    sentence = f"The job's NetworkPolicy blocked the controller's connection to Flink's port {port}"
    return Aspect(TYPE, "True", "Refused", sentence)


def _not_enforced(port: int) -> Aspect:
    sentence = (
        f"The controller could connect to Flink's port {port}, although the job's "
        "NetworkPolicy forbids it. So every pod can reach Flink's REST interface "
        "and run code as the job; use a network that enforces NetworkPolicies "
        "(docs/security.md)"
    )
    return Aspect(TYPE, "False", "ReachedClosedPort", sentence)
