"""Which TaskManagers to start, end and resize to reach a deployment. Pure.

Flink knows operators, not pools: Weir chooses which TaskManagers of a pool stay, by ending the
others between stop and submission.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence

from weir_operator.errors import PodsPendingError, TemporaryError
from weir_operator.runtime.protocol import Deployments, Replica, ReplicaSpec
from weir_operator.runtime.revision import Revision


def missing_replicas(alive: Iterable[Replica], wanted: Deployments) -> tuple[ReplicaSpec, ...]:
    """Return what must be started, at sizes that no replica has yet.

    Per (operator, pool) only counts matter: what is alive at another size is resized later.
    """
    groups = _by_group(alive)
    specs: list[ReplicaSpec] = []
    for (operator, pool), sizes in _sizes_by_group(wanted).items():
        present = groups.get((operator, pool), [])
        lacking = len(sizes) - len(present)
        if lacking <= 0:
            continue
        taken = Counter(r.size for r in present if r.id in _matched(present, sizes))
        open_sizes = list((Counter(sizes) - taken).elements())
        specs += [
            ReplicaSpec(operator=operator, pool=pool, size=size) for size in open_sizes[-lacking:]
        ]
    return tuple(specs)


def excess_replicas(alive: Iterable[Replica], wanted: Deployments) -> tuple[str, ...]:
    """Return the ids of what must be ended, so that no group has more than is wanted.

    Those without a place go first, then the sizes not wanted, then the youngest: the oldest stay,
    because their code is warm.
    """
    groups = _sizes_by_group(wanted)
    excess: list[str] = []
    for group, replicas in _by_group(alive).items():
        sizes = groups.get(group, [])
        surplus = len(replicas) - len(sizes)
        if surplus > 0:
            kept = set(_matched(replicas, sizes))
            order = sorted(replicas, key=lambda r: (not r.pending, r.id in kept, -r.started, r.id))
            excess += [replica.id for replica in order[:surplus]]
    return tuple(excess)


def stale_replicas(
    alive: Iterable[Replica], revision: Revision | None, replaced: Collection[str]
) -> tuple[str, ...]:
    """Return the ids of replicas to remove in any case: evicted, replaced, or outdated.

    Args:
        alive: TaskManagers.
        revision: What they should be made of; `None` takes all as they are, and so does what a
            replica does not say of itself.
        replaced: Ids of those whose place others take.
    """
    return tuple(
        each.id
        for each in alive
        if each.evicted
        or each.id in replaced
        or (revision is not None and not _is_made_of(each, revision))
    )


def misplaced_replicas(alive: Iterable[Replica], revision: Revision) -> tuple[str, ...]:
    """Return the ids of those that their pool, as it is now, would make elsewhere or otherwise."""
    return tuple(each.id for each in alive if not _is_in_place(each, revision))


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


def explain_absence(remaining: Sequence[Replica], limit: float) -> TemporaryError:
    """Return why TaskManagers did not register in time: no place, or no registration."""
    groups = _without_place(remaining)
    if not groups:
        return TemporaryError(f"TaskManagers did not register within {limit:g} s")
    return PodsPendingError(
        f"Kubernetes found no room within {limit:g} s for {explain_wait(remaining)}", groups
    )


def explain_wait(remaining: Sequence[Replica]) -> str:
    """Return which TaskManagers have no place yet, and why; empty where all have one."""
    groups = _without_place(remaining)
    if not groups:
        return ""
    reason = next(replica.pending for replica in remaining if replica.pending)
    places = ", ".join(f"{operator} in pool {pool}" for operator, pool in groups)
    return f"{places}: {reason}"


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


def _without_place(replicas: Iterable[Replica]) -> tuple[Group, ...]:
    return tuple(sorted({(each.operator, each.pool) for each in replicas if each.pending}))


def _is_made_of(replica: Replica, revision: Revision) -> bool:
    return replica.revision in ("", revision.id) and _is_in_place(replica, revision)


def _is_in_place(replica: Replica, revision: Revision) -> bool:
    place = revision.place_id(replica.operator, replica.pool)
    return "" in (replica.place, place) or replica.place == place


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
