"""Builders for tests: an experiment, and runs, prices and tunings that were never simulated."""

from __future__ import annotations

from typing import Any

import numpy as np

from weir_policies.policy import CostWeights, Tuning
from weir_simulator.comparison import FinishedRun, PlannedRun, estimate
from weir_simulator.experiment import (
    Experiment,
    NodeType,
    Objective,
    Operator,
    TraceSource,
)
from weir_simulator.frontier import FrontierCandidate
from weir_simulator.result import Result
from weir_simulator.state import HISTORY
from weir_simulator.traces import TraceKind
from weir_simulator.tuning.order import (
    Estimate,
    Evaluation,
    Prediction,
    TuningRequest,
    TuningResult,
)


def an_experiment(**fields: Any) -> Experiment:  # Any: whatever field of an experiment
    """Return a small experiment with one operator and two node types, but for the given fields.

    Sections are named as in Python; what is in them may be written as in a file.
    """
    setting: dict[str, Any] = {
        "operators": (Operator(name="op", service_rate=200, scv=0.5, max_replicas=10),),
        "node_types": (
            NodeType(name="t1", speedup=1.0, price=1.0),
            NodeType(name="t2", speedup=0.5, price=0.7),
        ),
        "objective": Objective(response_time=0.05),
        "trace": TraceSource(kind=TraceKind.TAXI, slots=10),
    }
    return Experiment.model_validate({**setting, **fields}, strict=False)


def a_finished_run(
    *,
    name: str = "taxi",
    policy: str = "queueing",
    seed: int = 1,
    cost: float = 0.05,
    violations: float = 1.0,
    reconfigurations: float = 2.0,
    refusal: str = "",
) -> FinishedRun:
    """Return a run with the given outcome, or a refused one."""
    planned = PlannedRun(name=name, experiment=an_experiment(), policy=policy, seed=seed)
    if refusal:
        return FinishedRun(planned=planned, result=None, refusal=refusal)
    return FinishedRun(
        planned=planned,
        result=Result(
            policy=policy,
            seed=seed,
            average_cost=cost,
            violations=violations,
            reconfigurations=reconfigurations,
            resizes=0.0,
            losses=0,
            asked=0,
            granted=0,
            resources=3.0,
            replicas={"t1": 1.5, "t2": 0.5},
            slots=100,
            operators=1,
            seconds=0.01,
            curve_slots=np.array([1, 10, 100]),
            curve=np.array([0.2, 0.1, cost]),
            history=np.zeros((0, HISTORY)),
        ),
    )


def a_candidate(
    *, price: float, missed: tuple[float, ...], planned: float = 0.05, spread: float = 0.0
) -> FrontierCandidate:
    """Return a way to run with the given outcome, of two seeds that are `spread` from its means."""
    return FrontierCandidate(
        planned=planned,
        emphasis=1.0,
        price=estimate([price - spread, price + spread]),
        restarts=estimate([4.0, 4.0]),
        missed=tuple(estimate([share - spread, share + spread]) for share in missed),
        most_missed=tuple(share + spread for share in missed),
        replicas={"t1": price},
    )


def a_tuning(*, better: bool = True, keeps: bool = True) -> tuple[TuningRequest, TuningResult]:
    """Return a request and a possible result: three evaluations, one of them short."""
    before = Tuning(weights=CostWeights(), budgets={"op": 0.05})
    best = Tuning(weights=CostWeights(violation=0.2), budgets={"op": 0.04})
    order = TuningRequest(experiment=an_experiment(), algorithm="random", incumbent=before)
    evaluations = [
        Evaluation(
            number=number,
            origin=origin,
            point=point,
            fidelity=fidelity,
            slots=round(1000 * fidelity),
            money=money,
            violations=violations,
            reconfigurations=0.02,
            feasible=keeps and violations <= 0.05,
        )
        for number, (origin, point, fidelity, money, violations) in enumerate(
            [
                ("start", before, 1.0, 4.0, 0.01),
                ("random", best, 0.1, 2.5, 0.2),
                ("random", best, 1.0, 3.0, 0.04),
            ]
        )
    ]
    return order, TuningResult(
        algorithm="random",
        best=best,
        prediction=_a_prediction(money=3.0, violations=0.04 if keeps else 0.2),
        feasible=keeps,
        incumbent=before,
        incumbent_prediction=_a_prediction(money=4.0, violations=0.01),
        better=better and keeps,
        certainty=0.99 if better else 0.6,
        keeping=0.98,
        required=0.95,
        doubt="",
        evaluations=tuple(evaluations),
        simulated_slots=2100,
        seconds=12.0,
        ended="finished",
    )


def _a_prediction(*, money: float, violations: float) -> Prediction:
    return Prediction(
        money=Estimate(mean=money, standard_error=0.1),
        violations=Estimate(mean=violations, standard_error=0.002),
        reconfigurations=Estimate(mean=0.02, standard_error=0.0),
    )
