"""A controller whose time is over changes nothing any more, wherever it was when it ended."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from tests.operator.cluster.process.two_controllers import (
    OneWorld,
    OpenFence,
    Stage,
    hurry,
    slow_down,
)
from weir_operator.api.leader import LeaseLostError
from weir_operator.clock import SystemClock
from weir_operator.cluster.status.store import KubernetesStatusStore, read_journal
from weir_operator.loop.lifecycle import FirstStart, Lifecycle
from weir_operator.rescale.engine import EngineParts, Rescaler
from weir_operator.rescale.settings import JobSpec, RescaleSettings
from weir_operator.runtime.protocol import ReplicaSpec

FIRST = "weir-a/weir-controller"
SECOND = "weir-b/weir-controller"
ONE = {"match": {"small/1": 1}}
TWO = {"match": {"small/1": 2}}
EXTRA = ReplicaSpec(operator="trips", pool="small", size="1")


@pytest.fixture
def stage(tmp_path, monkeypatch):
    hurry(monkeypatch)
    return Stage(tmp_path)


def step(stage):
    return read_journal(stage.status).get("step")


async def test_after_a_hand_over_that_the_watch_has_not_shown_nothing_is_healed(stage):
    """The new controller's TaskManager belongs to nobody, as far as the old one knows."""
    async with stage.steering(OpenFence("one/1", FIRST)) as old:
        await stage.until(lambda: stage.ready() == "JobRunning")
        second = OpenFence("two/1", SECOND)
        stage.give_to(second)
        await stage.status_client(second)
        before = list(old.done)
        [extra] = await stage.world.start([EXTRA])

        await stage.until(lambda: old.ended("elsewhere"))

    assert old.done == before
    assert extra in stage.world.alive
    assert stage.writer == "two/1"


async def test_a_hand_over_ends_a_change_that_is_under_way(stage):
    first, second = OpenFence("one/1", FIRST), OpenFence("two/1", SECOND)
    async with stage.steering(first) as old:
        await stage.until(lambda: stage.ready() == "JobRunning")
        stage.world.process(100)
        stage.world.deaf_pools.add("small")  # a replacement does not register for now
        [leaving] = stage.world.alive
        stage.world.terminating[leaving] = "its node is drained"
        await stage.until(lambda: len(stage.world.alive) == 2)

        stage.give_to(second)
        old.app.note(stage.resource)
        handed_over = list(old.done)
        async with stage.steering(second):
            stage.world.deaf_pools.clear()
            await stage.until(lambda: stage.writer == "two/1")
            await stage.until(lambda: step(stage) == "Done" and leaving not in stage.world.alive)

    assert old.done == handed_over
    assert len(stage.world.running()) == 1
    stage.world.process(10)
    assert stage.world.lost_and_doubled() == (0, 0)


async def test_without_the_lease_a_life_ends_and_the_status_is_left_to_the_next(stage):
    fence = OpenFence("one/1")
    async with stage.steering(fence) as old:
        await stage.until(lambda: stage.ready() == "JobRunning")
        before, written = list(old.done), stage.api.count("replace")
        fence.lost = True
        [extra] = await stage.world.start([EXTRA])

        await stage.until(lambda: old.ended("fenced"))

    assert old.done == before
    assert extra in stage.world.alive
    assert stage.api.count("replace") == written
    assert stage.ready() == "JobRunning"


async def test_a_status_that_another_controller_writes_ends_a_life_that_changes_nothing(stage):
    """Its own clock stood still, so that it believes to hold the Lease."""
    async with stage.steering(OpenFence("one/1")) as old:
        await stage.until(lambda: stage.ready() == "JobRunning")
        await (await stage.status_client(OpenFence("two/1"))).write({"rate": "12/s"})

        stage.write_spec(objective={"responseTime": "soon"})
        old.app.note(stage.resource)  # which is news for the status
        await stage.until(lambda: old.ended("fenced"))
        await old.app.stop()

    assert stage.status["rate"] == "12/s"
    assert stage.ready() == "JobRunning"


async def test_an_api_server_that_is_away_at_the_start_is_not_asked_without_a_pause(
    stage, monkeypatch
):
    slow_down(monkeypatch, 3600.0)
    stage.api.away = True

    async with stage.steering(OpenFence("one/1")) as controller:
        await stage.until(lambda: controller.ended("temporary"))
        for _ in range(100):
            await asyncio.sleep(0)

        assert stage.api.count("get") == 1


class LosingStore:
    """A status in which something happens right after a write, before its answer is heeded."""

    def __init__(self, store):
        self._store = store
        self.load = store.load
        self.left = 0
        """Writes until it happens."""
        self.happens: Callable[[], Awaitable[None]] = no_more

    async def save(self, status):
        await self._store.save(status)
        self.left -= 1
        if self.left == 0:
            await self.happens()


async def no_more():
    """Let nothing happen."""


class Change:
    """A controller in the middle of a change, without the loops around it."""

    def __init__(self, stage, fence):
        self.stage = stage
        self.fence = fence
        self.done = []

    async def opened(self):
        writer = await self.stage.status_client(self.fence)
        self.store = LosingStore(KubernetesStatusStore(writer))
        world = OneWorld(self.stage.world, self.done)
        runtime = world.runtime(None, None, writer.confirm)  # type: ignore[arg-type]
        jobs = world.jobs(runtime, writer.confirm)
        clock = SystemClock()
        spec = JobSpec(
            entry_class=None,
            arguments=(),
            parallelism_arguments={"match": "--match"},
            max_parallelism=720,
        )
        parts = EngineParts(
            runtime=runtime,
            jobs=jobs,
            spec=spec,
            store=self.store,
            settings=RescaleSettings(),
            clock=clock,
        )
        self.lifecycle = Lifecycle(
            parts,
            rescaler=Rescaler(parts),
            start=FirstStart(deployments=ONE),
            on_event=lambda event: None,
            on_change=lambda journal: None,
        )
        return self


@pytest.mark.parametrize("how", ["lease", "paused", "annotation"])
@pytest.mark.parametrize("at", range(1, 7))
async def test_a_change_goes_on_under_the_next_controller_and_nowhere_else(stage, how, at):
    """At each step: the Lease is lost, a pause hides that it is, or an annotation moves it."""
    old = await Change(stage, OpenFence("one/1", FIRST)).opened()
    await old.lifecycle.bring_up()
    stage.world.process(100)
    next_fence = OpenFence("two/1", SECOND if how == "annotation" else FIRST)
    handed_over = []

    async def lose():
        if how == "annotation":
            stage.give_to(next_fence)
        old.fence.lost = how == "lease"
        handed_over.append(len(old.done))
        new = await Change(stage, next_fence).opened()
        await new.lifecycle.bring_up()
        await new.lifecycle.change(TWO, "more")
        stage.world.process(10)

    async def next_deployment():
        await old.lifecycle.change(TWO, "more")  # of which the last write may be the last deed
        await old.lifecycle.resize({"match": {"small/2": 2}})

    old.store.left, old.store.happens = at, lose
    with pytest.raises(LeaseLostError):
        await next_deployment()

    assert len(old.done) == handed_over[0]
    assert len(stage.world.running()) == 1
    stage.world.process(10)
    assert stage.world.lost_and_doubled() == (0, 0)
    assert stage.writer == "two/1"
