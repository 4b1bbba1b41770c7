"""Processes that survive the one that started them, and their TCP ports.

Weir may die at any moment while its JVMs run on, so nothing here relies on being the parent: a
process is identified by its id together with the configuration folder in its command line, which no
other process ever gets. The system reuses ids alone.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import socket
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

from weir_operator.errors import PermanentError, TemporaryError

_POLL = 0.02  # seconds between two checks of a process that is being ended
_CONFIGURATION = "--configDir"
_CLOCK_STEP = 2.0  # seconds by which the system may correct the time of its start meanwhile
_KILL_LIMIT = 10.0  # seconds for a process to disappear once the kernel got the order to end it


@dataclass(frozen=True, kw_only=True, slots=True)
class ProcessIdentity:
    """A process that is or was."""

    pid: int
    started: float
    """Unix time of its creation."""


def spawn(
    command: Sequence[str], *, environment: Mapping[str, str], output: Path
) -> ProcessIdentity:
    """Start a program in its own session, with its output appended to a file.

    Raises:
        PermanentError: The program cannot be run.
        TemporaryError: The system has no room for another process.
    """
    try:
        # Not subprocess.Popen: the child outlives us by design, which Popen warns about.
        pid = os.posix_spawn(
            command[0],
            list(command),
            {**os.environ, **environment},
            file_actions=[
                *((os.POSIX_SPAWN_CLOSE, each) for each in _inherited_descriptors()),
                (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                (os.POSIX_SPAWN_OPEN, 1, output, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644),
                (os.POSIX_SPAWN_DUP2, 1, 2),
            ],
            setsid=True,  # Ctrl-C in Weir's terminal must not reach the job
        )
    except BlockingIOError as error:
        raise TemporaryError(
            f"The system cannot start another process: {error}; raise `ulimit -u` or "
            "run fewer replicas"
        ) from error
    except OSError as error:
        raise PermanentError(f"Expected to run {command[0]}, got: {error}") from error
    return ProcessIdentity(pid=pid, started=psutil.Process(pid).create_time())


def _inherited_descriptors() -> tuple[int, ...]:
    """Return what Weir itself was given open, such as a lock of its shell; Python's own are closed.

    A child that outlives Weir would keep it.
    """
    found = []
    for name in os.listdir("/dev/fd"):
        with suppress(OSError):  # that of the list itself is closed by now
            if int(name) > 2 and os.get_inheritable(int(name)):
                found.append(int(name))
    return tuple(found)


def is_alive(identity: ProcessIdentity, configuration: Path) -> bool:
    """Return whether the process still runs with this configuration folder.

    One that is on its way out counts as alive: its ports are closed after its memory is gone, and
    its command line with it. A zombie has ended; one of our own is reaped.
    """
    try:
        process = psutil.Process(identity.pid)
        if process.status() != psutil.STATUS_ZOMBIE:
            words = process.cmdline()
            if words:
                return _configuration_in(words) == str(configuration)
            return abs(process.create_time() - identity.started) < _CLOCK_STEP
    except psutil.Error:
        pass  # it is gone, or became a zombie while we looked
    _reap(identity.pid)
    return False


def find_under(folder: Path) -> dict[Path, ProcessIdentity]:
    """Return every process whose configuration folder is under `folder`, by that folder.

    Raises:
        TemporaryError: Two processes share one folder, which nothing here ever starts.
    """
    found: dict[Path, ProcessIdentity] = {}
    for process in psutil.process_iter():
        try:
            configuration = _configuration_in(process.cmdline())
            if configuration is None or not Path(configuration).is_relative_to(folder):
                continue
            identity = ProcessIdentity(pid=process.pid, started=process.create_time())
        except psutil.Error:
            continue  # it ended while we looked
        if (other := found.setdefault(Path(configuration), identity)) != identity:
            raise TemporaryError(
                f"Expected one process for {configuration}, got {other.pid} and {identity.pid};"
                " end the one that Weir did not start"
            )
    return found


def listening_ports(pid: int) -> frozenset[int]:
    """Return the TCP ports that a process listens on; none where it has ended."""
    try:
        connections = psutil.Process(pid).net_connections(kind="tcp")
    except psutil.Error:
        return frozenset()
    return frozenset(
        connection.laddr.port
        for connection in connections
        if connection.status == psutil.CONN_LISTEN
    )


async def end(processes: Mapping[Path, ProcessIdentity], *, grace: float) -> None:
    """End processes, given by configuration folder, and wait until they are gone.

    They get `grace` seconds to leave by themselves; what has ended already is skipped.

    Raises:
        TemporaryError: The kernel did not end one of them.
    """
    left = _signal(processes, signal.SIGTERM)
    left = await _wait_until_gone(left, grace)
    left = _signal(left, signal.SIGKILL)
    left = await _wait_until_gone(left, _KILL_LIMIT)
    if left:
        pids = sorted(identity.pid for identity in left.values())
        raise TemporaryError(f"Processes {pids} did not end within {_KILL_LIMIT:g} s of SIGKILL")


def terminate(processes: Mapping[Path, ProcessIdentity]) -> None:
    """Ask processes, given by configuration folder, to end; `end` waits for them."""
    _signal(processes, signal.SIGTERM)


def _signal(
    processes: Mapping[Path, ProcessIdentity], number: signal.Signals
) -> dict[Path, ProcessIdentity]:
    alive = _alive(processes.items())
    for identity in alive.values():
        try:
            os.kill(identity.pid, number)
        except ProcessLookupError:
            continue  # it ended by itself
    return alive


async def _wait_until_gone(
    processes: Mapping[Path, ProcessIdentity], limit: float
) -> dict[Path, ProcessIdentity]:
    loop = asyncio.get_running_loop()
    deadline = loop.time() + limit
    left = _alive(processes.items())
    while left and loop.time() < deadline:
        await asyncio.sleep(_POLL)
        left = _alive(left.items())
    return left


def _alive(processes: Iterable[tuple[Path, ProcessIdentity]]) -> dict[Path, ProcessIdentity]:
    return {
        configuration: identity
        for configuration, identity in processes
        if is_alive(identity, configuration)
    }


def _configuration_in(words: Sequence[str]) -> str | None:
    try:
        return words[words.index(_CONFIGURATION) + 1]
    except (ValueError, IndexError):
        return None


def _reap(pid: int) -> None:
    try:
        os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        return  # not ours: adopted, or reaped before


LOOPBACK = "127.0.0.1"
METRIC_PORTS = 3
"""Candidates per reporter: another program may take a free port before a JVM has started."""


_LOWEST_PORT, _HIGHEST_PORT = 15_000, 30_000
"""Between them, free ports are looked for: below the ports that a system gives to whoever asks for
any, and below those of Kubernetes' services."""
_FEWEST_PORTS = 1_000
_ANY_PORT_FROM = Path("/proc/sys/net/ipv4/ip_local_port_range")


def free_ports(count: int) -> tuple[int, ...]:
    """Return different ports on which nothing listens at this moment.

    None is of those that the system gives to whoever asks for any: Flink's RPC asks so, listens
    before the metrics reporter does, and would be taken for it. Another program may take one before
    it is used; whoever uses them must be ready for that.
    """
    candidates = range(_LOWEST_PORT, min(_HIGHEST_PORT, _find_first_given_port()))
    if len(candidates) < _FEWEST_PORTS:  # a system that gives away nearly all of them
        candidates = range(_LOWEST_PORT, _HIGHEST_PORT)
    found: list[int] = []
    with ExitStack() as stack:
        for port in random.SystemRandom().sample(candidates, len(candidates)):
            if len(found) == count:
                break
            tried = stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_STREAM))
            # On all interfaces: Flink's metric reporter listens there and takes no address.
            with suppress(OSError):  # somebody listens there
                tried.bind(("", port))
                found.append(port)
    return tuple(found)


def _find_first_given_port() -> int:
    """Return the first port of the range that the system gives away."""
    try:
        return int(_ANY_PORT_FROM.read_text().split()[0])
    except OSError:  # not Linux: the range that IANA proposes
        return 49_152


def reporting_port(identity: ProcessIdentity | None, candidates: tuple[int, ...]) -> int | None:
    """Return on which of its candidate ports a process listens, `None` while on none."""
    if identity is None:
        return None
    listening = listening_ports(identity.pid)
    return next((port for port in candidates if port in listening), None)


def metrics_url(port: int) -> str:
    """Return where a reporter at this port answers."""
    return f"http://{LOOPBACK}:{port}/metrics"
