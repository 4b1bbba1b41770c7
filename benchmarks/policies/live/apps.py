"""The two jobs and the two traces that `live` compares policies on, and the arms of it.

Service times are CPU: what takes a core of speed 1 90 ms takes `quotas.CORE` of that of the
machine's own, and the quotas make it slow again. They are long beside `quotas.MAX_PERIOD`: a
record that ends before a period's quota is used up was never slow, and a replica would be the
faster the less it has to do.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from benchmarks.policies.live.quotas import CORE
from weir_operator.flink.jars import JARS, REPOSITORY
from weir_simulator.traces import Trace, TraceKind, compress, cut, read_trace, synthesise

SHARED = REPOSITORY.parent / "shared" / "traces"
INTERVAL = 5
"""Seconds between two decisions, and that a line of a trace lasts."""
LINES = 34
"""Of a trace: three hours in three minutes, too short for Weir to tune by itself meanwhile."""
LEARNED_LINES = 120
"""The ten hours before them, from which Weir learns. Of half as many, chance moves the quarter
that is held out by a tenth: too near to what makes a fit a bad one."""
KNOWN_LINES = 2016
"""The week before the comparison, on which it tunes, with a simulator fitted meanwhile."""
MINUTES = 5
"""Real ones that a line stands for. With more of them the rates move faster than JVMs start, and no
policy can do better than to stay."""
FASTER = MINUTES * 60 / INTERVAL
"""How many times faster than in the traces time passes: 60."""
BEGIN: Mapping[str, int] = {"taxi": 14_340, "tweets": 60_480}
"""Line of each published trace from which on arms are compared: late evening; a day of bursts."""
BUSY = 0.7
"""Share of a replica that static peak uses at most, as an autoscaler's usual target."""
MAX_VIOLATIONS = "1%"
"""What is compared at equal violations has to be as good as none: a run has 34 intervals."""
MAX_RESTARTS = 500
"""Of a day that passes sixty times faster: eight. What a restart costs does not pass faster."""
REFIT = "5m"
"""Between two fits: the second sees nearly all of learning. An arm ends before the first."""
MAX_REPLICAS = 3
"""Of an operator: as many as the machine bears JVMs, and twice what the peak needs."""
TOO_SMALL = "250m"
"""Its quota is less than the kernel takes."""
LARGE = "large/1"
LARGE_SPEED = 1.6


class Arm(StrEnum):
    """What decides about a job."""

    HAND = "hand-set weights"
    TUNED = "tuned weights"
    AUTOSCALER = "flink-autoscaler"
    STATIC = "static peak"


@dataclass(frozen=True, kw_only=True, slots=True)
class App:
    """A job, and how it is run for the comparison."""

    name: str
    entry_class: str
    work: Mapping[str, float]
    """Seconds of a core of speed 1 per record of the source, by scaled operator."""
    arguments: tuple[str, ...]
    most: int
    """Records/s at the peak of a trace."""
    bound: str
    memory: str
    managed: Mapping[str, str]
    """Managed memory by operator."""
    config: Mapping[str, str]
    ledger: bool
    """Whether the job keeps one, by which lost and doubled records are counted."""


APPS: Mapping[str, App] = {
    "trips": App(
        name="trips",
        entry_class="example.Trips",
        work={"match": 0.090, "aggregate": 0.060},
        arguments=(
            *("--service.match-ms", f"{90 * CORE:g}"),
            *("--service.aggregate-ms", f"{60 * CORE:g}"),
        ),
        most=24,
        bound="1500ms",
        memory="1Gi",
        managed={},
        config={},
        ledger=True,
    ),
    "hotitems": App(
        name="hotitems",
        entry_class="example.HotItems",
        work={"bid": 0.090, "count": 0.060},
        # A bid is counted in five windows.
        arguments=(
            *("--service.bid-ms", f"{90 * CORE:g}"),
            *("--service.count-ms", f"{60 * CORE / 5:g}"),
        ),
        most=24,
        bound="2s",
        memory="1Gi",
        managed={"count": "128Mi", "sink": "128Mi"},
        config={"state.backend.type": "rocksdb"},
        ledger=False,
    ),
}


def make_trace(kind: str) -> tuple[Trace, Trace]:
    """Return the rates that are known before and those that are compared on.

    Args:
        kind: `taxi` or `tweets`; made up in its shape where the traces are not beside the project.

    Returns:
        Shapes `(KNOWN_LINES,)` and `(LINES,)`, one after the other in time, scaled together so
        that the peak of the second is 1.
    """
    begin, lines = BEGIN[kind], KNOWN_LINES + LINES
    file = SHARED / f"{kind}.txt"
    if file.exists():
        whole = read_trace(file)
    else:
        rng = np.random.default_rng(5)
        whole = synthesise(TraceKind(kind), slots=begin + LINES * MINUTES, rng=rng)
    minutes = cut(whole, start=begin - KNOWN_LINES * MINUTES, slots=lines * MINUTES)
    rates = compress(minutes, slots=MINUTES)
    rates = rates / rates[KNOWN_LINES:].max()
    return rates[:KNOWN_LINES], rates[KNOWN_LINES:]


def describe(app: App, arm: Arm, *, trace: Path, out: Path, seed: int) -> dict[str, Any]:
    """Return the StreamApp of a run.

    Args:
        app: Which job.
        arm: What decides.
        trace: File of the rates, scaled to the peak 1.
        out: Folder of the job's own files.
        seed: Of arrivals and service times.
    """
    scaled = [
        {
            "name": name,
            "maxReplicas": MAX_REPLICAS,
            "initial": {LARGE: replicas_at_peak(app, name)},
        }
        for name in app.work
    ]
    ends = [
        {"name": name, "maxReplicas": 1, "fixed": {"small/500m": 1}} for name in ("source", "sink")
    ]
    operators: list[dict[str, Any]] = [ends[0], *scaled, ends[1]]
    for operator in operators:
        if operator["name"] in app.managed:
            operator["managedMemory"] = app.managed[operator["name"]]
    manifest = yaml.safe_load((REPOSITORY / "examples/trips/streamapp.yaml").read_text())
    spec = manifest["spec"]
    spec["flink"] = {
        "job": {
            "jar": str(JARS / f"{app.name}.jar"),
            "entryClass": app.entry_class,
            "args": [
                *("--trace", str(trace), "--scale", str(app.most), "--slot-seconds", str(INTERVAL)),
                *("--seed", str(seed), "--out", str(out), "--work", "limited"),
                *app.arguments,
            ],
        },
        "maxParallelism": spec["flink"]["maxParallelism"],
        "config": dict(app.config),
    }
    spec["objective"] |= {
        "responseTime": {"bound": app.bound, "statistic": "mean"},
        "maxViolations": MAX_VIOLATIONS,
        "maxRestartsPerDay": MAX_RESTARTS,
    }
    for pool in spec["nodePools"]:
        pool["memory"] = app.memory
        pool["sizes"] = [size for size in pool["sizes"] if size != TOO_SMALL]
    spec["operators"] = operators
    # Arms are not compared on how soon a busy machine starts a JVM.
    spec["rescale"] = {"startDeadline": "3m", "submitDeadline": "2m"}
    spec["operatorManager"] = {"interval": f"{INTERVAL}s", "policy": _policy(arm)}
    spec["applicationManager"] |= {"interval": REFIT}
    return {
        "apiVersion": manifest["apiVersion"],
        "kind": manifest["kind"],
        "metadata": {"name": app.name},
        "spec": spec,
    }


def replicas_at_peak(app: App, operator: str) -> int:
    """Return the least replicas that are at most `BUSY` when most records come."""
    return math.ceil(app.most * app.work[operator] / LARGE_SPEED / BUSY)


def _policy(arm: Arm) -> dict[str, Any]:
    if arm is Arm.STATIC:
        return {"name": "hold"}
    if arm is not Arm.AUTOSCALER:
        return {"name": "planner"}
    # Its defaults, as many times shorter as the traces are; nothing is shorter than a decision.
    seconds = {
        "metrics_window": 900,
        "stabilisation": 300,
        "scale_down_interval": 3600,
        "catch_up": 1800,
        "restart_time": 300,
        "lag_threshold": 300,
    }
    settings = {name: value / FASTER for name, value in seconds.items()}
    settings["metrics_window"] = max(settings["metrics_window"], INTERVAL)
    return {"name": "flink-autoscaler", "settings": settings}
