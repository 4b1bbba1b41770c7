"""Which deployments an operator can have, which are in reach of another, and which beat which.

Enumeration is complete while it is small. `t` node types and `k_max` replicas have
`binomial(k_max + t, t) - 1` deployments: 285 for 3 types and 10 replicas, 30 million for 10 types
and 20. Above `COMPLETE_UP_TO` only these are considered:

1. replicas of one node type (the cheapest answer under equal sharing is nearly always one: the
   slowest replica dictates the response time, so a mix pays for speed that it does not get);
2. mixes of two node types, while there are at most `COMPLETE_UP_TO` of them;
3. the present deployment, its neighbours by one replica, and its resizes.

Source of the neighbourhood and its order: Russo Russo, Cardellini, Lo Presti, ACM TAAS 2023,
section 4 (stay, remove one, add one; the first of equals wins).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from functools import lru_cache

import numpy as np

from weir_policies.errors import DeploymentError
from weir_policies.model.arrays import Counts, Flags, Floats
from weir_policies.model.node_types import Deployment, NodeType

COMPLETE_UP_TO = 20_000
"""Deployments up to which all are enumerated; predicting 20,000 takes some 20 ms."""
RESIZES_UP_TO = 2_000
"""Resizes up to which all are enumerated; see `enumerate_resizes`."""


def enumerate_deployments(
    node_types: Sequence[NodeType], *, max_replicas: int, present: Deployment | None = None
) -> Counts:
    """Return the deployments to choose from, shape `(d, t)`, read-only.

    Args:
        node_types: The operator's node types; their pool limits hold.
        max_replicas: Most replicas over all node types, `k_max`.
        present: The deployment in force; matters only where the set is too large to be complete.

    Raises:
        DeploymentError: `max_replicas` is below 1, there is no node type, or no pool has room.
    """
    if max_replicas < 1:
        raise DeploymentError(f"Expected max_replicas >= 1, got {max_replicas}")
    if not node_types:
        raise DeploymentError("Expected at least one node type, got none")
    pools = tuple(node_type.pool for node_type in node_types)
    limits = _limits(node_types, max_replicas)
    if all(limit == 0 for limit in limits):
        raise DeploymentError(f"Expected room in a pool, got a limit of 0 in all of {pools}")
    complete = _enumerate_all(pools, limits, max_replicas)
    if complete is not None:
        return complete
    simple = _enumerate_simple(pools, limits, max_replicas)
    if present is None:
        return simple
    near = itertools.chain(
        within_reach(present, k_max=max_replicas, node_types=node_types),
        enumerate_resizes(present, node_types),
    )
    admissible = [item.counts for item in near if _fits(item, pools, limits, max_replicas)]
    if not admissible:
        return simple
    together = np.unique(np.concatenate([simple, np.array(admissible, dtype=np.int64)]), axis=0)
    together.flags.writeable = False
    return together


def within_reach(
    deployment: Deployment, *, k_max: int, node_types: Sequence[NodeType] | None = None
) -> tuple[Deployment, ...]:
    """Return the deployments one replica away: stay, remove one of each type, add one of each.

    Args:
        deployment: Where to start from.
        k_max: Most replicas of a target.
        node_types: Where given, the limits of their pools hold for additions.
    """
    pools = tuple(node_type.pool for node_type in node_types) if node_types else None
    limits = _limits(node_types, k_max) if node_types else None
    reached = [deployment] if 1 <= deployment.size <= k_max else []
    for step in (-1, 1):
        for place, count in enumerate(deployment.counts):
            if count + step < 0 or not 1 <= deployment.size + step <= k_max:
                continue
            counts = list(deployment.counts)
            counts[place] += step
            target = Deployment(tuple(counts))
            if step == 1 and pools and limits and not _fits(target, pools, limits, k_max):
                continue
            reached.append(target)
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


def enumerate_resizes(
    deployment: Deployment, node_types: Sequence[NodeType]
) -> Iterator[Deployment]:
    """Yield what can be had without a restart: as many replicas per pool, of other sizes.

    The deployment itself is not among them. Where there are more than `RESIZES_UP_TO`, only those
    in which one replica has another size, or all replicas of each pool have the same one.
    """
    if len(deployment.counts) != len(node_types):
        raise DeploymentError(
            f"Expected counts of {len(node_types)} node types, got {deployment.counts}"
        )
    places: dict[str, list[int]] = {}
    for place, node_type in enumerate(node_types):
        places.setdefault(node_type.pool, []).append(place)
    held = {pool: sum(deployment.counts[place] for place in at) for pool, at in places.items()}
    possible = math.prod(
        math.comb(held[pool] + len(at) - 1, len(at) - 1) for pool, at in places.items()
    )
    if possible <= RESIZES_UP_TO:
        ways = [_compositions(held[pool], len(at)) for pool, at in places.items()]
        moved = _place(ways, list(places.values()), len(node_types))
    else:
        uniform = [_uniform(held[pool], len(at)) for pool, at in places.items()]
        singles = _move_one(deployment.counts, list(places.values()))
        moved = itertools.chain(singles, _place(uniform, list(places.values()), len(node_types)))
    for counts in dict.fromkeys(moved):
        if counts != deployment.counts:
            yield Deployment(counts)


def find_pareto_optimal(cost: Floats, response_time: Floats) -> Flags:
    """Mark the deployments that no other beats, shape `(b,)`.

    One beats another when it is not dearer, not slower, and better in at least one of the two.
    Equals do not beat each other. What is NaN or `inf` in either is never optimal.
    """
    optimal = np.zeros(cost.shape, dtype=np.bool_)
    usable = np.flatnonzero(np.isfinite(cost) & np.isfinite(response_time))
    if not usable.size:
        return optimal
    ranked = usable[np.lexsort((response_time[usable], cost[usable]))]
    fastest_so_far = np.minimum.accumulate(response_time[ranked])
    before = np.concatenate([[np.inf], fastest_so_far[:-1]])  # the fastest among those no dearer
    improves = response_time[ranked] < before
    optimal[ranked[improves]] = True
    # An equal of an optimal one stands right behind it: the same cost and the same time.
    equal = (np.diff(cost[ranked], prepend=np.nan) == 0) & (
        np.diff(response_time[ranked], prepend=np.nan) == 0
    )
    for place in np.flatnonzero(equal):
        optimal[ranked[place]] = optimal[ranked[place - 1]]
    return optimal


def _limits(node_types: Sequence[NodeType], max_replicas: int) -> tuple[int, ...]:
    """Return the most replicas in each node type's pool, shape `(t,)`."""
    return tuple(
        max_replicas if node_type.pool_limit is None else min(node_type.pool_limit, max_replicas)
        for node_type in node_types
    )


def _fits(
    deployment: Deployment, pools: Sequence[str], limits: Sequence[int], max_replicas: int
) -> bool:
    """Tell whether the deployment keeps `k_max` and the limits of the pools."""
    held: dict[str, int] = {}
    for count, pool in zip(deployment.counts, pools, strict=True):
        held[pool] = held.get(pool, 0) + count
    within = all(held[pool] <= limit for pool, limit in zip(pools, limits, strict=True))
    return within and 1 <= deployment.size <= max_replicas


# Keyed by what the set depends on and nothing else: a learned speedup must not enumerate again.
@lru_cache(maxsize=128)
def _enumerate_all(
    pools: tuple[str, ...], limits: tuple[int, ...], max_replicas: int
) -> Counts | None:
    """Return all deployments, smallest counts first, or `None` above `COMPLETE_UP_TO`."""
    rows = np.zeros((1, 0), dtype=np.int64)
    for place, (pool, limit) in enumerate(zip(pools, limits, strict=True)):
        same_pool = [at for at in range(place) if pools[at] == pool]
        room = np.minimum(max_replicas - rows.sum(axis=1), limit - rows[:, same_pool].sum(axis=1))
        ways = np.maximum(room, 0) + 1
        if ways.sum() > COMPLETE_UP_TO + 1:  # rows only grow; one is the empty deployment
            return None
        first = np.repeat(np.cumsum(ways) - ways, ways)
        added = np.arange(ways.sum(), dtype=np.int64) - first
        rows = np.column_stack([np.repeat(rows, ways, axis=0), added])
    rows = rows[1:]  # the first row is the empty deployment
    rows.flags.writeable = False
    return rows


@lru_cache(maxsize=128)
def _enumerate_simple(pools: tuple[str, ...], limits: tuple[int, ...], max_replicas: int) -> Counts:
    """Return the deployments of one node type and, where not too many, of two."""
    types = len(pools)
    rows: list[tuple[int, ...]] = []
    for place in range(types):
        rows += [_counts(types, {place: count}) for count in range(1, limits[place] + 1)]
    pairs = math.comb(types, 2)
    if pairs * math.comb(max_replicas, 2) <= COMPLETE_UP_TO:
        for one, other in itertools.combinations(range(types), 2):
            for first in range(1, limits[one] + 1):
                shared = limits[one] - first if pools[one] == pools[other] else limits[other]
                most = min(shared, max_replicas - first)
                rows += [_counts(types, {one: first, other: n}) for n in range(1, most + 1)]
    array = np.array(rows, dtype=np.int64)
    array.flags.writeable = False
    return array


def _counts(types: int, some: dict[int, int]) -> tuple[int, ...]:
    return tuple(some.get(place, 0) for place in range(types))


def _compositions(total: int, parts: int) -> list[tuple[int, ...]]:
    """Return every way to write `total` as a sum of `parts` counts, order mattering."""
    bars = itertools.combinations(range(total + parts - 1), parts - 1)
    return [
        tuple(b - a - 1 for a, b in itertools.pairwise((-1, *cut, total + parts - 1)))
        for cut in bars
    ]


def _uniform(total: int, parts: int) -> list[tuple[int, ...]]:
    """Return the ways to put `total` replicas all on one of `parts` sizes."""
    return [_counts(parts, {place: total}) for place in range(parts)]


def _place(
    ways: Sequence[Sequence[tuple[int, ...]]], places: Sequence[Sequence[int]], types: int
) -> Iterator[tuple[int, ...]]:
    """Yield counts over all node types from one way per pool."""
    for combination in itertools.product(*ways):
        counts = [0] * types
        for way, at in zip(combination, places, strict=True):
            for count, place in zip(way, at, strict=True):
                counts[place] = count
        yield tuple(counts)


def _move_one(
    counts: tuple[int, ...], places: Sequence[Sequence[int]]
) -> Iterator[tuple[int, ...]]:
    """Yield counts in which one replica went to another size of its pool."""
    for at in places:
        for origin, goal in itertools.permutations(at, 2):
            if counts[origin]:
                moved = list(counts)
                moved[origin] -= 1
                moved[goal] += 1
                yield tuple(moved)
