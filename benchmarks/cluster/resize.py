"""Another size for a running replica, in place: how fast it takes hold.

`match` burns 20 ms of CPU per record at 32 records/s: more than half a core can serve, less than a
whole one. It is given the whole core in place and half a core again, under load. A size has taken
hold when the records of the last half second took, on average, less (or more) than halfway between
both speeds.

The runtime is steered by hand (see `cluster_job`).
"""

from __future__ import annotations

import asyncio
import math
import re
import urllib.request
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.cluster.cluster_job import HEAVY, ClusterJob, Wanted
from benchmarks.cluster.place import open_place
from benchmarks.figures import Figure, at_most, no_records
from benchmarks.flink.ledger import Arrival, longest_gap, read_arrivals
from weir_operator.runtime.protocol import Deployments

ABOUT = "sizes in place on the Kubernetes cluster that KUBECONFIG names"
DURATION = "5 min"

BURN = 0.020
"""Seconds of CPU per record."""
RATE = 32.0
"""Records/s; half a core serves 25, a whole one 50."""
HALFWAY = BURN * math.sqrt(2)
"""Seconds per record between one core's 20 ms and half a core's 40."""
WINDOW = 0.5
"""Seconds of records whose mean is looked at: five periods of the kernel's quota."""
STEADY = 1.0
"""Seconds for which a speed must be seen: others on the machine slow records down for moments."""
LOOK = 0.1
"""Seconds between two looks."""
LIMIT = 30.0
"""Seconds after which a size that has not taken hold never will."""
WARM_UP = 15.0
"""Seconds in which the JVM compiles and records queue: there is load throughout."""
SERVICE = "flink_taskmanager_job_task_operator_weir_service_"

QUARTER, HALF, WHOLE = "any/250m", "any/500m", "any/1"
FIXED: Deployments = {name: {QUARTER: 1} for name in ("source", "aggregate", "sink")}
JOB = Wanted(
    entry_class=HEAVY,
    initial={**FIXED, "match": {HALF: 1}},
    rates=[RATE],
    arguments=("--burn-ms", f"{1000 * BURN:g}"),
    pools=({"name": "any", "sizes": ["250m", "500m", "1"]},),
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Resized:
    asked: float
    granted: float
    """When the node said that it has given the size."""
    effective: float
    """When records were served at the new speed."""


def run() -> list[Figure]:
    """Resize in place."""
    return asyncio.run(_on_the_cluster())


async def _on_the_cluster() -> list[Figure]:
    async with (
        open_place("weir-bench") as place,
        ClusterJob(place, JOB.app(place), JOB.initial) as job,
    ):
        await job.lifecycle.bring_up()
        await asyncio.sleep(WARM_UP)
        before = await _attempts(job)
        up = await _resize(job, WHOLE)
        await asyncio.sleep(WARM_UP)
        down = await _resize(job, HALF)
        restarts = await _attempts(job) - before
        ledger = await job.finish()
        arrivals = read_arrivals(job.out)
    return [
        at_most("restarts by two resizes", restarts, 0),
        *_figures("500m to 1 core", up, arrivals),
        *_figures("1 core to 500m", down, arrivals),
        no_records("records lost", ledger.lost),
        no_records("records doubled", ledger.doubled),
        Figure("records over all", ledger.emitted, "records"),
    ]


async def _resize(job: ClusterJob, node_type: str) -> Resized:
    """Give `match` another size and follow its service time meanwhile."""
    match = await job.replica("match")
    faster = node_type == WHOLE
    await _follow(job, match.metrics_url, fast=not faster)
    asked = job.clock.now()
    following = asyncio.create_task(_follow(job, match.metrics_url, fast=faster))
    try:
        refusal = await job.lifecycle.resize(_sized(node_type))
        if refusal:
            raise RuntimeError(f"Expected {node_type} to be given, got: {refusal}")
        granted = job.clock.now()
        effective = await following
    finally:
        following.cancel()
    return Resized(asked=asked, granted=granted, effective=effective)


async def _follow(job: ClusterJob, url: str, *, fast: bool) -> float:
    """Return the Unix time from which on records were served on this side of the line."""
    since = math.inf
    seen: deque[tuple[float, float, float]] = deque()
    began = job.clock.now()
    while job.clock.now() - began < LIMIT:
        seen.append((job.clock.now(), *await asyncio.to_thread(_served, url)))
        while seen[-1][0] - seen[0][0] > WINDOW + LOOK:
            seen.popleft()
        records = seen[-1][1] - seen[0][1]
        if seen[-1][0] - seen[0][0] >= WINDOW and records:
            mean = (seen[-1][2] - seen[0][2]) / records
            since = min(since, seen[-1][0]) if (mean < HALFWAY) is fast else math.inf
            if seen[-1][0] - since >= STEADY:
                return since
        await asyncio.sleep(LOOK)
    raise RuntimeError(
        f"Expected records of {'less' if fast else 'more'} than {1000 * HALFWAY:.0f} ms within"
        f" {LIMIT:g} s, got others; is the machine busy?"
    )


def _served(url: str) -> tuple[float, float]:
    """Return the records that a replica has served so far, and the seconds that this took."""
    with urllib.request.urlopen(url, timeout=5) as answer:
        page = answer.read().decode()
    found = dict(re.findall(rf"^{SERVICE}(n|us_sum)\{{.*\}} (\S+)$", page, flags=re.MULTILINE))
    return float(found["n"]), float(found["us_sum"]) / 1e6


async def _attempts(job: ClusterJob) -> int:
    """Return how often the job's sink and all containers were started so far."""
    pods = await job.place.pods("taskmanager")
    containers = sum(
        int(status["restartCount"]) for pod in pods for status in pod["status"]["containerStatuses"]
    )
    return containers + len(list(job.out.glob("raw-*.csv")))  # one file per attempt of the sink


def _sized(node_type: str) -> Deployments:
    return {**FIXED, "match": {node_type: 1}}


def _figures(name: str, resized: Resized, arrivals: Sequence[Arrival]) -> list[Figure]:
    usual = longest_gap(arrivals, resized.asked - 10.0, resized.asked - 1.0)
    gap = longest_gap(arrivals, resized.asked, resized.effective + 1.0)
    return [
        at_most(f"{name}: new speed in effect after", resized.effective - resized.asked, 2, "s"),
        Figure(f"{name}: confirmed by the node after", resized.granted - resized.asked, "s"),
        Figure(f"{name}: longest gap of the 9 s before", usual, "s"),
        at_most(f"{name}: longest gap around it", gap, usual + 1.0, "s"),
    ]
