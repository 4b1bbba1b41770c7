"""A real controller under load, on a real API server, scraped by a real Prometheus server."""

import time
from typing import cast

import pytest

# The fixtures of a real API server and of a whole controller serve here too.
from tests.api.conftest import control_plane, kube  # noqa: F401
from tests.api.controller.conftest import (  # noqa: F401
    MiniatureDependencies,
    bench,
    compiled,
)
from tests.dashboards.prometheus_server import NoPrometheusError, running_prometheus
from tests.operator.cluster.process.two_controllers import JobsWithoutPlan
from tests.operator.loop.conftest import ONE, POOLS, TOPOLOGY, steady_loads
from tests.operator.metrics.builders import a_window
from tests.operator.rescale.fakes import FakeWorld
from weir_operator.errors import TemporaryError
from weir_operator.loop.gather import layout_of
from weir_operator.metrics.source import Window
from weir_operator.rescale.flink import FlinkJobs

CALM, BUSY = 20.0, 90.0
"""Records/s: one replica of each operator is enough for the first, and not for the second."""
RISES_AFTER = 12.0
"""Seconds of a world after which the load rises, so that the controller has to rescale."""
SILENT = (24.0, 36.0)
"""Seconds of a world in which no reporter says anything: a problem of the data."""


class BrokenWorld(FakeWorld):
    """A Flink whose JobManager never starts."""

    async def ensure_job_manager(self):
        raise TemporaryError("The JobManager did not start: its image cannot be pulled")


class PlannedJobs(JobsWithoutPlan):
    """Jobs of a miniature world, with the plan of gen -> match -> count -> out."""

    async def topology(self, job_id):
        return TOPOLOGY

    async def key_texts(self, job_id, topology):
        return ("match,count 4 rs 0 1 8w,5k,5k,5k 0a1b2c3d:0:5k",)


class LoadedSource:
    """Samples of a job whose load rises after a while."""

    def __init__(self, world):
        self._world = world
        self._began = time.time()

    async def window(self, *, start, end):
        running = self._world.running()
        if not running:
            return Window(start=start, end=end, series=())
        age = end - self._began
        if SILENT[0] < age < SILENT[1]:
            return Window(start=start, end=end, series=())
        layout = layout_of(running[0], TOPOLOGY, await self._world.replicas())
        rising = steady_loads(BUSY, busy=0.99, latency=2.0)
        loads = rising if age > RISES_AFTER else steady_loads(CALM)
        return a_window(layout, loads, start=start, end=end, period=1.0)

    async def close(self):
        """Nothing is held."""


class LoadedDependencies(MiniatureDependencies):
    """`AppDependencies` whose jobs are under load; the one called `broken` never comes to run."""

    def runtime(self, app, resource, guard):
        if app.metadata.name == "broken":
            return BrokenWorld(super().make("clock").clock)
        return super().runtime(app, resource, guard)

    def jobs(self, runtime, guard):
        return cast(FlinkJobs, PlannedJobs(cast(FakeWorld, runtime)))

    def source(self, app, runtime):
        return LoadedSource(runtime)


SPEC = {
    "objective": {"responseTime": "500ms"},
    "nodePools": POOLS,
    "operators": [
        {"name": "gen", "fixed": ONE},
        {"name": "match", "maxReplicas": 6, "initial": ONE},
        {"name": "count", "maxReplicas": 6, "initial": ONE},
        {"name": "out", "fixed": ONE},
    ],
    "operatorManager": {"interval": "5s"},
}


@pytest.fixture
async def watched(bench, tmp_path):  # noqa: F811
    """Address of the server that scrapes a controller with two StreamApps, and the namespace."""
    bench.dependencies = LoadedDependencies()
    running = bench.start()
    for name in ("trips", "broken"):
        await bench.create(name, **SPEC)

    async def serves():
        return running.controller is not None and running.controller.port

    port = await bench.until(serves, "expected the controller to serve its metrics")
    folder = tmp_path / "prometheus"
    folder.mkdir()
    try:
        with running_prometheus(folder, [f"127.0.0.1:{port}"]) as server:
            yield server, bench.kube.namespace
    except NoPrometheusError as error:
        pytest.skip(str(error))
