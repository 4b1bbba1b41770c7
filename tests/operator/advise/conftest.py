"""Flink clusters as people have them: a real one, started without Weir, and recorded answers."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import pytest_asyncio
from aiohttp import web
from aiohttp.test_utils import TestServer

from benchmarks.flink.plain_flink import PlainFlink
from weir_operator.clock import SystemClock, wait_until
from weir_operator.flink.jars import build_jar
from weir_operator.flink.rest import FlinkRest

JOB = "5" * 32
RECORDED = Path(__file__).parent / "recorded"
STOCK_JOB = Path(__file__).with_name("StockJob.java")


class RecordedFlink:
    """A JobManager that answers as one of Flink 2.3 did; a test may change what it says."""

    def __init__(self) -> None:
        self.port = 0
        self.failures: Callable[[], list[Mapping[str, object]]] = list
        self.answers = {"/jobs/overview": "jobs", "/taskmanagers": "taskmanagers"}
        self.answers[f"/jobs/{JOB}"] = "job"
        for vertex, name in (
            ("bc764cd8ddf7a0cff126f51c16239658", "source"),
            ("0a448493b4782967b150582570326227", "score"),
            ("ea632d67b7d595e5b851708ae9ad79d6", "sink"),
        ):
            self.answers[f"/jobs/{JOB}/vertices/{vertex}"] = f"vertex-{name}"
        self.given: dict[str, object] = {}
        """Answers that a test has set, by path."""
        self.replacing: dict[str, str] = {}
        self.asked: list[str] = []

    def bring_out(self, changes: Mapping[str, str]) -> None:
        """Answer with other words from now on, as of a job that was brought out again."""
        self.replacing = {**changes, '"last-modification":': '"last-modification":1'}

    async def answer(self, request: web.Request) -> web.Response:
        self.asked.append(request.method)
        if request.path in self.given:
            return web.json_response(self.given[request.path])
        if request.path.endswith("/metrics"):
            return web.json_response([])
        if request.path.endswith("/exceptions"):
            return web.json_response({"exceptionHistory": {"entries": self.failures()}})
        text = (RECORDED / f"{self.answers[request.path]}.json").read_text()
        for old, new in self.replacing.items():
            text = text.replace(old, new)
        return web.Response(text=text, content_type="application/json")


@asynccontextmanager
async def recorded_flink() -> AsyncIterator[RecordedFlink]:
    """Run a JobManager that only answers."""
    recorded = RecordedFlink()
    server = web.Application()
    server.router.add_route("*", "/{path:.*}", recorded.answer)
    async with TestServer(server, host="127.0.0.1") as started:
        recorded.port = started.port or 0
        yield recorded


@pytest_asyncio.fixture
async def flink() -> AsyncIterator[RecordedFlink]:
    """A JobManager that only answers."""
    async with recorded_flink() as recorded:
        yield recorded


def a_stock_flink(
    folder: Path, *, more: Mapping[str, Mapping[str, str]] | None = None
) -> PlainFlink:
    """Return a cluster of one TaskManager with two slots; `more` is for one process each."""
    return PlainFlink(
        folder=folder,
        memory=1024,
        slots=2,
        user={
            "taskmanager.memory.managed.size": "0m",
            "taskmanager.cpu.cores": "2.0",
            "cluster.registration.error-delay": "500 ms",
            "metrics.latency.interval": "200",
            "metrics.fetcher.update-interval": "1000",
        },
        more=more or {},
    )


async def run_stock_job(flink: PlainFlink, folder: Path) -> None:
    """Build the job in a folder, submit it, and wait until every task runs."""
    jar = build_jar([STOCK_JOB], folder / "stock.jar", entry_class="StockJob")
    async with FlinkRest(flink.url) as rest:
        await rest.run_jar(await rest.upload_jar(str(jar)), job_id=JOB, parallelism=2)

        async def running() -> bool | None:
            job = await rest.job(JOB)
            return (job is not None and job.runs) or None

        assert await wait_until(running, clock=SystemClock(), timeout=90)


@pytest.fixture
async def stock_flink(tmp_path: Path) -> AsyncIterator[PlainFlink]:
    """A stock cluster with a stock job."""
    async with a_stock_flink(tmp_path) as flink:
        await run_stock_job(flink, tmp_path / "jar")
        yield flink
