"""Whether Prometheus and Thanos give the samples that were scraped, and in how many pieces.

A day of three replicas of twenty operators, with a counter each, is written into blocks of a
Prometheus. Two servers have it: that Prometheus, which grants a query 20,000 samples, and Thanos
before it (a sidecar with the same limit, and a querier that wants a tenant). The export asks each
for the day, in its usual pieces and in long ones, which the limit makes it halve.

Needs `prometheus` and `promtool`, and Thanos where `WEIR_THANOS` names its program, built from its
Go module (`go build ./cmd/thanos`). Without it, Prometheus alone is asked.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import requests
import yaml

from benchmarks.figures import Figure, at_most
from benchmarks.registry import BenchmarkError
from weir_pipelines.export import PIECE
from weir_pipelines.ingest import begin_of, day_of
from weir_pipelines.metrics import METRICS, RECORDS_IN
from weir_pipelines.prometheus import PrometheusHistory, PrometheusSettings

ABOUT = "a day's samples from a real Prometheus and a real Thanos, with limits and a tenant"
DURATION = "2 min"

APP = "shop/trips"
DATE = day_of(1_772_409_600_000)
BEGIN = begin_of(DATE)
DAY = 86_400
EVERY = 15
OPERATORS, REPLICAS = 20, 3
LIMIT = 20_000
"""Samples of a query; a piece of a quarter of an hour has 3,600 and one of three hours 43,200."""
LONG = 3 * 3600.0
"""Seconds of a piece that exceeds it."""
TENANT = "team-a"
PATIENCE = 60.0
"""Seconds within which a server answers; the limit only ends a run that fails."""
WEB = "http://127.0.0.1"


def run() -> list[Figure]:
    """Start the servers and export from each."""
    folder = Path(tempfile.mkdtemp(prefix="weir-sources-"))
    try:
        write_blocks(folder)
        with ExitStack() as stack:
            sources = {
                "Prometheus": PrometheusSettings(
                    url=stack.enter_context(running_prometheus(folder))
                )
            }
            thanos = os.environ.get("WEIR_THANOS")
            if thanos:
                url = stack.enter_context(_thanos(folder, thanos, sources["Prometheus"].url))
                sources["Thanos"] = PrometheusSettings(url=url, headers={"THANOS-TENANT": TENANT})
            return [
                figure
                for name, settings in sources.items()
                for piece in (PIECE, LONG)
                for figure in _export(name, settings, piece)
            ]
    finally:
        shutil.rmtree(folder)


def write_blocks(folder: Path) -> None:
    """Write the day as a Prometheus' blocks, by way of text."""
    lines = [f"# TYPE {METRICS[RECORDS_IN]} gauge"]
    for operator in range(OPERATORS):
        for replica in range(REPLICAS):
            labels = f'weir_app="{APP}",weir_operator="o{operator}",tm_id="{replica}"'
            series = f"{METRICS[RECORDS_IN]}{{{labels}}}"
            lines += [
                f"{series} {_count(operator, replica, time)} {BEGIN + time}"
                for time in range(0, DAY, EVERY)
            ]
    (folder / "samples.txt").write_text("\n".join([*lines, "# EOF", ""]))
    command = ["promtool", "tsdb", "create-blocks-from", "openmetrics", "samples.txt", "tsdb"]
    subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL)


def _count(operator: int, replica: int, time: int) -> int:
    return (REPLICAS * operator + replica + 1) * time


@contextmanager
def _running(log: Path, command: Sequence[str], is_ready: Callable[[], bool]) -> Iterator[None]:
    with log.open("w") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output)
    try:
        deadline = time.monotonic() + PATIENCE
        while not is_ready():
            if process.poll() is not None or time.monotonic() > deadline:
                raise BenchmarkError(f"{command[0]} did not start: {log.read_text()[-2000:]}")
            time.sleep(0.1)
        yield
    finally:
        process.terminate()
        process.wait(timeout=60)


def _is_ready(url: str) -> bool:
    try:
        return requests.get(f"{url}/-/ready", timeout=5).ok
    except requests.RequestException:
        return False


def _has_stores(url: str) -> bool:
    """Tell whether a querier has found the sidecar."""
    if not _is_ready(url):
        return False
    return bool(requests.get(f"{url}/api/v1/stores", timeout=5).json()["data"].get("sidecar"))


@contextmanager
def running_prometheus(folder: Path) -> Iterator[str]:
    """Run the Prometheus that has these blocks; yield its address."""
    config = {"global": {"external_labels": {"tenant_id": TENANT}}}
    (folder / "prometheus.yml").write_text(yaml.safe_dump(config))
    [port] = _free_ports(1)
    command = [
        "prometheus",
        f"--config.file={folder / 'prometheus.yml'}",
        f"--storage.tsdb.path={folder / 'tsdb'}",
        "--storage.tsdb.retention.time=100y",
        f"--query.max-samples={LIMIT}",
        f"--web.listen-address=127.0.0.1:{port}",
    ]
    url = f"{WEB}:{port}"
    with _running(folder / "prometheus.log", command, lambda: _is_ready(url)):
        yield url


@contextmanager
def _thanos(folder: Path, program: str, prometheus: str) -> Iterator[str]:
    """Run a sidecar and a querier; yield the querier's address."""
    web, grpc, query, query_grpc = _free_ports(4)
    sidecar = [
        *(program, "sidecar", f"--prometheus.url={prometheus}", f"--tsdb.path={folder / 'tsdb'}"),
        *(f"--http-address=127.0.0.1:{web}", f"--grpc-address=127.0.0.1:{grpc}"),
        f"--store.limits.request-samples={LIMIT}",
    ]
    querier = [
        *(program, "query", f"--endpoint=127.0.0.1:{grpc}", "--query.enforce-tenancy"),
        *(f"--http-address=127.0.0.1:{query}", f"--grpc-address=127.0.0.1:{query_grpc}"),
    ]
    url = f"{WEB}:{query}"
    with (
        _running(folder / "sidecar.log", sidecar, lambda: _is_ready(f"{WEB}:{web}")),
        _running(folder / "querier.log", querier, lambda: _has_stores(url)),
    ):
        yield url


def _free_ports(count: int) -> list[int]:
    with ExitStack() as stack:
        listeners = [
            stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)
        ]
        return [each.getsockname()[1] for each in listeners]


def _export(name: str, settings: PrometheusSettings, piece: float) -> Iterator[Figure]:
    """Ask for the day in pieces, and compare each sample with what was written."""
    pauses: list[float] = []
    history = PrometheusHistory(settings, sleep=pauses.append)
    wrong = doubled = 0
    seen: set[tuple[int, int, int]] = set()
    began = time.monotonic()
    low = BEGIN
    while low < BEGIN + DAY:
        for each in history.samples(APP, low, low + piece):
            operator = int(each.labels["weir_operator"].removeprefix("o"))
            replica = int(each.labels["tm_id"])
            for time_ms, value in zip(each.times_ms, each.values, strict=True):
                sample = operator, replica, time_ms
                doubled += sample in seen
                seen.add(sample)
                wrong += value != _count(operator, replica, round(time_ms / 1000 - BEGIN))
        low += piece
    seconds = time.monotonic() - began
    missing = OPERATORS * REPLICAS * (DAY // EVERY) - len(seen)
    about = f"{name}, pieces of {piece / 60:g} min"
    yield at_most(figure=f"{about}: samples missing", value=missing, unit="", limit=0)
    yield at_most(figure=f"{about}: samples doubled", value=doubled, unit="", limit=0)
    yield at_most(figure=f"{about}: samples changed", value=wrong, unit="", limit=0)
    # Each answer is followed by a pause.
    yield Figure(figure=f"{about}: answers", value=len(pauses), unit="")
    yield Figure(figure=f"{about}: time", value=seconds, unit="s")
