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
replicas of one type, chosen by `plan.choose_chain`.

What experience says of the model: speeds, waiting times, and what a restart and an excess cost.

The planner is told a model and believes it, but for bounded factors: how fast each node type is,
from measured utilisation, and how long records wait, from the measured response time. A node type
that never ran is taken to be off by as much as the others are. Only calm intervals teach: nothing
but a usual queue waits, no change of the deployment, no saturation.

Where response times leave even the corrected prediction, the prediction is mistrusted: capacity is
then limited to a fixed busy share, as utilisation-based scaling has it.
"""

from __future__ import annotations

import numpy as np

from weir_policies.kernels.compiled import compiled, compiled_apart
from weir_policies.kernels.prediction import (
    capacity_of,
    predict_one,
    price_of,
    share_of,
    water_level,
)
from weir_policies.kernels.steps import total
from weir_policies.kernels.view import (
    BACKLOG,
    BUDGET,
    BY_LOAD,
    EQUAL,
    MAX_REPLICAS,
    NO_POOL,
    RATE,
    RESPONSE_TIME,
    SERVICE_MEAN,
    SHARING,
    STEP,
    VIOLATION,
    WEIGHT_RECONFIGURATION,
    WEIGHT_VIOLATION,
    Memory,
    View,
)
from weir_policies.model.arrays import Counts, Floats
from weir_policies.operator_manager.planner.state import (
    BLOCK,
    BLOCK_EXCEEDED,
    CANDIDATE_CAPACITY,
    CANDIDATE_PRICE,
    CANDIDATES,
    CANDIDATES_USED,
    CHAIN,
    CORRECTS,
    EXCEEDED_BLOCKS,
    EXCEEDED_INTERVALS,
    FRONT,
    FRONT_USED,
    GROUP,
    LAST_CAPACITY,
    MENU_TOP,
    MISTRUST,
    MISTRUSTED,
    ONCE_LASTED,
    ONCE_TRIED,
    ORDER,
    PEAK,
    POINT_CAPACITY,
    POINT_HEIGHT,
    POINT_PRICE,
    RECONFIGURATION_COST,
    RESTART_VIOLATIONS,
    RESTARTS,
    SINCE_CHANGE,
    STREAK,
    WAIT_FACTOR,
    WAIT_WEIGHT,
    candidate_counts,
    point_counts,
    saved_speedups,
    speed_factors,
    speed_weights,
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
    """Choose the front again, from the view's speedups as they stand.

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


SATURATED = 0.98
"""Busy share from which utilisation says nothing about speed."""
WAITS_FROM, WAITS_TO = 0.2, 0.95
"""Busy shares between which the response time tells of the waiting time."""
LEAST_WEIGHT = 0.005
"""Of a new interval in a factor."""
MOST_SPEED = 0.7
"""Logarithm of the largest factor of a speed: twice as fast, or half."""
MOST_WAIT = 1.6
"""Logarithm of the largest factor of the waiting time: five times."""
MISTRUST_WEIGHT = 0.05
MISTRUST_FROM, MISTRUST_TO = 0.5, 0.25
"""Mean error of the logarithm of the response time at which mistrust begins, and ends."""
AFTER_CHANGE = 3
"""Intervals after a change in which a violation is put down to it."""
EXPERIENCE_FADES = 0.98
"""Per event."""


@compiled
def put_corrections(o: int, view: View, memory: Memory) -> None:
    """Let corrected speedups stand in for the believed ones, until `remove_corrections`."""
    factors = speed_factors(o, view, memory)
    weights = speed_weights(o, view, memory)
    saved = saved_speedups(o, view, memory)
    together, known = 0.0, 0.0
    for place in range(factors.size):
        together += factors[place] if weights[place] > 0 else 0.0
        known += 1.0 if weights[place] > 0 else 0.0
    common = together / known if known > 0 else 0.0
    for place in range(factors.size):
        saved[place] = view.speedup[o, place]
        factor = factors[place] if weights[place] > 0 else common
        view.speedup[o, place] *= np.exp(factor)


@compiled
def remove_corrections(o: int, view: View, memory: Memory) -> None:
    """Let the believed speedups stand again."""
    saved = saved_speedups(o, view, memory)
    for place in range(saved.size):
        view.speedup[o, place] = saved[place]


@compiled
def waits_beyond_budget(seen: Floats) -> float:
    """Return records that wait beside the queues of a deployment that just keeps its budget.

    Those hold rate x budget records on average (Little's law); a job that runs well has some, so
    that this is below 0.

    Args:
        seen: A row of `View.seen` or `View.before`, shape `(9,)`.
    """
    waits: float = seen[BACKLOG] - seen[RATE] * seen[BUDGET]
    return waits


@compiled
def is_behind(seen: Floats) -> bool:
    """Return whether more waits than that; arguments as of `waits_beyond_budget`."""
    return waits_beyond_budget(seen) > 0


@compiled
def _is_calm(o: int, view: View) -> bool:
    """Return whether the interval tells of the deployment in force, and of nothing else."""
    for place in range(view.counts.shape[1]):
        if view.counts[o, place] != view.counts_before[o, place]:
            return False
    if is_behind(view.seen[o]) or is_behind(view.before[o]):
        return False
    return view.seen[o, RATE] > 0


@compiled_apart
def correct(o: int, view: View, memory: Memory) -> None:
    """Learn how far the model is off."""
    if memory.floats[o, CORRECTS] == 0 or not _is_calm(o, view):
        return
    _correct_speeds(o, view, memory)
    put_corrections(o, view, memory)
    _correct_waiting(o, view, memory)
    remove_corrections(o, view, memory)


@compiled
def _correct_speeds(o: int, view: View, memory: Memory) -> None:
    factors, weights = speed_factors(o, view, memory), speed_weights(o, view, memory)
    rate, counts = view.seen[o, RATE], view.counts[o]
    size, speed = 0, 0.0
    for place in range(counts.size):
        size += counts[place]
        speed += counts[place] * view.speedup[o, place]
    level = water_level(o, view, counts, rate) if view.rules[o, SHARING] == BY_LOAD else 0.0
    for place in range(counts.size):
        busy = view.busy[o, place]
        if counts[place] == 0 or not 0.02 < busy < SATURATED:
            continue
        share = share_of(o, view, place, size, speed, rate, level)
        predicted = rate * share * view.traits[o, SERVICE_MEAN] / view.speedup[o, place]
        off = min(max(np.log(predicted / busy), -MOST_SPEED), MOST_SPEED)
        weights[place] += 1
        factors[place] += max(LEAST_WEIGHT, 1 / weights[place]) * (off - factors[place])


@compiled
def _correct_waiting(o: int, view: View, memory: Memory) -> None:
    floats = memory.floats[o]
    measured = view.seen[o, RESPONSE_TIME]
    idle, _ = predict_one(o, view, view.counts[o], 1e-9)
    time, busy = predict_one(o, view, view.counts[o], view.seen[o, RATE])
    if not 0 < measured < np.inf or not busy < WAITS_TO:
        return
    if busy > WAITS_FROM:
        ratio = max((measured - idle) / (time - idle), 1e-3)
        off = min(max(np.log(ratio), -MOST_WAIT), MOST_WAIT)
        floats[WAIT_WEIGHT] += 1
        weight = max(LEAST_WEIGHT, 1 / floats[WAIT_WEIGHT])
        factor = np.log(floats[WAIT_FACTOR])
        floats[WAIT_FACTOR] = np.exp(factor + weight * (off - factor))
    predicted = idle + floats[WAIT_FACTOR] * (time - idle)
    error = abs(np.log(measured / predicted))
    floats[MISTRUST] += MISTRUST_WEIGHT * (error - floats[MISTRUST])
    limit = MISTRUST_TO if memory.ints[o, MISTRUSTED] else MISTRUST_FROM
    memory.ints[o, MISTRUSTED] = 1 if floats[MISTRUST] > limit else 0


@compiled_apart
def capacity_here(o: int, view: View, memory: Memory) -> float:
    """Return records/s that the present deployment carries."""
    point = find_point(o, view, memory, view.counts[o])
    if point >= 0:
        return memory.values[o, POINT_CAPACITY + point]
    put_corrections(o, view, memory)
    capacity = find_capacity(o, view, memory, view.counts[o])
    remove_corrections(o, view, memory)
    return capacity


@compiled_apart
def note_violation(o: int, view: View, memory: Memory) -> None:
    """Learn what follows a change, and how long an excess lasts."""
    floats, ints = memory.floats[o], memory.ints[o]
    ints[SINCE_CHANGE] += 1
    for place in range(view.counts.shape[1]):
        if view.counts[o, place] != view.counts_before[o, place]:
            ints[SINCE_CHANGE] = 0
    if ints[SINCE_CHANGE] == 0:
        floats[RESTARTS] = EXPERIENCE_FADES * floats[RESTARTS] + 1
        floats[RESTART_VIOLATIONS] *= EXPERIENCE_FADES
    if view.cost[o, VIOLATION] < 0.5:
        return
    enough = view.seen[o, RATE] <= capacity_here(o, view, memory)
    if enough and ints[SINCE_CHANGE] < AFTER_CHANGE:
        floats[RESTART_VIOLATIONS] += 1
    else:
        floats[EXCEEDED_INTERVALS] += 1
        ints[BLOCK_EXCEEDED] = 1


@compiled_apart
def note_streak(o: int, view: View, memory: Memory) -> None:
    """Learn how likely a rate that exceeds the capacity does so in the next interval as well.

    After one interval and after several in a row are two things: a blip, and a new level.
    """
    floats, ints = memory.floats[o], memory.ints[o]
    streak = ints[STREAK]
    lasted = view.seen[o, RATE] > floats[LAST_CAPACITY]
    if streak > 0:
        kind = 0 if streak == 1 else 1
        floats[ONCE_TRIED + kind] = EXPERIENCE_FADES * floats[ONCE_TRIED + kind] + 1
        floats[ONCE_LASTED + kind] *= EXPERIENCE_FADES
        if lasted:
            floats[ONCE_LASTED + kind] += 1
    capacity = capacity_here(o, view, memory)
    exceeds = view.seen[o, RATE] > capacity
    ints[STREAK] = (streak + 1 if lasted else 1) if exceeds else 0
    floats[LAST_CAPACITY] = capacity


@compiled
def note_excess(o: int, memory: Memory) -> None:
    """Close the account of violations in a block."""
    if memory.ints[o, BLOCK_EXCEEDED]:
        floats = memory.floats[o]
        floats[EXCEEDED_BLOCKS] = EXPERIENCE_FADES * floats[EXCEEDED_BLOCKS] + 1
        floats[EXCEEDED_INTERVALS] *= EXPERIENCE_FADES
        memory.ints[o, BLOCK_EXCEEDED] = 0


@compiled
def price_of_excess(o: int, view: View, memory: Memory) -> float:
    """Return what it costs when the rate exceeds the capacity in a block."""
    floats = memory.floats[o]
    intervals = floats[EXCEEDED_INTERVALS] / floats[EXCEEDED_BLOCKS]
    intervals = min(max(intervals, 1.0), 1.0 * memory.ints[o, BLOCK])
    return view.traits[o, WEIGHT_VIOLATION] * intervals


@compiled
def price_of_staying_exceeded(o: int, view: View, memory: Memory) -> float:
    """Return what it costs to stay, over a block, where the rate exceeds the capacity now."""
    floats = memory.floats[o]
    kind = 0 if memory.ints[o, STREAK] <= 1 else 1
    lasts = floats[ONCE_LASTED + kind] / floats[ONCE_TRIED + kind]
    intervals = lasts / max(1 - lasts, 1e-3)
    longest = view.traits[o, WEIGHT_VIOLATION] * memory.ints[o, BLOCK]
    more = view.traits[o, WEIGHT_VIOLATION] * intervals
    return min(price_of_excess(o, view, memory) + more, longest)


@compiled
def price_of_restart(o: int, view: View, memory: Memory) -> float:
    """Return what a restart costs: what is set for it, and the violations that followed others."""
    floats = memory.floats[o]
    cost = floats[RECONFIGURATION_COST]
    if cost < 0:
        cost = view.traits[o, WEIGHT_RECONFIGURATION]
    violations = floats[RESTART_VIOLATIONS] / floats[RESTARTS]
    return cost + view.traits[o, WEIGHT_VIOLATION] * violations
