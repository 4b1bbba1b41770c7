"""A made-up StreamApp: a chain of operators, each with a replica in each of three pools."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from weir_operator.loop.operator_manager import OperatorManager
from weir_operator.metrics.layout import JobLayout, OperatorLayout, PlacedReplica
from weir_operator.runtime.protocol import Replica
from weir_policies import registry
from weir_policies.model.node_types import Deployment, NodeType
from weir_policies.policy import OperatorModel

TYPES = tuple(
    NodeType(name=f"{pool}/1", pool=pool, speedup=speedup, price=price)
    for pool, speedup, price in (("small", 1.0, 0.04), ("middle", 1.5, 0.06), ("large", 2.0, 0.09))
)


def make_replicas(names: Sequence[str], *, started: float = 0.0) -> dict[str, list[Replica]]:
    """Return the replicas of each operator, started at this Unix time."""
    return {
        name: [
            Replica(
                id=f"tm-{name}-{each.pool}",
                operator=name,
                pool=each.pool,
                size="1",
                started=started,
                metrics_url="",
            )
            for each in TYPES
        ]
        for name in names
    }


def make_layout(replicas: Mapping[str, Sequence[Replica]]) -> JobLayout:
    """Return the job: a chain of the operators in their order."""
    names = tuple(replicas)
    return JobLayout(
        job_id="job",
        operators={
            name: OperatorLayout(
                replicas=tuple(
                    PlacedReplica(tm_id=each.id, node_type=each.node_type)
                    for each in replicas[name]
                ),
                upstream=(names[place - 1],) if place else (),
            )
            for place, name in enumerate(names)
        },
    )


def make_manager(name: str, policy: str, *, fixed: Deployment | None = None) -> OperatorManager:
    """Return an Operator Manager that knows no service times yet."""
    return OperatorManager(
        model=OperatorModel(
            name=name, node_types=TYPES, max_replicas=10, service_mean=math.nan, service_scv=1.0
        ),
        given=[each.name for each in TYPES],
        policy=registry.build(policy, rng=np.random.default_rng(1)),
        fixed=fixed,
    )
