"""How many samples a second the pipelines work up, and in how much memory.

A fleet of a thousand operators, scraped every 15 s, is made up for as many days as there is room
for: 30, or what `WEIR_VOLUME_DAYS` and `WEIR_VOLUME_OPERATORS` say. `run arrivals` goes over one
day, a third of the days and all of them, once over a fleet of which one application has half, and
polars over the same files in one process. Each runs in a process of its own; its memory is that of
all its processes. A sample is a value of one series at one time, counted once though a neighbouring
day's run reads it again.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil
import pyarrow.parquet as pq

from benchmarks.figures import Figure, at_most
from benchmarks.pipelines.made_up_history import A_DAY, FIRST, Fleet, even, skewed, write_history
from weir_pipelines.schemas import ARRIVALS
from weir_pipelines.settings import DAY_MINUTES
from weir_pipelines.store import Store

ABOUT = "a month of metrics of 1,000 operators: samples/s and memory, beside polars"
DURATION = "5 min; 2 GB of disk"

OPERATORS = int(os.environ.get("WEIR_VOLUME_OPERATORS", "1000"))
DAYS = int(os.environ.get("WEIR_VOLUME_DAYS", "30"))
GIB = 2**30
MIN_A_DAY = 0.1
"""Seconds: what differs less is the start's noise, and too few operators to judge by."""
MEMORY = "3g"
"""Of Spark's heap. What is beyond it are the JVM's own needs and Python's."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Run:
    """One run over a history."""

    samples: int
    seconds: float
    memory: float
    """Bytes of all its processes together, at the most."""

    @property
    def rate(self) -> float:
        """Samples/s."""
        return self.samples / self.seconds


def run() -> list[Figure]:
    """Make histories up and work them up."""
    fleet = even(OPERATORS)
    middle = max(1, DAYS // 3)
    runs = {}
    with _history(fleet, DAYS) as tables:
        for days in sorted({1, middle, DAYS}):
            runs[days] = _run_spark(tables, fleet, days)
        _check(tables, fleet)
        polars = _run_polars(tables, fleet, DAYS)
    with _history(skewed(OPERATORS), middle) as tables:
        uneven = _run_spark(tables, skewed(OPERATORS), middle)
    whole = runs[DAYS]
    return [
        Figure(figure="samples worked up", value=whole.samples / 1e6, unit="million"),
        Figure(figure=f"throughput over {DAYS} days", value=whole.rate, unit="samples/s"),
        at_most(figure="peak memory", value=whole.memory / GIB, unit="GiB", limit=8),
        Figure(figure="throughput of polars, one process", value=polars.rate, unit="samples/s"),
        Figure(figure="peak memory of polars", value=polars.memory / GIB, unit="GiB"),
        *(
            Figure(figure=f"time over {days} days", value=each.seconds, unit="s")
            for days, each in runs.items()
        ),
        *([_linearity(runs)] if 1 < middle < DAYS else []),
        at_most(
            figure="one application with half of the data beside equal ones",
            value=uneven.seconds / runs[middle].seconds,
            unit="times",
            limit=2,
        ),
    ]


def _linearity(runs: Mapping[int, Run]) -> Figure:
    """Return what a further day takes late in a history beside what it takes early.

    Differences know nothing of the time that Spark takes to start.
    """
    one, middle, whole = sorted(runs)
    figure = f"a further day from {middle} to {whole} days beside one from {one} to {middle}"
    early = (runs[middle].seconds - runs[one].seconds) / (middle - one)
    late = (runs[whole].seconds - runs[middle].seconds) / (whole - middle)
    if early < MIN_A_DAY:
        return Figure(figure=figure, value=None, unit="times")
    return at_most(figure=figure, value=late / early, unit="times", limit=1.2)


@contextmanager
def _history(fleet: Fleet, days: int) -> Iterator[Path]:
    """Yield a folder of tables, which is removed after."""
    folder = Path(tempfile.mkdtemp(prefix="weir-volume-"))
    try:
        write_history(Store(folder), fleet, days=days)
        yield folder
    finally:
        shutil.rmtree(folder)


def _run_spark(tables: Path, fleet: Fleet, days: int) -> Run:
    last = FIRST.fromordinal(FIRST.toordinal() + days - 1)
    command = [
        *(sys.executable, "-m", "weir_cli.main", "pipelines", "run", "arrivals"),
        *("--tables", str(tables), "--from", str(FIRST), "--to", str(last)),
        *("--conf", f"spark.driver.memory={MEMORY}"),
        *("--conf", f"spark.local.dir={tables / 'shuffle'}"),
    ]
    return _measure(command, fleet.series * A_DAY * days)


def _run_polars(tables: Path, fleet: Fleet, days: int) -> Run:
    out = tables / "polars"
    out.mkdir()
    command = [sys.executable, "-m", "benchmarks.pipelines.with_polars", str(tables), str(out)]
    return _measure(command, fleet.series * A_DAY * days)


def _measure(command: Sequence[str], samples: int) -> Run:
    """Run a command and watch the memory of it and all that it starts, ten times a second."""
    began = time.monotonic()
    process = subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    peak = 0.0
    done = threading.Event()

    def watch() -> None:
        nonlocal peak
        while not done.wait(0.1):
            peak = max(peak, _memory_of(process.pid))

    watcher = threading.Thread(target=watch)
    watcher.start()
    _, errors = process.communicate()
    done.set()
    watcher.join()
    if process.returncode:
        raise RuntimeError(f"{' '.join(command)} failed:\n{errors[-2000:]}")
    return Run(samples=samples, seconds=time.monotonic() - began, memory=peak)


def _memory_of(pid: int) -> float:
    """Return the resident bytes of a process and its descendants."""
    total = 0
    try:
        parent = psutil.Process(pid)
        for each in (parent, *parent.children(recursive=True)):
            total += each.memory_info().rss
    except psutil.NoSuchProcess:
        return float(total)  # it has just ended
    return float(total)


def _check(tables: Path, fleet: Fleet) -> None:
    """Refuse to count what was not worked up."""
    store = Store(tables)
    rows = sum(
        pq.read_metadata(store.path(ARRIVALS, each)).num_rows for each in store.partitions(ARRIVALS)
    )
    expected = fleet.series * DAY_MINUTES * DAYS
    if rows < 0.999 * expected:
        raise RuntimeError(f"Expected about {expected} minutes, got {rows}")
