"""Which TaskManagers to start, end and resize so that a deployment comes true. Pure.

Flink knows operators, not pools: which TaskManager of a pool is left is ours to choose, by ending
the others between stop and submission.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from weir_operator.runtime.seam import Deployments, Replica, ReplicaSpec


def missing_replicas(alive: Iterable[Replica], wanted: Deployments) -> tuple[ReplicaSpec, ...]:
    """Return what must be started; per (operator, pool) only counts matter, sizes follow later."""
    have = Counter((replica.operator, replica.pool) for replica in alive)
    specs: list[ReplicaSpec] = []
    for (operator, pool), sizes in _sizes_by_group(wanted).items():
        lacking = len(sizes) - have[operator, pool]
        specs += [
            ReplicaSpec(operator=operator, pool=pool, size=size)
            for size in (sizes[-lacking:] if lacking > 0 else ())
        ]
    return tuple(specs)


def excess_replicas(alive: Iterable[Replica], wanted: Deployments) -> tuple[str, ...]:
    """Return the ids of what must be ended: of each group the sizes not wanted, then the youngest.

    The oldest stay, because their code is warm.
    """
    groups = _sizes_by_group(wanted)
    excess: list[str] = []
    for group, replicas in _by_group(alive).items():
        sizes = groups.get(group, [])
        surplus = len(replicas) - len(sizes)
        if surplus > 0:
            kept = set(_matched(replicas, sizes))
            order = sorted(replicas, key=lambda r: (r.id in kept, -r.started, r.id))
            excess += [replica.id for replica in order[:surplus]]
    return tuple(excess)


def size_changes(alive: Iterable[Replica], wanted: Deployments) -> dict[str, str]:
    """Return the new size per replica id; replicas whose size is wanted keep it."""
    groups = _sizes_by_group(wanted)
    changes: dict[str, str] = {}
    for group, replicas in _by_group(alive).items():
        sizes = groups.get(group, [])
        matched = _matched(replicas, sizes)
        open_sizes = Counter(sizes) - Counter(r.size for r in replicas if r.id in matched)
        others = [replica.id for replica in replicas if replica.id not in matched]
        changes |= dict(zip(others, sorted(open_sizes.elements()), strict=False))
    return changes


def deployments_of(alive: Iterable[Replica]) -> dict[str, dict[str, int]]:
    """Return the deployment that these replicas make."""
    found: dict[str, dict[str, int]] = {}
    for replica in alive:
        counts = found.setdefault(replica.operator, {})
        counts[replica.node_type] = counts.get(replica.node_type, 0) + 1
    return found


def parallelism(deployments: Deployments) -> dict[str, int]:
    """Return the total replicas per operator."""
    return {operator: sum(counts.values()) for operator, counts in deployments.items()}


Group = tuple[str, str]  # operator, pool


def _by_group(alive: Iterable[Replica]) -> Mapping[Group, list[Replica]]:
    groups: dict[Group, list[Replica]] = {}
    for replica in alive:
        groups.setdefault((replica.operator, replica.pool), []).append(replica)
    return groups


def _sizes_by_group(wanted: Deployments) -> dict[Group, list[str]]:
    groups: dict[Group, list[str]] = {}
    for operator, counts in wanted.items():
        for node_type, count in counts.items():
            pool, size = node_type.split("/", 1)
            groups.setdefault((operator, pool), []).extend([size] * count)
    return groups


def _matched(replicas: Sequence[Replica], sizes: Sequence[str]) -> tuple[str, ...]:
    """Return the ids of replicas that can keep their size, oldest first."""
    left = Counter(sizes)
    kept: list[str] = []
    for replica in sorted(replicas, key=lambda r: (r.started, r.id)):
        if left[replica.size] > 0:
            left[replica.size] -= 1
            kept.append(replica.id)
    return tuple(kept)
