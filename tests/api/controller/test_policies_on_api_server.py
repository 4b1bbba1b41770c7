"""A controller that gets through where a NetworkPolicy should keep it out says so."""

from __future__ import annotations

import asyncio

import pytest

from weir_operator.clock import SystemClock
from weir_operator.kubernetes.app.policy_probe import PolicyProbe

pytestmark = pytest.mark.kubernetes_api


@pytest.fixture
async def listener():
    """A JobManager's ports, which nothing closes."""
    server = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0)
    yield server.sockets[0].getsockname()[1]
    server.close()


async def test_a_network_without_policies_is_a_condition_an_event_and_a_metric(bench, listener):
    bench.dependencies.probe = PolicyProbe(clock=SystemClock(), port=listener, sure_after=0.1)
    bench.dependencies.make("trips").rest_url = f"http://127.0.0.1:{listener}"
    running = bench.start()

    await bench.create()

    condition = await bench.until_condition("NetworkPolicyEnforced", "ReachedClosedPort")
    assert condition["status"] == "False"
    assert f"port {listener}" in condition["message"]

    async def told():
        return (await bench.events()).get("NetworkPolicyNotEnforced")

    assert await bench.until(told, "expected an event") == condition["message"]

    async def shown():
        page = await bench.ask(running, "metrics")
        return [each for each in page.splitlines() if 'type="NetworkPolicyEnforced"' in each]

    [line] = await bench.until(shown, "expected a line of /metrics")
    assert line.startswith("weir_condition{")
    assert line.endswith(" 0.0")


async def test_where_it_cannot_be_tried_nothing_is_said(bench):
    bench.start()

    await bench.create()

    await bench.until_ready()
    assert await bench.condition("NetworkPolicyEnforced") is None
