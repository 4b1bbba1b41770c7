"""Compiles what policies compute with, so that nobody waits for it in a first run.

    python scripts/compile_kernels.py [POLICY...]

The compiled functions go to `policies/weir_policies/kernels/built`, from where the package's wheel,
the images and the source tree take them (`weir_policies.kernels.caching`). They are the functions
that Python calls: what these call is part of them.

Each policy lives through a few intervals, live and in the simulator that tunings and trainings run,
because a function is compiled when it is first called. Everything that is compiled is stored in
`build/kernels`, so that a second run compiles only what has changed.
"""

# ruff: noqa: INP001  (a script, not a package)
from __future__ import annotations

import math
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numba.core.dispatcher import Dispatcher

from weir_policies import registry
from weir_policies.kernels.caching import BUILT, OURS, find_files
from weir_policies.testing import a_transition, an_observation
from weir_simulator.experiment import Experiment
from weir_simulator.run import simulate
from weir_simulator.training import train_policies

USUAL = ("planner", "queueing", "ql-pds-plus", "threshold-cheapest")
"""The default policy, the one that it is compared with, and those of the first steps."""
INTERVALS = 45
"""Long enough for the planner to have made a plan of its own."""
CACHE = Path(__file__).parents[1] / "build" / "kernels"
EXPERIMENT = {
    "operators": [{"name": "op", "serviceRate": 200, "scv": 0.5, "maxReplicas": 10}],
    "nodeTypes": [
        {"name": "t1", "speedup": 1.0, "price": 1.0},
        {"name": "t2", "speedup": 0.5, "price": 0.7},
    ],
    "objective": {"responseTime": 0.05},
    "trace": {"kind": "taxi", "slots": 10},
}


def compile_kernels(name: str) -> float:
    """Let the policy `name` decide and learn under a changing rate; return the seconds it took."""
    began = time.monotonic()
    policy = registry.build(name, rng=np.random.default_rng(0))
    observation = an_observation()
    for interval in range(INTERVALS):
        policy.decide(observation)
        following = an_observation(
            time=60.0 * (interval + 1),
            rate=100.0 + 50.0 * math.sin(interval / 5),
        )
        policy.learn(a_transition(observation, following))
        observation = following
    experiment = Experiment.model_validate({**EXPERIMENT, "policy": {"name": name}}, strict=False)
    simulate(experiment, seed=0)
    train_policies(experiment, slots=INTERVALS, seed=0)
    return time.monotonic() - began


def collect(target: Path) -> None:
    """Copy the functions that this process has loaded to a folder, and delete what is there.

    As each version of Python compiled them that has used the same cache.
    """
    shutil.rmtree(target, ignore_errors=True)
    for function in _find_loaded():
        python = function.py_func
        folder = target / python.__module__
        folder.mkdir(parents=True, exist_ok=True)
        cache = Path(str(function.stats.cache_path))
        for file in find_files(cache, python.__module__, python.__qualname__):
            shutil.copyfile(file, folder / file.name)


def _find_loaded() -> Iterator[Dispatcher]:
    """Return Weir's functions that were loaded, not compiled."""
    ours = {name: module for name, module in sys.modules.items() if name.startswith(OURS)}
    for name, module in ours.items():
        for value in vars(module).values():
            # An imported function belongs to another module.
            is_own = isinstance(value, Dispatcher) and value.py_func.__module__ == name
            if is_own and value.stats.cache_hits:
                yield value


def _run(step: str, *names: str) -> None:
    command = [sys.executable, __file__, step, *names]
    subprocess.run(command, check=True, env={**os.environ, "NUMBA_CACHE_DIR": str(CACHE)})


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["--compile", *names]:
            for each in names:
                print(f"{each}: {compile_kernels(each):.1f} s", flush=True)
        case ["--collect", *names]:
            for each in names:
                compile_kernels(each)
            collect(BUILT)
        case names:
            # A process of its own calls only what Python calls once all is compiled.
            _run("--compile", *(names or USUAL))
            _run("--collect", *(names or USUAL))
