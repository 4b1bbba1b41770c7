"""The fewest replicas that an operator must have, and the most that they may cost.

Both are an observation's (`Observation.min_replicas`, `max_price`). Policies that search through
deployments leave out what breaks them (`keeps_bounds`). Whatever is decided, whoever carries it out
changes it as little as they ask (`keep_bounds`), in the simulator and in the controller. The price
counts more than the replicas.
"""

from __future__ import annotations

import math

import numpy as np

from weir_policies.kernels.compiled import compiled, compiled_apart
from weir_policies.kernels.prediction import price_of
from weir_policies.kernels.steps import has_room, total
from weir_policies.kernels.view import NO_LIMIT, NO_POOL, View, empty_view
from weir_policies.model.arrays import Counts
from weir_policies.model.node_types import NOWHERE, Deployment
from weir_policies.policy import OperatorModel

CHEAPER = 1 + 1e-9
"""Times a limit that a price may be: sums of prices are not exact."""


@compiled
def keeps_bounds(o: int, view: View, counts: Counts) -> bool:
    """Return whether a deployment has enough replicas, and costs no more than it may."""
    if total(counts) < view.seen[o].min_replicas:
        return False
    limit = view.seen[o].max_price
    return limit == np.inf or price_of(o, view, counts) <= limit * CHEAPER


@compiled
def _find_dearest(o: int, view: View, added: bool) -> int:
    """Return the dearest node type of the target, the slowest of equals; -1 where there is none.

    With `added`, of those alone that have more replicas than now.
    """
    found = -1
    for place in range(view.counts.shape[1]):
        if view.target[o, place] <= (view.counts[o, place] if added else 0):
            continue
        dearer = found < 0 or view.price[o, place] > view.price[o, found]
        if not dearer and view.price[o, place] == view.price[o, found]:
            dearer = view.speedup[o, place] < view.speedup[o, found]
        if dearer:
            found = place
    return found


@compiled
def _find_addition(o: int, view: View, most: float) -> int:
    """Return the node type that one more replica is of, -1 where there is room for none.

    The one that has most replicas, the cheapest of equals; none that costs more than `most`.
    """
    target, found = view.target[o], -1
    for place in range(target.size):
        if view.pool[o, place] == NO_POOL or view.price[o, place] > most * CHEAPER:
            continue
        if not has_room(o, view, target, place):
            continue
        better = found < 0 or target[place] > target[found]
        if not better and target[place] == target[found]:
            better = view.price[o, place] < view.price[o, found]
        if better:
            found = place
    return found


@compiled
def _find_cheaper(o: int, view: View, than: int) -> int:
    """Return the cheapest node type below another one's price that has room, or -1."""
    found = -1
    for place in range(view.counts.shape[1]):
        price = view.price[o, place]
        if view.pool[o, place] == NO_POOL or price >= view.price[o, than]:
            continue
        cheaper = found < 0 or price < view.price[o, found]
        if cheaper and has_room(o, view, view.target[o], place):
            found = place
    return found


@compiled_apart
def keep_bounds(o: int, view: View) -> None:
    """Change an operator's target as little as its bounds ask.

    Above the price, replicas are taken away: first those that the decision adds, the dearest first.
    Below the floor, replicas of the node type that has most of them are added, and where that costs
    too much, the dearest are exchanged for cheaper ones.
    """
    target, limit = view.target[o], view.seen[o].max_price
    while price_of(o, view, target) > limit * CHEAPER:
        place = _find_dearest(o, view, True)
        if place < 0:
            place = _find_dearest(o, view, False)
        target[place] -= 1
        if total(target) == 0:  # a cheaper one, or the cheapest of all
            other = _find_addition(o, view, limit)
            cheapest = _find_addition(o, view, np.inf)
            if other < 0:
                target[cheapest if cheapest >= 0 else place] += 1
                return
            target[other] += 1
    floor = min(view.seen[o].min_replicas, view.model[o].max_replicas)
    while total(target) < floor:
        left = limit - price_of(o, view, target)
        place = _find_addition(o, view, left)
        if place < 0:  # exchange a replica for one that leaves money for more
            dearest = _find_dearest(o, view, False)
            if dearest < 0 or limit == np.inf:
                return
            target[dearest] -= 1
            place = _find_cheaper(o, view, dearest)
            if place < 0:
                target[dearest] += 1
                return
        target[place] += 1


def keep_within(
    model: OperatorModel,
    target: Deployment,
    *,
    present: Deployment,
    min_replicas: int,
    max_price: float | None,
) -> Deployment:
    """Return what `keep_bounds` makes of a target.

    Args:
        model: The operator, its pools with the room that others leave.
        target: Where a decision leads.
        present: What runs.
        min_replicas: Replicas that it must have.
        max_price: Currency per hour that it may cost; `None` is no limit.
    """
    price = sum(n * each.price for n, each in zip(target, model.node_types, strict=True))
    limit = math.inf if max_price is None else max_price
    if target.size >= min_replicas and price <= limit * CHEAPER:
        return target
    types = model.node_types
    view = empty_view(operators=1, node_types=len(types), max_replicas=1)
    pools = list(dict.fromkeys(each.pool for each in types))
    for place, each in enumerate(types):
        view.price[0, place], view.speedup[0, place] = each.price, each.speedup
        view.pool[0, place] = NO_POOL if each.pool == NOWHERE else pools.index(each.pool)
        view.limit[0, place] = NO_LIMIT if each.pool_limit is None else each.pool_limit
    view.model[0].max_replicas = model.max_replicas
    view.seen[0].min_replicas, view.seen[0].max_price = min_replicas, limit
    view.counts[0], view.target[0] = present.counts, target.counts
    keep_bounds(0, view)
    return Deployment(tuple(int(count) for count in view.target[0]))
