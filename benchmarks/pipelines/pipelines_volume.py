"""How many samples a second the pipelines process, and in how much memory.

A fleet of a thousand operators, scraped every 15 s, is made up for 30 days. `run arrivals` goes
over one day and over all of them. Each runs in a process of its own; its memory is that of all its
processes, what they share counted once. A sample is a value of one series at one time, counted once
though a neighbouring day's run reads it again.
"""

from __future__ import annotations

import sys
import tempfile
from datetime import timedelta
from pathlib import Path

from benchmarks.figures import Figure, at_most
from benchmarks.pipelines.made_up_history import A_DAY, FIRST, write_history
from benchmarks.spawned import Watched, run_watched
from weir_pipelines.store import Tables

ABOUT = "a month of metrics of 1,000 operators: samples/s and memory"
DURATION = "10 min; 2 GB of disk"

OPERATORS, APPS, DAYS = 1000, 20, 30
GIB = 2**30
MEMORY = "3g"
"""Of Spark's heap. What is beyond it are the JVM's own needs and Python's."""


def run() -> list[Figure]:
    """Make a history up, and process one day of it and all of them."""
    with tempfile.TemporaryDirectory(prefix="weir-volume-") as folder:
        tables = Path(folder)
        write_history(Tables(tables), apps=APPS, operators=OPERATORS // APPS, days=DAYS)
        first, whole = (_run_spark(tables, days) for days in (1, DAYS))
    samples = OPERATORS * A_DAY * DAYS
    return [
        Figure("samples processed", samples / 1e6, "million"),
        Figure("Spark: time over 1 days", first.seconds, "s"),
        Figure(f"Spark: time over {DAYS} days", whole.seconds, "s"),
        Figure("Spark: throughput", samples / whole.seconds, "samples/s"),
        Figure("Spark: a further day", (whole.seconds - first.seconds) / (DAYS - 1), "s"),
        at_most("Spark: peak memory", whole.memory / GIB, 8, "GiB"),
    ]


def _run_spark(tables: Path, days: int) -> Watched:
    command = [
        *(sys.executable, "-m", "weir_cli.main", "pipelines", "run", "arrivals"),
        *("--tables", str(tables)),
        *("--from", str(FIRST), "--to", str(FIRST + timedelta(days=days - 1))),
        *("--conf", f"spark.driver.memory={MEMORY}"),
        *("--conf", f"spark.local.dir={tables / 'shuffle'}"),
    ]
    return run_watched(command)
