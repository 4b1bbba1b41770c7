"""Values for the tests of this package and of others.

The example is small: an operator `match` with two sizes in the pool `small` and one in `large`, a
service time of 10 ms at speedup 1, and a bound of 50 ms.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from weir_policies.model.arrays import Counts
from weir_policies.model.node_types import Deployment, NodeType
from weir_policies.policy import (
    CostParts,
    Decision,
    Expectation,
    Observation,
    OperatorModel,
    Transition,
)

SMALL = NodeType(name="small/500m", pool="small", speedup=0.5, price=0.02)
WIDE = NodeType(name="small/1", pool="small", speedup=1.0, price=0.04)
LARGE = NodeType(name="large/1", pool="large", speedup=1.6, price=0.05)
NODE_TYPES = (SMALL, WIDE, LARGE)
"""Node types in the order of every deployment built here."""


def a_model(**changes: Any) -> OperatorModel:
    """Return the operator `match`, fields changed by name."""
    fields: dict[str, Any] = {
        "name": "match",
        "node_types": NODE_TYPES,
        "max_replicas": 10,
        "service_mean": 0.01,
        "service_scv": 1.0,
    }
    return OperatorModel(**fields | changes)


def an_observation(**changes: Any) -> Observation:
    """Return a calm interval of `match`, fields changed by name.

    `utilisation` and `replica_ages` follow the deployment unless they are given.
    """
    model: OperatorModel = changes.pop("model", None) or a_model()
    deployment: Deployment = changes.pop("deployment", None) or Deployment((0, 2, 0))
    rate: float = changes.pop("rate", 100.0)
    busy = rate / max(deployment.size, 1) * model.service_mean
    utilisation = tuple(
        min(busy / node_type.speedup, 1.0)
        for count, node_type in zip(deployment.counts, model.node_types, strict=True)
        for _ in range(count)
    )
    fields: dict[str, Any] = {
        "time": 0.0,
        "time_of_week": 0.25,
        "interval": 60.0,
        "model": model,
        "deployment": deployment,
        "rate": rate,
        "processed": rate,
        "response_time": 0.02,
        "utilisation": utilisation,
        "backlog": 0.0,
        "replica_ages": (600.0,) * deployment.size,
        "budget": 0.05,
    }
    return Observation(**fields | changes)


def a_transition(observation: Observation, following: Observation) -> Transition:
    """Return the interval between two observations, all granted and nothing violated."""
    return Transition(
        observation=observation,
        proposed=following.deployment,
        enacted=following.deployment,
        cost=CostParts(violation=0.0, resources=0.1, reconfiguration=0.0),
        next_observation=following,
    )


def all_deployments(node_types: int, *, max_replicas: int) -> Counts:
    """Return every deployment of up to `max_replicas` replicas, shape `(d, t)`."""
    every = itertools.product(range(max_replicas + 1), repeat=node_types)
    return np.array([counts for counts in every if 1 <= sum(counts) <= max_replicas])


def a_decision(target: Deployment, **changes: Any) -> Decision:
    """Return a decision for the target without candidates, fields changed by name."""
    unknown = Expectation(
        response_time=float("nan"), utilisation=float("nan"), cost_per_hour=float("nan")
    )
    fields: dict[str, Any] = {
        "target": target,
        "reason": "A test wants it",
        "candidates": (),
        "expectation": unknown,
        "urgency": 0.5,
    }
    return Decision(**fields | changes)
