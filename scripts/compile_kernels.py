"""Compiles what policies compute with, so that a fresh container need not: for the image's build.

    NUMBA_CACHE_DIR=/where/they/go python scripts/compile_kernels.py planner queueing

Each policy lives through a few intervals, live and in the simulator that tunings run, because a
kernel is compiled when it is first called. The compiled files serve every machine that runs under
the same `NUMBA_CPU_NAME`.
"""

# ruff: noqa: INP001  (a script, not a package)
from __future__ import annotations

import math
import sys
import time

import numpy as np

from weir_policies import registry
from weir_policies.testing import a_transition, an_observation
from weir_simulator.run import simulate
from weir_simulator.testing import an_experiment

INTERVALS = 45
"""Long enough for the planner to have made a plan of its own."""


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
    simulate(an_experiment(policy={"name": name}), seed=0)
    return time.monotonic() - began


if __name__ == "__main__":
    for each in sys.argv[1:]:
        print(f"{each}: {compile_kernels(each):.1f} s")
