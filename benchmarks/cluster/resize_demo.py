"""A night of taxi trips twice: with sizes to choose from in each pool, and with one size a pool."""

from __future__ import annotations

import subprocess

from benchmarks.figures import Figure, at_least, at_most
from benchmarks.policies.demo_policies import (
    TRACE,
    demo_manifest,
    hourly_cost,
    intervals_judged,
    run_night,
    share_over_bound,
)
from benchmarks.rows import RESULTS
from weir_operator.flink.jars import REPOSITORY
from weir_operator.loop.run_record import RecordedRun

FOLDER = RESULTS / "resize-demo"
ONE_SIZE = {"small": ["500m"], "large": ["1"]}
"""Of its sizes those that its fixed and first replicas have."""


def compare_nights() -> list[Figure]:
    """Run both and return what each cost, restarted and missed."""
    subprocess.run(["make", str(TRACE.relative_to(REPOSITORY))], cwd=REPOSITORY, check=True)
    sizes = run_night("sizes", demo_manifest(), FOLDER)
    manifest = demo_manifest()
    for pool in manifest["spec"]["nodePools"]:
        pool["sizes"] = ONE_SIZE[pool["name"]]
    one_size = run_night("one-size", manifest, FOLDER)
    return [
        *_figures("demo with sizes", sizes),
        *_figures("demo with one size a pool", one_size),
        Figure(
            figure="demo: cost with sizes against one size a pool",
            value=100 * hourly_cost(sizes) / hourly_cost(one_size),
            unit="%",
        ),
    ]


def _figures(name: str, done: RecordedRun) -> list[Figure]:
    summary = done.summary
    if summary is None or summary.lost is None or summary.doubled is None:
        raise RuntimeError(f"Expected a summary with a ledger of {name}, got none: see {FOLDER}")
    return [
        at_least(
            figure=f"{name}: intervals judged", value=intervals_judged(done), unit="", limit=60
        ),
        Figure(figure=f"{name}: restarts", value=summary.restarts, unit=""),
        Figure(figure=f"{name}: resizes", value=summary.resizes, unit=""),
        Figure(
            figure=f"{name}: intervals over the bound", value=100 * share_over_bound(done), unit="%"
        ),
        Figure(figure=f"{name}: cost per hour", value=hourly_cost(done), unit="currency"),
        at_most(
            figure=f"{name}: lost or doubled",
            value=summary.lost + summary.doubled,
            unit="records",
            limit=0,
        ),
    ]
