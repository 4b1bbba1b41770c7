"""Two controllers over one API server and one Flink, both in memory."""

from __future__ import annotations

import asyncio
import time
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import wraps
from typing import Any, cast

from tests.operator.api.memory_api import MemoryApi
from tests.operator.rescale.fakes import FakeClock, FakeWorld, JobsOf
from tests.operator.streamapp.builders import a_manifest
from weir_operator.api.leader import LeaseLostError
from weir_operator.api.objects import Key, Resource
from weir_operator.clock import SystemClock
from weir_operator.cluster.app import opening, task
from weir_operator.cluster.app.autoscaler_conflicts import AutoscalerConflicts
from weir_operator.cluster.app.context import AppDependencies, ControllerContext
from weir_operator.cluster.app.task import AppTask
from weir_operator.cluster.status import store
from weir_operator.cluster.status.events import EventPoster
from weir_operator.cluster.status.ownership import ANNOTATION
from weir_operator.cluster.status.store import StatusClient
from weir_operator.cluster.status.telemetry import Telemetry
from weir_operator.errors import TemporaryError
from weir_operator.fence import Guard
from weir_operator.flink.topology import Topology
from weir_operator.metrics.source import Window
from weir_operator.rescale.flink import FlinkJobs
from weir_operator.runtime.protocol import Runtime

PATH = "/apis/weir.dev/v1alpha1/namespaces/streams/streamapps/trips"
CHANGES = frozenset(
    {
        *("start", "prepare_stop", "stop", "resize", "close"),
        *("cancel", "submit", "dispose"),
    }
)
"""What changes something, of a runtime and of jobs."""


class WallClock(FakeClock):
    """The machine's clock, for a miniature world."""

    def now(self):
        return time.time()

    def monotonic(self):
        return time.monotonic()


class OpenFence:
    """Lets its holder act until it is told otherwise."""

    def __init__(self, term, home="weir/weir-controller"):
        self.term = term
        self.home = home
        self.lost = False

    def check(self):
        if self.lost:
            raise LeaseLostError("lost")


class Guarded:
    """A runtime or jobs whose guard is asked before each change, as the real clients ask it."""

    def __init__(self, wrapped: object, guard: Guard, done: list[str]) -> None:
        self._wrapped = wrapped
        self._guard = guard
        self._done = done

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._wrapped, name)
        if name not in CHANGES:
            return found

        @wraps(found)
        async def change(*args, **kwargs):
            await self._guard()
            self._done.append(name)
            return await found(*args, **kwargs)

        return change


class JobsWithoutPlan(JobsOf):
    """Jobs whose plan nobody asks for in vain."""

    async def close(self):
        """Nothing is held."""

    async def topology(self, job_id: str) -> Topology:
        raise TemporaryError("No task has a TaskManager yet")


class NoSamples:
    """A source that has seen nothing."""

    async def window(self, *, start, end):
        return Window(start=start, end=end, series=())

    async def close(self):
        """Nothing is held."""


class OneWorld(AppDependencies):
    """`AppDependencies` of one controller over a Flink that others may steer, too."""

    def __init__(self, world, done):
        super().__init__(
            lambda app, resource, guard: cast(Runtime, Guarded(world, guard, done)), None
        )
        self._world = world
        self.done = done
        """Names of the changes that this controller made."""

    def jobs(self, runtime, guard):
        return cast(FlinkJobs, Guarded(JobsWithoutPlan(self._world), guard, self.done))

    def source(self, app, runtime):
        return NoSamples()


@dataclass
class Steering:
    """A controller's part in one StreamApp."""

    app: AppTask
    done: list[str]
    """Names of the changes that it made."""
    telemetry: Telemetry

    def ended(self, kind):
        """Return how many of its lives have ended like this."""
        return self.telemetry.errors.of(Key("streams", "trips")).get((kind,), 0.0)


class Stage:
    """One StreamApp, its Flink, and whoever steers it."""

    def __init__(self, folder):
        self.folder = folder
        self.api = MemoryApi()
        self.world = FakeWorld(WallClock())
        manifest = a_manifest(mode="Off", operatorManager={"policy": {"name": "hold"}})
        meta = {"namespace": "streams", "name": "trips", "uid": "u1", "generation": 1}
        self.api.put(PATH, {**manifest, "metadata": meta})

    @property
    def resource(self):
        return Resource.of(self.api.objects[PATH])

    @property
    def status(self):
        return self.api.objects[PATH].get("status") or {}

    @property
    def writer(self):
        return self.status.get("controller", {}).get("writer")

    def give_to(self, fence):
        found = self.api.objects[PATH]
        annotations = {**found["metadata"].get("annotations", {}), ANNOTATION: fence.home}
        self.api.put(PATH, {**found, "metadata": {**found["metadata"], "annotations": annotations}})

    def write_spec(self, **sections):
        found = self.api.objects[PATH]
        meta = {**found["metadata"], "generation": found["metadata"]["generation"] + 1}
        self.api.put(PATH, {**found, "spec": {**found["spec"], **sections}, "metadata": meta})

    def ready(self):
        conditions = {each["type"]: each for each in self.status.get("conditions", ())}
        return conditions.get("Ready", {}).get("reason")

    @asynccontextmanager
    async def steering(self, fence):
        """Let a controller steer the StreamApp meanwhile; yields it."""
        worlds = OneWorld(self.world, [])
        clock = SystemClock()
        context = ControllerContext(
            api=self.api,
            fence=fence,
            dependencies=worlds,
            events=EventPoster(self.api, instance=fence.term, clock=clock),
            autoscaler_conflicts=AutoscalerConflicts(self.api, clock=clock),
            telemetry=Telemetry(),
            clock=clock,
            state=self.folder / fence.term.replace("/", "-"),
        )
        app = AppTask(self.resource, context)
        app.start()
        try:
            yield Steering(app, worlds.done, context.telemetry)
        finally:
            await app.stop()

    async def until(self, found):
        async with asyncio.timeout(20.0):
            while not found():
                await asyncio.sleep(0.01)

    async def status_client(self, fence):
        writer = StatusClient(self.api, self.resource, fence)
        await writer.open()
        return writer


def hurry(monkeypatch):
    """Let everything be looked at often, and nothing that was read count for long."""
    monkeypatch.setattr(opening, "LOOK_EVERY", 0.02)
    monkeypatch.setattr(store, "CONFIRMED_FOR", 0.0)
    monkeypatch.setattr(store, "SETTLE", 0.05)
    slow_down(monkeypatch, 0.05)


def slow_down(monkeypatch, seconds):
    """Let each pause after a run that failed take so long."""
    monkeypatch.setattr(task, "FIRST_PAUSE", seconds)
    for name in ("FIRST_PAUSE", "LONGEST_PAUSE", "LONGEST_MID_CHANGE", "LOOK_ELSEWHERE"):
        monkeypatch.setattr(task, name, seconds)
