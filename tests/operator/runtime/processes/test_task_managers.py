"""How many TaskManagers there are at once, and where the reporter of one listens."""

import asyncio
import socket
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from weir_operator.errors import TemporaryError
from weir_operator.flink.commands import Installation
from weir_operator.flink.configuration import ClusterAddress, Storage
from weir_operator.runtime.processes import processes, task_managers
from weir_operator.runtime.processes.class_archive import ClassArchive
from weir_operator.runtime.processes.folders import AppFolder
from weir_operator.runtime.processes.task_managers import LocalTaskManagers
from weir_operator.runtime.protocol import ReplicaSpec
from weir_operator.runtime.settings import LocalSettings

REPORTER, RPC = 50807, 45421


@pytest.fixture
def listening(monkeypatch):
    """The ports on which the process listens."""
    ports: set[int] = set()
    monkeypatch.setattr(processes, "listening_ports", lambda pid: ports)
    return ports


async def test_rpc_that_listens_first_on_a_candidate_is_not_taken_for_the_reporter(listening):
    managers = LocalTaskManagers.__new__(LocalTaskManagers)
    managers._reporting = {}
    folder = SimpleNamespace(id="tm-1", alive=lambda: SimpleNamespace(pid=7))
    record = SimpleNamespace(metrics=(REPORTER, RPC))
    listening.add(RPC)
    managers._port(folder, record)  # type: ignore[arg-type]

    listening.add(REPORTER)

    assert managers._port(folder, record) == REPORTER  # type: ignore[arg-type]


def test_free_ports_are_none_that_flinks_rpc_could_be_given():
    found = processes.free_ports(50)

    assert len(set(found)) == 50
    with socket.socket() as given:
        given.bind(("", 0))
        assert max(found) < given.getsockname()[1]


def test_a_port_on_which_somebody_listens_is_not_free(monkeypatch):
    [taken] = processes.free_ports(1)
    monkeypatch.setattr(processes, "_LOWEST_PORT", taken)
    monkeypatch.setattr(processes, "_HIGHEST_PORT", taken + 2)
    monkeypatch.setattr(processes, "_FEWEST_PORTS", 1)
    with socket.socket() as listening:
        listening.bind(("", taken))

        assert taken not in processes.free_ports(1)


SMALL = ReplicaSpec(operator="work", pool="small", size="1")
LARGE = ReplicaSpec(operator="work", pool="large", size="1")
ADDRESS = ClusterAddress(host="127.0.0.1", rpc_port=6123, rest_port=8081)
STORAGE = Storage(checkpoints="file:///checkpoints", savepoints="file:///savepoints")


@pytest.fixture
async def crowded(tmp_path, monkeypatch):
    """TaskManagers of a StreamApp with room for three; their processes do nothing."""

    def command(installation, *, configuration_dir, **_):
        waits = "import signal; signal.pause()"
        return (sys.executable, "-c", waits, "--configDir", str(configuration_dir))

    async def options(archive):
        return ()

    monkeypatch.setattr(ClassArchive, "options", options)
    monkeypatch.setattr(task_managers, "task_manager_command", command)
    settings = LocalSettings(
        root=tmp_path,
        namespace="streams",
        name="crowded",
        installation=Installation(java=Path("java"), flink_home=tmp_path),
        job_jar=Path("job.jar"),
        cache=tmp_path / "cache",
        speeds={"small/1": 1.0, "large/1": 1.0},
        max_processes=4,
    )
    app = AppFolder(tmp_path / "app")
    app.create()
    managers = LocalTaskManagers(settings, app)
    yield managers
    await managers.end_all()


async def test_processes_are_ended_although_whoever_waits_for_it_is_cancelled(crowded, monkeypatch):
    began, may_end, ended = asyncio.Event(), asyncio.Event(), []

    async def end(ending, *, grace):
        began.set()
        await may_end.wait()
        ended.extend(ending)

    [one] = await crowded.start([SMALL], address=ADDRESS, storage=STORAGE)
    [folder] = crowded._alive()
    with monkeypatch.context() as patched:
        patched.setattr(processes, "end", end)
        await crowded.end([one])
        waiter = asyncio.create_task(crowded.until_ended())
        await began.wait()

        waiter.cancel()
        await asyncio.wait({waiter})
        may_end.set()
        await crowded.until_ended()

    assert waiter.cancelled()
    assert ended == [folder.configuration]


async def test_all_are_ended_although_one_that_was_asked_before_did_not_end(crowded, monkeypatch):
    async def fail(ending, *, grace):
        raise TemporaryError("Expected the process to end, got it alive")

    one, _ = await crowded.start([SMALL, LARGE], address=ADDRESS, storage=STORAGE)
    with monkeypatch.context() as patched:
        patched.setattr(processes, "end", fail)
        await crowded.end([one])
        while not crowded._ending.done():
            await asyncio.sleep(0)

    with pytest.raises(TemporaryError):
        await crowded.end_all()

    assert crowded._alive() == []
