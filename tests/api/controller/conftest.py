"""A whole controller against the real API server, over a miniature Flink."""

from __future__ import annotations

import asyncio
import threading
import time
from copy import copy
from typing import cast

import aiohttp
import pytest

from tests.operator.cluster.process.two_controllers import (
    JobsWithoutPlan,
    NoSamples,
    WallClock,
)
from tests.operator.rescale.fakes import FakeWorld
from tests.operator.streamapp.builders import a_manifest
from weir_operator.api.client import KubernetesApi
from weir_operator.cluster.app.context import AppDependencies
from weir_operator.cluster.process.process import Controller, compile_default_policy
from weir_operator.cluster.process.running import run_terms
from weir_operator.cluster.process.settings import ControllerSettings
from weir_operator.metrics.source import MetricsSource
from weir_operator.rescale.flink import FlinkJobs
from weir_operator.runtime.pods.nodes import NodeNotices

PATIENCE = 90.0


class HangingWorld(FakeWorld):
    """A Flink that answers nobody."""

    async def ensure_job_manager(self):
        await asyncio.Event().wait()
        return False


class MiniatureDependencies(AppDependencies):
    """Dependencies of which a miniature Flink outlives its controller, one for each StreamApp."""

    def __init__(self):
        super().__init__(lambda app, resource, guard: self.make(app.metadata.name), None)
        self.of = {}
        self.hanging = set()
        """Names of StreamApps whose Flink answers nobody."""

    def runtime(self, app, resource, guard):
        if app.metadata.name in self.hanging:
            return HangingWorld(WallClock())
        return super().runtime(app, resource, guard)

    def make(self, name):
        """Return the world of a StreamApp, made before it if a test wants."""
        return self.of.setdefault(name, FakeWorld(WallClock()))

    def jobs(self, runtime, guard):
        return cast(FlinkJobs, JobsWithoutPlan(cast(FakeWorld, runtime)))

    def source(self, app, runtime) -> MetricsSource:
        return NoSamples()


class RunningController:
    """A controller in a thread with a loop of its own: kopf ends every task that its loop has."""

    def __init__(self, dependencies, settings):
        self._dependencies = dependencies
        self._settings = settings
        self._end = lambda: None
        self.controller = None
        self.terms = 0
        self.failure = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self):
        try:
            asyncio.run(self._main())
        except Exception as error:
            self.failure = error

    async def _main(self):
        loop, stop = asyncio.get_running_loop(), asyncio.Event()

        def end():
            loop.call_soon_threadsafe(stop.set)

        self._end = end
        api = await KubernetesApi.connect()
        try:

            def make():
                self.controller = Controller(
                    api,
                    self._dependencies,
                    NodeNotices(api, self._settings.namespaces),
                    self._settings,
                    lease_api=KubernetesApi(),
                )
                self.terms += 1
                return self.controller

            await run_terms(make, stop)
        finally:
            await api.close()

    @property
    def ended(self):
        return not self._thread.is_alive()

    async def stop(self):
        if not self.ended:
            self._end()
        await asyncio.to_thread(self._thread.join, PATIENCE)
        assert self.ended, "the controller did not stop"


class Bench:
    """Starts controllers and looks at what they did."""

    def __init__(self, kube, folder):
        self.kube = kube
        self.folder = folder
        self.dependencies = MiniatureDependencies()
        self.running = {}

    def start(self, name="one", lease="weir-controller", namespaces=()):
        settings = ControllerSettings(
            identity=name,
            own_namespace=self.kube.namespace,
            namespaces=(self.kube.namespace, *namespaces),
            state=self.folder / name,
            health_port=0,
            health_host="127.0.0.1",
            lease=lease,
        )
        self.running[name] = RunningController(self.dependencies, settings)
        return self.running[name]

    async def stop(self, name="one"):
        await self.running.pop(name).stop()

    async def close(self):
        for name in list(self.running):
            await self.stop(name)

    async def create(self, name="trips", **spec):
        manifest = a_manifest(**spec)
        manifest["metadata"] |= {"name": name}
        made = await self.kube.create(self.kube.stream_apps, manifest)
        assert made.status == 201, made.message
        return made.body

    async def app(self, name="trips"):
        answer = await self.kube.get(f"{self.kube.stream_apps}/{name}")
        return answer.body if answer.status == 200 else None

    async def condition(self, kind, name="trips"):
        app = await self.app(name) or {}
        conditions = (app.get("status") or {}).get("conditions", [])
        return next((each for each in conditions if each["type"] == kind), None)

    async def until(self, find, what):
        """Return what `find` gives, once it gives something; look every so often."""
        deadline = time.monotonic() + PATIENCE
        while True:
            for each in self.running.values():
                assert each.failure is None, each.failure
            found = await find()
            if found:
                return found
            assert time.monotonic() < deadline, f"{what}: {await self.app()}"
            await asyncio.sleep(0.1)

    async def ask(self, running, path):
        """Return what a controller's health port answers."""
        url = f"http://127.0.0.1:{running.controller.port}/{path}"
        async with aiohttp.ClientSession() as session, session.get(url) as response:
            return await response.text()

    async def until_condition(self, kind, reason, name="trips"):
        async def find():
            condition = await self.condition(kind, name)
            return condition if condition and condition["reason"] == reason else None

        return await self.until(find, f"expected {kind} with {reason}")

    async def until_ready(self, reason="JobRunning", name="trips"):
        return await self.until_condition("Ready", reason, name)

    async def bring_up(self):
        """Start a controller, create the app and wait until its job runs; return its world."""
        self.start()
        await self.create()
        await self.until_ready()
        return self.dependencies.of["trips"]

    async def delete(self, name="trips"):
        """Delete an app and wait until it is gone."""
        await self.kube.delete(f"{self.kube.stream_apps}/{name}")
        await self.until_gone(name)

    async def until_gone(self, name="trips"):
        async def gone():
            return await self.app(name) is None

        await self.until(gone, f"expected {name} to be gone")

    async def until_checkpointed(self):
        """Return the path of the checkpoint, once the status has it."""

        async def noted():
            return (await self.app() or {})["status"]["controller"].get("checkpointed")

        return (await self.until(noted, "expected the checkpoint in the status"))["path"]

    async def until_written_by(self, name):
        async def written():
            return (await self.app() or {})["status"]["controller"]["writer"].startswith(f"{name}/")

        await self.until(written, f"expected {name} to write the status")

    async def events(self):
        answer = await self.kube.get(f"/api/v1/namespaces/{self.kube.namespace}/events")
        return {event["reason"]: event["message"] for event in answer.body["items"]}

    async def messages(self, reason):
        answer = await self.kube.get(f"/api/v1/namespaces/{self.kube.namespace}/events")
        return [each["message"] for each in answer.body["items"] if each["reason"] == reason]


@pytest.fixture(scope="session")
def compiled():
    """Compile the policy: a controller would do it first, and no test waits for so long."""
    compile_default_policy()


@pytest.fixture
async def bench(kube, compiled, tmp_path, monkeypatch):
    config = str(kube.kubeconfig)
    monkeypatch.setenv("KUBECONFIG", config)
    monkeypatch.setattr("kubernetes.aio.config.kube_config.KUBE_CONFIG_DEFAULT_LOCATION", config)
    bench = Bench(kube, tmp_path)
    yield bench
    await bench.close()


@pytest.fixture
async def bench_beside(bench):
    """A bench in another namespace, of an installation of its own."""
    kube = copy(bench.kube)
    made = await kube.create("/api/v1/namespaces", {"metadata": {"generateName": "test-"}})
    kube.namespace = made.body["metadata"]["name"]
    beside = Bench(kube, bench.folder)
    yield beside
    await beside.close()
