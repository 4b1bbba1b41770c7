"""A known trace through real Flink and real Prometheus, exported and rebuilt.

The example job trips replays a trace; two Prometheus servers scrape its TaskManagers, every 5 s and
every 15 s. What they hold is exported and rebuilt, and each complete minute's rate is held against
how many records were due in it, by the job's own ledger of event times. In the middle the job is
rescaled.

What no rebuilding can know is when, between the two scrapes around a minute's end, records came. Of
a Poisson stream of rate r scraped every d seconds that leaves a standard deviation of
sqrt(r d / 3) records a minute on average: 0.5 % at 20 records/s and 5 s.
"""

from __future__ import annotations

import asyncio
import shutil
import statistics
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import SimpleNamespace

from benchmarks.figures import Figure, at_most
from benchmarks.flink.ledger import read_arrivals
from benchmarks.flink.trips_cluster import Trips, TripsCluster, deployments
from tests.dashboards.prometheus_server import running_scraper
from tests.pipelines.known_history import KnownHistory, work_out_history
from weir_operator.metrics.prometheus_server import keep_targets
from weir_pipelines.arrivals import rebuild_arrivals
from weir_pipelines.ingest import DayImport
from weir_pipelines.prometheus import PrometheusHistory, PrometheusSettings
from weir_pipelines.schemas import SAMPLES, SERIES, SampleRow
from weir_pipelines.settings import WHOLE
from weir_pipelines.store import Tables

ABOUT = "a known trace through Flink and Prometheus, exported and rebuilt"
DURATION = "12 min"

RATES = (22.0, 40.0, 80.0, 120.0, 60.0, 30.0)
"""Records/s, two minutes each; the first two minutes are the job's start."""
MINUTES = 9.5
"""How long the job runs, its change in the middle included."""
RESCALED_AFTER = 4.5
SCRAPES = (5, 15)
SOURCE = "source"
APP = "default/roundtrip"
ARGUMENTS = ("--service.match-ms", "3", "--service.aggregate-ms", "2")
MIN_RATE = 20.0
"""Records/s from which on a minute is judged."""


def run() -> list[Figure]:
    """Run the job, export, rebuild and compare."""
    folder = Path(tempfile.mkdtemp(prefix="weir-roundtrip-"))
    try:
        job = Trips(
            name="roundtrip",
            rates=[rate for rate in RATES for _ in range(24)],
            initial=deployments({"small/500m": 2}, {"small/500m": 1}),
            arguments=ARGUMENTS,
            root=folder,
        )
        with ExitStack() as stack:
            urls = {every: stack.enter_context(_prometheus(folder, every)) for every in SCRAPES}
            began, ended = asyncio.run(_replay(job, folder))
            stores = {every: _export(folder, urls[every], every, began, ended) for every in SCRAPES}
        truth = _due(job.out)
        return [
            figure
            for every in SCRAPES
            for figure in _errors(_rebuild(*stores[every]), truth, every, began)
        ]
    finally:
        shutil.rmtree(folder)


@contextmanager
def _prometheus(folder: Path, every: int) -> Iterator[str]:
    """Run a server that scrapes what the file of targets names; yield its address."""
    home = folder / f"prometheus-{every}"
    home.mkdir()
    job = {
        "job_name": "flink",
        "scrape_interval": f"{every}s",
        "file_sd_configs": [{"files": [str(folder / "targets.json")], "refresh_interval": "1s"}],
    }
    with running_scraper(home, job) as url:
        yield url


async def _replay(job: Trips, folder: Path) -> tuple[float, float]:
    """Run the job and change it once; return the Unix seconds between which it ran."""
    async with TripsCluster(job) as cluster:

        async def targets() -> list[str]:
            return [each.metrics_url for each in await cluster.runtime.replicas()]

        await cluster.lifecycle.bring_up()
        began = time.time()
        keeping = asyncio.create_task(
            keep_targets(folder / "targets.json", targets, APP, clock=cluster.clock)
        )
        await asyncio.sleep(60 * RESCALED_AFTER)
        await cluster.change(deployments({"small/500m": 3}, {"small/500m": 1}))
        await asyncio.sleep(60 * (MINUTES - RESCALED_AFTER))
        ended = time.time()
        keeping.cancel()
        await cluster.finish()
        return began, ended


def _export(
    folder: Path, url: str, every: int, began: float, ended: float
) -> tuple[list[SampleRow], list[Mapping[str, str | int]]]:
    """Export what a server holds; return the rows of the tables of samples and of series."""
    history = PrometheusHistory(PrometheusSettings(url=url))
    tables = Tables(folder / f"tables-{every}")
    with tempfile.TemporaryDirectory(dir=folder) as sorting:
        days = DayImport(Path(sorting), APP)
        low = began
        while low < ended:
            days.take(history.samples(APP, low, min(low + 120, ended)))
            low += 120
        days.write(tables)
    labels: dict[int, Mapping[str, str | int]] = {}
    samples: list[SampleRow] = []
    for partition in tables.partitions(SAMPLES):
        for row in tables.read(SERIES, partition).to_pylist():
            labels[row["series"]] = {**row, "app": APP}
        for row in tables.read(SAMPLES, partition).to_pylist():
            samples.append((row["series"], row["time_ms"], row["value"], row["received_ms"]))
    return samples, list(labels.values())


def _due(out: Path) -> Counter[int]:
    """Return how many records were due in each minute, by its Unix seconds."""
    due = {each.id: each.due for each in read_arrivals(out)}
    return Counter(int(time) // 60 * 60 for time in due.values())


def _rebuild(rows: list[SampleRow], labels: list[Mapping[str, str | int]]) -> list[SimpleNamespace]:
    history = KnownHistory(samples=rows, labels=labels)
    return work_out_history(history, rebuild_arrivals)


def _errors(
    rows: Sequence[SimpleNamespace], truth: Mapping[int, int], every: int, began: float
) -> list[Figure]:
    """Compare each complete minute of the source with what was due in it."""
    errors = {}
    for row in rows:
        judged = row.operator == SOURCE and row.minute >= began + 30 and truth.get(row.minute)
        if judged and row.completeness >= WHOLE and row.arrived is not None:
            due = truth[row.minute] / 60
            if due >= MIN_RATE:
                errors[row.minute] = abs(row.arrived / due - 1)
    worst = 100 * max(errors.values(), default=float("inf"))
    name = f"worst error of a complete minute, scraped every {every} s"
    middle = Figure(
        f"median error of a complete minute, scraped every {every} s",
        100 * statistics.median(errors.values()) if errors else None,
        "%",
    )
    count = Figure(f"complete minutes at {every} s", len(errors))
    if every == SCRAPES[0]:
        return [at_most(name, worst, 1, "%"), middle, count]
    return [Figure(name, worst if errors else None, "%"), middle, count]
