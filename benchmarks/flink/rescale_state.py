"""What keyed state costs a rescale, by its size and backend: by savepoint and by checkpoint.

`aggregate` is filled with values of 1 KiB that no compression shrinks, over two replicas, and then
scaled to three, once by stopping with a savepoint and once by cancelling after an incremental
checkpoint, each in a job of its own: the disk holds two copies of the state that way, or three
while the first checkpoint after a change is written. State is in RocksDB, and then in ForSt, with
its files in the checkpoints' folder, as by default, on the same disk, which needs 23 GB free. A GB
is 10^9 bytes. Bytes are what Flink says, those of the savepoint what is in its folder.
"""

from __future__ import annotations

import asyncio
import json
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any
from urllib.parse import urlparse

from benchmarks.figures import Figure, at_most, no_records
from benchmarks.flink.ledger import Arrival, longest_gap, read_arrivals
from benchmarks.flink.trips_cluster import Trips, TripsCluster, deployments
from weir_operator.clock import wait_until
from weir_operator.flink.jars import HELPER, JARS, REPOSITORY, build_jar
from weir_operator.rescale.journal import RescaleJournal, Step
from weir_operator.rescale.settings import RescaleSettings

ABOUT = "a rescale with keyed state in RocksDB and ForSt, by size: gap, duration and bytes"
DURATION = "25 min"

GB = 1e9
SIZES = (0.01, 1.0, 5.0)
RECORD = 64 * 1024
"""Bytes of state that a record leaves, see `jobs/Hoard.java`."""
FILL_RATE = 600.0
"""Records/s while the state grows: 39 MB/s."""
RATE = 20.0
"""Records/s afterwards, by which gaps are seen."""
SLOT = 5.0
USUAL_FOR = 5.0
"""Seconds for which records come at that rate before a change; at most twice the rate counts as it,
because a backlog is worked off faster."""
SLOWEST = 30.0
"""Seconds after a change until which the slowest record is looked for, if the job runs so long."""
CHECKPOINT_LIMIT = 600.0
"""Seconds for which a checkpoint is waited for."""
HEAVY = "example.Heavy"
WAYS = ("Savepoint", "Checkpoint")
BACKENDS = ("rocksdb", "forst")

TWO = deployments({"large/1": 1}, {"large/1": 2})
THREE = deployments({"large/1": 1}, {"large/1": 3})


@dataclass(frozen=True, kw_only=True, slots=True)
class Rescaled:
    journal: RescaleJournal
    way: str
    bytes_read: int
    """Of state that the job went on from."""
    bytes_before: int
    """Written by the savepoint, or by the last checkpoint before the job was cancelled."""
    bytes_after: int
    """Written by the first checkpoint afterwards."""
    seconds_after: float
    """How long that one took."""


def run() -> list[Figure]:
    """Rescale with each of the sizes, by each of the ways."""
    cases = product(SIZES, BACKENDS, WAYS)
    return [each for case in cases for each in asyncio.run(_measure(*case))]


async def _measure(size: float, backend: str, way: str) -> list[Figure]:
    records = max(1, round(size * GB / RECORD))
    trips = _job(records, backend, way)
    trips.clear()
    try:
        async with TripsCluster(trips) as cluster:
            await cluster.lifecycle.bring_up()
            await _until_arrived(cluster, records, limit=60.0 + 4 * records / FILL_RATE)
            done = await _rescale(cluster, way)
            ledger = await cluster.finish()
            arrivals = read_arrivals(trips.out)
    finally:
        trips.clear()  # several GB
    name = f"{size:g} GB{' in ForSt' if backend == 'forst' else ''} by {way.lower()}"
    return [
        *_figures(name, done, arrivals),
        no_records(f"{name}: lost or doubled", ledger.lost + ledger.doubled),
        at_most(f"{name}: keyed counts wrong", ledger.sequence_errors, 0),
        Figure(f"{name}: raw re-emissions", ledger.replayed, "records"),
    ]


def _job(records: int, backend: str, way: str) -> Trips:
    slots = -(-records // int(FILL_RATE * SLOT))

    def patient(settings: RescaleSettings) -> RescaleSettings:
        return replace(settings, via=way, savepoint_deadline=600.0, submit_deadline=300.0)

    return Trips(
        name="rescale-state",
        jar=build_heavy_jar(),
        entry_class=HEAVY,
        initial=TWO,
        rates=[*[FILL_RATE] * slots, RATE],
        arguments=("--hoard-records", str(records)),
        config={
            "state.backend.type": backend,
            "execution.checkpointing.incremental": "true",
            "execution.checkpointing.timeout": "10 min",
            "execution.checkpointing.num-retained": "1",
        },
        rescale=patient,
        managed_memory={"aggregate": "160Mi"},
    )


def build_heavy_jar() -> Path:
    """Return a jar with the example job and its heavy relative, built where it is not there."""
    sources = [
        HELPER,
        *sorted((REPOSITORY / "examples/trips").glob("*.java")),
        *(REPOSITORY / f"benchmarks/jobs/{name}.java" for name in ("Heavy", "Hoard")),
    ]
    return build_jar(sources, JARS / "heavy.jar", entry_class=HEAVY)


async def _until_arrived(cluster: TripsCluster, records: int, *, limit: float) -> None:
    """Wait until the state is full and records come at the usual rate."""
    last = int(USUAL_FOR * RATE)

    async def arrived() -> bool | None:
        arrivals = read_arrivals(cluster.out)
        if len(arrivals) < records + last:
            return None
        return arrivals[-1].time - arrivals[-last].time > USUAL_FOR / 2 or None

    if await wait_until(arrived, clock=cluster.clock, timeout=limit, period=1.0) is None:
        raise RuntimeError(
            f"Expected {records + last} records, the last {last} at {RATE:g}/s, within "
            f"{limit:.0f} s, got {len(read_arrivals(cluster.out))}: is the machine too busy?"
        )


async def _rescale(cluster: TripsCluster, way: str) -> Rescaled:
    """Make the change after a checkpoint of the full state, and wait for the first one after it."""
    old = cluster.store.load().job_id or ""
    await _checkpoint(cluster, old, newest=True, since=cluster.clock.now())
    journal = await cluster.change(THREE)
    if journal.by_checkpoint:
        last = await _checkpoint(cluster, old, newest=True)
        read, written = int(last["state_size"]), int(last["checkpointed_size"])
    else:
        read = written = _size(Path(urlparse(journal.restore_path or "").path))
    first = await _checkpoint(cluster, journal.new_job, newest=False)
    return Rescaled(
        journal=journal,
        way=way,
        bytes_read=read,
        bytes_before=written,
        bytes_after=int(first["checkpointed_size"]),
        seconds_after=first["end_to_end_duration"] / 1000,
    )


async def _checkpoint(
    cluster: TripsCluster, job_id: str, *, newest: bool, since: float = 0.0
) -> Mapping[str, Any]:
    """Return the newest or the oldest of a job's latest checkpoints, once there is one."""

    async def complete() -> Mapping[str, Any] | None:
        url = f"{cluster.runtime.rest_url}/jobs/{job_id}/checkpoints"
        known = await asyncio.to_thread(_checkpoints, url)
        known = [each for each in known if each["trigger_timestamp"] >= 1000 * since]
        return known[-1 if newest else 0] if known else None

    found = await wait_until(complete, clock=cluster.clock, timeout=CHECKPOINT_LIMIT, period=0.5)
    if found is None:
        raise RuntimeError(f"Expected a checkpoint within {CHECKPOINT_LIMIT:g} s, got none")
    return found


def _checkpoints(url: str) -> list[Mapping[str, Any]]:
    """Return a job's completed checkpoints, savepoints left out, in order."""
    with urllib.request.urlopen(url, timeout=10) as answer:
        history = json.load(answer)["history"]
    complete = [
        each for each in history if each["status"] == "COMPLETED" and not each["is_savepoint"]
    ]
    return sorted(complete, key=lambda each: int(each["id"]))


def _size(folder: Path) -> int:
    return sum(each.stat().st_size for each in folder.rglob("*") if each.is_file())


def _figures(name: str, done: Rescaled, arrivals: Sequence[Arrival]) -> list[Figure]:
    times = done.journal.times
    stop, end = times[str(Step.STOP)], times[str(Step.DONE)]
    # A record that is emitted again counts by its first arrival.
    first = {each.id: each for each in reversed(arrivals)}
    seconds = {
        "output gap": longest_gap(arrivals, stop, end + 1.0),
        "slowest record": max(
            each.time - each.due for each in first.values() if stop <= each.time <= end + SLOWEST
        ),
        "decision to running": end - done.journal.created,
        "state written, job stopped": times[str(Step.REMOVE)] - stop,
        "state read, all tasks run": end - times[str(Step.VERIFY)],
        "first checkpoint afterwards": done.seconds_after,
    }
    written = {
        f"written by the {done.way.lower()}": done.bytes_before,
        "read back": done.bytes_read,
        "written by the first checkpoint afterwards": done.bytes_after,
    }
    return [
        *(Figure(f"{name}: {what}", s, "s") for what, s in seconds.items()),
        *(Figure(f"{name}: {what}", b / 1e6, "MB") for what, b in written.items()),
    ]
