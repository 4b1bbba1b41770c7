"""What does not get through: packets dropped or refused by nftables on this machine.

All nodes of the cluster share this machine's network namespace, so what its kernel drops is lost
between pods, also between two of one node, where `net.bridge.bridge-nf-call-iptables` is set (as
Kubernetes wants it). Everything is in one table, and healing is deleting that.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterable

TABLE = "weir_chaos"
_HOOKS = ("forward", "input", "output")


class NetworkCutError(Exception):
    """nftables refused."""


def drop_between(first: str, second: str) -> None:
    """Drop what two addresses send each other."""
    _begin(
        rule
        for a, b in ((first, second), (second, first))
        for rule in (f"forward ip saddr {a} ip daddr {b} drop",)
    )


def isolate(address: str) -> None:
    """Drop what a pod sends to other pods and they to it; its node still reaches it."""
    _begin((f"forward ip saddr {address} drop", f"forward ip daddr {address} drop"))


def close_port(port: int, *, refuse: bool) -> None:
    """Let nobody reach a TCP port of this machine: refused at once, or without any answer."""
    verdict = "reject with tcp reset" if refuse else "drop"
    _begin((f"input tcp dport {port} {verdict}",))


def divert(source: str, port: int, *, host: str, to: int) -> None:
    """Send what a pod asks at a port, of whomever, to another one of this machine's addresses.

    Connections that are open are reset: the new ones are those that go elsewhere.
    """
    asked = f"ip saddr {source} tcp dport {port}"
    _begin(
        (
            f"prerouting {asked} dnat ip to {host}:{to}",
            f"forward {asked} reject with tcp reset",
        )
    )


def let_everything_through() -> None:
    """Take back whatever was cut; nothing may have been."""
    _nft(f"add table inet {TABLE}\ndelete table inet {TABLE}\n")


def _begin(rules: Iterable[str]) -> None:
    lines = [f"add table inet {TABLE}"]
    # Before kube-proxy's, so that no rule of its own lets anything pass unseen.
    lines += [
        f"add chain inet {TABLE} {hook} {{ type filter hook {hook} priority -150; }}"
        for hook in _HOOKS
    ]
    lines.append(f"add chain inet {TABLE} prerouting {{ type nat hook prerouting priority -150; }}")
    lines += [f"add rule inet {TABLE} {rule}" for rule in rules]
    _nft("\n".join(lines) + "\n")


def _nft(script: str) -> None:
    done = subprocess.run(
        ["nft", "-f", "-"], input=script, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise NetworkCutError(f"Expected nft to take {script!r}, got: {done.stderr.strip()}")
