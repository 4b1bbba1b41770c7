"""The planner on the ground truth under contention, with the measurements that AuTraScale+ has.

The planner's model is one of queues, and a replica of the truth works a batch of records off
together. So the adapter's records are batches: a service time is that of a batch (batch over true
rate, hardly any variance), a rate counts batches, and what the model does not explain (channels
between replicas) is learned as network time, by the estimator of the live controller. Budgets are
shared as the live controller shares them where nothing was tuned.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from benchmarks.autrascale_runs import Outcome, judge
from weir_policies import registry
from weir_policies.application_manager.autrascale.values import Parallelism
from weir_policies.application_manager.budgets import share_budgets
from weir_policies.errors import InfeasibleObjectiveError
from weir_policies.model.dataflow import Dataflow, Edge
from weir_policies.model.estimation import OperatorBelief, ServiceMeasurement, believe, update
from weir_policies.model.node_types import Deployment, NodeType
from weir_policies.model.queueing import least_response_time
from weir_policies.policy import CostParts, Decision, Observation, OperatorModel, Transition
from weir_simulator.contention import BATCH, ContendedApplication

ONE_TYPE = (NodeType(name="replica", pool="pool", speedup=1.0, price=1.0),)
INTERVAL = 60.0
WITHIN_REACH = 1.5
"""Times the least possible response time that is aimed at where the bound is below it."""


@dataclass(slots=True)
class _Operator:
    """What the planner's world keeps of one operator."""

    specified: OperatorModel
    belief: OperatorBelief
    last: tuple[Observation, Decision] | None = None


def plan(
    truth: ContendedApplication,
    rate: float,
    bound: float,
    start: Parallelism,
    *,
    seed: int,
    ticks: int,
    policy: str = "planner",
) -> Outcome:
    """Let one planner per operator steer the application; a run is a change of the parallelism."""
    rng = np.random.default_rng([seed, 14])
    names = tuple(f"operator-{row}" for row in range(len(start)))
    flow = Dataflow(
        operators=names,
        edges=tuple(Edge(source=one, target=other) for one, other in pairwise(names)),
    )
    minds = [
        registry.build(policy, rng=np.random.default_rng([seed, row])) for row in range(len(names))
    ]
    world = [_begin(name, truth) for name in names]
    here, runs = start, 0
    for tick in range(ticks):
        seen = _observe(truth, rate, bound, here, tick, world, flow, rng)
        decisions = []
        for operator, mind, now in zip(world, minds, seen, strict=True):
            if operator.last is not None:
                mind.learn(_transition(*operator.last, now))
            decision = mind.decide(now)
            operator.last = (now, decision)
            decisions.append(decision)
        following = tuple(decision.target.size for decision in decisions)
        runs += following != here
        here = following
    return judge(truth, rate, bound, here, runs)


def _begin(name: str, truth: ContendedApplication) -> _Operator:
    model = OperatorModel(
        name=name,
        node_types=ONE_TYPE,
        max_replicas=truth.most,
        service_mean=float("nan"),
        service_scv=0.0,
        arrival_scv=1.0,
    )
    return _Operator(specified=model, belief=OperatorBelief())


def _observe(
    truth: ContendedApplication,
    rate: float,
    bound: float,
    here: Parallelism,
    tick: int,
    world: list[_Operator],
    flow: Dataflow,
    rng: np.random.Generator,
) -> list[Observation]:
    """Measure, update the beliefs, share the bound; what the live managers do in a tick."""
    measured = truth.measure(here, rate, rng=rng)
    noise = measured.latency / truth.find_latency(here, rate)
    times = truth.split_latency(here, rate) * noise
    batches, passed = rate / BATCH, measured.throughput / BATCH
    models = []
    for row, operator in enumerate(world):
        service = BATCH / measured.true_rates[row]
        operator.belief = update(
            operator.belief,
            operator.specified,
            given=[ONE_TYPE[0].name],
            services=[
                ServiceMeasurement(
                    node_type=ONE_TYPE[0].name,
                    records=passed * INTERVAL,
                    mean=service,
                    variance=0.0,
                )
            ],
            deployment=Deployment((here[row],)),
            rate=batches,
            response_time=float(times[row]),
        )
        models.append(believe(operator.belief, operator.specified, given=[ONE_TYPE[0].name]))
    budgets = _share(flow, bound, models)
    return [
        Observation(
            time=tick * INTERVAL,
            time_of_week=tick * INTERVAL / (7 * 86_400),
            interval=INTERVAL,
            model=model,
            deployment=Deployment((here[row],)),
            rate=batches,
            processed=passed,
            response_time=float(times[row]),
            utilisation=(min(passed * BATCH / measured.true_rates[row] / here[row], 1.0),)
            * here[row],
            backlog=0.0,
            replica_ages=(600.0,) * here[row],
            budget=budgets[model.name],
            most_replicas=truth.most * len(here),
        )
        for row, model in enumerate(models)
    ]


def _share(flow: Dataflow, bound: float, models: list[OperatorModel]) -> dict[str, float]:
    least = {model.name: least_response_time(model) for model in models}
    try:
        return share_budgets(flow, bound, least=least)
    except InfeasibleObjectiveError as error:
        return share_budgets(flow, WITHIN_REACH * error.least, least=least)


def _transition(before: Observation, decision: Decision, after: Observation) -> Transition:
    return Transition(
        observation=before,
        proposed=decision.target,
        enacted=after.deployment,
        cost=CostParts(
            violation=float(after.response_time > after.budget),
            resources=after.deployment.size / (after.most_replicas or after.model.max_replicas),
            reconfiguration=float(before.deployment != after.deployment),
        ),
        next_observation=after,
    )


def settle_planner(outcomes: list[Outcome]) -> Outcome:
    """Return the outcome in the middle, by replicas; met only where all are."""
    ordered = sorted(outcomes, key=lambda outcome: outcome.replicas)
    return replace(ordered[len(ordered) // 2], met=all(outcome.met for outcome in outcomes))
