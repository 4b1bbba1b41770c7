"""How quick tuning is, for the paper's application A and for a chain of ten operators."""

from __future__ import annotations

import os
import time
from typing import Self
from unittest.mock import patch

from benchmarks.figures import Figure, at_most
from benchmarks.papers.applications import Application, describe
from weir_simulator.experiment import Experiment
from weir_simulator.tuning.evaluation import SimulationRun
from weir_simulator.tuning.order import TuningRequest
from weir_simulator.tuning.tune import naive_tuning, never, tune
from weir_simulator.tuning.workers import Workers

ABOUT = "time of a tuning"
DURATION = "2 min"

SLOTS = 50_001
EVALUATIONS = 25
PIPELINE = Application(name="A", types=3, milliseconds=40)
MANY = 10
"""Operators of the long chain."""


def run() -> list[Figure]:
    """Time tunings on two processes, without their start."""
    pipeline = describe(PIPELINE)
    planner = pipeline.model_copy(
        update={"policy": pipeline.policy.model_copy(update={"name": "planner", "parameters": {}})}
    )
    size = f"25 evaluations of {SLOTS:,} slots"
    return [
        at_most(f"{size}, 3 operators, QL+PDS+", time_tuning(pipeline), 10, "s"),
        at_most(f"{size}, 10 operators, QL+PDS+", time_tuning(chain(pipeline)), 60, "s"),
        at_most(f"{size}, 3 operators, planner", time_tuning(planner), 20, "s"),
    ]


def chain(pipeline: Experiment) -> Experiment:
    """Return a chain of ten operators like the pipeline's in turn, with room for their times."""
    operators = [
        pipeline.operators[place % 3].model_copy(update={"name": f"op{place}"})
        for place in range(MANY)
    ]
    document = pipeline.model_dump(mode="json", by_alias=True)
    return Experiment.model_validate(
        document
        | {
            "operators": [each.model_dump(mode="json", by_alias=True) for each in operators],
            "edges": [[f"op{place}", f"op{place + 1}"] for place in range(MANY - 1)],
            "objective": {"responseTime": "140ms"},
        },
        strict=False,
    )


def time_tuning(experiment: Experiment) -> float:
    """Return the seconds of a whole tuning, final comparison included, on warm processes."""
    began: list[float] = []

    class WarmWorkers(Workers):
        def __enter__(self) -> Self:
            up: set[int] = set()
            while self._pool is not None and len(up) < self._count:
                asked = [self._pool.submit(_linger) for _ in range(self._count)]
                up |= {each.result() for each in asked}
            short = SimulationRun(point=naive_tuning(experiment), slots=1, seed=0)
            # All wait for work, and the first run takes long enough for each to get one.
            self.evaluate([short] * self._count, should_stop=never)
            began.append(time.monotonic())
            return self

    order = TuningRequest(experiment=experiment, evaluations=EVALUATIONS, slots=SLOTS, workers=2)
    with patch("weir_simulator.tuning.tune.Workers", WarmWorkers):
        tune(order)
    return time.monotonic() - began[0]


def _linger() -> int:
    """Return which process this is, late enough for another to take the next call."""
    time.sleep(0.1)
    return os.getpid()
