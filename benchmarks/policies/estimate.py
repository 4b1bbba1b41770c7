"""How long `weir estimate` takes for a large job, and in how much memory, from a real Prometheus.

The metrics of a job are made up and put into a server as blocks; then the command runs as a user
runs it, in a process of its own. Its memory is that of all its processes, what they share counted
once. The server's is not in it.
"""

from __future__ import annotations

import json
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any  # a bill as JSON

from benchmarks.figures import Figure, at_most
from benchmarks.policies.made_up_job import BEGIN, DAY, MadeUpJob, Run, serving, write_blocks
from benchmarks.spawned import run_watched

ABOUT = "an estimate of 14 days of a job with 10 vertices: seconds and memory"
DURATION = "8 min; needs prometheus and promtool"

DAYS, VERTICES, PARALLELISM, EVERY = 14, 10, 8, 30.0
MAX_SECONDS, MAX_GIB = 120, 1
GIB = 2**30


def run() -> list[Figure]:
    """Put the job's metrics into a server, and estimate it."""
    job = MadeUpJob(
        runs=(Run(end=DAYS * DAY, parallelism=PARALLELISM),),
        vertices=("Source: trips", *(f"step {each}" for each in range(1, VERTICES))),
        work=[1e-4 * (1 + each % 4) for each in range(VERTICES)],
        every=EVERY,
    )
    with tempfile.TemporaryDirectory(prefix="weir-estimate-") as name:
        folder = Path(name)
        series = list(job.series())
        write_blocks(series, folder)
        with serving(folder) as url:
            seconds, memory, bill = _estimate(url)
    was, would = bill["lines"]
    return [
        Figure("samples read", sum(each.times.size for each in series) / 1e6, "million"),
        at_most("estimate", seconds, MAX_SECONDS, "s"),
        at_most("peak memory", memory / GIB, MAX_GIB, "GiB"),
        Figure("error of unseen hours", 100 * bill["fitError"], "%"),
        Figure("cost as it was", was["costPerHour"]["value"], "per hour"),
        Figure("cost by planner", would["costPerHour"]["value"], "per hour"),
    ]


def _estimate(url: str) -> tuple[float, float, dict[str, Any]]:
    """Run the command; return its seconds, its bytes of memory at most, and its bill."""
    command = [
        *(sys.executable, "-m", "weir_cli.main", "estimate", "--prometheus", url),
        *("--job", "trips", "--objective", "500ms", "--json"),
        *("--start", f"{datetime.fromtimestamp(BEGIN, UTC):%Y-%m-%dT%H:%M:%S}"),
        *("--end", f"{datetime.fromtimestamp(BEGIN + DAYS * DAY, UTC):%Y-%m-%dT%H:%M:%S}"),
    ]
    watched = run_watched(command)
    return watched.seconds, watched.memory, json.loads(watched.output)
