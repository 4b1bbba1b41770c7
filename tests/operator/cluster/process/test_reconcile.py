"""A pass: what is done about a StreamApp, whatever was done before."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast
from unittest.mock import MagicMock

import pytest

from tests.operator.rescale.fakes import FakeClock
from weir_operator.api.objects import CANARY_LABEL, Resource
from weir_operator.cluster.app.context import ControllerContext
from weir_operator.cluster.process import reconcile
from weir_operator.cluster.process.health import Limits, Pulse, find_fault, oldest
from weir_operator.cluster.process.reconcile import Move, Reconciler, choose_move
from weir_operator.errors import TemporaryError


def a_resource(uid="u1", **meta):
    return Resource.of(
        {"metadata": {"namespace": "streams", "name": "trips", "uid": uid, **meta}, "spec": {}}
    )


GOING = {"deletionTimestamp": "2026-01-31T08:00:00Z"}


@pytest.mark.parametrize(
    ("wanted", "steered", "move"),
    [
        (a_resource(), None, Move.START),
        (a_resource(), a_resource(), Move.TELL),
        (a_resource(generation=2), a_resource(generation=1), Move.TELL),
        (a_resource("u2"), a_resource("u1"), Move.REPLACE),
        (a_resource(**GOING), a_resource(), Move.LEAVE),
        (a_resource(**GOING), None, Move.LEAVE),
    ],
    ids=[
        "a new one is started",
        "one that is steered is told of",
        "a change is told of",
        "another object of the same name takes its place",
        "one that is being deleted is left to the deletion",
        "one that was deleted before it was seen is left to the deletion",
    ],
)
def test_what_a_pass_does(wanted, steered, move):
    assert choose_move(wanted, steered) is move


async def test_a_canary_that_can_no_longer_be_written_waits_for_no_pass():
    """A slow API server delays its writes, which is no reason to end the process."""
    clock = FakeClock(77.0)
    reconciler = Reconciler(cast(ControllerContext, SimpleNamespace()), clock=clock)
    canary = a_resource(labels={CANARY_LABEL: "true"})

    assert reconciler.reconcile(canary) is Move.LEAVE
    assert await reconciler.end(canary, "2001-09-09T01:46:40Z", patience=5.0)
    clock.time += 3600.0

    name, age = oldest({str(key): age for key, age in reconciler.ages.items()})
    pulse = Pulse(leads=True, oldest_pass=age, oldest=name, watch_silence=0.0)
    assert find_fault(pulse, Limits()) == ""


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
    started = []

    class EndedTask:
        """One whose task ends at once."""

        is_running = False

        def __init__(self, resource, _context):
            self.resource = resource

        def note(self, resource):
            assert resource == self.resource

        def start(self):
            started.append(self.resource.key)

    monkeypatch.setattr(reconcile, "AppTask", EndedTask)
    context = cast(
        ControllerContext,
        SimpleNamespace(autoscaler_conflicts=MagicMock(), telemetry=MagicMock()),
    )
    clock = LimitedClock(sleeps=2)
    reconciler = Reconciler(context, clock=clock)
    resource = a_resource()
    reconciler.reconcile(resource)

    with pytest.raises(TimeoutError):
        await reconciler.run()

    assert started == [resource.key] * 3
    assert reconciler.ages == {resource.key: 0.0}


async def test_a_pass_that_fails_keeps_no_other_streamapp_from_its_own(monkeypatch):
    noted = []

    class RunningTask:
        """One that cannot be told of its object while it is named `broken`."""

        is_running = True

        def __init__(self, resource, _context):
            self.resource = resource

        def note(self, resource):
            if resource.key.name == "broken":
                raise RuntimeError("a defect")
            noted.append(resource.key)

    monkeypatch.setattr(reconcile, "AppTask", RunningTask)
    context = cast(
        ControllerContext,
        SimpleNamespace(autoscaler_conflicts=MagicMock(), telemetry=MagicMock()),
    )
    reconciler = Reconciler(context, clock=LimitedClock(sleeps=2))
    broken, sound = a_resource(name="broken"), a_resource("u2", name="sound")
    for each in (broken, sound):
        reconciler.reconcile(each)

    with pytest.raises(TimeoutError):
        await reconciler.run()

    assert noted == [sound.key] * 2
    assert context.telemetry.errors.add.call_count == 2  # type: ignore[attr-defined]


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
