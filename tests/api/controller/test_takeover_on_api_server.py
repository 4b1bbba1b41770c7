"""A change that a controller leaves in mid-step is completed once, by the next controller."""

from __future__ import annotations

import asyncio
import threading
import time
from contextlib import contextmanager
from functools import partial

import pytest

from weir_operator.kubernetes.api import background
from weir_operator.kubernetes.api.leader import LeaseSettings
from weir_operator.kubernetes.app import task
from weir_operator.kubernetes.process import process

pytestmark = pytest.mark.kubernetes_api

QUICK = partial(LeaseSettings, duration=15, renew_deadline=8.0, retry_every=0.5)


async def managed_by(bench, name):
    """Return the process that has written the app's status last; empty if none has."""
    found = ((await bench.app(name)) or {}).get("status", {}).get("controller", {})
    return found.get("writer", "").partition("/")[0]


class Freezer:
    """Stops the threads of controllers, as if their processes had been stopped."""

    def __init__(self):
        self._thawed = threading.Event()
        self._lease_loops: dict[int, asyncio.AbstractEventLoop] = {}

    @contextmanager
    def recorded(self, name):
        """Run a Lease's event loop, and remember whose it is."""
        with background.own_loop(name) as loop:
            self._lease_loops[threading.get_ident()] = loop._loop
            yield loop

    def stop_here(self):
        """Stop the controller that calls this, and the renewal of its Lease."""
        lease_loop = self._lease_loops[threading.get_ident()]
        lease_loop.call_soon_threadsafe(self._thawed.wait)
        self._thawed.wait()

    def thaw(self):
        """Let all go on."""
        self._thawed.set()


@pytest.fixture
def freezer(monkeypatch):
    freezer = Freezer()
    monkeypatch.setattr(process, "own_loop", freezer.recorded)
    yield freezer
    freezer.thaw()


class HeldChange:
    """A change of a job in which Flink leaves one call unanswered.

    It is the first call of its kind after the job was stopped.
    """

    loop: asyncio.AbstractEventLoop
    """That of the controller whose call is held, once it is."""

    def __init__(self, world, held):
        """Hold a call to `world`: one of `STEPS`."""
        self.world = world
        self.reached: list[str] = []
        """Stops and submissions that reached Flink, from the first start on."""
        self.in_mid_change = threading.Event()
        self._held = held
        self._stop, self._savepoint = world.stop_with_savepoint, world.savepoint
        self._submit = world.submit
        world.stop_with_savepoint, world.savepoint = self._note_stop, self._find_savepoint
        world.submit = self._note_submission

    async def _hold(self, call):
        if call == self._held and "stop" in self.reached and not self.in_mid_change.is_set():
            self.loop = asyncio.get_running_loop()
            self.in_mid_change.set()
            await asyncio.Event().wait()

    def _note_stop(self, *arguments):
        self.reached.append("stop")
        self._stop(*arguments)

    async def _find_savepoint(self, *arguments):
        await self._hold("savepoint")
        return await self._savepoint(*arguments)

    async def _note_submission(self, *arguments, **named):
        await self._hold("submission")
        self.reached.append("submit")
        await self._submit(*arguments, **named)
        await self._hold("answer to submission")


STEPS = {
    "savepoint": "Stopping",
    "submission": "Submitting",
    "answer to submission": "Submitting",
}
"""Calls that can be held, and the step of a change in which they are."""


def fixed(replicas):
    return {"operators": [{"name": "match", "fixed": {"small/1": replicas}}]}


async def until_rescaled(bench, name):
    """Return the journal of the app's rescale, once that is done."""

    async def done():
        journal = (await bench.app(name))["status"]["rescale"]
        return journal if (journal["kind"], journal["step"]) == ("Rescale", "Done") else None

    return await bench.until(done, f"expected {name} to be rescaled")


@pytest.mark.parametrize("dies", [False, True], ids=["ends", "dies"])
async def test_changes_in_flight_are_completed_once_by_the_next_controller(
    bench, freezer, monkeypatch, dies
):
    monkeypatch.setattr(task, "STOP_TIMEOUT", 1.0)  # a change that is held does not end in it
    monkeypatch.setattr(process, "LeaseSettings", QUICK)
    changes = {
        name: HeldChange(bench.dependencies.make(name), call)
        for name, call in zip(("first", "second", "third"), STEPS, strict=True)
    }
    bench.start("old")
    for name in changes:
        await bench.create(name, **fixed(1))
    for name, change in changes.items():
        await bench.until_ready(name=name)
        change.world.process(100)
        await bench.kube.merge(f"{bench.kube.stream_apps}/{name}", {"spec": fixed(2)})
    for change in changes.values():
        assert await asyncio.to_thread(change.in_mid_change.wait, 90.0)
    begun = {name: (await bench.app(name))["status"]["rescale"] for name in changes}
    bench.start("new")

    ended_at = time.monotonic()
    if dies:
        [loop] = {change.loop for change in changes.values()}
        loop.call_soon_threadsafe(freezer.stop_here)
    else:
        await bench.stop("old")

    ended = {}
    for name in changes:

        async def managed(name=name):
            return await managed_by(bench, name) == "new"

        await bench.until(managed, f"expected {name} to be managed by the next controller")
        assert not dies or time.monotonic() - ended_at >= 8.0, "the Lease of the dead lasts"
        ended[name] = await until_rescaled(bench, name)
        await bench.until_ready(name=name)
    if dies:
        # The process comes back to life: it must touch nothing, and stand by.
        freezer.thaw()
        old = bench.running["old"]

        async def stands_by():
            return old.terms == 2 and not old.controller.leads

        await bench.until(stands_by, "expected the process to stand by")
    for (name, change), step in zip(changes.items(), STEPS.values(), strict=True):
        world, status = change.world, (await bench.app(name))["status"]
        assert (begun[name]["kind"], begun[name]["step"]) == ("Rescale", step)
        assert status["rescale"] == ended[name]
        for field in ("id", "trigger", "old_job", "new_job", "failure"):
            assert ended[name].get(field) == begun[name].get(field), "it is the same change"
        assert change.reached == ["submit", "stop", "submit"]
        [job] = world.running()
        assert job == ended[name]["new_job"] == status["controller"]["job_id"]
        assert len(world.alive) == 2
        [savepoint] = world.stops
        assert world.jobs[job].restored == savepoint
        assert status["controller"]["savepoints"] == [savepoint]
        assert savepoint in world.positions
        world.process(10)
        assert world.lost_and_doubled() == (0, 0)
        assert await managed_by(bench, name) == "new"
