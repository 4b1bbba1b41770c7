"""Moves by one replica, in the papers' order: stay, remove one of each type, add one of each.

Source: Russo Russo, Cardellini, Lo Presti, ACM TAAS 2023, section 4: the first of equals wins.
"""

from __future__ import annotations

from weir_policies.kernels.compiled import compiled
from weir_policies.kernels.view import NO_LIMIT, View
from weir_policies.model.arrays import Counts


@compiled
def count_actions(view: View) -> int:
    """Return the number of actions: stay, and one less and one more of each node type."""
    return 2 * view.counts.shape[1] + 1


@compiled
def step_of(action: int, node_types: int) -> tuple[int, int]:
    """Return the node type that an action moves, and by how many: `(0, 0)`, -1 or 1."""
    if action == 0:
        return 0, 0
    if action <= node_types:
        return action - 1, -1
    return action - 1 - node_types, 1


@compiled
def total(counts: Counts) -> int:
    """Return the replicas of a deployment `(t,)`."""
    size = 0
    for place in range(counts.size):
        size += counts[place]
    return size


@compiled
def has_room(o: int, view: View, counts: Counts, place: int) -> bool:
    """Return whether one replica more of the node type fits its pool."""
    limit = view.limit[o, place]
    if limit == NO_LIMIT:
        return True
    held = 0
    for other in range(counts.size):
        if view.pool[o, other] == view.pool[o, place]:
            held += counts[other]
    return held < limit


@compiled
def can_move(o: int, view: View, counts: Counts, size: int, place: int, change: int) -> bool:
    """Return whether one replica less or more of a node type leads to what can be."""
    if change < 0:
        return counts[place] > 0 and size > max(view.seen[o].min_replicas, 1)
    return size < view.model[o].max_replicas and has_room(o, view, counts, place)


@compiled
def is_valid(o: int, view: View, counts: Counts, size: int, action: int) -> bool:
    """Return whether an action leads to a deployment that can be; see `can_move`."""
    if action == 0:
        return True
    place, change = step_of(action, counts.size)
    return can_move(o, view, counts, size, place, change)


@compiled
def choose_action(o: int, view: View, action: int) -> None:
    """Write the deployment that the action leads to into the view's target."""
    place, change = step_of(action, view.counts.shape[1])
    for other in range(view.counts.shape[1]):
        view.target[o, other] = view.counts[o, other]
    view.target[o, place] += change


@compiled
def find_action(before: Counts, after: Counts) -> int:
    """Return the action that leads from one deployment to another; -1 where none does."""
    action = 0
    for place in range(before.size):
        change = after[place] - before[place]
        if change == 0:
            continue
        if action != 0 or abs(change) != 1:
            return -1
        action = place + 1 if change < 0 else place + 1 + before.size
    return action


@compiled
def draw_action(o: int, view: View) -> int:
    """Return one of the valid actions, each as likely, by the second of the numbers drawn."""
    counts = view.counts[o]
    size, valid = total(counts), 0
    for action in range(count_actions(view)):
        valid += is_valid(o, view, counts, size, action)
    left = int(view.draws[o, 1] * valid)
    for action in range(count_actions(view)):
        if is_valid(o, view, counts, size, action):
            if left == 0:
                return action
            left -= 1
    return 0


@compiled
def observed_cost(o: int, view: View) -> float:
    """Return what the last interval cost, the weighted sum of its parts."""
    model, cost = view.model[o], view.cost[o]
    moved = model.weight_reconfiguration * cost.reconfiguration
    violated = model.weight_violation * cost.violation
    return (moved + violated) + cost.resources * model.weight_resources


@compiled
def step_towards(o: int, view: View) -> None:
    """Cut the view's target to the one replica that brings the present deployment nearest to it.

    Adds before it removes, so that capacity is never short on the way; a removal comes first only
    where there is no room to add.
    """
    lacking, largest_rise = -1, 0
    excess, largest_fall = -1, 0
    for place in range(view.counts.shape[1]):
        change = view.target[o, place] - view.counts[o, place]
        if change > largest_rise:
            lacking, largest_rise = place, change
        if change < largest_fall:
            excess, largest_fall = place, change
        view.target[o, place] = view.counts[o, place]
    size = total(view.counts[o])
    fits = lacking >= 0 and size < view.model[o].max_replicas
    if fits and has_room(o, view, view.counts[o], lacking):
        view.target[o, lacking] += 1
    elif excess >= 0 and size > 1:
        view.target[o, excess] -= 1


@compiled
def price_after(o: int, view: View, counts: Counts, place: int, change: int) -> float:
    """Return what a deployment costs with `change` replicas more at `place`, currency per hour.

    Summed again in one order, so that equal deployments cost exactly the same however reached.
    """
    price = 0.0
    for other in range(counts.size):
        count = counts[other] + change if other == place else counts[other]
        price += count * view.price[o, other]
    return price
