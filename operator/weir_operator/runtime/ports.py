"""Free TCP ports on the loopback interface."""

from __future__ import annotations

import socket
from contextlib import ExitStack

LOOPBACK = "127.0.0.1"


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
