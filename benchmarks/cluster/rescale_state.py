"""What keyed RocksDB state costs a rescale, by its size: by native savepoint and by checkpoint.

`aggregate` is filled with values of 1 KiB that no compression shrinks, over two replicas, and then
scaled to three and back, once by stopping with a savepoint and once by cancelling after an
incremental checkpoint. The sizes, in GB, are an argument:

    STATE_GB=0.01,1,5 make bench NAME=rescale-state

Without it those three; in the place of 5 GB, 2 where the disk has less than six times as much: the
state that runs, two savepoints, the checkpoints of the job and those that two cancelled jobs leave.
A GB is 10^9 bytes.

What a change by checkpoint leaves behind for the next is told too: state that was restored without
being claimed is written once in full by the first checkpoint after it. Bytes are what Flink says,
those of the savepoint what is in its folder. The runtime is steered by hand (see `cluster_job`).
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import tempfile
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.cluster.cluster_job import HEAVY, ClusterJob, Wanted
from benchmarks.cluster.place import Place, open_place
from benchmarks.figures import Figure, at_most
from benchmarks.flink.ledger import Arrival, longest_gap, read_arrivals
from weir_operator.clock import wait_until
from weir_operator.rescale.journal import DeploymentMap, RescaleJournal, Step

ABOUT = "a rescale with keyed RocksDB state, by size: gap, duration and bytes, on a cluster"
DURATION = "20 min"

GB = 1e9
SIZES = (0.01, 1.0, 5.0)
SMALLER = 2.0
"""GB that are taken in the place of the largest size where the disk is small."""
COPIES = 6.0
"""How often the state's size must be free on the disk."""
RECORD = 64 * 1024
"""Bytes of state that a record leaves, see `jobs/Hoard.java`."""
FILL_RATE = 400.0
"""Records/s while the state grows: 26 MB/s."""
RATE = 20.0
"""Records/s afterwards, by which gaps are seen."""
SLOT = 5.0
CHECKPOINT_LIMIT = 600.0
"""Seconds for which a checkpoint is waited for."""
WAYS = ("Savepoint", "Checkpoint")

TWO: DeploymentMap = {
    "source": {"first/500m": 1},
    "match": {"first/500m": 1},
    "aggregate": {"first/500m": 2},
    "sink": {"first/500m": 1},
}
THREE: DeploymentMap = {**TWO, "aggregate": {"first/500m": 3}}


@dataclass(frozen=True, kw_only=True, slots=True)
class Rescaled:
    """A change, and what it wrote."""

    journal: RescaleJournal
    by: str
    bytes_read: int
    """Of state that the job went on from."""
    bytes_before: int
    """Written by the savepoint, or by the last checkpoint before the job was cancelled."""
    bytes_after: int
    """Written by the first checkpoint afterwards."""
    seconds_after: float
    """How long that one took."""

    @property
    def name(self) -> str:
        """Direction and way."""
        before, after = (
            sum(each["aggregate"].values()) for each in (self.journal.source, self.journal.target)
        )
        return f"{before} to {after} by {self.by.lower()}"


def run() -> list[Figure]:
    """Rescale with each of the sizes."""
    figures = []
    for size in state_sizes():
        figures += asyncio.run(_measure(size))
    return figures


def state_sizes() -> tuple[float, ...]:
    """Return the sizes to measure, GB.

    Raises:
        RuntimeError: The disk is too small for one that was asked for.
    """
    free = shutil.disk_usage(tempfile.gettempdir()).free / GB
    asked = os.environ.get("STATE_GB")
    if asked is None:
        *small, large = SIZES
        sizes = (*small, large if COPIES * large <= free else SMALLER)
    else:
        sizes = tuple(float(each) for each in asked.split(","))
    if COPIES * max(sizes) > free:
        raise RuntimeError(
            f"STATE_GB: expected {COPIES * max(sizes):g} GB free for {max(sizes):g}, got {free:.0f}"
        )
    return sizes


async def _measure(size: float) -> list[Figure]:
    records = max(1, round(size * GB / RECORD))
    wanted = _job(records)
    async with (
        open_place("weir-bench") as place,
        ClusterJob(place, wanted.app(place), wanted.initial) as job,
    ):
        await job.lifecycle.bring_up()
        await job.until_arrived(records, limit=60.0 + 4 * records / FILL_RATE)
        done = [await _rescale(job, place, target, way) for way in WAYS for target in (THREE, TWO)]
        ledger = await job.finish()
        arrivals = read_arrivals(job.out)
    name = f"{size:g} GB"
    return [
        *(figure for each in done for figure in _figures(name, each, arrivals)),
        at_most(figure=f"{name}: records lost", value=ledger.lost, unit="records", limit=0),
        at_most(figure=f"{name}: records doubled", value=ledger.doubled, unit="records", limit=0),
        at_most(
            figure=f"{name}: keyed counts wrong", value=ledger.sequence_errors, unit="", limit=0
        ),
        Figure(figure=f"{name}: raw re-emissions", value=ledger.replayed, unit="records"),
    ]


def _job(records: int) -> Wanted:
    slots = -(-records // int(FILL_RATE * SLOT))
    return Wanted(
        entry_class=HEAVY,
        initial=TWO,
        rates=[*[FILL_RATE] * slots, RATE],
        arguments=("--hoard-records", str(records)),
        config={
            "state.backend.type": "rocksdb",
            "execution.checkpointing.incremental": "true",
            # A few seconds' worth of state may be on its way at once, and the disk is shared.
            "execution.checkpointing.interval": "5 s",
            "execution.checkpointing.timeout": "10 min",
            "execution.checkpointing.num-retained": "1",
        },
        memory="1536Mi",
        managed_memory={"aggregate": "256Mi"},
        savepoint_deadline="600s",
    )


async def _rescale(job: ClusterJob, place: Place, target: DeploymentMap, way: str) -> Rescaled:
    """Make one change once a checkpoint is there, and wait for the first one after it."""
    old = job.store.load().job_id or ""
    await _checkpoint(job, old, newest=True)
    journal = await job.change(target, via=way)
    if journal.by_checkpoint:
        last = await _checkpoint(job, old, newest=True)
        read, written = int(last["state_size"]), int(last["checkpointed_size"])
    else:
        read = written = _size(place.outside(journal.restore_path or ""))
    first = await _checkpoint(job, journal.new_job, newest=False)
    return Rescaled(
        journal=journal,
        by=way,
        bytes_read=read,
        bytes_before=written,
        bytes_after=int(first["checkpointed_size"]),
        seconds_after=first["end_to_end_duration"] / 1000,
    )


async def _checkpoint(job: ClusterJob, job_id: str, *, newest: bool) -> Mapping[str, Any]:
    """Return the newest or the oldest of a job's latest checkpoints, once there is one.

    Flink remembers ten of them.

    Raises:
        RuntimeError: There is none in time.
    """

    async def complete() -> Mapping[str, Any] | None:
        known = await asyncio.to_thread(_checkpoints, f"{job.runtime.rest_url}/jobs/{job_id}")
        return known[-1 if newest else 0] if known else None

    found = await wait_until(complete, clock=job.clock, timeout=CHECKPOINT_LIMIT, period=0.5)
    if found is None:
        raise RuntimeError(f"Expected a checkpoint within {CHECKPOINT_LIMIT:g} s, got none")
    return found


def _checkpoints(job_url: str) -> list[Mapping[str, Any]]:
    """Return a job's completed checkpoints, savepoints left out, in order."""
    with urllib.request.urlopen(f"{job_url}/checkpoints", timeout=10) as answer:
        history = json.load(answer)["history"]
    complete = [
        each for each in history if each["status"] == "COMPLETED" and not each["is_savepoint"]
    ]
    return sorted(complete, key=lambda each: int(each["id"]))


def _size(folder: Path) -> int:
    return sum(each.stat().st_size for each in folder.rglob("*") if each.is_file())


def _figures(size: str, done: Rescaled, arrivals: Sequence[Arrival]) -> list[Figure]:
    times, name = done.journal.times, f"{size}, {done.name}"
    stop, end = times[str(Step.STOP)], times[str(Step.DONE)]
    seconds = {
        "output gap": longest_gap(arrivals, stop, end + 1.0),
        "stop to running": end - stop,
        "state written, job stopped": times[str(Step.REMOVE)] - stop,
        "state read, all tasks run": end - times[str(Step.VERIFY)],
        "first checkpoint afterwards": done.seconds_after,
    }
    written = {
        f"written by the {done.by.lower()}": done.bytes_before,
        "read back": done.bytes_read,
        "written by the first checkpoint afterwards": done.bytes_after,
    }
    return [
        *(Figure(figure=f"{name}: {what}", value=s, unit="s") for what, s in seconds.items()),
        *(
            Figure(figure=f"{name}: {what}", value=b / 1e6, unit="MB")
            for what, b in written.items()
        ),
    ]
