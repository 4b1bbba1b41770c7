"""Which replicas join and leave, for policies that decide only the number of replicas.

A replica that joins is of the cheapest, the fastest or the first node type; the one that leaves is
the one that joined first, whatever its type.
"""

from __future__ import annotations

import numpy as np

from weir_policies.kernels.compiled import compiled
from weir_policies.kernels.steps import has_room, total
from weir_policies.kernels.view import View

CHEAPEST, FASTEST, FIRST = range(3)
"""Which node type joins."""


@compiled
def find_joining(o: int, view: View, choice: int) -> int:
    """Return the node type that joins next to the target, the first of equals with room; or -1."""
    best, best_rank = -1, np.inf
    for place in range(view.target.shape[1]):
        if not has_room(o, view, view.target[o], place):
            continue
        rank = 0.0
        if choice == CHEAPEST:
            rank = view.price[o, place]
        elif choice == FASTEST:
            rank = -view.speedup[o, place]
        if rank < best_rank:
            best, best_rank = place, rank
    return best


@compiled
def scale_to(o: int, view: View, replicas: int, choice: int) -> None:
    """Write the target with so many replicas, within the limits: join, or the oldest leave."""
    counts = view.counts[o]
    for place in range(counts.size):
        view.target[o, place] = counts[place]
    size = total(counts)
    wanted = min(max(replicas, 1), view.model[o].max_replicas)
    while size < wanted:
        place = find_joining(o, view, choice)
        if place < 0:
            return
        view.target[o, place] += 1
        size += 1
    oldest = 0
    while size > wanted:
        view.target[o, view.joined[o, oldest]] -= 1
        oldest += 1
        size -= 1
