"""The next best deployment where pools have no room: what stands, or another pool. Pure.

Taken when the job is down and cannot wait for a decision: less than wanted that runs is better
than all of it that does not. The policies decide anew from there.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from weir_operator.rescale.journal import DeploymentMap
from weir_operator.runtime.seam import Replica
from weir_policies.model.node_types import NodeType

Group = tuple[str, str]  # operator, pool


def fit_into_room(
    wanted: DeploymentMap,
    alive: Collection[Replica],
    full: Collection[Group],
    node_types: Mapping[str, Sequence[NodeType]],
) -> DeploymentMap:
    """Return what comes closest to `wanted` in the room that there is.

    Args:
        wanted: Where the job should be.
        alive: TaskManagers; those that are pending have no place.
        full: (operator, pool) that take no more replicas than stand there.
        node_types: Of each operator that may change; the others stay as they are wanted.
    """
    found = {name: dict(counts) for name, counts in wanted.items()}
    for name, pool in full:
        if name not in found or name not in node_types:
            continue
        standing = sum(
            each.operator == name and each.pool == pool and not each.pending for each in alive
        )
        cut = _cut(found[name], pool, standing)
        if not found[name]:
            found[name] = _move(cut, name, full, node_types[name]) or dict(wanted[name])
    return found


def _cut(counts: dict[str, int], pool: str, most: int) -> int:
    """Leave no more than `most` replicas in a pool; return how many were taken away."""
    mine = [node_type for node_type in counts if node_type.split("/", 1)[0] == pool]
    excess = max(0, sum(counts[node_type] for node_type in mine) - most)
    left = excess
    for node_type in reversed(mine):
        taken = min(left, counts[node_type])
        counts[node_type] -= taken
        left -= taken
        if not counts[node_type]:
            del counts[node_type]
    return excess


def _move(
    count: int, operator: str, full: Collection[Group], node_types: Sequence[NodeType]
) -> dict[str, int]:
    """Return the replicas on the fastest type whose pool has room; empty where none has."""
    open_types = [each for each in node_types if (operator, each.pool) not in full]
    if not open_types:
        return {}
    best = max(open_types, key=lambda each: each.speedup)
    most = count if best.pool_limit is None else min(count, best.pool_limit)
    return {best.name: most}
