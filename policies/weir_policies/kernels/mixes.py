"""More or fewer replicas of what is there: for rules that count replicas and know no node types.

The mix stays as it is. Replicas are added to the node type that has the most of them, the cheapest
among equals, and are taken from it first; what finds no room there goes to the next node type in
use and, where that is allowed, to the cheapest others. An operator without replicas gets them on
the cheapest node type.
"""

from __future__ import annotations

from weir_policies.kernels.compiled import compiled
from weir_policies.kernels.steps import has_room, total
from weir_policies.kernels.view import MAX_REPLICAS, View


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
    """Write the present mix with so many replicas, or as many as there is room for, as target.

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
    wanted = min(wanted, view.rules[o, MAX_REPLICAS])
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
