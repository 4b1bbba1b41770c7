"""A controller that rescales one job hundreds of times, and what it holds meanwhile.

`weir local` runs the example job on a Flink of its own; its policy goes from one replica to two and
back in every interval in which it is asked, so that every rescale is decided, recorded, walked and
measured as any other (`soak_controller`). After each one the controller's process is looked at: its
memory, file descriptors and threads, and the bytes of its decision records. A leak shows as growth
that goes on, so the last third is judged by its slope; the first third warms up.

Records are counted by the files that a transactional sink committed and by the job's ledger.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import statistics
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import yaml

from benchmarks.cluster.chaos.verdict import read_committed
from benchmarks.figures import Figure, at_least, at_most, no_records
from benchmarks.flink.ledger import read_arrivals, read_proof
from benchmarks.results import BUILD
from weir_operator.flink.jars import REPOSITORY
from weir_operator.loop.decision_records import RECORDS
from weir_operator.runtime.local.folders import AppFolder

MIB = 2**20


@dataclass(frozen=True, kw_only=True, slots=True)
class Sample:
    """What the controller held after a rescale."""

    time: float
    """Unix seconds."""
    memory: int
    """Bytes resident, of the controller's process alone."""
    descriptors: int
    """Open files and sockets."""
    threads: int
    records: int
    """Bytes of the decision records."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Quantity:
    """Something that is to stay flat."""

    name: str
    of: Callable[[Sample], float]
    unit: str
    most: float
    """Growth that counts as flat, `unit` per rescale over the last third."""


QUANTITIES = (
    Quantity(name="memory", of=lambda each: each.memory / MIB, unit="MiB", most=0.02),
    Quantity(name="open file descriptors", of=lambda each: each.descriptors, unit="", most=0.02),
    Quantity(name="threads", of=lambda each: each.threads, unit="", most=0.02),
    Quantity(name="decision records", of=lambda each: each.records / MIB, unit="MiB", most=0.01),
)


def growth(values: Sequence[float]) -> float | None:
    """Return the slope of the line through values one apart; `None` of fewer than two."""
    if len(values) < 2:
        return None
    return statistics.linear_regression(range(len(values)), values).slope


def figures_of(samples: Sequence[Sample], quantities: Sequence[Quantity]) -> list[Figure]:
    """Return for each quantity what it was in the first and the last third, and how it grew."""
    length = len(samples) // 3
    first, last = samples[:length], samples[len(samples) - length :]
    figures = []
    for each in quantities:
        before, after = [each.of(one) for one in first], [each.of(one) for one in last]
        figures += [
            Figure(
                figure=f"{each.name}: {name} third, median",
                value=statistics.median(values) if values else None,
                unit=each.unit,
            )
            for name, values in (("first", before), ("last", after))
        ]
        figures.append(
            at_most(
                figure=f"{each.name}: last third, growth",
                value=growth(after),
                unit=f"{each.unit} per rescale".strip(),
                limit=each.most,
            )
        )
    return figures


ABOUT = "memory, files and records of a controller over 500 rescales of one job"
DURATION = "25 min"

NAME = "soak"
RESCALES = 500
FOLDER = BUILD / NAME
LONGEST = 120.0
"""Seconds after which a rescale that has not come is not waited for any longer."""
SUSPEND_LIMIT = 90.0
"""Seconds for the end of the controller, the savepoint included."""


def run() -> list[Figure]:
    return asyncio.run(_run())


async def _run() -> list[Figure]:
    shutil.rmtree(FOLDER, ignore_errors=True)
    for name in ("out", "committed", "state"):
        (FOLDER / name).mkdir(parents=True)
    (FOLDER / "trace.txt").write_text("20\n")
    (FOLDER / "streamapp.yaml").write_text(yaml.safe_dump(manifest()))
    samples: list[Sample] = []
    ends: Counter[str] = Counter()
    loads = []
    async with _controller() as (process, lines):
        while ends["done"] < RESCALES:
            record = await asyncio.wait_for(_find_end(lines), LONGEST)
            ends[record["outcome"]] += 1
            samples.append(look(psutil.Process(process.pid)))
            loads.append(os.getloadavg()[0])
    ledger, arrivals = read_proof(FOLDER / "out"), read_arrivals(FOLDER / "out")
    emitted = max((ledger.emitted, *(each.id + 1 for each in arrivals)))
    committed = read_committed(FOLDER / "committed", emitted)
    return [
        at_least(figure="rescales", value=ends["done"], unit="", limit=RESCALES),
        at_most(
            figure="rescales that ended otherwise",
            value=ends.total() - ends["done"],
            unit="",
            limit=0,
        ),
        Figure(
            figure="seconds from rescale to rescale",
            value=(samples[-1].time - samples[0].time) / max(1, len(samples) - 1),
            unit="s",
        ),
        Figure(figure="records over them", value=emitted, unit="records"),
        no_records("transactional sink: records lost", committed.lost),
        no_records("transactional sink: records doubled", committed.doubled),
        no_records(
            "ledger: records lost, doubled, or out of order",
            ledger.lost + ledger.doubled + ledger.sequence_errors,
        ),
        *figures_of(samples, QUANTITIES),
        Figure(figure="load average beside it, median", value=statistics.median(loads), unit=""),
    ]


def manifest() -> dict[str, Any]:
    """Return the StreamApp: the example's job under a steady load, one operator of which moves."""
    arguments = [
        *("--trace", str(FOLDER / "trace.txt"), "--at-end", "hold"),
        *("--out", str(FOLDER / "out"), "--commit", str(FOLDER / "committed")),
        *("--service.match-ms", "5", "--service.aggregate-ms", "5"),
    ]
    one = {"large/1": 1}
    return {
        "apiVersion": "weir.dev/v1alpha1",
        "kind": "StreamApp",
        "metadata": {"name": NAME},
        "spec": {
            "flink": {
                "maxParallelism": 720,
                "job": {
                    "jar": str(REPOSITORY / "build/jars/trips.jar"),
                    "entryClass": "example.Trips",
                    "args": arguments,
                },
            },
            "objective": {"responseTime": "5s", "catchUp": "30s"},
            "nodePools": [{"name": "large", "sizes": ["1"], "memory": "1Gi", "price": 0.05}],
            "operators": [
                {"name": "source", "maxReplicas": 1, "fixed": one},
                {"name": "match", "maxReplicas": 2, "initial": one},
                {"name": "aggregate", "maxReplicas": 1, "fixed": one},
                {"name": "sink", "maxReplicas": 1, "fixed": one},
            ],
            "operatorManager": {"interval": "1s"},
            "applicationManager": {"restartBudget": {"size": 1000, "refillEvery": "1s"}},
        },
    }


def look(process: psutil.Process) -> Sample:
    """Return what the controller holds now."""
    folder = AppFolder(FOLDER / "state" / f"default.{NAME}")
    records = folder.path.glob(f"{RECORDS}*")
    with process.oneshot():
        return Sample(
            time=time.time(),
            memory=process.memory_info().rss,
            descriptors=process.num_fds(),
            threads=process.num_threads(),
            records=sum(map(_size, records)),
        )


async def _find_end(lines: AsyncIterator[bytes]) -> dict[str, Any]:
    """Return the record of the next rescale that ends."""
    async for line in lines:
        record: dict[str, Any] = json.loads(line)
        if record["type"] == "rescale" and record["finished"] is not None:
            return record
    raise RuntimeError(f"The controller has ended: see {FOLDER / 'run.jsonl'}")


def _size(path: Path) -> int:
    """Return the bytes of a file; none of a folder, or of one that has gone meanwhile."""
    try:
        return path.stat().st_size if path.is_file() else 0
    except FileNotFoundError:
        return 0


@asynccontextmanager
async def _controller() -> AsyncIterator[tuple[asyncio.subprocess.Process, AsyncIterator[bytes]]]:
    """Start the controller; yields it and the lines that it writes. In the end it suspends."""
    arguments = str(FOLDER / "streamapp.yaml"), str(FOLDER / "state")
    command = ["-m", "benchmarks.flink.soak_controller", *arguments]
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *command,
        cwd=REPOSITORY,
        env=os.environ | {"MALLOC_ARENA_MAX": "2"},  # as in the image
        stdout=asyncio.subprocess.PIPE,
        limit=2**20,
    )
    assert process.stdout is not None
    lines = _lines(process.stdout, FOLDER / "run.jsonl")
    try:
        yield process, lines
        process.send_signal(signal.SIGINT)
        async with asyncio.timeout(SUSPEND_LIMIT):
            async for _ in lines:  # a pipe that nobody reads would stop it
                pass
            if await process.wait():
                raise RuntimeError(f"The controller ended with {process.returncode}")
    finally:
        if process.returncode is None:
            process.send_signal(signal.SIGTERM)
            async for _ in lines:
                pass
            await process.wait()


async def _lines(stream: asyncio.StreamReader, copy: Path) -> AsyncIterator[bytes]:
    """Yield lines until the end, and keep them in a file."""
    with copy.open("wb") as file:
        async for line in stream:
            file.write(line)
            yield line
