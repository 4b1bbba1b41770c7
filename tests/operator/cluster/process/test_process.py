"""Compiling takes long the first time: the log says so, and nobody is told that Weir is ready."""

import asyncio
import threading

import aiohttp
import pytest
from structlog.testing import capture_logs

from tests.operator.api.memory_api import MemoryApi
from weir_operator.cluster.app.context import PolicyCompiler
from weir_operator.cluster.process import process
from weir_operator.cluster.process.process import Controller
from weir_operator.cluster.process.settings import ControllerSettings
from weir_operator.runtime.pods.nodes import NodeNotices


async def test_the_log_says_when_a_policy_is_compiled_and_how_long_it_took():
    compiler = PolicyCompiler()

    with capture_logs() as logs:
        await compiler.ensure("planner", lambda: None)
        await compiler.ensure("planner", lambda: None)

    assert [(line["event"], line["policy"]) for line in logs] == [
        ("compiling", "planner"),
        ("compiled", "planner"),
    ]
    assert logs[-1]["seconds"] >= 0.0


@pytest.fixture
def settings(tmp_path):
    return ControllerSettings(
        identity="one", own_namespace="weir", state=tmp_path, health_port=0, health_host="127.0.0.1"
    )


async def ask_until(url, status):
    """Return the page once it is answered with this status."""
    async with aiohttp.ClientSession() as session, asyncio.timeout(10.0):
        while True:
            async with session.get(url) as response:
                if response.status == status:
                    return await response.text()
            await asyncio.sleep(0.02)


async def test_a_controller_is_not_ready_before_its_policy_is_compiled(settings, monkeypatch):
    next_deployment, begun = threading.Event(), threading.Event()

    def compile_slowly():
        begun.set()
        next_deployment.wait(30.0)

    monkeypatch.setattr(process, "compile_default_policy", compile_slowly)
    api, stop = MemoryApi(), asyncio.Event()
    lease = "/apis/coordination.k8s.io/v1/namespaces/weir/leases/weir-controller"
    spec = {"holderIdentity": "another", "leaseDurationSeconds": 3600}
    api.put(lease, {"metadata": {"name": "weir-controller"}, "spec": spec})  # so it stands by
    controller = Controller(
        api,
        None,  # type: ignore[arg-type]
        NodeNotices(api),
        settings,
        lease_api=api,
    )
    running = asyncio.create_task(controller.run(stop))
    try:
        assert await asyncio.to_thread(begun.wait, 30.0)
        url = f"http://127.0.0.1:{controller.port}/readyz"

        early = await ask_until(url, 503)
        next_deployment.set()
        late = await ask_until(url, 200)
    finally:
        next_deployment.set()
        stop.set()
        await running

    assert early != ""
    assert late == "ok\n"
