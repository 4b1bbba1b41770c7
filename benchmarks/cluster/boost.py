"""What a boost of new pods gains on a cluster, and what it costs others on the nodes.

`match` of the job of `rescale-cluster` gets two replicas more and loses them, by turns with and
without a boost of their CPU while they start.

One pod on each node does a millisecond of work every 20 ms, and notes when each piece was done and
how long after it was due. What it had to wait for the processors is in that time. Its request and
limit are a tenth of a core, so it is Guaranteed, as the pods that start beside it.
"""

from __future__ import annotations

import asyncio
import statistics
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager, nullcontext
from unittest.mock import patch

import numpy as np

from benchmarks.cluster.cluster_job import ClusterJob
from benchmarks.cluster.installation import IMAGE
from benchmarks.cluster.place import CLAIM, Place, open_place, restricted_pod
from benchmarks.cluster.rescale_cluster import (
    HOME,
    PAUSE,
    TWO_MORE,
    WARM_UP,
    await_or_recover,
    write_job,
)
from benchmarks.figures import Figure, at_least, no_records
from weir_operator.api.client import Body
from weir_operator.clock import SystemClock, wait_until
from weir_operator.rescale.journal import RescaleJournal, Step
from weir_operator.runtime.pods import boost
from weir_operator.runtime.pods.pods import STATE_MOUNT

ABOUT = "two replicas more on a cluster, and others on the nodes, with and without a boost of CPU"
DURATION = "6 min"

CHANGES = 5
"""With a boost, and as many without."""
NO_BOOST = "1m"
"""CPU that every pod has anyway."""

_PROGRAM = """
import sys, time
due = time.monotonic()
with open(sys.argv[1], "w", buffering=1) as file:
    while True:
        due = max(due + 0.02, time.monotonic() - 1)
        time.sleep(max(0.0, due - time.monotonic()))
        sum(range(40_000))
        print(time.time(), time.monotonic() - due, file=file)
"""
_STARTED_WITHIN = 60.0


def run() -> list[Figure]:
    """Change the job by turns with and without a boost."""
    return asyncio.run(_run())


async def _run() -> list[Figure]:
    ends: dict[bool, list[RescaleJournal]] = {True: [], False: []}
    calm: list[tuple[float, float]] = []
    async with (
        open_place("weir-bench") as place,
        working_beside(place) as beside,
        ClusterJob(place, write_job(place), HOME) as job,
    ):
        await job.lifecycle.bring_up()
        await asyncio.sleep(WARM_UP)
        for turn in range(2 * CHANGES):
            await asyncio.sleep(PAUSE)  # what has ended leaves
            began = job.clock.now()
            await asyncio.sleep(PAUSE)
            calm.append((began, job.clock.now()))
            boosts = turn % 2 == 0
            with nullcontext() if boosts else patch.object(boost, "BOOSTED", NO_BOOST):
                end = await await_or_recover(job, job.change(TWO_MORE))
            if end is not None:
                ends[boosts].append(end)
                await asyncio.sleep(PAUSE)
                await await_or_recover(job, job.change(HOME))
        ledger = await job.finish()
        waits = {"without a change": 1000 * beside.quantile(0.99, calm)}
        for boosts, changes in ends.items():
            spans = [(each.created, each.times[str(Step.DONE)]) for each in changes]
            waits[f"beside changes {_name(boosts)}"] = 1000 * beside.quantile(0.99, spans)
    return [
        *(
            at_least(f"changes {_name(boosts)} that came to their end", len(changes), CHANGES)
            for boosts, changes in ends.items()
        ),
        *(
            Figure(
                f"two replicas more {_name(boosts)}: decision to running, median",
                statistics.median(each.times[str(Step.DONE)] - each.created for each in changes),
                "s",
            )
            for boosts, changes in ends.items()
        ),
        *(
            Figure(f"others on the nodes: a millisecond of work, p99, {when}", wait, "ms")
            for when, wait in waits.items()
        ),
        no_records("records lost or doubled", ledger.lost + ledger.doubled),
    ]


def _name(boosts: bool) -> str:
    return "with a boost" if boosts else "without a boost"


class Beside:
    """What the pods note."""

    def __init__(self, place: Place, nodes: Iterable[str]) -> None:
        self._files = [place.state / f"beside-{node}" for node in nodes]

    @property
    def has_begun(self) -> bool:
        """Whether all of them work."""
        return all(file.exists() and file.stat().st_size > 0 for file in self._files)

    def quantile(self, part: float, spans: Iterable[tuple[float, float]]) -> float:
        """Return a quantile of how long pieces of work took from when they were due, s.

        Args:
            part: Which, in [0, 1].
            spans: When the pieces were done, Unix seconds.
        """
        done, late = np.concatenate([np.loadtxt(file, ndmin=2) for file in self._files]).T
        within = np.zeros(done.shape, dtype=bool)
        for begin, end in spans:
            within |= (begin <= done) & (done <= end)
        return float(np.quantile(late[within], part))


@asynccontextmanager
async def working_beside(place: Place) -> AsyncIterator[Beside]:
    """Run one pod on each node; they end with the namespace."""
    nodes = [str(node["metadata"]["name"]) for node in await place.api.list("/api/v1/nodes")]
    for node in nodes:
        await place.api.create(f"/api/v1/namespaces/{place.namespace}/pods", _pod(node))
    beside = Beside(place, nodes)

    async def has_begun() -> bool | None:
        return True if beside.has_begun else None

    clock = SystemClock()
    if not await wait_until(has_begun, clock=clock, timeout=_STARTED_WITHIN, period=0.5):
        raise RuntimeError(f"Expected a pod on each of {nodes} within {_STARTED_WITHIN:g} s")
    yield beside


def _pod(node: str) -> Body:
    amounts = {"cpu": "100m", "memory": "64Mi"}
    container = {
        "name": "beside",
        "image": IMAGE,
        "command": ["python", "-c", _PROGRAM, f"{STATE_MOUNT}/beside-{node}"],
        "resources": {"requests": amounts, "limits": amounts},
        "volumeMounts": [{"name": "state", "mountPath": STATE_MOUNT}],
    }
    volumes = [{"name": "state", "persistentVolumeClaim": {"claimName": CLAIM}}]
    return restricted_pod(f"beside-{node}", node, container, volumes=volumes)
