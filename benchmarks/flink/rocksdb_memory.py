"""What RocksDB has of the memory of a job whose operators are pinned: the example `hotitems`.

`weir local` runs it as it is, each operator on a TaskManager of its own. Once windows are
counted, each TaskManager is asked what memory the slot took of what it manages, RocksDB what it has
of it (its own metrics and Flink's log), and the kernel how much the process takes.

Of a slot's managed memory Flink gives RocksDB a cache, and lets write buffers take two fifths of
that cache. Too little for one write buffer is a warning in the log, which is an error here.

What the logs of TaskManagers say of the memory that RocksDB was given.
"""

from __future__ import annotations

import asyncio
import re
import shutil
import signal
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import psutil
import yaml

from benchmarks.figures import Figure, at_least, at_most
from benchmarks.rows import RESULTS
from weir_operator.clock import SystemClock, wait_until
from weir_operator.flink.jars import REPOSITORY, build_example
from weir_operator.runtime.local.folders import AppFolder, TaskManagerFolder
from weir_operator.runtime.local.processes import metrics_url, reporting_port

_CACHE = re.compile(r"Obtained shared RocksDB cache of size (\d+) bytes")
_POOR = re.compile(r"RocksDBStateBackend performance will be poor.*")


def read_caches(state: Path) -> dict[str, set[int]]:
    """Return the bytes of each slot's cache, which write buffers are a part of, by operator.

    Args:
        state: The folder that `weir local --state` was given; one StreamApp ran there.

    Raises:
        ValueError: RocksDB says that it was given too little for its write buffers.
    """
    found: dict[str, set[int]] = {}
    for log in sorted(state.glob("*/tm/tm-*/log/flink.log*")):
        text = log.read_text(encoding="utf-8")
        if poor := _POOR.search(text):
            raise ValueError(f"Expected write buffers for RocksDB, got: {poor[0]} ({log})")
        if sizes := _CACHE.findall(text):
            operator = log.parts[-3].removeprefix("tm-").rsplit("-", 2)[0]
            found.setdefault(operator, set()).update(map(int, sizes))
    return found


ABOUT = "memory of hot items' TaskManagers: asked for, given, and what RocksDB makes of it"
DURATION = "3 min"

FOLDER = RESULTS / "rocksdb-memory"
ASKED = 128
"""MiB, as the example has it for `count` and `sink`."""
PROCESS = 1024
"""MiB, as the example has it."""
WRITE_BUFFERS = 2 / 5
"""Of the cache, by Flink's arithmetic for its default ratio of write buffers, one half."""
LIMIT = 240.0
"""Seconds for RocksDB to hold state in both operators."""
STATEFUL = ("count", "sink")
METRICS = ("block-cache-capacity", "block-cache-usage", "cur-size-all-mem-tables")
MIB = 2**20


@dataclass(frozen=True, kw_only=True, slots=True)
class Memory:
    """A TaskManager's memory, bytes."""

    managed: int
    taken: int
    """Of it, by the slot."""
    resident: int
    """Of the process."""
    rocksdb: dict[str, float]
    """By metric; empty where no state is kept."""


def run() -> list[Figure]:
    """Run the example until both operators have state."""
    return asyncio.run(_run())


async def _run() -> list[Figure]:
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir(parents=True)
    (FOLDER / "streamapp.yaml").write_text(yaml.safe_dump(_manifest()))
    with (FOLDER / "run.jsonl").open("w") as told:
        weir = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "weir_cli.main", "local", str(FOLDER / "streamapp.yaml")),
            *("--json", "--state", str(FOLDER / "state"), "--duration", "1h"),
            stdout=told,
            cwd=REPOSITORY,
        )
        try:
            found = await wait_until(_look, clock=SystemClock(), timeout=LIMIT, period=1.0)
        finally:
            if weir.returncode is None:
                weir.send_signal(signal.SIGINT)
            await weir.wait()
    if found is None:
        raise RuntimeError(f"Expected state in RocksDB within {LIMIT:g} s, got none; see {FOLDER}")
    caches = read_caches(FOLDER / "state")
    return [each for name in STATEFUL for each in _figures(name, found[name], caches)]


def _figures(name: str, memory: Memory, caches: dict[str, set[int]]) -> list[Figure]:
    capacity = memory.rocksdb["block-cache-capacity"]
    return [
        at_least(
            figure=f"{name}: managed memory of the TaskManager",
            value=memory.managed / MIB,
            unit="MiB",
            limit=ASKED,
        ),
        at_least(
            figure=f"{name}: of it, given to the slot",
            value=memory.taken / MIB,
            unit="MiB",
            limit=ASKED,
        ),
        at_least(
            figure=f"{name}: of it, for RocksDB", value=min(caches[name]) / MIB, unit="MiB",
            limit=ASKED,
        ),
        Figure(figure=f"{name}: capacity of RocksDB's cache", value=capacity / MIB, unit="MiB"),
        Figure(
            figure=f"{name}: of it, write buffers may take",
            value=WRITE_BUFFERS * capacity / MIB,
            unit="MiB",
        ),
        Figure(
            figure=f"{name}: write buffers hold",
            value=memory.rocksdb["cur-size-all-mem-tables"] / MIB,
            unit="MiB",
        ),
        Figure(
            figure=f"{name}: used of the cache",
            value=memory.rocksdb["block-cache-usage"] / MIB,
            unit="MiB",
        ),
        at_most(
            figure=f"{name}: memory of the process",
            value=memory.resident / MIB,
            unit="MiB",
            limit=PROCESS,
        ),
    ]  # fmt: skip


def _manifest() -> dict[str, Any]:
    """Return the example's StreamApp with RocksDB's metrics, and with a policy that stays."""
    manifest: dict[str, Any] = yaml.safe_load(
        (REPOSITORY / "examples/hotitems/streamapp.yaml").read_text()
    )
    spec = manifest["spec"]
    spec["flink"]["job"]["jar"] = str(build_example("hotitems"))
    trace = REPOSITORY / "examples/hotitems/trace.txt"
    arguments = [
        str(trace) if each == "trace.txt" else each for each in spec["flink"]["job"]["args"]
    ]
    spec["flink"]["job"]["args"] = arguments
    for metric in METRICS:
        spec["flink"]["config"][f"state.backend.rocksdb.metrics.{metric}"] = "true"
    spec["operatorManager"]["policy"] = {"name": "hold"}
    return manifest


async def _look() -> dict[str, Memory] | None:
    """Return the memory of each operator's TaskManager, once both that keep state have some."""
    app = AppFolder(FOLDER / "state/default.hotitems")
    ports = app.job_manager.ports()
    if ports is None:
        return None
    found = {}
    try:
        async with aiohttp.ClientSession() as session:
            managers = await _ask(session, f"http://127.0.0.1:{ports.rest}/taskmanagers")
            for each in managers["taskmanagers"]:
                folder = app.task_manager(each["id"])
                record, identity = folder.replica(), folder.alive()
                if record is None or identity is None:
                    return None
                total, free = (
                    each[key]["managedMemory"] * MIB for key in ("totalResource", "freeResource")
                )
                found[record.operator] = Memory(
                    managed=total,
                    taken=total - free,
                    resident=psutil.Process(identity.pid).memory_info().rss,
                    rocksdb=await _rocksdb(session, folder),
                )
    except (aiohttp.ClientError, psutil.Error):
        return None  # it is about to start
    with_state = [found[name].rocksdb for name in STATEFUL if name in found]
    holds = all(each.get("cur-size-all-mem-tables", 0.0) > 0 for each in with_state)
    return found if holds and len(with_state) == len(STATEFUL) else None


async def _ask(session: aiohttp.ClientSession, url: str) -> Any:
    async with session.get(url) as answer:
        return await answer.json()


async def _rocksdb(session: aiohttp.ClientSession, folder: TaskManagerFolder) -> dict[str, float]:
    """Return what RocksDB says of itself; of several states in one process, the most."""
    record = folder.replica()
    port = None if record is None else reporting_port(folder.alive(), record.metrics)
    if port is None:
        return {}
    async with session.get(metrics_url(port)) as answer:
        page = await answer.text()
    found: dict[str, float] = {}
    for metric in METRICS:
        values = re.findall(rf"_rocksdb_{metric.replace('-', '_')}\{{.*\}} (\S+)", page)
        if values:
            found[metric] = max(map(float, values))
    return found
