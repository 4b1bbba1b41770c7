"""Which deployments are worth considering: the cheapest for what they carry.

The capacity of a deployment is the rate at which its predicted response time just keeps the budget.
Only deployments that carry more than all cheaper ones are of interest. The set that is searched:

1. Replicas of one node type. Under equal sharing the slowest replica sets the response time, so a
   mix pays for speed that it does not get and these are all that matter.
2. Where shares follow speed, or a pool is too small for one node type alone: mixes of two types,
   and a chain that fills up the types, those with the most speed for the money first.
3. Resizes of what was chosen: same pool and count, another size, which needs no restart.

Node types that the operator may not run on make no difference, as if they were not listed.

Where moves are by one replica, a ladder of several node types cannot be climbed; the menu is then
replicas of one type, chosen by `planner_chain`.

Which node type to climb on where a decision moves one replica at most.

A ladder of several node types cannot be climbed then: on the way from one to another the slowest
replica dictates. So the planner stays on one type, the one on which the course that is foreseen
costs least: a dynamic program over the blocks to come, each step of a replica paid for, the rate
taken to follow the season from its recent peak on.
"""

from __future__ import annotations

import numpy as np

from weir_policies.kernels.compiled import compiled, compiled_apart
from weir_policies.kernels.prediction import capacity_of, predict_one, price_of
from weir_policies.kernels.steps import total
from weir_policies.kernels.view import (
    BUDGET,
    BY_LOAD,
    EQUAL,
    MAX_REPLICAS,
    NO_POOL,
    SHARING,
    STEP,
    WEIGHT_VIOLATION,
    Memory,
    View,
)
from weir_policies.model.arrays import Counts
from weir_policies.operator_manager.planner.plan import price_of_block
from weir_policies.operator_manager.planner.rate import price_of_restart
from weir_policies.operator_manager.planner.state import (
    AHEAD,
    BLOCK,
    CANDIDATE_CAPACITY,
    CANDIDATE_PRICE,
    CANDIDATES,
    CANDIDATES_USED,
    CHAIN,
    FRONT,
    FRONT_USED,
    GROUP,
    MENU_TOP,
    MISTRUSTED,
    ORDER,
    PEAK,
    PEAK_LONG,
    PLANS,
    POINT_CAPACITY,
    POINT_HEIGHT,
    POINT_PRICE,
    SEASON,
    WAIT_FACTOR,
    candidate_counts,
    point_counts,
)

HALVINGS = 24
"""Steps of the search for a capacity: exact to a ten-millionth."""
ROOM_ABOVE = 2.0
"""Front are of interest up to this multiple of the highest rate seen."""
MISTRUSTED_LOAD = 0.7
"""Busy share that may be planned with while response times leave the prediction."""


@compiled_apart
def find_capacity(o: int, view: View, memory: Memory, counts: Counts) -> float:
    """Return records/s at which a deployment just keeps the budget; 0 where it never does.

    The waiting time is the predicted one times what experience says of it.
    """
    budget = view.seen[o, BUDGET]
    idle, busiest = predict_one(o, view, counts, 1e-9)
    if not idle <= budget:
        return 0.0
    by_load = view.rules[o, SHARING] == BY_LOAD
    high = capacity_of(o, view, counts) if by_load else 1e-9 / busiest
    if memory.ints[o, MISTRUSTED]:
        high *= MISTRUSTED_LOAD
    factor = memory.floats[o, WAIT_FACTOR]
    low = 0.0
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        time, _ = predict_one(o, view, counts, middle)
        if idle + factor * (time - idle) <= budget:
            low = middle
        else:
            high = middle
    return low


@compiled_apart
def room_in_pools(o: int, view: View, counts: Counts, place: int) -> int:
    """Return how many replicas of a node type could join a deployment."""
    held = 0
    for other in range(counts.size):
        if view.pool[o, other] == view.pool[o, place]:
            held += counts[other]
    room = min(view.limit[o, place] - held, view.rules[o, MAX_REPLICAS] - total(counts))
    return max(room, 0)


@compiled_apart
def _add(o: int, view: View, memory: Memory, counts: Counts) -> None:
    """Enter a deployment among the candidates, if there is room left."""
    row = memory.ints[o, CANDIDATES_USED]
    if row >= CANDIDATES:
        return
    rows = candidate_counts(o, view, memory)
    for place in range(counts.size):
        rows[row, place] = counts[place]
    memory.values[o, CANDIDATE_CAPACITY + row] = find_capacity(o, view, memory, counts)
    memory.values[o, CANDIDATE_PRICE + row] = price_of(o, view, counts)
    memory.ints[o, ORDER + row] = row
    memory.ints[o, CANDIDATES_USED] = row + 1


@compiled
def _count_types(o: int, view: View) -> int:
    """Return how many node types the operator may run on."""
    types = 0
    for place in range(view.counts.shape[1]):
        types += view.pool[o, place] != NO_POOL
    return types


@compiled_apart
def _add_single_types(o: int, view: View, memory: Memory) -> bool:
    """Enter the deployments of one node type; return whether a pool is too small for some."""
    work = view.target[o]
    short = False
    most = view.rules[o, MAX_REPLICAS]
    stride = 1 + (_count_types(o, view) * most) // (CANDIDATES // 2)
    for place in range(view.counts.shape[1]):
        if view.pool[o, place] == NO_POOL:
            continue
        work[:] = 0
        room = room_in_pools(o, view, work, place)
        short = short or room < most
        for count in range(1, room + 1):
            if count % stride == 0 or count <= 2 or count == room:
                work[place] = count
                _add(o, view, memory, work)
    return short


@compiled_apart
def _add_pairs(o: int, view: View, memory: Memory) -> None:
    """Enter mixes of two node types, evenly thinned where they are too many."""
    types, choices = view.counts.shape[1], _count_types(o, view)
    work = view.target[o]
    most = view.rules[o, MAX_REPLICAS]
    mixes = choices * (choices - 1) // 2 * most * most // 2
    stride = 1
    while mixes // (stride * stride) > CANDIDATES // 2:
        stride += 1
    for one in range(types):
        for other in range(one + 1, types):
            work[:] = 0
            for first in range(1, room_in_pools(o, view, work, one) + 1, stride):
                work[:] = 0
                work[one] = first
                for second in range(1, room_in_pools(o, view, work, other) + 1, stride):
                    work[other] = second
                    _add(o, view, memory, work)
                    work[other] = 0
                work[one] = 0


@compiled_apart
def _add_chain(o: int, view: View, memory: Memory) -> None:
    """Enter the chain that fills one node type after the other, the most speed for money first."""
    types = view.counts.shape[1]
    work = view.target[o]
    work[:] = 0
    while total(work) < view.rules[o, MAX_REPLICAS]:
        best, most = -1, 0.0
        for place in range(types):
            worth = view.speedup[o, place] / max(view.price[o, place], 1e-12)
            if worth > most and room_in_pools(o, view, work, place) > 0:
                best, most = place, worth
        if best < 0:
            return
        work[best] += 1
        _add(o, view, memory, work)


@compiled_apart
def _sort_by_price(o: int, memory: Memory) -> None:
    """Order the candidates by price, among equals the most capacity first (Shell's sort)."""
    used = memory.ints[o, CANDIDATES_USED]
    order = memory.ints[o, ORDER : ORDER + CANDIDATES]
    price = memory.values[o, CANDIDATE_PRICE : CANDIDATE_PRICE + CANDIDATES]
    capacity = memory.values[o, CANDIDATE_CAPACITY : CANDIDATE_CAPACITY + CANDIDATES]
    gap = used // 2
    while gap > 0:
        for place in range(gap, used):
            row = order[place]
            at = place
            while at >= gap:
                above = order[at - gap]
                later = price[above] > price[row]
                equal = price[above] == price[row]
                if not (later or (equal and capacity[above] < capacity[row])):
                    break
                order[at] = above
                at -= gap
            order[at] = row
        gap //= 2


@compiled_apart
def _keep_efficient(o: int, memory: Memory) -> int:
    """Leave in the order only what carries more than all that is cheaper; return how many."""
    best, kept = 0.0, 0
    peak = memory.floats[o, PEAK]
    memory.floats[o, MENU_TOP] = np.inf
    for place in range(memory.ints[o, CANDIDATES_USED]):
        row = memory.ints[o, ORDER + place]
        capacity = memory.values[o, CANDIDATE_CAPACITY + row]
        if capacity > best * (1 + 1e-9):
            best = capacity
            memory.ints[o, ORDER + kept] = row
            kept += 1
            if peak > 0 and capacity > ROOM_ABOVE * peak:
                memory.floats[o, MENU_TOP] = capacity
                break
    return kept


@compiled_apart
def _thin(o: int, memory: Memory, kept: int, wanted: int) -> int:
    """Drop the point whose neighbours are closest, until no more are left than wanted."""
    order = memory.ints[o, ORDER : ORDER + CANDIDATES]
    while kept > wanted:
        closest, least = 1, np.inf
        for place in range(1, kept - 1):
            above = memory.values[o, CANDIDATE_CAPACITY + order[place + 1]]
            below = memory.values[o, CANDIDATE_CAPACITY + order[place - 1]]
            if above / below < least:
                closest, least = place, above / below
        for place in range(closest, kept - 1):
            order[place] = order[place + 1]
        kept -= 1
    return kept


@compiled_apart
def same_per_pool(view: View, o: int, one: Counts, other: Counts) -> bool:
    """Return whether two deployments have as many replicas in every pool: only sizes differ."""
    for place in range(one.size):
        moved = 0
        for at in range(one.size):
            if view.pool[o, at] == view.pool[o, place]:
                moved += one[at] - other[at]
        if moved != 0:
            return False
    return True


@compiled_apart
def _enter(o: int, view: View, memory: Memory, candidate: int) -> None:
    """Make a candidate the next point."""
    row = memory.ints[o, FRONT_USED]
    candidates, front = candidate_counts(o, view, memory), point_counts(o, view, memory)
    for place in range(view.counts.shape[1]):
        front[row, place] = candidates[candidate, place]
    capacity = memory.values[o, CANDIDATE_CAPACITY + candidate]
    memory.values[o, POINT_CAPACITY + row] = capacity
    memory.values[o, POINT_HEIGHT + row] = np.log(capacity)
    memory.values[o, POINT_PRICE + row] = memory.values[o, CANDIDATE_PRICE + candidate]
    memory.ints[o, GROUP + row] = row
    for other in range(row):
        if same_per_pool(view, o, front[row], front[other]):
            memory.ints[o, GROUP + row] = memory.ints[o, GROUP + other]
            break
    memory.ints[o, FRONT_USED] = row + 1


@compiled
def _has_sizes(o: int, view: View) -> bool:
    """Return whether a pool has node types of several sizes."""
    for place in range(view.counts.shape[1]):
        for other in range(place):
            if view.pool[o, place] == view.pool[o, other] != NO_POOL:
                return True
    return False


@compiled_apart
def build_menu(o: int, view: View, memory: Memory) -> None:
    """Choose the front anew, from the view's speedups as they stand.

    Uses the operator's row of `target` to work in and leaves the present deployment there.
    """
    memory.ints[o, CANDIDATES_USED] = 0
    memory.ints[o, FRONT_USED] = 0
    work = view.target[o]
    if view.rules[o, STEP] == 1:
        work[:] = 0
        place = memory.ints[o, CHAIN]
        for count in range(1, room_in_pools(o, view, work, place) + 1):
            work[place] = count
            _add(o, view, memory, work)
            work[place] = 0
    else:
        short = _add_single_types(o, view, memory)
        if short or view.rules[o, SHARING] != EQUAL:
            _add_chain(o, view, memory)
            _add_pairs(o, view, memory)
    _sort_by_price(o, memory)
    kept = _keep_efficient(o, memory)
    sizes = view.rules[o, STEP] == 0 and _has_sizes(o, view)
    kept = _thin(o, memory, kept, FRONT // 2 if sizes else FRONT)
    for place in range(kept):
        _enter(o, view, memory, memory.ints[o, ORDER + place])
    if sizes:
        _enter_resizes(o, view, memory, kept)
    for place in range(view.counts.shape[1]):
        work[place] = view.counts[o, place]


@compiled_apart
def _enter_resizes(o: int, view: View, memory: Memory, kept: int) -> None:
    """Add what the chosen front could be resized to, the cheapest first, while there is room."""
    front, candidates = point_counts(o, view, memory), candidate_counts(o, view, memory)
    for point in range(kept):
        for candidate in range(memory.ints[o, CANDIDATES_USED]):
            if memory.ints[o, FRONT_USED] == FRONT:
                return
            able = memory.values[o, CANDIDATE_CAPACITY + candidate] > 0
            if not able or not same_per_pool(view, o, front[point], candidates[candidate]):
                continue
            if not _is_on_menu(o, view, memory, candidates[candidate]):
                _enter(o, view, memory, candidate)


@compiled
def _is_on_menu(o: int, view: View, memory: Memory, counts: Counts) -> bool:
    return find_point(o, view, memory, counts) >= 0


@compiled_apart
def find_point(o: int, view: View, memory: Memory, counts: Counts) -> int:
    """Return the point that a deployment is, -1 where it is none."""
    front = point_counts(o, view, memory)
    for row in range(memory.ints[o, FRONT_USED]):
        equal = True
        for place in range(counts.size):
            if front[row, place] != counts[place]:
                equal = False
                break
        if equal:
            return row
    return -1


@compiled_apart
def fits_pools(o: int, view: View, counts: Counts) -> bool:
    """Return whether a deployment keeps the pools' limits, or uses no more of them than now."""
    for place in range(counts.size):
        limit = view.limit[o, place]
        held, had = 0, 0
        for other in range(counts.size):
            if view.pool[o, other] == view.pool[o, place]:
                held += counts[other]
                had += view.counts[o, other]
        if held > limit and held > had:
            return False
    return True


MARGIN = 0.1
"""How far above the foreseen course the rate is taken to be, in logs."""
WORTH_IT = 0.8
"""Another type must be foreseen to cost less than this part of the present one."""


@compiled_apart
def choose_chain(o: int, view: View, memory: Memory) -> bool:
    """Choose the node type; return whether it is another one than before."""
    present = memory.ints[o, CHAIN]
    known = memory.ints[o, PLANS] > 0
    best, least = present, _foresee_cost(o, view, memory, present)
    if known:
        least *= WORTH_IT
    for place in range(view.counts.shape[1]):
        cost = _foresee_cost(o, view, memory, place) if place != present else np.inf
        if cost < least:
            best, least = place, cost
    memory.ints[o, CHAIN] = best
    return best != present


@compiled_apart
def _foresee_cost(o: int, view: View, memory: Memory, place: int) -> float:
    """Return the least cost of the blocks to come on one node type; `inf` where it has no room."""
    work = view.target[o]
    work[:] = 0
    room = min(room_in_pools(o, view, work, place), CANDIDATES)
    values = memory.values[o]
    for count in range(room):
        work[place] = count + 1
        values[CANDIDATE_CAPACITY + count] = np.log(max(find_capacity(o, view, memory, work), 1e-9))
        values[CANDIDATE_PRICE + count] = 0.0
    for other in range(work.size):
        work[other] = view.counts[o, other]
    step = price_of_restart(o, view, memory)
    short = view.traits[o, WEIGHT_VIOLATION] * memory.ints[o, BLOCK]
    block = price_of_block(o, view, memory, view.price[o, place])
    least = 0.0 if room > 0 else np.inf
    for ahead in range(AHEAD - 1, -1, -1):
        need = memory.floats[o, PEAK_LONG] + values[SEASON + ahead] + MARGIN
        for count in range(room):
            lacking = values[CANDIDATE_CAPACITY + count] < need
            values[CANDIDATE_PRICE + count] += block * (count + 1) + (short if lacking else 0.0)
        for count in range(1, room):
            before = values[CANDIDATE_PRICE + count - 1] + step
            values[CANDIDATE_PRICE + count] = min(values[CANDIDATE_PRICE + count], before)
        for count in range(room - 2, -1, -1):
            after = values[CANDIDATE_PRICE + count + 1] + step
            values[CANDIDATE_PRICE + count] = min(values[CANDIDATE_PRICE + count], after)
        if room > 0:
            least = np.inf
        for count in range(room):
            least = min(least, values[CANDIDATE_PRICE + count])
    return least
