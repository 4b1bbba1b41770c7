"""Policies on a night of taxi trips, each on its own Flink: violations, cost, restarts.

The default policy is judged. Static is the deployment that all start with, sized for the peak, in
mode Advise. Each policy runs alone, one after the other, on the same arrivals (the trace, the seed
and so every record's schedule are equal). The policies that step by one replica have the same
interval.
"""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import yaml

from benchmarks.figures import Figure, at_least, at_most, no_records
from benchmarks.policies.live.weir_local import run_weir_local
from benchmarks.results import BUILD
from weir_operator.flink.jars import REPOSITORY
from weir_operator.loop.run_record import RecordedRun
from weir_operator.streamapp.managers import Policy

FOLDER = BUILD / "live-night"
TRACE = REPOSITORY / "build" / "demo" / "trace.txt"
INTERVALS = 62
INTERVAL = 5.0
STATIC = "static"
DEFAULT = Policy().name
POLICIES = (DEFAULT, STATIC, "queueing", "threshold-cheapest", "ds2")


def run() -> list[Figure]:
    """Run all policies and compare them."""
    subprocess.run(["make", str(TRACE.relative_to(REPOSITORY))], cwd=REPOSITORY, check=True)
    runs = {name: run_policy(name) for name in POLICIES}
    figures = [figure for name, done in runs.items() for figure in _figures(name, done)]
    ours, static = runs[DEFAULT], runs[STATIC]
    return [
        at_least(
            f"{DEFAULT}: intervals within the bound", 100 * (1 - share_over_bound(ours)), 90.0, "%"
        ),
        at_most(
            f"{DEFAULT}: cost against static",
            100 * hourly_cost(ours) / hourly_cost(static),
            99.0,
            "%",
        ),
        *figures,
    ]


def run_policy(name: str) -> RecordedRun:
    """Run the night on a real Flink with one policy."""
    manifest = demo_manifest()
    if name == STATIC:
        manifest["spec"]["mode"] = "Advise"
    elif name != "queueing":  # the example's own settings
        manifest["spec"]["operatorManager"]["policy"] = {"name": name}
    return run_night(name, manifest, FOLDER)


def demo_manifest() -> dict[str, Any]:
    """Return the night's StreamApp, `examples/trips/streamapp.yaml`."""
    manifest: dict[str, Any] = yaml.safe_load(
        (REPOSITORY / "examples/trips/streamapp.yaml").read_text()
    )
    manifest["spec"]["flink"]["job"]["jar"] = str(REPOSITORY / "build/jars/trips.jar")
    manifest["spec"]["flink"]["job"]["args"][1] = str(TRACE)
    return manifest


def run_night(
    name: str, manifest: dict[str, Any], root: Path, *, seconds: float = INTERVALS * INTERVAL + 2
) -> RecordedRun:
    """Run the night with a StreamApp of this name; its files go to a folder in `root`."""
    manifest["metadata"]["name"] = name
    folder = root / name
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "streamapp.yaml"
    path.write_text(yaml.safe_dump(manifest))
    out = folder / "out"
    for stale in out.glob("*"):
        stale.unlink()
    return run_weir_local(
        path,
        seconds=seconds,
        state=root / "state",
        ledger=out,
        options=("--fresh", "--job-args", f"--out {out}"),
    )


def _figures(name: str, done: RecordedRun) -> list[Figure]:
    summary = done.summary
    if summary is None:
        raise RuntimeError(f"Expected a summary of {name}, got none: see {FOLDER / name}")
    return [
        Figure(f"{name}: intervals over the bound", 100 * share_over_bound(done), "%"),
        Figure(f"{name}: cost per hour", hourly_cost(done), "currency"),
        Figure(f"{name}: restarts", summary.restarts),
        no_records(f"{name}: records lost", summary.lost),
        no_records(f"{name}: records doubled", summary.doubled),
    ]


def share_over_bound(done: RecordedRun) -> float:
    judged = [tick.violated for tick in done.ticks if tick.violated is not None]
    return sum(judged) / len(judged)


def hourly_cost(done: RecordedRun) -> float:
    """Return the currency that was paid per hour, so that runs of unlike length compare."""
    return sum(tick.cost_per_hour for tick in done.ticks) / len(done.ticks)
