"""Which deployments are worth considering: the cheapest for what they carry.

The capacity of a deployment is the rate at which its predicted response time just keeps the budget.
Only deployments that carry more than all cheaper ones are of interest. The set that is searched:

1. Replicas of one node type. Under equal sharing the slowest replica sets the response time, so a
   mix pays for speed that it does not get and these are all that matter.
2. Where shares follow speed, or a pool is too small for one node type alone: mixes of two types,
   and a chain that fills up the types, those with the most speed for the money first.
3. Resizes of what was chosen: same pool and count, another size, which needs no restart until one
   has restarted the job.

Node types that the operator may not run on make no difference, as if they were not listed.

Where a move changes one replica, deployments of several node types may be out of reach; the points
are then replicas of one type, chosen by `plan.choose_chain`.

What experience says of the model: speeds, waiting times, and what a restart and an excess cost.

The planner is told a model and believes it, but for bounded factors: how fast each node type is,
from measured utilisation, and how long records wait, from the measured response time. A node type
that never ran is taken to be off by as much as the others are. Only calm intervals teach: nothing
but a usual queue waits, here or upstream, no change of the deployment, no saturation.

Where response times leave even the corrected prediction, the prediction is mistrusted: capacity is
then limited to a fixed busy share, as utilisation-based scaling has it.
"""

from __future__ import annotations

import numpy as np

from weir_policies.kernels.bounds import keeps_bounds
from weir_policies.kernels.compiled import compiled, compiled_apart
from weir_policies.kernels.prediction import (
    capacity_of,
    predict_one,
    price_of,
    share_of,
    water_level,
)
from weir_policies.kernels.steps import total
from weir_policies.kernels.view import BY_LOAD, EQUAL, NO_LIMIT, NO_POOL, Seen, View
from weir_policies.model.arrays import Counts
from weir_policies.operator_manager.planner.state import (
    CANDIDATES,
    FRONT,
    PlannerMemory,
    Workspace,
)

HALVINGS = 24
"""Steps of the search for a capacity: exact to a ten-millionth."""
ROOM_ABOVE = 2.0
"""Front are of interest up to this multiple of the highest rate seen."""
HELPS = 1.02
"""How many times as much more replicas must carry to be worth anything, where keys are uneven."""
MISTRUSTED_LOAD = 0.7
"""Busy share that may be planned with while response times leave the prediction."""


@compiled_apart
def find_capacity(o: int, view: View, own: PlannerMemory, counts: Counts) -> float:
    """Return records/s at which a deployment just keeps the budget; 0 where it never does.

    The waiting time is the predicted one times what experience says of it.
    """
    budget = view.seen[o].budget
    idle, busiest = predict_one(o, view, counts, 1e-9)
    if not idle <= budget:
        return 0.0
    by_load = view.model[o].sharing == BY_LOAD
    high = capacity_of(o, view, counts) if by_load else 1e-9 / busiest
    if own.mistrusted:
        high *= MISTRUSTED_LOAD
    factor = own.wait_factor
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
    room = min(view.limit[o, place] - held, view.model[o].max_replicas - total(counts))
    return max(room, 0)


@compiled_apart
def _add(o: int, view: View, own: PlannerMemory, counts: Counts) -> None:
    row = own.candidates_used
    if row >= CANDIDATES:
        return
    rows = own.candidates
    for place in range(counts.size):
        rows[row, place] = counts[place]
    own.candidate_capacity[row] = find_capacity(o, view, own, counts)
    own.candidate_price[row] = price_of(o, view, counts)
    own.candidates_used = row + 1


@compiled
def _count_types(o: int, view: View) -> int:
    types = 0
    for place in range(view.counts.shape[1]):
        types += view.pool[o, place] != NO_POOL
    return types


@compiled_apart
def _add_single_types(o: int, view: View, own: PlannerMemory) -> bool:
    """Enter the deployments of one node type; return whether a pool is too small for some."""
    work = view.target[o]
    short = False
    most = view.model[o].max_replicas
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
                _add(o, view, own, work)
    return short


@compiled_apart
def _add_pairs(o: int, view: View, own: PlannerMemory) -> None:
    """Enter mixes of two node types, evenly thinned where they are too many."""
    types, choices = view.counts.shape[1], _count_types(o, view)
    work = view.target[o]
    most = view.model[o].max_replicas
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
                    _add(o, view, own, work)
                    work[other] = 0
                work[one] = 0


@compiled_apart
def _add_chain(o: int, view: View, own: PlannerMemory) -> None:
    """Enter the chain that fills one node type after the other, the most speed for money first."""
    types = view.counts.shape[1]
    work = view.target[o]
    work[:] = 0
    while total(work) < view.model[o].max_replicas:
        best, most = -1, 0.0
        for place in range(types):
            worth = view.speedup[o, place] / max(view.price[o, place], 1e-12)
            if worth > most and room_in_pools(o, view, work, place) > 0:
                best, most = place, worth
        if best < 0:
            return
        work[best] += 1
        _add(o, view, own, work)


@compiled_apart
def _sort_by_price(own: PlannerMemory, order: Counts) -> None:
    """Order the candidates by price, among equals the most capacity first (Shell's sort)."""
    used = own.candidates_used
    price = own.candidate_price
    capacity = own.candidate_capacity
    for row in range(used):
        order[row] = row
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
def _keep_efficient(o: int, view: View, own: PlannerMemory, order: Counts) -> int:
    """Leave in the order only what carries more than all that is cheaper; return how many.

    What is below the floor, or costs more than the operator may, is left out. So are replicas that
    hardly help, where heavy keys stay together however many there are.
    """
    best, kept = 0.0, 0
    least = HELPS if view.fullest[o, 0] > 0 else 1 + 1e-9
    peak = own.highest_rate
    own.candidates_reach = np.inf
    for place in range(own.candidates_used):
        row = order[place]
        capacity = own.candidate_capacity[row]
        if capacity > best * least and keeps_bounds(o, view, own.candidates[row]):
            best = capacity
            order[kept] = row
            kept += 1
            if peak > 0 and capacity > ROOM_ABOVE * peak:
                own.candidates_reach = float(capacity)
                break
    return kept


@compiled_apart
def _thin(own: PlannerMemory, order: Counts, kept: int, wanted: int) -> int:
    """Drop the point whose neighbours are closest, until no more are left than wanted."""
    while kept > wanted:
        closest, least = 1, np.inf
        for place in range(1, kept - 1):
            above = own.candidate_capacity[order[place + 1]]
            below = own.candidate_capacity[order[place - 1]]
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


@compiled
def is_resize(o: int, view: View, own: PlannerMemory, one: Counts, other: Counts) -> bool:
    """Return whether going from one deployment to another takes no restart."""
    return own.resizes_restart == 0 and same_per_pool(view, o, one, other)


@compiled_apart
def note_resize(o: int, view: View, own: PlannerMemory) -> None:
    """Learn from the last change that only changed sizes whether those restart the job."""
    before, proposed = view.counts_before[o], view.proposed[o]
    moved, enacted = 0, True
    for place in range(before.size):
        moved += abs(proposed[place] - before[place])
        enacted = enacted and proposed[place] == view.counts[o, place]
    if moved == 0 or not same_per_pool(view, o, before, proposed):
        return
    if view.cost[o].reconfiguration > 0.5:
        own.resizes_restart = 1
    elif enacted:
        own.resizes_restart = 0


@compiled_apart
def _enter(o: int, view: View, own: PlannerMemory, candidate: int) -> None:
    row = own.front_used
    candidates, front = own.candidates, own.points
    for place in range(view.counts.shape[1]):
        front[row, place] = candidates[candidate, place]
    capacity = own.candidate_capacity[candidate]
    own.point_capacity[row] = capacity
    own.point_height[row] = np.log(capacity)
    own.point_price[row] = own.candidate_price[candidate]
    own.group[row] = row
    for other in range(row):
        if is_resize(o, view, own, front[row], front[other]):
            own.group[row] = own.group[other]
            break
    own.front_used = row + 1


@compiled
def _has_sizes(o: int, view: View) -> bool:
    for place in range(view.counts.shape[1]):
        for other in range(place):
            if view.pool[o, place] == view.pool[o, other] != NO_POOL:
                return True
    return False


@compiled_apart
def choose_candidates(o: int, view: View, own: PlannerMemory) -> None:
    """Choose the front again, with the view's present speedups.

    Uses the operator's row of `target` to work in and leaves the present deployment there.
    """
    own.candidates_used = 0
    own.front_used = 0
    work = view.target[o]
    if view.model[o].one_step == 1:
        work[:] = 0
        place = own.chain
        for count in range(1, room_in_pools(o, view, work, place) + 1):
            work[place] = count
            _add(o, view, own, work)
            work[place] = 0
    else:
        short = _add_single_types(o, view, own)
        if short or view.model[o].sharing != EQUAL:
            _add_chain(o, view, own)
            _add_pairs(o, view, own)
    order = Workspace(view.workspace[o]).order
    _sort_by_price(own, order)
    kept = _keep_efficient(o, view, own, order)
    sizes = view.model[o].one_step == 0 and own.resizes_restart == 0 and _has_sizes(o, view)
    kept = _thin(own, order, kept, FRONT // 2 if sizes else FRONT)
    for place in range(kept):
        _enter(o, view, own, order[place])
    if sizes:
        _enter_resizes(o, view, own, kept)
    for place in range(view.counts.shape[1]):
        work[place] = view.counts[o, place]


@compiled_apart
def _enter_resizes(o: int, view: View, own: PlannerMemory, kept: int) -> None:
    """Add resizes of the chosen front, cheapest first, while there is room."""
    front, candidates = own.points, own.candidates
    for point in range(kept):
        for candidate in range(own.candidates_used):
            if own.front_used == FRONT:
                return
            able = own.candidate_capacity[candidate] > 0
            if not able or not same_per_pool(view, o, front[point], candidates[candidate]):
                continue
            if not _is_candidate(own, candidates[candidate]):
                _enter(o, view, own, candidate)


@compiled
def _is_candidate(own: PlannerMemory, counts: Counts) -> bool:
    return find_point(own, counts) >= 0


@compiled_apart
def find_point(own: PlannerMemory, counts: Counts) -> int:
    """Return the point that a deployment is, -1 where it is none."""
    front = own.points
    for row in range(own.front_used):
        equal = True
        for place in range(counts.size):
            if front[row, place] != counts[place]:
                equal = False
                break
        if equal:
            return row
    return -1


@compiled_apart
def keeps_limits(o: int, view: View, counts: Counts) -> bool:
    """Return whether a deployment keeps all limits, or uses no more of its pools than now."""
    if not keeps_bounds(o, view, counts):
        return False
    for place in range(counts.size):
        limit = view.limit[o, place]
        if limit == NO_LIMIT:
            continue
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
"""Busy shares between which the response time shows the waiting time."""
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
def put_corrections(o: int, view: View, own: PlannerMemory) -> None:
    """Replace the believed speedups by corrected ones, until `remove_corrections`."""
    factors = own.speed_factors
    weights = own.speed_weights
    saved = view.scratch[o]
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
def remove_corrections(o: int, view: View) -> None:
    """Restore the believed speedups."""
    saved = view.scratch[o]
    for place in range(saved.size):
        view.speedup[o, place] = saved[place]


@compiled
def waits_beyond_budget(seen: Seen) -> float:
    """Return the records that wait beyond the queues of a deployment that just meets its budget.

    Those hold rate x budget records on average (Little's law); a job that runs well has some, so
    that this is below 0.
    """
    return seen.backlog - seen.rate * seen.budget


@compiled
def waits_upstream(seen: Seen) -> float:
    """Return the records that wait upstream beyond usual queues, 0 where that is unknown."""
    return seen.upstream if seen.upstream > seen.offered * seen.budget else 0.0


@compiled
def demand_of(seen: Seen) -> float:
    """Return the records/s that arrive, or would if nothing waited upstream.

    While something does, what arrives is only what operators before this one manage to process.
    """
    return seen.offered if waits_upstream(seen) > 0 else seen.rate


@compiled
def is_behind(seen: Seen) -> bool:
    """Return whether more waits than that."""
    return waits_beyond_budget(seen) > 0


@compiled
def _is_calm(o: int, view: View) -> bool:
    """Return whether the interval shows only the effect of the present deployment.

    While records wait upstream, the rate is what would arrive, and not what kept the replicas busy.
    """
    for place in range(view.counts.shape[1]):
        if view.counts[o, place] != view.counts_before[o, place]:
            return False
    if is_behind(view.seen[o]) or is_behind(view.before[o]):
        return False
    if waits_upstream(view.seen[o]) > 0 or waits_upstream(view.before[o]) > 0:
        return False
    return view.seen[o].rate > 0


@compiled_apart
def correct(o: int, view: View, own: PlannerMemory) -> None:
    """Learn how far the model is off."""
    if own.corrects == 0 or not _is_calm(o, view):
        return
    _correct_speeds(o, view, own)
    put_corrections(o, view, own)
    _correct_waiting(o, view, own)
    remove_corrections(o, view)


@compiled
def _correct_speeds(o: int, view: View, own: PlannerMemory) -> None:
    factors, weights = own.speed_factors, own.speed_weights
    rate, counts = view.seen[o].rate, view.counts[o]
    size, speed = 0, 0.0
    for place in range(counts.size):
        size += counts[place]
        speed += counts[place] * view.speedup[o, place]
    level = water_level(o, view, counts, rate) if view.model[o].sharing == BY_LOAD else 0.0
    for place in range(counts.size):
        busy = view.busy[o, place]
        if counts[place] == 0 or not 0.02 < busy < SATURATED:
            continue
        share = share_of(o, view, place, size, speed, rate, level)
        predicted = rate * share * view.model[o].service_mean / view.speedup[o, place]
        off = min(max(np.log(predicted / busy), -MOST_SPEED), MOST_SPEED)
        weights[place] += 1
        factors[place] += max(LEAST_WEIGHT, 1 / weights[place]) * (off - factors[place])


@compiled
def _correct_waiting(o: int, view: View, own: PlannerMemory) -> None:
    measured = view.seen[o].response_time
    idle, _ = predict_one(o, view, view.counts[o], 1e-9)
    time, busy = predict_one(o, view, view.counts[o], view.seen[o].rate)
    if not 0 < measured < np.inf or not busy < WAITS_TO:
        return
    if busy > WAITS_FROM:
        ratio = max((measured - idle) / (time - idle), 1e-3)
        off = min(max(np.log(ratio), -MOST_WAIT), MOST_WAIT)
        own.wait_weight += 1
        weight = max(LEAST_WEIGHT, 1 / own.wait_weight)
        factor = np.log(own.wait_factor)
        own.wait_factor = np.exp(factor + weight * (off - factor))
    predicted = idle + own.wait_factor * (time - idle)
    error = abs(np.log(measured / predicted))
    own.mistrust += MISTRUST_WEIGHT * (error - own.mistrust)
    limit = MISTRUST_TO if own.mistrusted else MISTRUST_FROM
    own.mistrusted = 1 if own.mistrust > limit else 0


@compiled_apart
def capacity_here(o: int, view: View, own: PlannerMemory) -> float:
    """Return records/s that the present deployment carries."""
    point = find_point(own, view.counts[o])
    if point >= 0:
        return own.point_capacity[point]
    put_corrections(o, view, own)
    capacity = find_capacity(o, view, own, view.counts[o])
    remove_corrections(o, view)
    return capacity


@compiled_apart
def note_violation(o: int, view: View, own: PlannerMemory) -> None:
    """Learn what follows a change, and how long an excess lasts."""
    own.since_change += 1
    for place in range(view.counts.shape[1]):
        if view.counts[o, place] != view.counts_before[o, place]:
            own.since_change = 0
    if own.since_change == 0:
        own.restarts = EXPERIENCE_FADES * own.restarts + 1
        own.restart_violations *= EXPERIENCE_FADES
    if view.cost[o].violation < 0.5:
        return
    enough = demand_of(view.seen[o]) <= capacity_here(o, view, own)
    if enough and own.since_change < AFTER_CHANGE:
        own.restart_violations += 1
    else:
        own.exceeded_intervals += 1
        own.block_exceeded = 1


@compiled_apart
def note_streak(o: int, view: View, own: PlannerMemory) -> None:
    """Learn how likely a rate that exceeds the capacity does so in the next interval as well.

    After one interval and after several in a row are two things: a blip, and a new level.
    """
    streak = own.streak
    lasted = demand_of(view.seen[o]) > own.last_capacity
    if streak > 0:
        kind = 0 if streak == 1 else 1
        own.tried[kind] = EXPERIENCE_FADES * own.tried[kind] + 1
        own.lasted[kind] *= EXPERIENCE_FADES
        if lasted:
            own.lasted[kind] += 1
    capacity = capacity_here(o, view, own)
    exceeds = demand_of(view.seen[o]) > capacity
    own.streak = (streak + 1 if lasted else 1) if exceeds else 0
    own.last_capacity = capacity


@compiled
def note_excess(own: PlannerMemory) -> None:
    """Close the account of violations in a block."""
    if own.block_exceeded:
        own.exceeded_blocks = EXPERIENCE_FADES * own.exceeded_blocks + 1
        own.exceeded_intervals *= EXPERIENCE_FADES
        own.block_exceeded = 0


@compiled
def price_of_excess(o: int, view: View, own: PlannerMemory) -> float:
    """Return what it costs when the rate exceeds the capacity in a block."""
    intervals = own.exceeded_intervals / own.exceeded_blocks
    intervals = min(max(intervals, 1.0), 1.0 * own.block)
    return view.model[o].weight_violation * intervals


@compiled
def price_of_staying_exceeded(o: int, view: View, own: PlannerMemory) -> float:
    """Return what it costs to stay, over a block, where the rate exceeds the capacity now."""
    kind = 0 if own.streak <= 1 else 1
    lasts = own.lasted[kind] / own.tried[kind]
    intervals = lasts / max(1 - lasts, 1e-3)
    longest = view.model[o].weight_violation * own.block
    more = view.model[o].weight_violation * intervals
    return min(price_of_excess(o, view, own) + more, longest)


@compiled
def price_of_restart(o: int, view: View, own: PlannerMemory) -> float:
    """Return what a restart costs: what is set for it, and the violations that followed others."""
    cost = own.reconfiguration_cost
    if cost < 0:
        cost = view.model[o].weight_reconfiguration
    violations = own.restart_violations / own.restarts
    return cost + view.model[o].weight_violation * violations
