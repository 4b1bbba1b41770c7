"""TCP ports: free ones, and the one on which a process reports its metrics."""

from __future__ import annotations

import socket
from contextlib import ExitStack

from weir_operator.runtime.processes import ProcessIdentity, listening_ports

LOOPBACK = "127.0.0.1"
METRIC_PORTS = 3
"""Candidates per reporter: another program may take a free port before a JVM has started."""


def free_ports(count: int) -> tuple[int, ...]:
    """Return ports that nobody listens on at this moment, all different.

    Another program may take one before it is used; whoever uses them must be ready for that.
    """
    with ExitStack() as stack:
        sockets = [
            stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_STREAM))
            for _ in range(count)
        ]
        for each in sockets:
            # On all interfaces: Flink's metric reporter listens there and takes no address.
            each.bind(("", 0))
        return tuple(int(each.getsockname()[1]) for each in sockets)


def reporting_port(identity: ProcessIdentity | None, candidates: tuple[int, ...]) -> int | None:
    """Return on which of its candidate ports a process listens, `None` while on none."""
    if identity is None:
        return None
    listening = listening_ports(identity.pid)
    return next((port for port in candidates if port in listening), None)


def metrics_url(port: int) -> str:
    """Return where a reporter at this port answers."""
    return f"http://{LOOPBACK}:{port}/metrics"
