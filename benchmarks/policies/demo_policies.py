"""The policies on a night of taxi trips, each on its own Flink: violations, cost, restarts.

Static is the deployment that the others start with, sized for the peak, in mode Advise. Each policy
runs alone, one after the other, on the same arrivals (the trace, the seed and so every
record's schedule are equal). The policies that step by one replica have the same interval.
"""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import yaml
from rich.console import Console
from rich.table import Table

from benchmarks.figures import Figure, at_least, at_most
from benchmarks.policies.weir_local import run_weir_local
from weir_operator.flink.jars import REPOSITORY
from weir_operator.loop.run_record import RecordedRun

ABOUT = "queueing, threshold, ds2 and a static deployment for the peak on a night of taxi trips"
DURATION = "25 min"

FOLDER = REPOSITORY / "build" / "benchmarks" / "demo-policies"
TRACE = REPOSITORY / "build" / "demo" / "trace.txt"
INTERVALS = 62
INTERVAL = 5.0
STATIC = "static"
POLICIES = ("queueing", STATIC, "threshold-cheapest", "ds2")


def run() -> list[Figure]:
    """Run all policies and compare them."""
    subprocess.run(["make", str(TRACE.relative_to(REPOSITORY))], cwd=REPOSITORY, check=True)
    runs = {name: run_policy(name) for name in POLICIES}
    Console().print(_table(runs))
    figures = [figure for name, done in runs.items() for figure in _figures(name, done)]
    ours, static = runs["queueing"], runs[STATIC]
    up, down = _directions(ours)
    return [
        at_least(
            figure="queueing: intervals within the bound", unit="%", limit=90.0,
            value=100 * (1 - share_over_bound(ours)),
        ),
        at_most(
            figure="queueing: cost against static", unit="%", limit=99.0,
            value=100 * hourly_cost(ours) / hourly_cost(static),
        ),
        at_least(
            figure="queueing: intervals judged", unit="", limit=60, value=intervals_judged(ours),
        ),
        at_least(figure="queueing: rescales", unit="", limit=4, value=up + down),
        at_least(figure="queueing: rescales to more", unit="", limit=1, value=up),
        at_least(figure="queueing: rescales to less", unit="", limit=1, value=down),
        *figures,
    ]  # fmt: skip


def run_policy(name: str) -> RecordedRun:
    """Run the night on a real Flink with one policy."""
    manifest = demo_manifest()
    if name == STATIC:
        manifest["spec"]["mode"] = "Advise"
    elif name != "queueing":
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
        Figure(
            figure=f"{name}: intervals over the bound", value=100 * share_over_bound(done), unit="%"
        ),
        Figure(figure=f"{name}: cost", value=summary.cost, unit="currency"),
        Figure(figure=f"{name}: restarts", value=summary.restarts, unit=""),
        Figure(figure=f"{name}: resizes", value=summary.resizes, unit=""),
        Figure(figure=f"{name}: mean response time", value=summary.response_mean, unit="s"),
        at_most(figure=f"{name}: records lost", value=summary.lost, unit="records", limit=0),
        at_most(figure=f"{name}: records doubled", value=summary.doubled, unit="records", limit=0),
    ]


def share_over_bound(done: RecordedRun) -> float:
    """Return the share of the intervals that were judged, in [0, 1]."""
    judged = [tick.violated for tick in done.ticks if tick.violated is not None]
    return sum(judged) / len(judged)


def intervals_judged(done: RecordedRun) -> int:
    """Return how many intervals could be judged: fewer than ran tell of a machine too busy."""
    return sum(tick.violated is not None for tick in done.ticks)


def hourly_cost(done: RecordedRun) -> float:
    """Return the currency that was paid per hour, so that runs of unlike length compare."""
    return sum(tick.cost_per_hour for tick in done.ticks) / len(done.ticks)


def _directions(done: RecordedRun) -> tuple[int, int]:
    """Count the rescales that led to dearer deployments, and to cheaper ones."""
    hourly = [(tick.time, tick.cost_per_hour) for tick in done.ticks]
    up = down = 0
    for change in done.rescales:
        if change.kind != "rescale" or change.finished is None:
            continue
        before = [cost for time, cost in hourly if time < change.started]
        after = [cost for time, cost in hourly if time > change.finished]
        if before and after:
            up += after[0] > before[-1]
            down += after[0] < before[-1]
    return up, down


def _table(runs: dict[str, RecordedRun]) -> Table:
    table = Table(title="Bound 500 ms, intervals of 5 s")
    table.add_column("policy")
    for heading in ("intervals", "over the bound", "cost/h", "restarts", "resizes", "mean", "p95"):
        table.add_column(heading, justify="right")
    for name, done in runs.items():
        summary = done.summary
        if summary is None:
            continue
        table.add_row(
            name,
            str(intervals_judged(done)),
            f"{share_over_bound(done):.1%}",
            f"{hourly_cost(done):.3f}",
            str(summary.restarts),
            str(summary.resizes),
            f"{1000 * summary.response_mean:.0f} ms",
            f"{1000 * summary.response_p95:.0f} ms",
        )
    return table
