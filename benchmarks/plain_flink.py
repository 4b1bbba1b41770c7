"""A standalone Flink of one TaskManager as its users start it, with nothing of Weir in it.

Flink's Python distribution has no shell scripts. What they would do is done here: class path, log
file, the modules that Flink's own configuration file opens, and the options about memory that
Flink's tool works out. Compilers, collector and their threads are the JVM's own choice.
"""

from __future__ import annotations

import subprocess
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from weir_operator.clock import SystemClock, wait_until
from weir_operator.errors import TemporaryError
from weir_operator.flink.commands import (
    JOB_MANAGER_CLASS,
    TASK_MANAGER_CLASS,
    Installation,
    flink_environment,
    job_manager_options,
    memory_command,
    parse_memory_arguments,
    render_log4j,
)
from weir_operator.flink.configuration import render_yaml
from weir_operator.flink.jars import find_java, flink_home
from weir_operator.flink.memory import split_job_manager
from weir_operator.flink.rest import FlinkRest
from weir_operator.runtime.local import processes
from weir_operator.runtime.local.processes import LOOPBACK, free_ports

JOB_MANAGER_MEMORY = 1600
"""MiB of the process, as in Flink's own configuration file."""
LIMIT = 120.0
"""Seconds for the TaskManager to register."""


@asynccontextmanager
async def run_plain_flink(
    folder: Path, *, memory: int, user: Mapping[str, str]
) -> AsyncIterator[FlinkRest]:
    """Run one TaskManager of one slot until the block is left; give its JobManager's client.

    Args:
        folder: An absolute path; the processes' configuration and logs go there.
        memory: MiB of the TaskManager's process.
        user: The user's keys for Flink.

    Raises:
        TemporaryError: No TaskManager registers.
    """
    installation = Installation(java=find_java(), flink_home=flink_home())
    rest, rpc = free_ports(2)
    shared = {
        "jobmanager.rpc.address": LOOPBACK,
        "jobmanager.rpc.port": str(rpc),
        "jobmanager.bind-host": LOOPBACK,
        "jobmanager.execution.failover-strategy": "region",
        "rest.address": LOOPBACK,
        "rest.bind-address": LOOPBACK,
        "rest.port": str(rest),
        "taskmanager.host": LOOPBACK,
        "taskmanager.bind-host": LOOPBACK,
        "taskmanager.numberOfTaskSlots": "1",
        "taskmanager.memory.process.size": f"{memory}m",
        "parallelism.default": "1",
        "io.tmp.dirs": str(folder),
        "web.upload.dir": str(folder),
        **user,
    }
    places = {name: _prepare(folder / name, shared) for name in ("jobmanager", "taskmanager")}
    tool = subprocess.run(
        memory_command(installation, places["taskmanager"]),
        capture_output=True,
        text=True,
        check=True,
    )
    split = parse_memory_arguments(tool.stdout)
    heap = split_job_manager({}, process=JOB_MANAGER_MEMORY).jvm
    started = {}
    try:
        for name, options, arguments_of in (
            ("jobmanager", (*heap, JOB_MANAGER_CLASS), ("--executionMode", "cluster")),
            ("taskmanager", (*split.jvm, TASK_MANAGER_CLASS), split.dynamic),
        ):
            started[places[name]] = _start(installation, places[name], options, arguments_of)
        async with FlinkRest(f"http://{LOOPBACK}:{rest}") as client:

            async def is_registered() -> bool | None:
                try:
                    return bool(await client.task_managers()) or None
                except TemporaryError:
                    return None  # it has not elected itself yet

            if not await wait_until(is_registered, clock=SystemClock(), timeout=LIMIT):
                raise TemporaryError(f"No TaskManager registered within {LIMIT:g} s; see {folder}")
            yield client
    finally:
        await processes.end(started, grace=5.0)


def _prepare(place: Path, configuration: Mapping[str, str]) -> Path:
    place.mkdir(parents=True)
    (place / "config.yaml").write_text(render_yaml(configuration))
    (place / "log4j.properties").write_text(render_log4j(place / "flink.log"))
    return place


def _start(
    installation: Installation, place: Path, options: Sequence[str], arguments: Sequence[str]
) -> processes.ProcessIdentity:
    *memory, main = options
    modules = [each for each in job_manager_options(()) if each.startswith("--add-")]
    return processes.spawn(
        [
            *(str(installation.java), *memory, *modules),
            f"-Dlog4j.configurationFile={place / 'log4j.properties'}",
            *("-cp", installation.class_path(), main, "--configDir", str(place), *arguments),
        ],
        environment=flink_environment(installation),
        output=place / "output.txt",
    )
