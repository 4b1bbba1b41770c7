"""The simulator beside reality: a night of taxi trips on a real Flink, and the same simulated.

What the simulator knows is what `fidelity-queueing` calibrated on other deployments (service time
over its nominal value, its variability, the network time), that night's trace, what `rescale`
measured of a restart, and how exactly a rate can be counted in 5 s. The same policy with the same
settings decides in both. Violations, cost against the first deployment, restarts and response times
stand side by side.

Where the two part, it is by a decision: the real one comes an interval late after each restart,
because what is measured then is the restart, and the deployments then differ for the rest of the
night. So the model is also asked for the response time of the deployments and rates of the real
night, which leaves the decisions out.
"""

from __future__ import annotations

import asyncio
import json
import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import yaml

from benchmarks.figures import Figure
from benchmarks.model.fidelity_queueing import PARAMETERS, calibrate
from benchmarks.policies.live.night import INTERVAL, INTERVALS, TRACE, run_policy
from weir_operator.flink.jars import REPOSITORY
from weir_operator.loop.run_record import RecordedRun, TickRecord
from weir_operator.streamapp import world
from weir_operator.streamapp.loading import parse_manifest
from weir_operator.streamapp.models import StreamApp
from weir_policies.model.node_types import NodeType
from weir_policies.model.queueing import predict
from weir_simulator.beliefs import true_models
from weir_simulator.experiment import Experiment
from weir_simulator.result import Result
from weir_simulator.run import simulate
from weir_simulator.state import AT_CHANGE, AT_PRICE, AT_TIME, RESIZE, RESTART

ABOUT = "a night of taxi trips simulated, beside the same night on a real Flink"
DURATION = "8 min"

POLICY = "queueing"
NOMINAL = {"match": 0.030, "aggregate": 0.020}
"""Seconds of work per record that the job asks for."""
DOWNTIME = "1s"
"""Gap of a restart with six TaskManagers (`rescale`: 0.7 to 1.0 s)."""
COUNTED = 0.08
"""Relative error of a rate that is counted for 5 s at 30 records/s, if arrivals are Poisson."""
SEEDS = range(1, 11)
OPERATORS = ("match", "aggregate")


@dataclass(frozen=True, kw_only=True, slots=True)
class Night:
    """What came of a night, in either world."""

    violations: float
    """Percent of intervals."""
    cost: float
    """Mean price of the two operators against their first deployment."""
    restarts: float
    resizes: float
    median_response: float
    """Seconds."""


def run() -> list[Figure]:
    """Run the night for real and simulated; compare."""
    manifest = yaml.safe_load((REPOSITORY / "examples/trips/streamapp.yaml").read_text())
    app = parse_manifest(manifest)
    experiment = describe(app, read_parameters())
    done = run_policy(POLICY)
    real = look_at(done, app)
    simulated = average(
        [summarise(simulate(experiment, seed=seed, history=True)) for seed in SEEDS]
    )
    ratios = compare_with_model(done, experiment)
    pairs: Sequence[tuple[str, float, float, str]] = (
        ("intervals over the bound", real.violations, simulated.violations, "%"),
        ("cost against the first deployment", 100 * real.cost, 100 * simulated.cost, "%"),
        ("restarts", real.restarts, simulated.restarts, ""),
        ("resizes", real.resizes, simulated.resizes, ""),
        ("median response time", 1000 * real.median_response, 1000 * simulated.median_response,
         "ms"),
    )  # fmt: skip
    return [
        Figure(figure=f"{name}, {where}", value=value, unit=unit)
        for name, here, there, unit in pairs
        for where, value in (("real", here), ("simulated", there))
    ] + [
        Figure(
            figure="response time predicted for the real deployments / measured, median",
            value=statistics.median(ratios),
            unit="",
        ),
        Figure(figure="intervals with a measured response time", value=len(ratios), unit=""),
    ]


def read_parameters() -> Mapping[str, Mapping[str, float]]:
    """Return what `fidelity-queueing` calibrated; calibrate where that was not done yet."""
    if not PARAMETERS.exists():
        asyncio.run(calibrate())
    learned: Mapping[str, Mapping[str, float]] = json.loads(PARAMETERS.read_text())
    return learned


def describe(app: StreamApp, learned: Mapping[str, Mapping[str, float]]) -> Experiment:
    """Return the night as an experiment."""
    operators = []
    for name in OPERATORS:
        told = learned[name]
        service = NOMINAL[name] + told["service_mean"] - told["nominal"]
        operators.append(
            {
                "name": name,
                "serviceRate": 1 / service,
                "scv": told["service_scv"],
                "maxReplicas": world.operator_named(app, name).max_replicas,
                "keyed": name == "aggregate",
                "sharing": "equal" if name == "aggregate" else "byLoad",
                "keyGroups": app.spec.flink.max_parallelism if name == "aggregate" else None,
                "aggregation": "average",
                "networkTime": told["network_time"],
            }
        )
    policy = app.spec.operator_manager.policy
    sections: dict[str, Any] = {
        "operators": operators,
        "edges": [list(OPERATORS)],
        "nodeTypes": [
            {
                "name": each.name,
                "speedup": each.speedup,
                "price": each.price,
                "pool": each.pool,
            }
            for each in world.node_types(app, OPERATORS[0])
        ],
        "objective": {"responseTime": app.spec.objective.response_time.bound.text},
        "trace": {"file": str(TRACE), "slots": INTERVALS},
        "policy": {"name": policy.name, "parameters": dict(policy.settings)},
        "initial": {"large/1": 3},
        "slot": INTERVAL,
        "world": {"resizes": True, "downtime": DOWNTIME, "noise": COUNTED},
    }
    return Experiment.model_validate(sections, strict=False)


def look_at(done: RecordedRun, app: StreamApp) -> Night:
    """Return what came of the real night; the operators that do not scale are left out."""
    judged = [tick for tick in done.ticks if tick.violated is not None]
    prices = [_price(tick, world.node_types(app, OPERATORS[0])) for tick in done.ticks]
    changes = [change for change in done.rescales if change.finished is not None]
    return Night(
        violations=100 * sum(bool(tick.violated) for tick in judged) / len(judged),
        cost=statistics.fmean(prices) / prices[0],
        restarts=sum(change.kind == "rescale" for change in changes),
        resizes=sum(change.kind == "resize" for change in changes),
        median_response=statistics.median(tick.response_time.mean for tick in judged),
    )


def _price(tick: TickRecord, node_types: Sequence[NodeType]) -> float:
    price = {each.name: each.price for each in node_types}
    return sum(
        count * price[name]
        for operator in tick.operators
        if operator.name in OPERATORS
        for name, count in operator.replicas.items()
    )


def summarise(result: Result) -> Night:
    """Return what came of a simulated night."""
    history = result.history
    times = [time for time in history[:, AT_TIME].tolist() if math.isfinite(time)]
    return Night(
        violations=result.violations,
        cost=float(history[:, AT_PRICE].mean() / history[0, AT_PRICE]),
        restarts=int((history[:, AT_CHANGE] == RESTART).sum()),
        resizes=int((history[:, AT_CHANGE] == RESIZE).sum()),
        median_response=statistics.median(times),
    )


def average(nights: Sequence[Night]) -> Night:
    """Return the mean of every figure."""
    return Night(
        violations=statistics.fmean(night.violations for night in nights),
        cost=statistics.fmean(night.cost for night in nights),
        restarts=statistics.fmean(night.restarts for night in nights),
        resizes=statistics.fmean(night.resizes for night in nights),
        median_response=statistics.fmean(night.median_response for night in nights),
    )


def compare_with_model(done: RecordedRun, experiment: Experiment) -> Sequence[float]:
    """Return predicted / measured response time of each interval with the deployments it had."""
    models = {model.name: model for model in true_models(experiment)}
    ratios = []
    for tick in done.ticks:
        if math.isnan(tick.rate) or math.isnan(tick.response_time.mean):
            continue
        predicted = 0.0
        for operator in tick.operators:
            if operator.name in models:
                model = models[operator.name]
                counts = [operator.replicas.get(each.name, 0) for each in model.node_types]
                predicted += float(predict(model, np.array([counts]), tick.rate).response_time[0])
        if math.isfinite(predicted):
            ratios.append(predicted / tick.response_time.mean)
    return ratios
