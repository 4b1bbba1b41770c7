"""How long 24 runs of DQL+PDS take on two cores, 400,001 slots of the taxi trace each."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

from benchmarks.figures import Figure, at_most
from benchmarks.papers.deep_parts import Part, run_parts
from benchmarks.papers.taas2023 import Setting, describe_for

ABOUT = "24 runs of DQL+PDS side by side, 400,001 slots each"
DURATION = "3 min"

WORKERS = 2
RUNS_EACH = 12


def run() -> list[Figure]:
    """Time the runs, in two processes of twelve, imports and compilation included."""
    experiment = describe_for("dqn-pds", Setting("taxi", 10, "A", 3))
    parts = [
        Part(
            name=f"batch-{batch}",
            policy="dqn-pds",
            parameters={"published": 1},
            experiment=experiment,
            seeds=tuple(range(batch * RUNS_EACH, (batch + 1) * RUNS_EACH)),
        )
        for batch in range(WORKERS)
    ]
    began = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        outcomes = list(run_parts(parts, Path(folder), workers=WORKERS))
    seconds = time.perf_counter() - began
    slots = sum(len(outcome.runs) for outcome in outcomes) * 400_001
    return [
        at_most(figure="24 runs of DQL+PDS on A3", value=seconds, unit="s", limit=300),
        Figure(figure="slots of all runs per second", value=slots / seconds, unit="slots/s"),
    ]
