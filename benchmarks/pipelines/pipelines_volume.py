"""How many samples a second the pipelines process, and in how much memory.

A fleet of a thousand operators, scraped every 15 s, is made up for 30 days. `run arrivals` goes
over one day and over all of them.
Each runs in a process of its own; its memory is that of all its processes. A sample is a value of
one series at one time, counted once though a neighbouring day's run reads it again.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import psutil

from benchmarks.figures import Figure, at_most
from benchmarks.pipelines.made_up_history import A_DAY, FIRST, write_history
from weir_pipelines.store import Tables

ABOUT = "a month of metrics of 1,000 operators: samples/s and memory"
DURATION = "10 min; 2 GB of disk"

OPERATORS, APPS, DAYS = 1000, 20, 30
GIB = 2**30
MEMORY = "3g"
"""Of Spark's heap. What is beyond it are the JVM's own needs and Python's."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Run:
    samples: int
    seconds: float
    memory: float
    """Bytes of all its processes together, at the most."""


def run() -> list[Figure]:
    """Make a history up, and process one day of it and all of them."""
    with tempfile.TemporaryDirectory(prefix="weir-volume-") as folder:
        tables = Path(folder)
        write_history(Tables(tables), apps=APPS, operators=OPERATORS // APPS, days=DAYS)
        first, whole = (_run_spark(tables, days) for days in (1, DAYS))
    return [
        Figure(figure="samples processed", value=whole.samples / 1e6, unit="million"),
        Figure(figure="Spark: time over 1 days", value=first.seconds, unit="s"),
        Figure(figure=f"Spark: time over {DAYS} days", value=whole.seconds, unit="s"),
        Figure(figure="Spark: throughput", value=whole.samples / whole.seconds, unit="samples/s"),
        Figure(
            figure="Spark: a further day",
            value=(whole.seconds - first.seconds) / (DAYS - 1),
            unit="s",
        ),
        at_most(figure="Spark: peak memory", value=whole.memory / GIB, unit="GiB", limit=8),
    ]


def _run_spark(tables: Path, days: int) -> Run:
    command = [
        *(sys.executable, "-m", "weir_cli.main", "pipelines", "run", "arrivals"),
        *("--tables", str(tables)),
        *("--from", str(FIRST), "--to", str(FIRST + timedelta(days=days - 1))),
        *("--conf", f"spark.driver.memory={MEMORY}"),
        *("--conf", f"spark.local.dir={tables / 'shuffle'}"),
    ]
    return _measure(command, OPERATORS * A_DAY * days)


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
