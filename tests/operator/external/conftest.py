"""Flink clusters as people have them: a real one, started without Weir, and recorded answers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import pytest_asyncio
from aiohttp import web
from aiohttp.test_utils import TestServer

from weir_operator.clock import SystemClock, wait_until
from weir_operator.errors import WeirError
from weir_operator.flink import commands
from weir_operator.flink.commands import Installation
from weir_operator.flink.configuration import render_yaml
from weir_operator.flink.jars import build_jar, find_java, flink_home
from weir_operator.flink.memory import split_memory
from weir_operator.flink.rest import FlinkRest
from weir_operator.runtime.local import processes
from weir_operator.runtime.local.processes import LOOPBACK, ProcessIdentity, free_ports

JOB = "5" * 32
RECORDED = Path(__file__).parent / "recorded"
_MEMORY = {
    "taskmanager.memory.process.size": "1g",
    "taskmanager.memory.managed.size": "0m",
}


class RecordedFlink:
    """A JobManager that answers as one of Flink 2.3 did; a test may change what it says."""

    def __init__(self) -> None:
        self.port = 0
        self.answers = {"/jobs/overview": "jobs", "/taskmanagers": "taskmanagers"}
        self.answers[f"/jobs/{JOB}"] = "job"
        for vertex, name in (
            ("bc764cd8ddf7a0cff126f51c16239658", "source"),
            ("0a448493b4782967b150582570326227", "score"),
            ("ea632d67b7d595e5b851708ae9ad79d6", "sink"),
        ):
            self.answers[f"/jobs/{JOB}/vertices/{vertex}"] = f"vertex-{name}"
        self.replacing: dict[str, str] = {}
        self.asked: list[str] = []

    def bring_out(self, changes: Mapping[str, str]) -> None:
        """Answer with other words from now on, as of a job that was brought out again."""
        self.replacing = {**changes, '"last-modification":': '"last-modification":1'}

    async def answer(self, request: web.Request) -> web.Response:
        self.asked.append(request.method)
        if request.path.endswith("/metrics"):
            return web.json_response([])
        text = (RECORDED / f"{self.answers[request.path]}.json").read_text()
        for old, new in self.replacing.items():
            text = text.replace(old, new)
        return web.Response(text=text, content_type="application/json")


@pytest_asyncio.fixture
async def flink() -> AsyncIterator[RecordedFlink]:
    """A JobManager that only answers."""
    recorded = RecordedFlink()
    server = web.Application()
    server.router.add_route("*", "/{path:.*}", recorded.answer)
    async with TestServer(server, host="127.0.0.1") as started:
        recorded.port = started.port or 0
        yield recorded


@dataclass
class StockFlink:
    """A standalone session cluster of one TaskManager with two slots, nothing of Weir in it."""

    folder: Path
    rest_port: int
    rpc_port: int
    installation: Installation
    more: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Further configuration, by the name of the process."""
    started: dict[Path, ProcessIdentity] = field(default_factory=dict)

    @property
    def url(self) -> str:
        return f"http://{LOOPBACK}:{self.rest_port}"

    def alive(self) -> set[int]:
        return {
            identity.pid
            for place, identity in self.started.items()
            if processes.is_alive(identity, place)
        }

    async def run(self, jar: Path) -> None:
        """Start the cluster and its job, and wait until every task runs."""
        self._start_job_manager()
        self._start_task_manager("tm-a")
        async with FlinkRest(self.url) as rest:

            async def registered() -> bool | None:
                try:
                    return bool(await rest.task_managers()) or None
                except WeirError:  # it has not elected itself yet
                    return None

            async def running() -> bool | None:
                job = await rest.job(JOB)
                return (job is not None and job.runs) or None

            clock = SystemClock()
            assert await wait_until(registered, clock=clock, timeout=150)
            await rest.run_jar(await rest.upload_jar(str(jar)), job_id=JOB, parallelism=2)
            assert await wait_until(running, clock=clock, timeout=90)

    async def end(self) -> None:
        await processes.end(self.started, grace=5.0)

    def _start_job_manager(self) -> None:
        place = self._prepare(
            "jobmanager",
            {"web.upload.dir": str(self.folder), "metrics.fetcher.update-interval": "1000"},
        )
        command = commands.job_manager_command(
            self.installation, configuration_dir=place, memory=("-Xmx160m",)
        )
        self._spawn(place, command)

    def _start_task_manager(self, name: str) -> None:
        place = self._prepare(
            name,
            {
                "taskmanager.numberOfTaskSlots": "2",
                **_MEMORY,
                "taskmanager.host": LOOPBACK,
                "taskmanager.bind-host": LOOPBACK,
                "taskmanager.resource-id": name,
            },
        )
        # What Flink's own scripts would work out.
        settings = {**split_memory(_MEMORY).settings, "taskmanager.cpu.cores": "2.0"}
        dynamic = [word for pair in settings.items() for word in ("-D", "=".join(pair))]
        memory = commands.MemoryArguments(
            jvm=("-Xmx200m", "-Xms64m", "-XX:MaxDirectMemorySize=192m"), dynamic=tuple(dynamic)
        )
        command = commands.task_manager_command(
            self.installation, configuration_dir=place, memory=memory
        )
        self._spawn(place, command)

    def _prepare(self, name: str, more: Mapping[str, str]) -> Path:
        place = self.folder / name
        place.mkdir()
        configuration = {
            "jobmanager.rpc.address": LOOPBACK,
            "jobmanager.rpc.port": str(self.rpc_port),
            "jobmanager.bind-host": LOOPBACK,
            "rest.address": LOOPBACK,
            "rest.bind-address": LOOPBACK,
            "rest.port": str(self.rest_port),
            "io.tmp.dirs": str(self.folder),
            "cluster.registration.error-delay": "500 ms",
            "metrics.latency.interval": "200",
            **more,
            **self.more.get(name, {}),
        }
        (place / "config.yaml").write_text(render_yaml(configuration))
        (place / "log4j.properties").write_text(commands.render_log4j(place / "flink.log"))
        return place

    def _spawn(self, place: Path, command: tuple[str, ...]) -> None:
        self.started[place] = processes.spawn(
            command,
            environment=commands.flink_environment(self.installation),
            output=place / "output",
        )


@pytest.fixture
def stock_flink(tmp_path: Path) -> Iterator[StockFlink]:
    """A stock cluster with a stock job."""
    jar = build_jar(
        [Path(__file__).with_name("StockJob.java")],
        tmp_path / "jar/stock.jar",
        entry_class="StockJob",
    )
    rest, rpc = free_ports(2)
    flink = StockFlink(
        folder=tmp_path,
        rest_port=rest,
        rpc_port=rpc,
        installation=Installation(java=Path(find_java()), flink_home=Path(flink_home())),
    )
    try:
        asyncio.run(flink.run(jar))
        yield flink
    finally:
        asyncio.run(flink.end())
