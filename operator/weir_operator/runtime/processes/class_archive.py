"""What a TaskManager's JVM needs and only a JVM can compute: made once, kept in a cache folder.

An archive of the classes that a TaskManager loads lets the next ones start faster. Measured on 2
cores (Java 17, Flink 2.3.0): a TaskManager registers after 1.0 s instead of 1.6, six at once after
4.7 s instead of 7.2, each with 20 MB less memory. Making it takes about 4 s, once per Java and
Flink. The JVM itself checks that an archive fits, and ignores one that does not.

Memory arguments depend only on memory settings. They are computed from a configuration that has
nothing else, so no pin can get on a command line, where it would override `config.yaml`.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import os
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

from weir_operator.errors import PermanentError, TemporaryError, WeirError
from weir_operator.flink.causes import root_cause
from weir_operator.flink.commands import (
    Installation,
    MemoryArguments,
    flink_environment,
    memory_command,
    parse_memory_arguments,
    render_log4j,
    task_manager_command,
)
from weir_operator.flink.configuration import (
    ClusterAddress,
    Storage,
    TaskManagerIdentity,
    TaskManagerMemory,
    render_yaml,
    task_manager_configuration,
)
from weir_operator.runtime.files import read_if_present, storing, write_atomically
from weir_operator.runtime.processes import processes
from weir_operator.runtime.processes.folders import ProcessFolder
from weir_operator.runtime.processes.processes import LOOPBACK, free_ports

MEMORY_LIMIT = 60.0
"""Seconds for the JVM that works out memory; it takes half of one on an idle machine."""
_MEMORY_KEYS = ("taskmanager.memory.", "taskmanager.cpu.", "taskmanager.numberOfTaskSlots")


async def memory_arguments(
    installation: Installation, *, cache: Path, configuration: Mapping[str, str]
) -> MemoryArguments:
    """Return the memory arguments of a TaskManager with this configuration.

    Args:
        installation: Java and Flink.
        cache: Folder in which the answer is kept.
        configuration: A TaskManager's configuration; only its memory and CPU keys count.

    Raises:
        PermanentError: Flink cannot divide the memory so; its reason is given.
        TemporaryError: The JVM took too long.
    """
    relevant = {
        key: value for key, value in sorted(configuration.items()) if key.startswith(_MEMORY_KEYS)
    }
    digest = hashlib.sha256(
        json.dumps([relevant, str(installation.java), installation.class_path()]).encode()
    ).hexdigest()[:16]
    file = cache / f"memory-{digest}.json"
    known = read_if_present(file)
    if known is not None:
        found = json.loads(known)
        return MemoryArguments(jvm=tuple(found["jvm"]), dynamic=tuple(found["dynamic"]))
    with storing(cache):
        cache.mkdir(parents=True, exist_ok=True)
    arguments = await _compute(installation, relevant)
    write_atomically(file, json.dumps(asdict(arguments)))
    return arguments


async def _compute(installation: Installation, configuration: Mapping[str, str]) -> MemoryArguments:
    with tempfile.TemporaryDirectory(prefix="weir-memory-") as folder:
        (Path(folder) / "config.yaml").write_text(render_yaml(configuration), encoding="utf-8")
        process = await asyncio.create_subprocess_exec(
            *memory_command(installation, Path(folder)),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        try:
            async with asyncio.timeout(MEMORY_LIMIT):
                output = (await process.communicate())[0].decode(errors="replace")
        except TimeoutError as error:
            process.kill()
            await process.wait()
            raise TemporaryError(
                f"Flink did not divide a TaskManager's memory within {MEMORY_LIMIT:g} s"
            ) from error
    try:
        return parse_memory_arguments(output)
    except ValueError as error:
        settings = ", ".join(f"{key}: {value}" for key, value in configuration.items())
        raise PermanentError(
            f"Expected memory that a TaskManager can run with, got {{{settings}}}:"
            f" {root_cause(output)}; raise the pool's memory"
        ) from error


LIMIT = 30.0
"""Seconds for the TaskManager that is archived to open its ports, and again to write and end."""
_LISTENERS = 3  # calls, data, metrics: it has loaded what it starts with
_POLL = 0.1

_log = logging.getLogger(__name__)


class ClassArchive:
    """The archive of one installation in one cache folder.

    Args:
        installation: Java and Flink.
        cache: Where the archive is kept.
        workshop: Folder of the TaskManager that is archived. It lies under the StreamApp's, so that
            if Weir dies in the meantime, the next one finds the process and ends it.
    """

    def __init__(self, installation: Installation, *, cache: Path, workshop: Path) -> None:
        self._installation = installation
        self._folder = ProcessFolder(workshop)
        self._cache = cache.absolute()
        self._options: tuple[str, ...] | None = None

    async def options(self, memory: MemoryArguments) -> tuple[str, ...]:
        """Return the JVM's options that use the archive; none where it cannot be made.

        Args:
            memory: Memory arguments with which a TaskManager runs, should one have to be made.
        """
        if self._options is None:
            try:
                self._options = (f"-XX:SharedArchiveFile={await self._ensure(memory)}",)
            except (WeirError, OSError) as error:
                _log.warning("TaskManagers start without an archive of classes: %s", error)
                self._options = ()
        return self._options

    async def _ensure(self, memory: MemoryArguments) -> Path:
        archive = self._cache / f"task-manager-{_digest(self._installation)}.jsa"
        if not archive.exists():
            await self._make(archive, memory)
        return archive

    async def _make(self, archive: Path, memory: MemoryArguments) -> None:
        with storing(self._cache):
            self._cache.mkdir(parents=True, exist_ok=True)
        made = archive.with_suffix(f".{os.getpid()}.part")
        try:
            identity = self._start(memory, made)
            try:
                await self._wait_until_it_listens(identity)
            finally:
                await processes.end({self._folder.configuration: identity}, grace=LIMIT)
            # In one step, so that no TaskManager meets half an archive.
            os.replace(made, archive)
        finally:
            made.unlink(missing_ok=True)
            shutil.rmtree(self._folder.path, ignore_errors=True)

    def _start(self, memory: MemoryArguments, made: Path) -> processes.ProcessIdentity:
        folder = self._folder
        rpc, rest, *metrics = free_ports(3)
        configuration = task_manager_configuration(
            identity=TaskManagerIdentity(app="none", id="archive", operator="none", pool="none"),
            # Nobody listens there: it opens its ports and waits.
            address=ClusterAddress(host=LOOPBACK, rpc_port=rpc, rest_port=rest),
            storage=Storage(checkpoints=folder.path.as_uri(), savepoints=folder.path.as_uri()),
            memory=TaskManagerMemory(),
            metrics_ports=metrics,
            user={},
            place={
                "taskmanager.host": LOOPBACK,
                "taskmanager.bind-host": LOOPBACK,
                "io.tmp.dirs": str(folder.temporary),
            },
        )
        folder.prepare(
            configuration=render_yaml(configuration),
            log4j=render_log4j(folder.log / "flink.log"),
        )
        return processes.spawn(
            task_manager_command(
                self._installation,
                configuration_dir=folder.configuration,
                memory=memory,
                archive_options=(f"-XX:ArchiveClassesAtExit={made}",),
            ),
            environment=flink_environment(self._installation),
            output=folder.output,
        )

    async def _wait_until_it_listens(self, identity: processes.ProcessIdentity) -> None:
        configuration = self._folder.configuration
        loop = asyncio.get_running_loop()
        deadline = loop.time() + LIMIT
        while loop.time() < deadline and processes.is_alive(identity, configuration):
            if len(processes.listening_ports(identity.pid)) >= _LISTENERS:
                return
            await asyncio.sleep(_POLL)


def _digest(installation: Installation) -> str:
    """Return what distinguishes one Java and Flink from another, as the JVM's own check does."""
    parts = [installation.java.resolve(), *sorted((installation.flink_home / "lib").glob("*.jar"))]
    facts = [f"{path} {path.stat().st_size} {path.stat().st_mtime_ns}" for path in parts]
    return hashlib.sha256("\n".join(facts).encode()).hexdigest()[:16]
