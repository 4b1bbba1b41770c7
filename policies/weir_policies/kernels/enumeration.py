"""Enumerates all deployments of an operator without storing them.

`next_in_order` goes through them in lexicographic order; as prices only rise along the way, a
search may skip what follows a deployment that is too dear. Limits and prices are read from the
view, so that nothing is stale. While there are at most `COMPLETE_UP_TO` deployments all come;
otherwise those of one node type, mixes of two while these are few enough, and what is near the
present deployment (`next_nearby`): one replica more or less, and its replicas, one or all of a
type, in other sizes. What has fewer replicas, or costs more, than it may is left out.

For rules that know only the number of replicas, `scale_mix` changes that number and keeps the mix.
Replicas are added to the node type that has the most of them, the cheapest among equals, and
removed from it first. Replicas without room there go to the next node type in use and, if that is
allowed, to the cheapest others. An operator without replicas gets them on the cheapest node type.
"""

from __future__ import annotations

import numpy as np

from weir_policies.kernels.bounds import CHEAPER, keeps_bounds
from weir_policies.kernels.compiled import compiled, compiled_apart
from weir_policies.kernels.steps import has_room, total
from weir_policies.kernels.view import NO_LIMIT, View
from weir_policies.model.arrays import Counts
from weir_policies.model.deployments import COMPLETE_UP_TO

MOST_COUNTS = 320_000
"""Numbers in the rows of `list_rows` where mixes are not gone through: each takes time."""
FEWEST_ROWS = 2_000
"""Rows there, however many node types there are."""
FIRST, END = -1, -2
"""Where `next_deployment` begins, and where it ends."""


@compiled
def ways_to_fill(replicas: int, types: int) -> float:
    """Return in how many ways up to so many replicas can be of so many node types."""
    ways = 1.0
    for each in range(1, types + 1):
        ways = ways * (replicas + each) / each
    return ways


@compiled
def most_kinds(o: int, view: View) -> int:
    """Return how many node types the mixes that are gone through may have."""
    types, maximum = view.counts.shape[1], view.model[o].max_replicas
    by_pool, pairs = 1.0, 0.5 * types * (types - 1) * maximum * (maximum - 1) / 2
    for place in range(types):
        sizes, is_first = 0, True
        for other in range(types):
            if view.pool[o, other] == view.pool[o, place]:
                sizes += 1
                is_first = is_first and other >= place
        if is_first:
            by_pool *= ways_to_fill(min(view.limit[o, place], maximum), sizes)
    if min(ways_to_fill(maximum, types), by_pool) - 1 <= COMPLETE_UP_TO:
        return types
    return min(types, 2 if pairs <= COMPLETE_UP_TO else 1)


@compiled
def next_in_order(o: int, view: View, counts: Counts, kinds: int, skip: bool) -> bool:
    """Turn a deployment into the one that follows; False at the end, when `counts` is all zeros.

    Args:
        o: Row of the operator.
        view: Where its limits stand.
        counts: The deployment, `(t,)`; zeros before the first.
        kinds: Most node types in a mix.
        skip: Leave out all that differ from this by more replicas of its last node type, or of
            those behind: all that would cost more for certain.
    """
    size, used, last = 0, 0, -1
    for place in range(counts.size):
        size += counts[place]
        if counts[place] > 0:
            used += 1
            last = place
    place = counts.size - 1
    if skip and last >= 0:
        size -= counts[last]
        counts[last] = 0
        used -= 1
        place = last - 1
    while place >= 0:
        allowed = counts[place] > 0 or used < kinds
        if allowed and size < view.model[o].max_replicas and has_room(o, view, counts, place):
            counts[place] += 1
            return True
        if counts[place] > 0:
            size -= counts[place]
            counts[place] = 0
            used -= 1
        place -= 1
    return False


@compiled
def most_alone(o: int, view: View, place: int) -> int:
    """Return how many replicas an operator may have that are all of one node type."""
    maximum = view.model[o].max_replicas
    if view.limit[o, place] != NO_LIMIT:
        maximum = min(maximum, view.limit[o, place])
    price, limit = view.price[o, place], view.seen[o].max_price
    if price > 0 and maximum * price > limit:
        maximum = int(limit * CHEAPER / price)
    return maximum


@compiled
def count_near(types: int) -> int:
    """Return how many numbers `next_nearby` takes with so many node types."""
    return 2 * types + 2 * types * types


@compiled
def next_nearby(o: int, view: View, number: int, counts: Counts) -> bool:
    """Write the deployment of a number near the present one; return False if there is none."""
    types = view.counts.shape[1]
    for place in range(types):
        counts[place] = view.counts[o, place]
    if number < 2 * types:
        counts[number // 2] += 1 if number % 2 else -1
        return is_allowed(o, view, counts)
    number -= 2 * types
    origin, goal = number // 2 // types, number // 2 % types
    if origin == goal or view.pool[o, origin] != view.pool[o, goal] or counts[origin] == 0:
        return False
    moved = counts[origin] if number % 2 else 1
    counts[origin] -= moved
    counts[goal] += moved
    return is_allowed(o, view, counts)


@compiled
def is_allowed(o: int, view: View, counts: Counts) -> bool:
    """Return whether a deployment keeps all limits."""
    size = total(counts)
    if size < 1 or size > view.model[o].max_replicas:
        return False
    for place in range(counts.size):
        if counts[place] < 0:
            return False
        if view.limit[o, place] != NO_LIMIT:
            held = 0
            for other in range(counts.size):
                if view.pool[o, other] == view.pool[o, place]:
                    held += counts[other]
            if held > view.limit[o, place]:
                return False
    return keeps_bounds(o, view, counts)


@compiled
def needs_restart(o: int, view: View, counts: Counts) -> bool:
    """Return whether only a restart leads there: other counts per pool than now."""
    for place in range(counts.size):
        moved = 0
        for other in range(counts.size):
            if view.pool[o, other] == view.pool[o, place]:
                moved += counts[other] - view.counts[o, other]
        if moved != 0:
            return True
    return False


@compiled
def price_evenly(o: int, view: View, counts: Counts) -> float:
    """Return the price, currency per hour, rounded to 1e-12: equal costs must compare equal."""
    price = 0.0
    for place in range(counts.size):
        price += counts[place] * view.price[o, place]
    return np.floor(price * 1e12 + 0.5) / 1e12


@compiled
def next_deployment(o: int, view: View, row: Counts, kinds: int, number: int, skip: bool) -> int:
    """Turn a deployment into the one that follows, those near the present one at the end.

    Args:
        o: Row of the operator.
        view: Where its limits stand.
        row: The deployment, `(t,)`; zeros before the first and after the last.
        kinds: Most node types in a mix; with all of them nothing near is left to add.
        number: What this returned before; `FIRST` in the beginning.
        skip: Of those in order, leave out what costs more for certain; see `next_in_order`.

    Returns:
        `FIRST` for those in order, the number of one that is near, or `END`.
    """
    if number == FIRST:
        while next_in_order(o, view, row, kinds, skip):
            if keeps_bounds(o, view, row):
                return FIRST
            skip = price_evenly(o, view, row) > view.seen[o].max_price * CHEAPER
        if kinds == row.size:
            return END
    for following in range(number + 1, count_near(row.size)):
        if next_nearby(o, view, following, row):
            return following
    for place in range(row.size):
        row[place] = 0
    return END


@compiled_apart
def list_rows(o: int, view: View, row: Counts, rows: Counts, first: int) -> int:
    """Write deployments behind the first `first` rows of `(d, t)`; return how many rows are full.

    All of them, except where mixes are not gone through: then only some numbers of replicas of each
    node type, as there may be ten thousand. What is near the present deployment comes last.
    """
    found, number, kinds, stride = first, FIRST, most_kinds(o, view), 1
    if kinds == 1:
        alone = 0
        for place in range(row.size):
            alone += most_alone(o, view, place)
        most = max(FEWEST_ROWS, MOST_COUNTS // row.size)
        stride = (alone + most - 1) // most
    while found < rows.shape[0]:
        number = next_deployment(o, view, row, kinds, number, False)
        if number == END:
            break
        for place in range(row.size):
            rows[found, place] = row[place]
        found += 1
        for place in range(row.size if number == FIRST and stride > 1 else 0):
            if row[place] > 0:
                row[place] = min(row[place] + stride - 1, most_alone(o, view, place))
    for place in range(row.size):
        row[place] = 0
    return found


@compiled
def comes_before(o: int, view: View, one: int, other: int) -> bool:
    """Return whether a node type is more used than another; of equals, cheaper; then earlier."""
    if view.counts[o, one] != view.counts[o, other]:
        return view.counts[o, one] > view.counts[o, other]
    if view.price[o, one] != view.price[o, other]:
        return view.price[o, one] < view.price[o, other]
    return one < other


@compiled
def next_in_use(o: int, view: View, last: int) -> int:
    """Return the node type that follows in that order; the first after -1, and -1 at the end."""
    found = -1
    for place in range(view.counts.shape[1]):
        if last >= 0 and not comes_before(o, view, last, place):
            continue
        if found < 0 or comes_before(o, view, place, found):
            found = place
    return found


@compiled
def scale_mix(o: int, view: View, wanted: int, spill: bool) -> None:
    """Write the present mix with so many replicas, or as many as fit, as target.

    Args:
        o: Row of the operator.
        view: Where its deployment, limits and prices stand.
        wanted: Replicas, at least 1.
        spill: Whether node types that are not in use take what finds no room elsewhere.
    """
    target, here = view.target[o], view.counts[o]
    for place in range(here.size):
        target[place] = here[place]
    size = total(target)
    spill = spill or size == 0
    wanted = min(wanted, view.model[o].max_replicas)
    place = next_in_use(o, view, -1)
    while place >= 0 and size > wanted:
        removed = min(size - wanted, target[place])
        target[place] -= removed
        size -= removed
        place = next_in_use(o, view, place)
    place = next_in_use(o, view, -1)
    while place >= 0 and size < wanted and (spill or here[place] > 0):
        while size < wanted and has_room(o, view, target, place):
            target[place] += 1
            size += 1
        place = next_in_use(o, view, place)
