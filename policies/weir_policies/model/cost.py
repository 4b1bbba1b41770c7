"""What a deployment costs, what a change costs, and what an interval cost.

Source: Russo Russo, Cardellini, Lo Presti, ACM TAAS 2023, section 4: an interval's cost is a
weighted sum of violation, resources and reconfiguration, each in [0, 1]. Departure: a change of
sizes within the pools restarts nothing and costs no reconfiguration.
"""

from __future__ import annotations

from collections.abc import Sequence

from weir_policies.errors import DeploymentError
from weir_policies.model.node_types import Deployment, NodeType
from weir_policies.policy import ChangeKind


def price_per_hour(deployment: Deployment, node_types: Sequence[NodeType]) -> float:
    """Return what the deployment costs, currency per hour."""
    [price] = prices_per_hour([deployment], node_types)
    return price


def prices_per_hour(
    deployments: Sequence[Deployment], node_types: Sequence[NodeType]
) -> list[float]:
    """Return what each deployment costs, currency per hour."""
    prices = [node_type.price for node_type in node_types]
    return [
        sum([count * price for count, price in zip(each.counts, prices, strict=True)])
        for each in deployments
    ]


def normalised_cost(
    deployment: Deployment,
    node_types: Sequence[NodeType],
    *,
    max_replicas: int,
    dearest: float | None = None,
) -> float:
    """Return the cost as a part of the most that the operator could cost.

    Args:
        deployment: The replicas to pay for.
        node_types: Their prices.
        max_replicas: Most replicas, `k_max`.
        dearest: Price that the most is made of; the published tables take the largest of their
            full list of ten even where fewer are available. `None` is the dearest of `node_types`.
    """
    top = max(node_type.price for node_type in node_types) if dearest is None else dearest
    return price_per_hour(deployment, node_types) / (max_replicas * top)


def kind_of_change(
    current: Deployment, target: Deployment, node_types: Sequence[NodeType]
) -> ChangeKind:
    """Return what going from one deployment to another takes: nothing, a resize, or a restart.

    Raises:
        DeploymentError: A deployment does not have one count per node type.
    """
    for deployment in (current, target):
        if len(deployment.counts) != len(node_types):
            raise DeploymentError(
                f"Expected counts of {len(node_types)} node types, got {deployment.counts}"
            )
    if current == target:
        return ChangeKind.NOTHING
    if current.per_pool(node_types) == target.per_pool(node_types):
        return ChangeKind.RESIZE
    return ChangeKind.RESCALE
