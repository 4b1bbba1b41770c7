"""A job that knows nothing of Weir: pinned by the agent, and rescaled by Weir's engine by hand.

What benchmarks and tests of such jobs share. Nothing decides here: they ask for a deployment and
look at what it took.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from benchmarks.flink.steered_job import SteeredJob
from weir_operator.flink.agent import PINNED, build_agent
from weir_operator.flink.commands import Installation
from weir_operator.flink.jars import find_java, flink_home
from weir_operator.flink.job_graph import Plan
from weir_operator.flink.programs import Program, read_plan
from weir_operator.rescale.flink import FlinkJobs
from weir_operator.rescale.journal import RescaleJournal
from weir_operator.rescale.settings import JobSpec, RescaleSettings
from weir_operator.rescale.status import FileStatusStore
from weir_operator.runtime.processes.runtime import LocalRuntime
from weir_operator.runtime.protocol import Deployments
from weir_operator.runtime.settings import LocalSettings
from weir_operator.streamapp.operators import WHOLE_JOB

NODE_TYPE = "any/1"
MAX_PARALLELISM = 128
LIMIT = 240.0
"""Seconds for processes to start and for tasks to run: the machine may be busy with other work."""


@dataclass(frozen=True, kw_only=True)
class Unmodified:
    """A job as its author made it."""

    name: str
    jar: Path
    folder: Path
    """Everything of the run goes there."""
    arguments: Sequence[str] = ()
    entry_class: str | None = None
    config: Mapping[str, str] = field(default_factory=dict)
    """Flink's configuration beside Weir's."""
    memory: int = 1024
    """MiB of a TaskManager."""
    home: Path = field(default_factory=flink_home)
    """The Flink to run on."""
    agent: Path | None = field(default_factory=build_agent)
    """`None` runs the job without: it is one operator."""
    rescale: RescaleSettings = field(
        default_factory=lambda: RescaleSettings(
            start_deadline=LIMIT, submit_deadline=LIMIT, flow_deadline=LIMIT
        )
    )


class UnmodifiedJob(SteeredJob[LocalRuntime]):
    """One controller's hold on such a job; an async context manager that ends every process."""

    runtime: LocalRuntime

    def __init__(self, job: Unmodified) -> None:
        super().__init__(job.folder, FileStatusStore(job.folder / "status.json"))
        self.job = job
        self.joined: dict[str, tuple[str, ...]] = {}

    async def __aenter__(self) -> Self:
        """Open the runtime with a JobManager that knows the job's jar."""
        job = self.job
        self.runtime = await LocalRuntime.open(
            LocalSettings(
                root=job.folder / "state",
                namespace="default",
                name=job.name,
                installation=Installation(java=Path(find_java()), flink_home=job.home),
                job_jar=job.jar,
                cache=job.folder.parent / "cache",
                speeds={NODE_TYPE: 1.0},
                pool_memory={"any": job.memory},
                max_parallelism=MAX_PARALLELISM,
                agent=job.agent,
                config=job.config,
                start_limit=LIMIT,
            )
        )
        self.jobs = FlinkJobs(self.runtime)
        try:
            await self.runtime.ensure_job_manager()
            self.plan = await self._read_plan()
        except BaseException:
            await self.__aexit__(None, None, None)
            raise
        return self

    @property
    def operators(self) -> tuple[str, ...]:
        """The operators that the agent makes of the job, joined as asked; without one, the job."""
        return tuple(self.joined) or self.plan.operators or (WHOLE_JOB,)

    def limit_of(self, operator: str) -> int:
        """Return the most replicas that an operator can have."""
        return self.plan.limit_of(self.joined.get(operator, (operator,)))

    def join(self, vertices: Mapping[str, Sequence[str]]) -> None:
        """Make these operators of the vertices, named as the agent names them, before the start."""
        self.joined = {name: tuple(parts) for name, parts in vertices.items()}

    async def start(self, sizes: Mapping[str, int]) -> None:
        """Start the job at so many replicas of each operator, and wait until records pass it."""
        job = self.job
        self.lifecycle = self._steer(
            self.runtime,
            spec=JobSpec(
                entry_class=job.entry_class,
                arguments=tuple(job.arguments),
                parallelism_arguments={name: f"--{name}" for name in self.operators},
                max_parallelism=MAX_PARALLELISM,
                vertices=self.joined,
                whole_job=None if self.plan.operators else WHOLE_JOB,
            ),
            settings=job.rescale,
            initial=deployments(sizes),
        )
        await self.lifecycle.bring_up()

    async def rescale(self, sizes: Mapping[str, int]) -> RescaleJournal:
        """Take the job to so many replicas of each operator."""
        return await self.lifecycle.change(deployments(sizes), "asked for by hand")

    async def _read_plan(self) -> Plan:
        program = Program(
            entry_class=self.job.entry_class,
            arguments=tuple(self.job.arguments),
            configuration=PINNED,
        )
        return await read_plan(await self.jobs.rest(), await self.runtime.provide_jar(), program)


def deployments(sizes: Mapping[str, int]) -> Deployments:
    return {name: {NODE_TYPE: size} for name, size in sizes.items()}
