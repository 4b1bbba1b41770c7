"""Many watched namespaces keep no request waiting, and one that is refused disturbs no other."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time

import pytest
from aiohttp import web

from weir_operator.kubernetes.process import running
from weir_operator.kubernetes.process.settings import ControllerSettings


class Server:
    """An API server that has nothing in it, and keeps every watch open."""

    def __init__(self):
        self.watched = set()
        """Paths of the collections that are watched now."""
        self.url = ""

    async def handle(self, request):
        if request.query.get("watch") == "true":
            return await self._watch(request)
        if "limit" in request.query:
            return web.json_response(
                {"kind": "List", "metadata": {"resourceVersion": "1"}, "items": []}
            )
        return web.json_response({"kind": "Pod", "metadata": {"name": "a"}})

    async def _watch(self, request):
        answer = web.StreamResponse(headers={"Content-Type": "application/json"})
        await answer.prepare(request)
        self.watched.add(request.path)
        try:
            await asyncio.Event().wait()
        finally:
            self.watched.discard(request.path)
        return answer


@pytest.fixture
async def server(tmp_path, monkeypatch):
    """Serve on loopback, for every client that is opened in a test."""
    server = Server()
    application = web.Application()
    application.router.add_route("*", "/{path:.*}", server.handle)
    runner = web.AppRunner(application, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    server.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "test", "cluster": {"server": server.url}}],
        "users": [{"name": "test", "user": {}}],
        "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
        "current-context": "test",
    }
    file = tmp_path / "kubeconfig"
    file.write_text(json.dumps(config))
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    monkeypatch.setattr("kubernetes.aio.config.kube_config.KUBE_CONFIG_DEFAULT_LOCATION", str(file))
    yield server
    await runner.cleanup()


async def until(holds, within=10.0):
    async with asyncio.timeout(within):
        while not holds():
            await asyncio.sleep(0.01)


@contextlib.asynccontextmanager
async def doing(work):
    """Run it beside the block."""
    task = asyncio.create_task(work)
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait({task})


async def test_a_controller_of_ten_namespaces_is_answered_at_once(server, tmp_path, monkeypatch):
    names = tuple(f"team-{number}" for number in range(10))
    took = []

    async def run_controller(settings, *, api, changes, **_):
        async with doing(changes.watch()):
            await until(lambda: len(server.watched) == 3 * len(names))
            began = time.monotonic()
            async with asyncio.timeout(9.0):  # less than a request waits for a connection
                for _ in range(20):
                    await api.get("/api/v1/namespaces/team-0/pods/a")
            took.append(time.monotonic() - began)

    monkeypatch.setattr(running, "run_controller", run_controller)
    monkeypatch.setattr(running, "collect_garbage_less_often", lambda: None)
    settings = ControllerSettings(
        identity="one", own_namespace="team-0", state=tmp_path, namespaces=names
    )

    await running.run_on_cluster(settings)

    assert took[0] < 5.0
