"""A tuner that returns what a test wants, and small requests and answers."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

from tests.simulator.builders import an_experiment
from weir_policies.application_manager.search.protocol import Algorithm
from weir_policies.policy import CostWeights, Tuning
from weir_simulator.experiment import TraceSource
from weir_simulator.tuning.order import (
    Estimate,
    Forecast,
    Prediction,
    TuningRequest,
    TuningResult,
)


def a_request(
    *, slots: int = 200, policy: str = "hold", algorithm: Algorithm = "random"
) -> TuningRequest:
    """Return the request of a tuning of one operator that takes no time."""
    experiment = an_experiment(trace=TraceSource(file=Path("trace.txt")), policy={"name": policy})
    return TuningRequest(
        experiment=experiment,
        algorithm=algorithm,
        evaluations=2,
        judging_seeds=1,
        workers=1,
        rates=(100.0,) * slots,
        watch=20,
    )


def a_prediction(money: float) -> Prediction:
    """Return a prediction without violations and reconfigurations."""
    none = Estimate(mean=0.0, standard_error=0.0)
    return Prediction(
        money=Estimate(mean=money, standard_error=0.01), violations=none, reconfigurations=none
    )


def an_answer(budgets: dict[str, float], *, better: bool = True) -> TuningResult:
    """Return an answer that is cheaper by half, and is forecast for stretches of four intervals.

    They are forecast without restarts and violations.
    """
    best = Tuning(
        weights=CostWeights(violation=0.8, resources=0.1, reconfiguration=0.1), budgets=budgets
    )
    return TuningResult(
        algorithm="random",
        best=best,
        prediction=a_prediction(1.0),
        feasible=True,
        incumbent=best,
        incumbent_prediction=a_prediction(2.0),
        better=better,
        certainty=0.99,
        keeping=1.0,
        required=0.95,
        doubt="",
        evaluations=(),
        simulated_slots=400,
        seconds=0.1,
        ended="finished",
        forecast=Forecast(intervals=4, violations=0.0, money=1e9, restarts=0.0),
    )


class FakeTuner:
    """Answers, or fails, call by call; the last is repeated."""

    deadline = 600.0

    def __init__(self, answers: Sequence[TuningResult | Exception]) -> None:
        self._answers = list(answers)
        self.calls: list[tuple[TuningRequest, str]] = []

    async def tune(self, request: TuningRequest, *, name: str) -> TuningResult:
        """Return or raise the next answer."""
        self.calls.append((request, name))
        await asyncio.sleep(0)
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer
