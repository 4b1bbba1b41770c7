"""Which deployments are in reach of another.

`kernels.enumeration` lists all of them while there are few. `t` node types and `k_max` replicas
have `binomial(k_max + t, t) - 1` deployments: 285 for 3 types and 10 replicas, 30 million for 10
types and 20.

Source of the neighbourhood and its order: Russo Russo, Cardellini, Lo Presti, ACM TAAS 2023,
section 4 (stay, remove one, add one; the first of equals wins).
"""

from __future__ import annotations

from collections.abc import Sequence

from weir_policies.model.node_types import Deployment, NodeType

COMPLETE_UP_TO = 20_000
"""Deployments up to which all are enumerated; predicting 20,000 takes some 20 ms."""


def within_reach(
    deployment: Deployment, *, k_max: int, node_types: Sequence[NodeType] | None = None
) -> tuple[Deployment, ...]:
    """Return the deployments one replica away: stay, remove one of each type, add one of each.

    Args:
        deployment: Where to start from.
        k_max: Most replicas of a target.
        node_types: Where given, the limits of their pools hold for additions.
    """
    size, counts = deployment.size, deployment.counts
    reached = [deployment] if 1 <= size <= k_max else []
    if 1 <= size - 1 <= k_max:
        for place, count in enumerate(counts):
            if count:
                reached.append(Deployment((*counts[:place], count - 1, *counts[place + 1 :])))
    if 1 <= size + 1 <= k_max:
        for place in _where_one_fits(deployment, k_max, node_types):
            reached.append(Deployment((*counts[:place], counts[place] + 1, *counts[place + 1 :])))
    return tuple(reached)


def room_for(
    place: int, deployment: Deployment, *, k_max: int, node_types: Sequence[NodeType]
) -> int:
    """Return how many replicas of the node type at `place` could be added."""
    room = k_max - deployment.size
    limit = node_types[place].pool_limit
    if limit is not None:
        room = min(room, limit - deployment.per_pool(node_types).get(node_types[place].pool, 0))
    return max(room, 0)


def _where_one_fits(
    deployment: Deployment, k_max: int, node_types: Sequence[NodeType] | None
) -> Sequence[int]:
    """Return the places of the node types of which the pools allow one replica more."""
    places = range(len(deployment.counts))
    if not node_types:
        return places
    held = deployment.per_pool(node_types)
    full = set()
    for node_type in node_types:
        limit = k_max if node_type.pool_limit is None else min(node_type.pool_limit, k_max)
        there = held.get(node_type.pool, 0)
        if there > limit:  # as after it was lowered: no target with more replicas is valid
            return ()
        if there == limit:
            full.add(node_type.pool)
    return [place for place in places if node_types[place].pool not in full]
