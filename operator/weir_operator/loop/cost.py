"""What a StreamApp costs, from its manifest and its deployments. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from weir_operator.runtime.protocol import Deployments
from weir_operator.streamapp import world
from weir_operator.streamapp.models import StreamApp


def prices(app: StreamApp) -> dict[str, float]:
    """Return the currency per replica and hour of every node type."""
    return {
        each.name: each.price
        for name in world.operator_names(app)
        for each in world.node_types(app, name)
    }


def cost_per_hour(
    deployments: Deployments,
    prices: Mapping[str, float],
    *,
    job_manager: float,
) -> float:
    """Return the currency per hour of all replicas and the JobManager.

    A replica of a node type that the manifest has no more costs nothing that is known: it is left
    out until the next change has ended it.
    """
    replicas = sum(
        count * prices.get(node_type, 0.0)
        for counts in deployments.values()
        for node_type, count in counts.items()
    )
    return job_manager + replicas
