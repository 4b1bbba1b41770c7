"""A pass: what is done about a StreamApp, whatever was done before."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import cast
from unittest.mock import MagicMock

import pytest

from tests.operator.rescale.fakes import FakeClock
from weir_operator.api.objects import CANARY_LABEL, Resource
from weir_operator.cluster.app.context import ControllerContext
from weir_operator.cluster.process import reconcile
from weir_operator.cluster.process.reconcile import Reconciler
from weir_operator.errors import TemporaryError


def a_resource(uid="u1", **meta):
    return Resource.of(
        {"metadata": {"namespace": "streams", "name": "trips", "uid": uid, **meta}, "spec": {}}
    )


def a_context():
    return cast(
        ControllerContext,
        SimpleNamespace(autoscaler_conflicts=MagicMock(), telemetry=MagicMock()),
    )


class NotedTask:
    """A task that runs, and notes what it is told."""

    is_running = True

    def __init__(self, resource, _context):
        self.resource = resource
        self.told = []

    def start(self):
        self.told.append("start")

    def note(self, resource):
        self.told.append("note")

    async def stop(self, *, finish):
        self.told.append("stop")


GOING = {"deletionTimestamp": "2026-01-31T08:00:00Z"}


@pytest.fixture
def reconciler(monkeypatch):
    monkeypatch.setattr(reconcile, "AppTask", NotedTask)
    return Reconciler(a_context(), clock=FakeClock())


async def test_a_change_of_an_object_reaches_its_task(reconciler):
    reconciler.reconcile(a_resource(generation=1))

    reconciler.reconcile(a_resource(generation=2))

    [task] = reconciler.apps.values()
    assert task.told == ["start", "note", "start"]


async def test_a_new_object_of_the_same_name_replaces_the_task_of_the_old_one(reconciler):
    reconciler.reconcile(a_resource("u1"))
    [former] = reconciler.apps.values()

    reconciler.reconcile(a_resource("u2"))
    await asyncio.sleep(0)

    [present] = reconciler.apps.values()
    assert (former.told, present.told) == (["start", "stop"], ["start"])
    assert present.resource.uid == "u2"


async def test_an_object_that_is_being_deleted_starts_no_task(reconciler):
    reconciler.reconcile(a_resource(**GOING))

    assert reconciler.apps == {}


async def test_a_task_is_left_to_the_deletion_of_its_object(reconciler):
    reconciler.reconcile(a_resource())
    [task] = reconciler.apps.values()

    reconciler.reconcile(a_resource(**GOING))
    await asyncio.sleep(0)

    assert [*reconciler.apps.values()] == [task]
    assert task.told == ["start"]


async def test_a_canary_that_can_no_longer_be_written_waits_for_no_pass():
    """A slow API server delays its writes, which is no reason to end the process."""
    clock = FakeClock(77.0)
    reconciler = Reconciler(cast(ControllerContext, SimpleNamespace()), clock=clock)
    canary = a_resource(labels={CANARY_LABEL: "true"})

    reconciler.reconcile(canary)
    assert reconciler.apps == {}
    assert await reconciler.end(canary, "2001-09-09T01:46:40Z", patience=5.0)
    clock.time += 3600.0

    assert reconciler.ages == {}


@pytest.mark.parametrize("step", [3600.0, -3600.0], ids=["ahead", "back"])
async def test_a_deletion_is_as_old_as_it_is_whatever_the_clock_is_set_to(monkeypatch, step):
    ages = []

    async def finalize_app(context, resource, *, deleted_for):
        ages.append(deleted_for)
        raise TemporaryError("The last savepoint has not come about yet")

    monkeypatch.setattr(reconcile, "finalize_app", finalize_app)
    clock = FakeClock(1_000_000_030.0)
    context = cast(
        ControllerContext,
        SimpleNamespace(clock=clock, autoscaler_conflicts=MagicMock(), telemetry=MagicMock()),
    )
    boot = FakeClock(77.0)
    reconciler = Reconciler(context, clock=boot)
    resource = a_resource(deletionTimestamp="2001-09-09T01:46:40Z")  # 1,000,000,000

    for _ in range(2):
        with pytest.raises(TemporaryError):
            await reconciler.end(resource, "2001-09-09T01:46:40Z", patience=5.0)
        boot.time += 10.0
        clock.time += 10.0
        clock.set_by(step)

    assert ages == [30.0, 40.0]


async def test_a_task_that_has_ended_is_started_again_by_a_pass_that_nothing_asks_for(monkeypatch):
    class EndedTask(NotedTask):
        is_running = False

    monkeypatch.setattr(reconcile, "AppTask", EndedTask)
    clock = LimitedClock(sleeps=2)
    reconciler = Reconciler(a_context(), clock=clock)
    resource = a_resource()
    reconciler.reconcile(resource)

    with pytest.raises(TimeoutError):
        await reconciler.run()

    told = cast(NotedTask, reconciler.apps[resource.key]).told
    assert told == ["start", "note", "start", "note", "start"]
    assert reconciler.ages == {resource.key: 0.0}


async def test_a_pass_that_fails_keeps_no_other_streamapp_from_its_own(monkeypatch):
    class BreakingTask(NotedTask):
        def note(self, resource):
            super().note(resource)
            if resource.key.name == "broken":
                raise RuntimeError("a defect")

    monkeypatch.setattr(reconcile, "AppTask", BreakingTask)
    context = a_context()
    reconciler = Reconciler(context, clock=LimitedClock(sleeps=2))
    broken, sound = a_resource(name="broken"), a_resource("u2", name="sound")
    for each in (broken, sound):
        reconciler.reconcile(each)

    with pytest.raises(TimeoutError):
        await reconciler.run()

    told = cast(NotedTask, reconciler.apps[sound.key]).told
    assert told.count("note") == 2
    assert cast(MagicMock, context.telemetry.errors.add).call_count == 2


class LimitedClock(FakeClock):
    """One on which nobody sleeps more often than allowed."""

    def __init__(self, sleeps):
        super().__init__()
        self.sleeps = sleeps

    async def sleep(self, seconds):
        if not self.sleeps:
            raise TimeoutError
        self.sleeps -= 1
        await super().sleep(seconds)
