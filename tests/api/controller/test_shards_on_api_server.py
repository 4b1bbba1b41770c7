"""Several controllers share the StreamApps: each is managed by one, whatever ends meanwhile."""

from __future__ import annotations

import asyncio
import threading
import time
from contextlib import contextmanager

import pytest

from weir_operator.errors import TemporaryError
from weir_operator.kubernetes.api import background
from weir_operator.kubernetes.api.objects import Key
from weir_operator.kubernetes.api.shards import Shard, shard_of
from weir_operator.kubernetes.app import task
from weir_operator.kubernetes.process import process

pytestmark = pytest.mark.kubernetes_api


@pytest.fixture
def names(bench):
    """Names of StreamApps, three in each of two shards and of three."""

    def of(shards):
        found: dict[int, list[str]] = {number: [] for number in range(shards)}
        for number in range(100):
            name = f"app-{number}"
            shard = found[shard_of(Key(bench.kube.namespace, name), shards)]
            if len(shard) < 3:
                shard.append(name)
        return found

    return of


async def managed_by(bench, name):
    """Return the process that has written the app's status last; empty if none has."""
    found = ((await bench.app(name)) or {}).get("status", {}).get("controller", {})
    return found.get("writer", "").partition("/")[0]


async def until_shards_are_held(bench, shards):
    """Return which controller has which shard, once each has one."""

    async def held():
        leading = {
            each.controller._leader.shard: name
            for name, each in bench.running.items()
            if each.controller is not None and each.controller.leads
        }
        return leading if {*leading} == {Shard(n, shards) for n in range(shards)} else None

    return await bench.until(held, f"expected controllers of {shards} shards")


async def until_managed(bench, name, manager):
    async def managed():
        return await managed_by(bench, name) == manager

    await bench.until(managed, f"expected {name} to be managed by {manager}")


async def test_each_app_is_managed_by_the_controller_of_its_shard_to_its_end(bench, names):
    apps = names(3)
    for number in range(3):
        bench.start(f"process-{number}", shards=3)
    held = await until_shards_are_held(bench, 3)

    for name in [name for each in apps.values() for name in each]:
        await bench.create(name)

    for shard, process_name in held.items():
        for name in apps[shard.number]:
            await bench.until_ready(name=name)
            assert await managed_by(bench, name) == process_name
            assert (await bench.app(name))["metadata"]["finalizers"]
    for each in apps.values():
        await bench.kube.delete(f"{bench.kube.stream_apps}/{each[0]}")
    for each in apps.values():
        await until_gone(bench, each[0])
        assert bench.dependencies.of[each[0]].positions, "a final savepoint"
        for name in each[1:]:
            assert (await bench.app(name))["metadata"]["finalizers"]
    pages = [await bench.ask(each, "metrics") for each in bench.running.values()]
    assert all("weir_leader 1.0" in page and "weir_apps 2.0" in page for page in pages)


async def until_gone(bench, name):
    async def gone():
        return await bench.app(name) is None

    await bench.until(gone, f"expected {name} to be gone")


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


async def test_a_change_of_a_controller_that_dies_is_completed_by_a_standby(bench, names, freezer):
    apps = names(2)
    [name, *_] = apps[0]
    for number in range(2):
        bench.start(f"process-{number}", shards=2)
    held = await until_shards_are_held(bench, 2)
    victim, survivor = held[Shard(0, 2)], held[Shard(1, 2)]
    await bench.create(name)
    await bench.create(apps[1][0])
    await bench.until_ready(name=name)
    await bench.until_ready(name=apps[1][0])
    bench.start("standby", shards=2)
    world = bench.dependencies.of[name]
    [before] = world.running()
    submit, in_mid_change = world.submit, threading.Event()

    async def die(*arguments, **named):
        world.submit = submit
        in_mid_change.set()
        freezer.stop_here()
        raise TemporaryError("The connection was lost")

    world.submit = die
    arguments = {"jar": "trips.jar", "args": ["--fast"]}
    await bench.kube.merge(
        f"{bench.kube.stream_apps}/{name}", {"spec": {"flink": {"job": arguments}}}
    )
    await asyncio.to_thread(in_mid_change.wait, 90.0)
    stopped = world.running()
    died = time.monotonic()

    await until_managed(bench, name, "standby")

    assert stopped == []

    async def runs_anew():
        return world.running()

    [after] = await bench.until(runs_anew, "expected the job to run")
    assert time.monotonic() - died >= 25.0, "the Lease of a process that died lasts"
    assert after != before
    assert world.jobs[after].arguments[0] == "--fast"
    assert world.jobs[after].position == world.jobs[before].position, "nothing lost or doubled"
    assert world.jobs[after].restored in world.positions
    assert await managed_by(bench, apps[1][0]) == survivor
    # The process comes back to life: it must touch nothing, and stand by.
    freezer.thaw()

    async def stands_by():
        return bench.running[victim].terms == 2 and not bench.running[victim].controller.leads

    await bench.until(stands_by, "expected the process to stand by")
    assert world.running() == [after]
    assert await managed_by(bench, name) == "standby"


async def record_writers(kube, version, seen):
    """Add (name, term) to `seen` whenever a controller changes a status, in the order of that."""
    before: dict[str, object] = {}
    async for event in kube.watch(kube.stream_apps, version):
        body = event["object"]
        name, status = body["metadata"]["name"], body.get("status", {})
        writer = status.get("controller", {}).get("writer")
        if writer is not None and status != before.get(name):
            before[name] = status
            seen.append((name, writer))


async def test_another_number_of_shards_begins_when_the_last_of_the_old_has_ended(bench, names):
    apps = [name for each in names(3).values() for name in each]
    for number in range(2):
        bench.start(f"old-{number}", shards=2)
    await until_shards_are_held(bench, 2)
    listed = await bench.kube.get(bench.kube.stream_apps)
    seen: list[tuple[str, str]] = []
    version = listed.body["metadata"]["resourceVersion"]
    watching = asyncio.create_task(record_writers(bench.kube, version, seen))
    for name in apps:
        await bench.create(name, operatorManager={"interval": "1s"})
    for name in apps:
        await bench.until_ready(name=name)
    jobs = {name: bench.dependencies.of[name].running() for name in apps}

    new = [bench.start(f"new-{number}", shards=3) for number in range(3)]

    async def are_ready():
        if any(each.controller is None or each.controller.port is None for each in new):
            return False
        return all([await bench.ask(each, "readyz") == "ok\n" for each in new])

    await bench.until(are_ready, "expected the new controllers to be ready, and to wait")
    await bench.stop("old-0")
    await bench.create("app-late", operatorManager={"interval": "1s"})
    waiting = [each.controller.leads for each in new]
    await bench.stop("old-1")
    held = await until_shards_are_held(bench, 3)
    for name in [*apps, "app-late"]:
        shard = shard_of(Key(bench.kube.namespace, name), 3)
        await until_managed(bench, name, held[Shard(shard, 3)])
        await bench.until_ready(name=name)

    watching.cancel()
    assert waiting == [False, False, False]
    terms = {term: term.startswith("new") for _, term in seen}
    generations = [terms[term] for _, term in seen]
    assert generations == sorted(generations), "no old one acts once a new one does"
    for name in apps:
        writers = [term for app, term in seen if app == name]
        assert len([term for term, next_ in zip(writers, [*writers[1:], ""], strict=True)
                    if term != next_]) == len({*writers}) <= 2  # fmt: skip
        assert bench.dependencies.of[name].running() == jobs[name], "its job was left alone"
    assert len(bench.dependencies.of["app-late"].running()) == 1
    await bench.kube.delete(f"{bench.kube.stream_apps}/app-late")
    await until_gone(bench, "app-late")


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


def name_in(bench, shards):
    """Return the name of a StreamApp in these shards; each is of another number of shards."""
    return next(
        name
        for name in (f"app-{number}" for number in range(100))
        if all(shard.owns(Key(bench.kube.namespace, name)) for shard in shards)
    )


def fixed(replicas):
    return {"operators": [{"name": "match", "fixed": {"small/1": replicas}}]}


async def until_rescaled(bench, name):
    """Return the journal of the app's rescale, once that is done."""

    async def done():
        journal = (await bench.app(name))["status"]["rescale"]
        return journal if (journal["kind"], journal["step"]) == ("Rescale", "Done") else None

    return await bench.until(done, f"expected {name} to be rescaled")


@pytest.mark.parametrize(
    ("before", "after", "dies"),
    [(2, 3, False), (3, 2, False), (2, 3, True)],
    ids=["more", "fewer", "more-after-deaths"],
)
async def test_changes_in_flight_are_completed_once_by_another_number_of_shards(
    bench, freezer, monkeypatch, before, after, dies
):
    monkeypatch.setattr(task, "STOP_TIMEOUT", 1.0)  # a change that is held does not end in it
    # The first one moves to a shard of another number.
    places = [(Shard(0, 2), Shard(2, 3)), (Shard(1, 2), Shard(1, 3)), (Shard(0, 2), Shard(0, 3))]
    apps = [name_in(bench, place) for place in places]
    changes = {
        name: HeldChange(bench.dependencies.make(name), call)
        for name, call in zip(apps, STEPS, strict=True)
    }
    old = [f"old-{number}" for number in range(before)]
    for process_name in old:
        bench.start(process_name, shards=before)
    await until_shards_are_held(bench, before)
    for name in apps:
        await bench.create(name, **fixed(1))
    for name in apps:
        await bench.until_ready(name=name)
        changes[name].world.process(100)
        await bench.kube.merge(f"{bench.kube.stream_apps}/{name}", {"spec": fixed(2)})
    for change in changes.values():
        assert await asyncio.to_thread(change.in_mid_change.wait, 90.0)
    begun = {name: (await bench.app(name))["status"]["rescale"] for name in apps}
    new = {f"new-{number}" for number in range(after)}
    for process_name in new:
        bench.start(process_name, shards=after)

    if dies:
        for loop in {change.loop for change in changes.values()}:
            loop.call_soon_threadsafe(freezer.stop_here)
    else:
        await asyncio.gather(*[bench.stop(each) for each in old])

    held = await until_shards_are_held(bench, after)
    ended = {}
    for name in apps:
        shard = Shard(shard_of(Key(bench.kube.namespace, name), after), after)
        await until_managed(bench, name, held[shard])
        ended[name] = await until_rescaled(bench, name)
        await bench.until_ready(name=name)
    assert {*held.values()} == new
    # Processes that come back to life must touch nothing, and stand by.
    freezer.thaw()

    async def stand_by():
        return all(
            each.terms == 2 and not each.controller.leads
            for name, each in bench.running.items()
            if name not in new
        )

    await bench.until(stand_by, "expected the old processes to stand by")
    for name, step in zip(apps, STEPS.values(), strict=True):
        world, status = changes[name].world, (await bench.app(name))["status"]
        assert (begun[name]["kind"], begun[name]["step"]) == ("Rescale", step)
        assert status["rescale"] == ended[name]
        for field in ("id", "trigger", "old_job", "new_job", "failure"):
            assert ended[name].get(field) == begun[name].get(field), "it is the same change"
        assert changes[name].reached == ["submit", "stop", "submit"]
        [job] = world.running()
        assert job == ended[name]["new_job"] == status["controller"]["job_id"]
        assert len(world.alive) == 2
        [savepoint] = world.stops
        assert world.jobs[job].restored == savepoint
        assert status["controller"]["savepoints"] == [savepoint]
        assert savepoint in world.positions
        world.process(10)
        assert world.lost_and_doubled() == (0, 0)
        assert await managed_by(bench, name) in new
