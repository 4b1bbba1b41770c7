"""Metrics of a made-up Flink job as a reporter and a scrape leave them, with the truth known.

A chain of vertices, each of which passes on all records. The rate has a day's wave and some noise.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tests.dashboards.prometheus_server import running_server
from weir_policies.model.arrays import Floats

TASK = "flink_taskmanager_job_task_"
BEGIN = 1_790_000_000.0 // 86_400 * 86_400
"""Unix seconds of a midnight."""
DAY = 86_400.0
BLOCK = 7200.0
"""Seconds of a block that promtool makes."""


def waves(times: Floats, seed: int = 1) -> Floats:
    """Return records/s that rise and fall once a day around 1100."""
    wave = 1.4 + np.sin(2 * np.pi * (times / DAY - 0.3))
    noise: Floats = np.exp(np.random.default_rng(seed).normal(0, 0.05, times.size))
    return np.asarray(800 * wave * noise)


@dataclass(frozen=True, kw_only=True, slots=True)
class Run:
    """One run of the job, from its start to its stop."""

    begin: float = 0.0
    """Seconds after `BEGIN`."""
    end: float
    parallelism: int = 2
    job_id: str = "a1"


@dataclass(frozen=True, kw_only=True, slots=True)
class MadeUpSeries:
    """One series as it was scraped."""

    name: str
    labels: Mapping[str, str]
    times: Floats
    """Unix seconds."""
    values: Floats


@dataclass(frozen=True, kw_only=True, slots=True)
class MadeUpJob:
    """A job; `series` is what a server has of it."""

    runs: Sequence[Run] = (Run(end=DAY),)
    vertices: Sequence[str] = ("Source: trips", "match", "Sink: out")
    work: Sequence[float] = (2e-4, 8e-4, 3e-4)
    """Seconds of busy time per record, by vertex."""
    rate: Callable[[Floats], Floats] = waves
    """Records/s at Unix seconds."""
    blocked: float = 0.0
    """Share of time in which the source is back-pressured."""
    slots_each: int = 2
    """Subtasks of a vertex on one TaskManager."""
    every: float = 30.0
    """Seconds between two scrapes."""
    name: str = "trips"

    def series(self) -> Iterator[MadeUpSeries]:
        """Yield the series, run by run."""
        for run in self.runs:
            yield from self._series_of(run)

    def _series_of(self, run: Run) -> Iterator[MadeUpSeries]:
        times = BEGIN + np.arange(run.begin, run.end + 1, self.every)
        each = self.rate(times) / run.parallelism
        rng = np.random.default_rng(int(run.begin))
        for number, (vertex, work) in enumerate(zip(self.vertices, self.work, strict=True)):
            for subtask in range(run.parallelism):
                busy = np.minimum(each * work * np.exp(rng.normal(0, 0.02, times.size)), 1.0)
                blocked = np.full(times.size, self.blocked if number == 0 else 0.0)
                labels = {
                    "job_name": self.name,
                    "job_id": run.job_id,
                    "task_id": f"{number:032x}",
                    "task_name": vertex,
                    "subtask_index": str(subtask),
                    "task_attempt_num": "0",
                    "tm_id": f"tm-{run.job_id}-{subtask // self.slots_each}",
                }
                shares = {
                    "numRecordsIn": each * (number > 0),
                    "numRecordsOut": each * (number < len(self.vertices) - 1),
                    "accumulateBusyTimeMs": 1000 * busy,
                    "accumulateBackPressuredTimeMs": 1000 * blocked,
                }
                for metric, share in shares.items():
                    counted = np.round(np.cumsum(share * self.every) - share[0] * self.every, 1)
                    yield MadeUpSeries(
                        name=TASK + metric, labels=labels, times=times, values=counted
                    )


def write_blocks(series: Sequence[MadeUpSeries], folder: Path) -> None:
    """Write series as blocks of Prometheus into `folder/tsdb`; needs promtool."""
    begin = min(float(each.times[0]) for each in series)
    end = max(float(each.times[-1]) for each in series)
    text = folder / "samples.txt"
    listed = sorted(series, key=lambda each: each.name)
    # promtool reads a file once for each of its blocks, so each file has one.
    for low in np.arange(begin // BLOCK * BLOCK, end + 1, BLOCK):
        with text.open("w") as file:
            name = ""
            for each in listed:
                first, last = np.searchsorted(each.times, [low, low + BLOCK])
                if first == last:
                    continue
                if each.name != name:
                    name = each.name
                    file.write(f"# TYPE {name} gauge\n")
                labels = ",".join(f'{key}="{value}"' for key, value in each.labels.items())
                pairs = zip(
                    each.times[first:last].tolist(), each.values[first:last].tolist(), strict=True
                )
                file.writelines(f"{name}{{{labels}}} {value} {time}\n" for time, value in pairs)
            file.write("# EOF\n")
        command = ["promtool", "tsdb", "create-blocks-from", "openmetrics", text.name, "tsdb"]
        subprocess.run(command, cwd=folder, check=True, capture_output=True)
    text.unlink()


def serving(
    folder: Path, *switches: str, configuration: str = "{}\n"
) -> AbstractContextManager[str]:
    """Run Prometheus over `folder/tsdb` while a block runs; the context is its address."""
    return running_server(folder, configuration, "--storage.tsdb.retention.time=100y", *switches)
