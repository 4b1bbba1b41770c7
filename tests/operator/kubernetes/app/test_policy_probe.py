"""Trying a port that a NetworkPolicy closes, against listeners of this machine."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack, asynccontextmanager

import pytest

from tests.operator.runtime.kubernetes.test_manifests import pods_of
from weir_operator.kubernetes.app.policy_probe import PolicyProbe
from weir_operator.kubernetes.status.conditions import Aspect
from weir_operator.rescale.testing import FakeClock
from weir_operator.runtime.kubernetes import manifests
from weir_operator.runtime.kubernetes.configuration import REST_PORT, RPC_PORT
from weir_operator.runtime.local.processes import free_ports


class FewTries(FakeClock):
    """A clock that lets a network change between two tries, and ends after the last."""

    def __init__(self, *between):
        super().__init__()
        self.pauses = []
        self._between = list(between)

    async def sleep(self, seconds):
        self.pauses.append(seconds)
        if not self._between:
            raise asyncio.CancelledError
        await self._between.pop(0)()


async def nothing():
    """The network stays as it is."""


@asynccontextmanager
async def listening(port):
    """Take connections at a port, and say nothing."""
    server = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", port)
    try:
        yield server
    finally:
        server.close()


class Network:
    """A JobManager at two ports, of which a policy may close one."""

    def __init__(self, stack):
        self.rest, self.closed = free_ports(2)
        self._stack = stack
        self._servers = {}

    async def open(self, port):
        self._servers[port] = await self._stack.enter_async_context(listening(port))

    async def close(self, port):
        self._servers.pop(port).close()

    async def try_it(self, *between):
        """Return what was told, and the pauses."""
        clock = FewTries(*between)
        told: list[Aspect] = []
        probe = PolicyProbe(clock=clock, port=self.closed)
        with pytest.raises(asyncio.CancelledError):
            await probe.watch(lambda: f"http://127.0.0.1:{self.rest}", told.append)
        return [(each.status, each.reason) for each in told], clock.pauses


@pytest.fixture
async def network():
    async with AsyncExitStack() as stack:
        network = Network(stack)
        await network.open(network.rest)
        yield network


async def test_a_port_that_stays_closed_shows_that_policies_are_enforced(network):
    told, pauses = await network.try_it()

    assert told == [("True", "Refused")]
    assert pauses == [600.0]


async def test_an_open_port_is_told_of_once_a_second_try_has_got_through(network):
    await network.open(network.closed)

    told, pauses = await network.try_it(nothing)

    assert told == [("False", "ReachedClosedPort")]
    assert pauses == [60.0, 600.0]


async def test_a_policy_that_takes_a_moment_is_no_hole(network):
    await network.open(network.closed)

    told, _ = await network.try_it(lambda: network.close(network.closed))

    assert told == [("True", "Refused")]


async def test_a_network_that_begins_to_enforce_policies_is_told_of(network):
    await network.open(network.closed)

    told, _ = await network.try_it(nothing, lambda: network.close(network.closed))

    assert told == [("False", "ReachedClosedPort"), ("True", "Refused")]


async def test_a_jobmanager_that_is_away_shows_nothing(network):
    await network.close(network.rest)

    told, _ = await network.try_it(nothing)

    assert told == []


def test_the_port_that_is_tried_is_open_to_flink_and_closed_to_the_controller():
    rules = manifests.network_policy(pods_of())["spec"]["ingress"]

    peers = {port["port"]: rule.get("from") for rule in rules for port in rule["ports"]}
    assert len(peers[REST_PORT]) == 2
    assert peers[RPC_PORT] == [{"podSelector": {"matchLabels": {"weir.dev/app": "trips"}}}]
