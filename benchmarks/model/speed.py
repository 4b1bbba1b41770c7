"""How fast the simulator is: what the Application Manager's tuning rests on.

Speeds are those of the compiled loop alone, on one core, the best of several runs, because the
machine is shared. What a new process and a new machine pay for compiling is told beside them: with
the functions that Weir brings compiled (`make kernels`), and without.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from typing import Any

import numpy as np

from benchmarks.figures import Figure, at_least, at_most
from benchmarks.papers.taas2023 import Setting, describe
from weir_operator.flink.jars import REPOSITORY
from weir_policies import registry
from weir_simulator.arrivals import arrival_rates
from weir_simulator.experiment import Experiment
from weir_simulator.policies import settings_of
from weir_simulator.result import new_outcome
from weir_simulator.run import run_compiled

ABOUT = "operator-steps per second of the compiled loop, cold start"
DURATION = "2 min"

A3 = Setting("taxi", 10, "A", 3)
TABULAR = ("threshold-cheapest", "ql", "ql-pds", "ql-pds-plus")
REPEATS = 5
COLD = """
import time
began = time.perf_counter()
from pathlib import Path
from weir_policies.kernels import caching
if not {built}:
    caching.BUILT = Path("nothing")
from weir_simulator.run import simulate
from tests.simulator.builders import an_experiment
simulate(an_experiment(), seed=1, policy={policy!r})
print(time.perf_counter() - began)
"""


def run() -> list[Figure]:
    a3 = describe(A3)
    seconds = {policy: time_loop(a3, policy) for policy in TABULAR}
    slots = arrival_rates(a3.trace).size
    planner = time_loop(a3, "planner", repeats=2)
    figures = [
        *(
            at_least(f"{policy}: operator-steps on one core", slots / taken / 1e6, 5, "million/s")
            for policy, taken in seconds.items()
        ),
        at_most("QL+PDS+ on A3, 400,001 slots", seconds["ql-pds-plus"], 0.05, "s"),
        at_most("planner on A3, 400,001 slots", planner, 2, "s"),
        at_most("weir --help", time_help(), 0.5, "s"),
        *time_starts(),
    ]
    return figures


def time_loop(experiment: Experiment, policy: str, *, repeats: int = REPEATS) -> float:
    """Return the loop's wall time in seconds, the best of several runs."""
    return min(_time_once(experiment, policy) for _ in range(repeats + 1))


def _time_once(experiment: Experiment, policy: str) -> float:
    trace = arrival_rates(experiment.trace)
    settings: Mapping[str, Any] = settings_of(experiment, {})
    algorithm = registry.define(policy, settings)
    if algorithm is None:
        raise TypeError(f"Expected a compiled policy, got {policy}")
    outcome = new_outcome(trace.size, len(experiment.node_types), history=False)
    seconds, _ = run_compiled(experiment, trace, policy, algorithm, outcome, seed=1)
    return seconds


def time_help() -> float:
    """Return how long `weir --help` takes, s, the median of five."""
    command = [sys.executable, "-m", "weir_cli.main", "--help"]
    taken = []
    for _ in range(5):
        began = time.perf_counter()
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        taken.append(time.perf_counter() - began)
    return float(np.median(taken))


def time_starts() -> list[Figure]:
    """Return what a first run costs: with what Weir brings, with all to compile, and later."""
    subprocess.run([sys.executable, "scripts/compile_kernels.py"], check=True, cwd=REPOSITORY)
    figures = []
    for policy in ("ql-pds-plus", "planner"):
        with tempfile.TemporaryDirectory() as cache:
            first = _time_start(policy, cache, built=True)
        with tempfile.TemporaryDirectory() as cache:
            cold = _time_start(policy, cache, built=False)
            warm = _time_start(policy, cache, built=False)
        figures += [
            at_most(f"first run ever with {policy}", first, 5, "s"),
            Figure(f"first run ever with {policy}, all to compile", cold, "s"),
            Figure(f"first run of a process with {policy}", warm, "s"),
        ]
    return figures


def _time_start(policy: str, cache: str, *, built: bool) -> float:
    """Return the seconds of a process that runs an experiment, imports included."""
    done = subprocess.run(
        [sys.executable, "-c", COLD.format(policy=policy, built=built)],
        env={**os.environ, "NUMBA_CACHE_DIR": cache},
        check=True,
        capture_output=True,
        text=True,
    )
    return float(done.stdout)
