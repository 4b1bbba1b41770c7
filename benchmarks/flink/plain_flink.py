"""A standalone Flink as its users start it, with nothing of Weir in it.

Flink's Python distribution has no shell scripts. What they would do is done here: class path, log
file, the modules that Flink's own configuration file opens, the options about memory that Flink's
tool works out, and the user's `env.java.opts`. Without these, compilers, collector and their
threads are the JVM's own choice.
"""

from __future__ import annotations

import asyncio
import shlex
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self

from weir_operator.clock import SystemClock, wait_until
from weir_operator.errors import TemporaryError
from weir_operator.flink.commands import (
    JOB_MANAGER_CLASS,
    TASK_MANAGER_CLASS,
    Installation,
    flink_environment,
    java_options,
    job_manager_options,
    render_log4j,
)
from weir_operator.flink.configuration import render_yaml
from weir_operator.flink.jars import find_java, flink_home
from weir_operator.flink.memory import split_job_manager
from weir_operator.flink.rest import FlinkRest
from weir_operator.runtime.processes import processes
from weir_operator.runtime.processes.processes import LOOPBACK, ProcessIdentity, free_ports

JOB_MANAGER, TASK_MANAGER = "jobmanager", "taskmanager"
JOB_MANAGER_MEMORY = 1600
"""MiB of the process, as in Flink's own configuration file."""
LIMIT = 150.0
"""Seconds for the TaskManagers to register."""


@dataclass(kw_only=True)
class PlainFlink:
    """A session cluster; an async context manager that starts and ends its processes."""

    folder: Path
    """An absolute path; the processes' configuration and logs go there."""
    memory: int
    """MiB of a TaskManager's process."""
    job_manager_memory: int = JOB_MANAGER_MEMORY
    """MiB of the JobManager's process."""
    count: int = 1
    """How many TaskManagers there are."""
    slots: int = 1
    """Of each of them."""
    user: Mapping[str, str] = field(default_factory=dict)
    """The user's keys for all processes."""
    more: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Further keys for the `JOB_MANAGER`, for every `TASK_MANAGER`, or for one by its name."""
    home: Path = field(default_factory=flink_home)
    """The Flink to run."""
    ports: Sequence[int] = field(default_factory=lambda: free_ports(2))
    """Of REST and of the JobManager's RPC."""
    started: dict[Path, ProcessIdentity] = field(default_factory=dict)

    @property
    def url(self) -> str:
        return f"http://{LOOPBACK}:{self.ports[0]}"

    def task_managers(self) -> Mapping[str, ProcessIdentity]:
        """Return the processes of the TaskManagers, by the names of their folders."""
        return {
            place.name: identity
            for place, identity in self.started.items()
            if place.name != JOB_MANAGER
        }

    def alive(self) -> set[int]:
        """Return the ids of the processes that live."""
        return {
            identity.pid
            for place, identity in self.started.items()
            if processes.is_alive(identity, place)
        }

    async def __aenter__(self) -> Self:
        """Start all processes, and wait until every TaskManager has registered."""
        try:
            await self._start_all()
        except BaseException:
            await processes.end(self.started, grace=5.0)
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await processes.end(self.started, grace=5.0)

    async def _start_all(self) -> None:
        installation = Installation(java=Path(find_java()), flink_home=self.home)
        first, *others = self._names()
        job_manager, place = self._prepare(JOB_MANAGER, JOB_MANAGER), self._prepare(first)
        memory, dynamic = await asyncio.to_thread(_divide_memory, installation, place)
        heap = split_job_manager({}, process=self.job_manager_memory).jvm
        self._start(
            installation, job_manager, (*heap, JOB_MANAGER_CLASS), ("--executionMode", "cluster")
        )
        for task_manager in (place, *map(self._prepare, others)):
            self._start(installation, task_manager, (*memory, TASK_MANAGER_CLASS), dynamic)
        async with FlinkRest(self.url) as client:

            async def is_registered() -> bool | None:
                try:
                    return len(await client.task_managers()) >= self.count or None
                except TemporaryError:
                    return None  # it has not elected itself yet

            if not await wait_until(is_registered, clock=SystemClock(), timeout=LIMIT):
                raise TemporaryError(
                    f"Expected TaskManagers ({self.count}) to register within {LIMIT:g} s, got "
                    f"fewer: see the logs in {self.folder}"
                )

    def _names(self) -> Sequence[str]:
        return [TASK_MANAGER, *(f"{TASK_MANAGER}-{number}" for number in range(2, self.count + 1))]

    def _prepare(self, name: str, role: str = TASK_MANAGER) -> Path:
        place = self.folder / name
        place.mkdir(parents=True)
        rest, rpc = self.ports
        configuration = {
            "jobmanager.rpc.address": LOOPBACK,
            "jobmanager.rpc.port": str(rpc),
            "jobmanager.bind-host": LOOPBACK,
            "jobmanager.execution.failover-strategy": "region",
            "rest.address": LOOPBACK,
            "rest.bind-address": LOOPBACK,
            "rest.port": str(rest),
            "taskmanager.host": LOOPBACK,
            "taskmanager.bind-host": LOOPBACK,
            "taskmanager.numberOfTaskSlots": str(self.slots),
            "taskmanager.memory.process.size": f"{self.memory}m",
            "parallelism.default": "1",
            "io.tmp.dirs": str(self.folder),
            "web.upload.dir": str(self.folder),
            **self.user,
            **self.more.get(role, {}),
            **self.more.get(name, {}),
        }
        (place / "config.yaml").write_text(render_yaml(configuration))
        (place / "log4j.properties").write_text(render_log4j(place / "flink.log"))
        return place

    def _start(
        self,
        installation: Installation,
        place: Path,
        options: Sequence[str],
        arguments: Sequence[str],
    ) -> None:
        *memory, main = options
        modules = [each for each in job_manager_options(()) if each.startswith("--add-")]
        role = JOB_MANAGER if place.name == JOB_MANAGER else TASK_MANAGER
        self.started[place] = processes.spawn(
            [
                *(str(installation.java), *memory, *modules),
                *java_options(self.user, role),
                f"-Dlog4j.configurationFile={place / 'log4j.properties'}",
                *("-cp", installation.class_path(), main, "--configDir", str(place), *arguments),
            ],
            environment=flink_environment(installation),
            output=place / "output.txt",
        )


def _divide_memory(installation: Installation, place: Path) -> tuple[list[str], list[str]]:
    """Return a TaskManager's options of the JVM and of Flink, by the tool of Flink's scripts."""
    tools = installation.flink_home / "bin" / "bash-java-utils.jar"
    answer = subprocess.run(
        [
            *(str(installation.java), "-cp", f"{tools}:{installation.class_path()}"),
            *("org.apache.flink.runtime.util.bash.BashJavaUtils", "GET_TM_RESOURCE_PARAMS"),
            *("--configDir", str(place)),
        ],
        capture_output=True,
        text=True,
        check=True,
    )
    mark = "BASH_JAVA_UTILS_EXEC_RESULT:"
    memory, dynamic = (
        shlex.split(line.removeprefix(mark))
        for line in answer.stdout.splitlines()
        if line.startswith(mark)
    )
    return memory, dynamic
