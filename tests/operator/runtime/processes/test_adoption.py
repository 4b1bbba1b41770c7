"""What a Weir takes over from an earlier one, with Python standing in for Flink's JVMs."""

import asyncio
import sys
from pathlib import Path

import pytest
import pytest_asyncio

from weir_operator.errors import TemporaryError
from weir_operator.flink.commands import Installation
from weir_operator.runtime.processes import processes
from weir_operator.runtime.processes.folders import AppFolder, ReplicaRecord
from weir_operator.runtime.processes.runtime import LocalRuntime
from weir_operator.runtime.processes.task_managers import LocalTaskManagers
from weir_operator.runtime.settings import LocalSettings

SLEEP = "import time; print('up', flush=True); time.sleep(600)"
RECORD = ReplicaRecord(operator="match", pool="small", size="250m", started=7.0, metrics=(1, 2))


@pytest.fixture
def settings(tmp_path):
    return LocalSettings(
        root=tmp_path,
        namespace="streams",
        name="trips",
        installation=Installation(java=Path("/no/java"), flink_home=Path("/no/flink")),
        job_jar=Path("/no/trips.jar"),
        cache=tmp_path / "cache",
        speeds={"small/250m": 0.5, "small/500m": 1.0},
        stop_grace=5.0,
    )


@pytest_asyncio.fixture
async def app(settings):
    """The folder that an earlier Weir left; what still runs in the end is ended."""
    app = AppFolder(settings.root / settings.app)
    app.create()
    yield app
    await processes.end(processes.find_under(app.path), grace=5.0)


async def left_running(folder, *, recorded=True):
    """Leave a process that runs from a folder, as an earlier Weir did some time ago."""
    folder.prepare({})
    identity = processes.spawn(
        [sys.executable, "-c", SLEEP, "--configDir", str(folder.configuration)],
        environment={},
        output=folder.output,
    )
    async with asyncio.timeout(30):
        while not folder.output.exists() or not folder.output.read_text():
            await asyncio.sleep(0.01)
    if recorded:
        folder.record(identity)


async def test_a_claimed_task_manager_is_adopted_though_its_process_was_never_recorded(
    app, settings
):
    folder = app.task_manager("tm-match-small-1")
    folder.record_replica(RECORD, speed=0.5)
    await left_running(folder, recorded=False)

    runtime = await LocalRuntime.open(settings)

    (replica,) = await runtime.replicas()
    assert (replica.id, replica.node_type, replica.started) == (folder.id, "small/250m", 7.0)
    await runtime.detach()


async def test_a_resize_that_was_cut_short_is_finished(app, settings):
    folder = app.task_manager("tm-match-small-1")
    folder.record_replica(RECORD, speed=0.25)
    await left_running(folder)

    runtime = await LocalRuntime.open(settings)

    assert folder.speed.read_text() == "0.5\n"
    await runtime.detach()


async def test_a_size_that_the_manifest_dropped_is_adopted_as_it_is(app, settings):
    folder = app.task_manager("tm-match-small-1")
    folder.record_replica(
        ReplicaRecord(operator="match", pool="small", size="2", started=7.0, metrics=(1,)),
        speed=3.0,
    )
    await left_running(folder)

    runtime = await LocalRuntime.open(settings)

    assert [replica.node_type for replica in await runtime.replicas()] == ["small/2"]
    assert folder.speed.read_text() == "3.0\n"
    await runtime.detach()


async def test_only_what_nobody_claims_is_ended(app, settings):
    claimed, removed, nameless = (app.task_manager(f"tm-match-small-{n}") for n in (1, 2, 3))
    for folder in (claimed, removed):
        folder.record_replica(RECORD, speed=0.5)
    for folder in (claimed, removed, nameless, app.job_manager):
        await left_running(folder)
    removed.mark_removed()
    neighbour = AppFolder(settings.root / "streams.trips-2")
    neighbour.create()
    await left_running(neighbour.task_manager("tm-match-small-1"))

    runtime = await LocalRuntime.open(settings)

    assert set(processes.find_under(app.path)) == {
        claimed.configuration,
        app.job_manager.configuration,
    }
    left = processes.find_under(neighbour.path)
    await processes.end(left, grace=5.0)
    assert len(left) == 1
    await runtime.detach()


async def test_detaching_leaves_all_running_and_lets_the_next_weir_in(app, settings):
    folder = app.task_manager("tm-match-small-1")
    folder.record_replica(RECORD, speed=0.5)
    await left_running(folder)
    first = await LocalRuntime.open(settings)

    await first.detach()
    second = await LocalRuntime.open(settings)

    assert [replica.id for replica in await second.replicas()] == [folder.id]
    await second.detach()


@pytest.mark.parametrize(
    ("leave", "step"),
    [(LocalRuntime.detach, "until_ended"), (LocalRuntime.close, "end_all")],
    ids=["detached", "closed"],
)
async def test_the_next_weir_is_let_in_although_a_process_did_not_end(
    app, settings, monkeypatch, leave, step
):
    async def fail(self):
        raise TemporaryError("Expected the process to end, got it alive")

    first = await LocalRuntime.open(settings)
    with monkeypatch.context() as patched:
        patched.setattr(LocalTaskManagers, step, fail)
        with pytest.raises(TemporaryError):
            await leave(first)

    second = await LocalRuntime.open(settings)

    await second.detach()
