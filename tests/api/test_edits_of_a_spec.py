"""Edits of a StreamApp on a real API server, steered over a miniature Flink."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager

import pytest

from tests.api.test_watched_changes import until
from tests.operator.kubernetes.process.two_controllers import (
    OneWorld,
    OpenFence,
    WallClock,
)
from tests.operator.rescale.fakes import FakeWorld
from tests.operator.streamapp.builders import a_manifest
from weir_operator.clock import SystemClock
from weir_operator.kubernetes.app import opening
from weir_operator.kubernetes.app.autoscaler_conflicts import AutoscalerConflicts
from weir_operator.kubernetes.app.context import ControllerContext
from weir_operator.kubernetes.process.listing import Listing
from weir_operator.kubernetes.process.reconcile import Reconciler
from weir_operator.kubernetes.status.events import EventPoster
from weir_operator.kubernetes.status.telemetry import Telemetry
from weir_operator.loop import lifecycle

pytestmark = pytest.mark.kubernetes_api


STANDS = 10.125
"""Seconds for which a spec is to stand: long, so that a busy machine is not late."""


class WatchedClock(SystemClock):
    """Counts how often somebody waits until a spec has stood."""

    def __init__(self):
        self.waits = 0

    async def sleep(self, seconds):
        self.waits += seconds == STANDS
        await super().sleep(seconds)


class Controller:
    """A controller over the API server, and the Flink of its one StreamApp."""

    def __init__(self, api, kube, folder):
        self.world = FakeWorld(WallClock())
        clock = self.clock = WatchedClock()
        self._office = ControllerContext(
            api=api,
            fence=OpenFence("one/1"),
            dependencies=OneWorld(self.world, []),
            events=EventPoster(api, instance="one", clock=clock),
            autoscaler_conflicts=AutoscalerConflicts(api, clock=clock),
            telemetry=Telemetry(),
            clock=clock,
            state=folder,
        )
        self.reconciler = Reconciler(self._office, clock=clock)
        self._listing = Listing(
            api,
            [kube.namespace],
            self.reconciler,
            telemetry=self._office.telemetry,
            clock=clock,
        )

    def arguments(self):
        """Return with what the job runs; empty where none does."""
        return [self.world.jobs[job].arguments[:2] for job in self.world.running()]

    @asynccontextmanager
    async def at_work(self):
        """Let it look for news often while the block runs."""

        async def look():
            while True:
                await self._listing.list()
                await asyncio.sleep(0.05)

        looking = asyncio.create_task(look())
        try:
            yield
        finally:
            looking.cancel()
            await asyncio.wait({looking})
            await self.reconciler.close()


COMPILED = 150.0
"""Seconds in which a job starts whose policy has to be compiled first."""


def with_window(length):
    """Return the manifest as somebody applies it, its job with this argument."""
    job = {"jar": "/opt/flink/usrlib/trips.jar", "args": ["--window", length]}
    return a_manifest(
        mode="Off",
        operatorManager={"policy": {"name": "hold"}},
        flink={"image": "trips:1", "job": job},
    )


async def test_two_applies_in_a_row_are_one_upgrade(api, kube, tmp_path, monkeypatch):
    monkeypatch.setattr(opening, "LOOK_EVERY", 0.05)
    monkeypatch.setattr(lifecycle, "SPEC_STANDS", STANDS)
    path = f"{kube.stream_apps}/trips"
    controller = Controller(api, kube, tmp_path)
    async with controller.at_work():
        answer = await kube.apply(path, with_window("1m"))
        assert answer.status == 201, answer.message
        await until(lambda: controller.arguments() == [("--window", "1m")], patience=COMPILED)

        await kube.apply(path, with_window("2m"))
        await until(lambda: controller.clock.waits == 1)
        await kube.apply(path, with_window("3m"))
        await until(lambda: controller.arguments() == [("--window", "3m")])

    assert controller.clock.waits == 2
    assert len(controller.world.jobs) == 2
