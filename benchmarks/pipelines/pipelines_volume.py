"""How many samples a second the pipelines process, and in how much memory.

A fleet of a thousand operators, scraped every 15 s, is made up for 30 days. `run arrivals` goes
over one day and over all of them.
Each runs in a process of its own; its memory is that of all its processes. A sample is a value of
one series at one time, counted once though a neighbouring day's run reads it again.
"""

from __future__ import annotations

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

from benchmarks.figures import Figure, at_most
from benchmarks.pipelines.made_up_history import A_DAY, FIRST, Fleet, even, write_history
from weir_pipelines.store import Store

ABOUT = "a month of metrics of 1,000 operators: samples/s and memory"
DURATION = "10 min; 2 GB of disk"

OPERATORS, DAYS = 1000, 30
GIB = 2**30
MEMORY = "3g"
"""Of Spark's heap. What is beyond it are the JVM's own needs and Python's."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Run:
    samples: int
    seconds: float
    memory: float
    """Bytes of all its processes together, at the most."""

    @property
    def rate(self) -> float:
        return self.samples / self.seconds


def run() -> list[Figure]:
    """Make histories up and process them."""
    fleet = even(OPERATORS)
    spark = {}
    with _history(fleet, DAYS) as tables:
        for days in (1, DAYS):
            spark[days] = _run_spark(tables, fleet, days)
    whole = spark[DAYS]
    return [
        Figure(figure="samples processed", value=whole.samples / 1e6, unit="million"),
        *_describe("Spark", spark),
        at_most(figure="Spark: peak memory", value=whole.memory / GIB, unit="GiB", limit=8),
    ]


def _describe(who: str, runs: Mapping[int, Run]) -> Iterator[Figure]:
    for days, each in runs.items():
        yield Figure(figure=f"{who}: time over {days} days", value=each.seconds, unit="s")
    yield Figure(figure=f"{who}: throughput", value=runs[DAYS].rate, unit="samples/s")
    yield Figure(figure=f"{who}: a further day", value=further_day(_seconds(runs)), unit="s")


def _seconds(runs: Mapping[int, Run]) -> Mapping[int, float]:
    """Return what each run took, by its days."""
    return {days: each.seconds for days, each in runs.items()}


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


def further_day(seconds: Mapping[int, float]) -> float:
    """Return the seconds that each day beyond the first takes, by runs over so many days."""
    first, last = min(seconds), max(seconds)
    return (seconds[last] - seconds[first]) / max(1, last - first)
