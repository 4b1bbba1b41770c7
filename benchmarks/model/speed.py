"""How fast the simulator is: what the Application Manager's tuning rests on.

Speeds are those of the compiled loop alone, on one core, the best of several runs, because the
machine is shared. What a new process and a new machine pay for compiling is told beside them: with
the functions that Weir brings compiled (`make kernels`), and without.
"""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.figures import Figure, at_least, at_most
from benchmarks.papers.deep_parts import Part, run_parts
from benchmarks.papers.taas2023 import Setting, describe, describe_for
from weir_operator.flink.jars import REPOSITORY
from weir_policies import registry
from weir_simulator.arrivals import arrival_rates
from weir_simulator.experiment import Experiment
from weir_simulator.policies import settings_of
from weir_simulator.result import new_outcome
from weir_simulator.run import run_compiled

ABOUT = "operator-steps per second of the compiled loop, cold start, growth with operators"
DURATION = "5 min, most of it for 24 runs of DQL+PDS"

A3 = Setting("taxi", 10, "A", 3)
TABULAR = ("threshold-cheapest", "ql", "ql-pds", "ql-pds-plus")
WORKERS, RUNS_EACH = 2, 12
"""Processes of the deep runs, and runs of each."""
REPEATS = 5
SIZES = (10, 100, 1000)
SLOTS_OF_MANY = 2_000
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
{memory}
"""
FIRST_EVALUATION = """
import time
began = time.perf_counter()
from tests.simulator.builders import an_experiment
from weir_simulator.tuning.order import TuningRequest
from weir_simulator.tuning.tune import tune
def note(evaluation):
    if evaluation.number == 0:
        print(time.perf_counter() - began)
experiment = an_experiment(policy={{"name": {policy!r}}}, trace={{"kind": "taxi", "slots": 600}})
tune(TuningRequest(experiment=experiment, evaluations=2, workers=1), on_evaluation=note)
{memory}
"""
"""The first one of a tuning; reads what Weir brings."""
MEMORY = """
from pathlib import Path
# What getrusage says would include the process that started this one.
[peak] = [line for line in Path("/proc/self/status").open() if line.startswith("VmHWM:")]
print(int(peak.split()[1]) / 1024)
"""


def run() -> list[Figure]:
    a3 = describe(A3)
    seconds = {policy: time_loop(a3, policy) for policy in TABULAR}
    slots = arrival_rates(a3.trace).size
    planner = time_loop(a3, "planner", repeats=2)
    per_step = [time_many(operators) for operators in SIZES]
    figures = [
        *(
            at_least(
                figure=f"{policy}: operator-steps on one core",
                value=slots / taken / 1e6, unit="million/s", limit=5,
            )
            for policy, taken in seconds.items()
        ),
        at_most(
            figure="QL+PDS+ on A3, 400,001 slots",
            value=seconds["ql-pds-plus"], unit="s", limit=0.05,
        ),
        at_most(figure="planner on A3, 400,001 slots", value=planner, unit="s", limit=2),
        *(
            Figure(
                figure=f"time per operator-step, {operators:,} operators",
                value=taken * 1e9, unit="ns",
            )
            for operators, taken in zip(SIZES, per_step, strict=True)
        ),
        at_most(
            figure="time per operator-step, 1,000 operators against 10",
            value=per_step[-1] / per_step[0], unit="times", limit=2,
        ),
        at_most(figure="weir --help", value=time_help(), unit="s", limit=0.5),
        *time_starts(),
        *time_deep_runs(),
    ]  # fmt: skip
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


def time_many(operators: int) -> float:
    """Return seconds per operator and slot in a chain of so many operators."""
    names = [f"op{place}" for place in range(operators)]
    experiment = Experiment.model_validate(
        {
            "operators": [
                {"name": name, "serviceRate": 180, "scv": 0.5, "maxReplicas": 10} for name in names
            ],
            "edges": [list(pair) for pair in itertools.pairwise(names)],
            "nodeTypes": [
                {"name": "t1", "speedup": 1.0, "price": 1.0},
                {"name": "t2", "speedup": 0.7, "price": 0.7},
            ],
            "objective": {"responseTime": f"{50 * operators}ms"},
            "rate": {"levels": 10, "max": 650},
            "trace": {"kind": "taxi", "slots": SLOTS_OF_MANY},
        },
        strict=False,
    )
    return time_loop(experiment, "ql-pds", repeats=2) / operators / SLOTS_OF_MANY


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
            first, memory = _time_start(policy, cache, built=True)
        with tempfile.TemporaryDirectory() as cache:
            tuning, _ = _time_start(policy, cache, built=True, script=FIRST_EVALUATION)
        with tempfile.TemporaryDirectory() as cache:
            cold, most = _time_start(policy, cache, built=False)
            warm, _ = _time_start(policy, cache, built=False)
        figures += [
            at_most(figure=f"first run ever with {policy}", value=first, unit="s", limit=5),
            at_most(
                figure=f"first tuning ever with {policy}: until its first evaluation",
                value=tuning, unit="s", limit=5,
            ),
            Figure(figure=f"first run ever with {policy}: memory", value=memory, unit="MiB"),
            Figure(figure=f"first run ever with {policy}, all to compile", value=cold, unit="s"),
            Figure(
                figure=f"first run ever with {policy}, all to compile: memory",
                value=most, unit="MiB",
            ),
            Figure(figure=f"first run of a process with {policy}", value=warm, unit="s"),
        ]  # fmt: skip
    return figures


def _time_start(policy: str, cache: str, *, built: bool, script: str = COLD) -> tuple[float, float]:
    """Return the seconds, imports included, and the MiB of a process that runs a script."""
    done = subprocess.run(
        [sys.executable, "-c", script.format(policy=policy, built=built, memory=MEMORY)],
        env={**os.environ, "NUMBA_CACHE_DIR": cache},
        check=True,
        capture_output=True,
        text=True,
    )
    seconds, memory = done.stdout.split()
    return float(seconds), float(memory)


def time_deep_runs() -> list[Figure]:
    """Time the runs, in two processes of twelve, imports and compilation included."""
    experiment = describe_for("dqn-pds", A3)
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
