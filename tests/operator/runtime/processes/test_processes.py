"""Processes that outlive their parent, with Python standing in for the JVM."""

import asyncio
import os
import signal
import sys

import psutil
import pytest
import pytest_asyncio

from weir_operator.errors import PermanentError
from weir_operator.runtime.processes import processes
from weir_operator.runtime.processes.processes import ProcessIdentity

POLITE = "import time; print('up', flush=True); time.sleep(600)"
STUBBORN = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); " + POLITE


class Spawner:
    """Spawns Python programs that carry a configuration folder, and ends what is left."""

    def __init__(self, root):
        self.root = root
        self.started = {}

    def spawn(self, name, program, *, environment=None):
        configuration = self.root / name / "conf"
        configuration.mkdir(parents=True)
        identity = processes.spawn(
            [sys.executable, "-c", program, "--configDir", str(configuration)],
            environment=environment or {},
            output=self.output(name),
        )
        self.started[configuration] = identity
        return configuration, identity

    def output(self, name):
        return self.root / name / "output.txt"

    async def up(self, name):
        """Wait until the program has printed something."""
        async with asyncio.timeout(30):
            while not self.output(name).exists() or not self.output(name).read_text():
                await asyncio.sleep(0.01)
        return self.output(name).read_text().strip()


@pytest_asyncio.fixture
async def spawner(tmp_path):
    spawner = Spawner(tmp_path)
    yield spawner
    await processes.end(spawner.started, grace=0.0)


async def test_a_process_keeps_nothing_open_that_weir_was_given(spawner):
    read, write = os.pipe()
    os.set_inheritable(write, True)
    spawner.spawn("a", POLITE)
    await spawner.up("a")

    os.close(write)

    os.set_blocking(read, False)  # it would wait for whoever has the other end
    assert os.read(read, 1) == b""
    os.close(read)


async def test_a_spawned_process_is_known_by_its_configuration_folder(spawner):
    configuration, identity = spawner.spawn("a", POLITE)
    await spawner.up("a")

    assert processes.is_alive(identity, configuration)
    assert processes.find_under(spawner.root) == {configuration: identity}


async def test_an_id_that_was_used_again_is_not_the_same_process(spawner):
    configuration, identity = spawner.spawn("a", POLITE)
    await spawner.up("a")

    assert not processes.is_alive(identity, configuration.parent / "other")


async def test_a_process_has_a_session_of_its_own_and_its_environment(spawner):
    program = "import os; print(os.environ['WEIR_POOL'], os.getsid(0) == os.getpid(), flush=True)"
    spawner.spawn("a", f"{program}; {POLITE}", environment={"WEIR_POOL": "small"})

    assert (await spawner.up("a")).splitlines()[0] == "small True"


async def test_processes_are_asked_to_end_before_they_are_made_to(spawner):
    polite = spawner.spawn("polite", POLITE)
    stubborn = spawner.spawn("stubborn", STUBBORN)
    await spawner.up("polite")
    await spawner.up("stubborn")

    await processes.end(dict([polite, stubborn]), grace=0.2)

    assert processes.find_under(spawner.root) == {}
    assert not psutil.pid_exists(polite[1].pid)
    assert not psutil.pid_exists(stubborn[1].pid)


async def test_a_zombie_has_ended_and_is_reaped(spawner):
    configuration, identity = spawner.spawn("a", POLITE)
    os.kill(identity.pid, signal.SIGKILL)
    async with asyncio.timeout(30):
        while psutil.Process(identity.pid).status() != psutil.STATUS_ZOMBIE:
            await asyncio.sleep(0.01)

    alive = processes.is_alive(identity, configuration)

    assert not alive
    assert not psutil.pid_exists(identity.pid)


async def test_ending_what_has_ended_changes_nothing(tmp_path):
    gone = ProcessIdentity(pid=2**22, started=0.0)

    await processes.end({tmp_path: gone}, grace=0.0)

    assert not processes.is_alive(gone, tmp_path)


def test_a_program_that_does_not_exist_is_named(tmp_path):
    with pytest.raises(PermanentError, match="/no/java"):
        processes.spawn(["/no/java"], environment={}, output=tmp_path / "output.txt")


async def test_listening_ports_are_those_of_the_process(spawner):
    program = (
        "import socket; s = socket.socket(); s.bind(('127.0.0.1', 0)); s.listen();"
        " print(s.getsockname()[1], flush=True); "
    )
    _, identity = spawner.spawn("a", program + POLITE)
    port = int((await spawner.up("a")).splitlines()[0])

    assert processes.listening_ports(identity.pid) == {port}
