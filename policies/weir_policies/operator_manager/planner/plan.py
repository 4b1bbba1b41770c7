"""The plan: what each point will cost from now on, by dynamic programming over the blocks to come.

Backward in time, for every state of the rate and every point,

    Q(point) = price of a block + price of an excess * P(rate exceeds the point) + E[V'(point)]
    V(point) = min(Q(point), min over other points of their Q + price of getting there)

where P and the expectation are of the learned dynamics (`rate`), the season taken into
account (`rate`). What lies beyond the horizon is valued as it was a day ago. A decision
compares Q of all points in the present state; the probability of an excess is then exact for the
present peak, not that of a level.

Which node type to climb on where a decision moves one replica at most.

A ladder of several node types cannot be climbed then: on the way from one to another the slowest
replica dictates. So the planner stays on one type, the one on which the course that is foreseen
costs least: a dynamic program over the blocks to come, each step of a replica paid for, the rate
taken to follow the season from its recent peak on.

Which point to be at now: the plan's values in the present state of the rate, compared.

A plan's values take 70 kB for each point, so a controller keeps only those of the present block,
and makes the next block's when it begins: backward from the middle of the plan, with the dynamics
and prices that it was made with.
"""

from __future__ import annotations

import numpy as np

from weir_policies.kernels.compiled import compiled, compiled_apart
from weir_policies.kernels.prediction import price_of
from weir_policies.kernels.steps import total
from weir_policies.kernels.view import View
from weir_policies.model.arrays import Counts, Floats
from weir_policies.operator_manager.planner.candidates import (
    demand_of,
    find_capacity,
    keeps_limits,
    price_of_excess,
    price_of_restart,
    price_of_staying_exceeded,
    room_in_pools,
    waits_beyond_budget,
    waits_upstream,
)
from weir_policies.operator_manager.planner.rate import (
    link_states,
    make_tails,
    place_gap,
    place_level,
    place_step,
    position_of,
    read_at,
    remake_tails,
)
from weir_policies.operator_manager.planner.state import (
    AHEAD,
    CANDIDATES,
    GAPS,
    KEPT,
    LEVELS,
    STATES,
    STEPS,
    PlannerMemory,
    Workspace,
)

SETTLED = 8
"""Plans after which the values of the day before are good enough to lean on."""
ROUNDS = 3
"""Horizons that are planned one after the other until then."""


@compiled
def distance(one: Counts, other: Counts) -> int:
    """Return how many replicas must join or leave."""
    moved = 0
    for place in range(one.size):
        moved += abs(one[place] - other[place])
    return moved


@compiled
def price_of_block(o: int, view: View, own: PlannerMemory, price: float) -> float:
    """Return what a deployment of that price per hour costs over a block."""
    share = price / view.model[o].top_cost
    return own.block * view.model[o].weight_resources * share


@compiled
def allow_restart(row: Floats, used: int | np.uint64, restart: float, values: Floats) -> None:
    """Turn Q of so many points into V where a restart leads from any to any; both may be one."""
    least = np.inf
    for point in range(used):
        least = row[point] if row[point] < least else least
    left = least + restart
    for point in range(used):
        values[point] = row[point] if row[point] < left else left


@compiled_apart
def allow_moves(
    o: int, view: View, own: PlannerMemory, row: Floats, grouped: bool, restart: float
) -> None:
    """Turn Q of all points into V, in place."""
    used = own.front_used
    front = own.points
    if view.model[o].one_step == 1:  # front are counts of one type, in order
        for point in range(1, used):
            steps = distance(front[point], front[point - 1])
            row[point] = min(row[point], row[point - 1] + steps * restart)
        for point in range(used - 2, -1, -1):
            steps = distance(front[point], front[point + 1])
            row[point] = min(row[point], row[point + 1] + steps * restart)
        return
    if grouped:  # a resize costs nothing: the best of a group stands for all
        for point in range(used):
            for other in range(used):
                if own.group[other] == own.group[point]:
                    row[point] = min(row[point], row[other])
    allow_restart(row, used, restart, row)


@compiled
def place_of_state(own: PlannerMemory, state: int) -> int:
    """Return where the points of a state begin among the values of all states."""
    return state * own.front_used


@compiled
def is_grouped(own: PlannerMemory) -> bool:
    """Return whether a resize leads from a point to another."""
    grouped = False
    for point in range(own.front_used):
        grouped = grouped or own.group[point] != point
    return grouped


@compiled
def _copy_values(own: PlannerMemory, values: Floats, rows: Floats) -> None:
    for state in range(STATES):
        for point in range(own.front_used):
            rows[state, point] = values[place_of_state(own, state) + point]


@compiled
def _keep_values(own: PlannerMemory, rows: Floats, values: Floats) -> None:
    for state in range(STATES):
        for point in range(own.front_used):
            values[place_of_state(own, state) + point] = rows[state, point]


@compiled_apart
def make_plan(o: int, view: View, own: PlannerMemory, work: Workspace, afresh: bool) -> None:
    """Plan from the present block on.

    Args:
        o: Row of the operator.
        view: Its model.
        own: The planner's; front and season are up to date.
        work: Where it works; tails and links are up to date.
        afresh: The front or levels are new, so that earlier plans say nothing.
    """
    rows, begun = work.values, own.beginnings[own.plans % 2]
    used = own.front_used
    own.plan_excess = price_of_excess(o, view, own)
    own.plan_restart = price_of_restart(o, view, own)
    for point in range(used):
        own.plan_price[point] = price_of_block(o, view, own, own.point_price[point])
    if afresh:
        own.beginnings[:, : STATES * used] = 0.0
    grouped = is_grouped(own)
    rounds = ROUNDS if afresh or own.plans < SETTLED else 1
    own.expected_block = 0
    _copy_values(own, begun, rows[AHEAD % 2])
    for left in range(rounds - 1, -1, -1):
        for block in range(AHEAD - 1, -1, -1):
            keep = left == 0 and block < KEPT and (work.shared == 0 or block == 0)
            _plan_block(o, view, own, work, block, grouped, keep)
            if left == 0 and block == KEPT and work.shared == 1:
                _keep_values(own, rows[KEPT % 2], own.middle)
        least = np.inf
        for state in range(STATES):
            for point in range(used):
                least = min(least, rows[0, state, point])
        for state in range(STATES):
            for point in range(used):
                rows[0, state, point] -= least
                rows[AHEAD % 2, state, point] = rows[0, state, point]
    _keep_values(own, rows[0], begun)
    own.plans += 1
    own.planned_at = own.blocks
    own.next_plan = own.blocks + min(KEPT, max(2, own.blocks // 2))


@compiled_apart
def remake_block(o: int, view: View, own: PlannerMemory, work: Workspace) -> None:
    """Make the values after the present block again, where those of another block are kept."""
    if work.shared == 0 or own.expected_block == block_of_plan(own):
        return
    own.expected_block = block_of_plan(own)
    make_tails(own, work)
    link_states(own, work)
    _copy_values(own, own.middle, work.values[KEPT % 2])
    grouped = is_grouped(own)
    for block in range(KEPT - 1, own.expected_block - 1, -1):
        _plan_block(o, view, own, work, block, grouped, block == own.expected_block)


WIDTH = 8
"""Points that the sums of `_expect` take at once; `FRONT` is a multiple of it."""


@compiled
def _expect(own: PlannerMemory, work: Workspace, state: int, later: Floats, row: Floats) -> None:
    """Fill a row with what is to be expected of each point in the next state.

    Four links are added at a time, one after the other, so that the row is read and written less
    often. The row is filled up to whole multiples of `WIDTH`, for the processor to sum in pairs.
    """
    width = np.uint64((own.front_used + WIDTH - 1) // WIDTH * WIDTH)
    weights, to = work.link_weight, work.link_to
    link, end = np.uint64(work.link_from[state]), np.uint64(work.link_from[state + 1])
    for point in range(width):
        row[point] = 0.0
    while link + np.uint64(4) <= end:
        one, two = np.uint64(to[link]), np.uint64(to[link + np.uint64(1)])
        three, four = np.uint64(to[link + np.uint64(2)]), np.uint64(to[link + np.uint64(3)])
        of_one, of_two = weights[link], weights[link + np.uint64(1)]
        of_three, of_four = weights[link + np.uint64(2)], weights[link + np.uint64(3)]
        for point in range(width):
            row[point] = (
                row[point]
                + of_one * later[one, point]
                + of_two * later[two, point]
                + of_three * later[three, point]
                + of_four * later[four, point]
            )
        link += np.uint64(4)
    while link < end:
        one, of_one = np.uint64(to[link]), weights[link]
        for point in range(width):
            row[point] += of_one * later[one, point]
        link += np.uint64(1)


@compiled_apart
def _plan_block(
    o: int,
    view: View,
    own: PlannerMemory,
    work: Workspace,
    block: int,
    grouped: bool,
    keep: bool,
) -> None:
    """Work out the values at the beginning of a block from those at its end."""
    rows, tails = work.values, work.tails
    expected = own.expected if work.shared == 1 else work.expected[block % KEPT]
    later, now = rows[(block + 1) % 2], rows[block % 2]
    used = np.uint64(own.front_used)
    excess, restart, price = own.plan_excess, own.plan_restart, own.plan_price
    simple = not grouped and view.model[o].one_step == 0
    row, bins, parts = work.of_point, work.bins, work.parts
    for level in range(LEVELS):
        peak = own.level_from + level * own.level_step
        for point in range(used):  # all states of a level read their tails at the same places
            parts[point] = position_of(own.point_height[point] - own.season[block] - peak)
        for point in range(used):
            bins[point] = min(int(parts[point]), STEPS - 1)
            parts[point] -= bins[point]
        for state in range(level * GAPS, (level + 1) * GAPS):
            _expect(own, work, state, later, row)
            if keep:
                begin = place_of_state(own, state)
                for point in range(used):
                    expected[begin + point] = row[point]
            tail = tails[state]
            for point in range(used):
                place, part = np.uint64(bins[point]), parts[point]
                exceeds = tail[place] * (1 - part) + tail[place + np.uint64(1)] * part
                row[point] = row[point] + price[point] + excess * exceeds
            if simple:
                allow_restart(row, used, restart, now[state])
                continue
            allow_moves(o, view, own, row, grouped, restart)
            for point in range(used):
                now[state, point] = row[point]


@compiled
def block_of_plan(own: PlannerMemory) -> int:
    """Return which block of the plan is the present one."""
    return min(own.blocks - own.planned_at, KEPT - 1)


@compiled
def place_state(own: PlannerMemory, peak: float, short: float) -> tuple[int, float, float]:
    """Return the state below two envelopes, and the fractions to the next level and gap."""
    level, up = place_level(own, peak)
    gap, beyond = place_gap(peak - short)
    return level * GAPS + gap, up, beyond


@compiled
def probability_in(work: Workspace, step: float, state: int, up: float, beyond: float) -> float:
    """Return the probability that the next height exceeds the peak by more than `step`.

    Where the rate is now is said as `place_state` returns it; its tails are there.
    """
    place, part = place_step(step)
    tails = work.tails
    near = (1 - beyond) * read_at(tails, state, place, part)
    near += beyond * read_at(tails, state + 1, place, part)
    far = (1 - beyond) * read_at(tails, state + GAPS, place, part)
    far += beyond * read_at(tails, state + GAPS + 1, place, part)
    return (1 - up) * near + up * far


@compiled_apart
def height_exceeded(
    o: int, view: View, own: PlannerMemory, peak: float, short: float, likely: float
) -> float:
    """Return the height that the next block exceeds with a probability, less the season."""
    work = Workspace(view.workspace[o])
    state, up, beyond = place_state(own, peak, short)
    remake_tails(own, work, state)
    low, high = short - 2.0, peak + 1.0
    for _ in range(30):
        middle = (low + high) / 2
        if probability_in(work, middle - peak, state, up, beyond) > likely:
            low = middle
        else:
            high = middle
    return high


@compiled
def value_afterwards(
    own: PlannerMemory, work: Workspace, point: int, state: int, up: float, beyond: float
) -> float:
    """Return the cost to be expected after the present block with a point.

    Where the rate is now is said as `place_state` returns it.
    """
    used = own.front_used
    expected = own.expected if work.shared == 1 else work.expected[block_of_plan(own)]
    at = place_of_state(own, state) + point
    near = (1 - beyond) * expected[at] + beyond * expected[at + used]
    at += GAPS * used
    far = (1 - beyond) * expected[at] + beyond * expected[at + used]
    return (1 - up) * near + up * far


@compiled
def fill_values(
    o: int, view: View, own: PlannerMemory, peak: float, short: float, values: Floats
) -> None:
    """Fill in Q of all points in the present state of the rate."""
    work = Workspace(view.workspace[o])
    state, up, beyond = place_state(own, peak, short)
    remake_tails(own, work, state)
    season = own.season[block_of_plan(own)]
    price = price_of_excess(o, view, own)
    for point in range(own.front_used):
        step = own.point_height[point] - season - peak
        excess = probability_in(work, step, state, up, beyond)
        values[point] = (
            price_of_block(o, view, own, own.point_price[point])
            + price * excess
            + value_afterwards(own, work, point, state, up, beyond)
        )


MARGIN = 0.1
"""How far above the foreseen course the rate is taken to be, in logs."""
WORTH_IT = 0.8
"""Another type must be foreseen to cost less than this part of the present one."""


@compiled_apart
def choose_chain(o: int, view: View, own: PlannerMemory) -> bool:
    """Choose the node type; return whether it is another one than before."""
    present = own.chain
    known = own.plans > 0
    best, least = present, _foresee_cost(o, view, own, present)
    if known:
        least *= WORTH_IT
    for place in range(view.counts.shape[1]):
        cost = _foresee_cost(o, view, own, place) if place != present else np.inf
        if cost < least:
            best, least = place, cost
    own.chain = best
    return best != present


@compiled_apart
def _foresee_cost(o: int, view: View, own: PlannerMemory, place: int) -> float:
    """Return the lowest cost of the next blocks on one node type; `inf` if it has no room."""
    work = view.target[o]
    work[:] = 0
    room = min(room_in_pools(o, view, work, place), CANDIDATES)
    for count in range(room):
        work[place] = count + 1
        own.candidate_capacity[count] = np.log(max(find_capacity(o, view, own, work), 1e-9))
        own.candidate_price[count] = 0.0
    for other in range(work.size):
        work[other] = view.counts[o, other]
    step = price_of_restart(o, view, own)
    short = view.model[o].weight_violation * own.block
    block = price_of_block(o, view, own, view.price[o, place])
    least = 0.0 if room > 0 else np.inf
    for ahead in range(AHEAD - 1, -1, -1):
        need = own.peak_long + own.season[ahead] + MARGIN
        for count in range(room):
            lacking = own.candidate_capacity[count] < need
            own.candidate_price[count] += block * (count + 1) + (short if lacking else 0.0)
        for count in range(1, room):
            before = own.candidate_price[count - 1] + step
            own.candidate_price[count] = min(own.candidate_price[count], before)
        for count in range(room - 2, -1, -1):
            after = own.candidate_price[count + 1] + step
            own.candidate_price[count] = min(own.candidate_price[count], after)
        if room > 0:
            least = np.inf
        for count in range(room):
            least = min(least, own.candidate_price[count])
    return least


RESIZE = 0.02
"""What a resize must save to be done, as a part of the weight of a restart."""


@compiled
def rate_to_carry(o: int, view: View, own: PlannerMemory) -> float:
    """Return the arriving records/s plus what is needed to work off a backlog, upstream included.

    A usual queue is none: else a deployment would be left for it, and gone back to where there is
    less of it. A backlog that grows, other than by a restart, does so for an interval more at
    least, until another deployment is there.
    """
    seen = view.seen[o]
    demand = demand_of(seen)
    waits = max(waits_beyond_budget(seen), 0.0) + waits_upstream(seen)
    growth = demand - seen.processed
    if waits > 0 and growth > 0 and own.since_change > 0:
        waits += growth * seen.interval
    return demand + waits / own.catch_up


@compiled
def find_envelopes(o: int, view: View, own: PlannerMemory) -> tuple[float, float]:
    """Return the envelopes of the rate with what the present block has brought so far.

    A backlog counts as rate that must be carried in addition.
    """
    rate = max(rate_to_carry(o, view, own), own.block_peak)
    height = max(np.log(max(rate, 1e-9)), own.floor)
    height -= own.season[block_of_plan(own)]
    return max(own.peak_long, height), max(own.peak_short, height)


@compiled
def price_of_move(o: int, view: View, own: PlannerMemory, here: int, point: int) -> float:
    """Return what going to a point costs now; `here` is the present one, -1 where it is none."""
    if here == point:
        return 0.0
    restart = price_of_restart(o, view, own)
    if view.seen[o].restarts_anyway:
        restart = RESIZE * view.model[o].weight_reconfiguration
    if view.model[o].one_step == 1:
        return restart * distance(view.counts[o], own.points[point])
    if here >= 0 and own.group[here] == own.group[point]:
        # A resize is free, but not worth doing for nothing.
        return RESIZE * view.model[o].weight_reconfiguration
    return restart


@compiled
def find_near(own: PlannerMemory) -> int:
    """Return the point that carries nearly as much as a deployment off the front, -1 for none."""
    near = -1
    for point in range(own.front_used):
        if own.point_capacity[point] <= own.capacity_outside * (1 + 1e-9):
            near = point
    return near


@compiled
def carried_by(own: PlannerMemory, here: int) -> float:
    """Return what the present deployment carries; `here` is its point, -1 where it is none."""
    return own.point_capacity[here] if here >= 0 else own.capacity_outside


@compiled_apart
def value_outside_candidates(
    o: int, view: View, own: PlannerMemory, peak: float, short: float
) -> float:
    """Return Q of a present deployment that is no point.

    It is left for a point after the block at the latest; or it is as good as the point that carries
    nearly as much, but dearer by what it costs more until the next plan. Where moves are by one
    replica only the former holds, or a mix on the way between two types would be put off for ever.
    """
    capacity = own.capacity_outside
    price = price_of(o, view, view.counts[o])
    season = own.season[block_of_plan(own)]
    work = Workspace(view.workspace[o])
    state, up, beyond = place_state(own, peak, short)
    excess = 1.0
    if capacity > 0:
        remake_tails(own, work, state)
        excess = probability_in(work, np.log(capacity) - season - peak, state, up, beyond)
    near, afterwards = find_near(own), np.inf
    for point in range(own.front_used):
        left = price_of_move(o, view, own, -1, point)
        afterwards = min(afterwards, left + value_afterwards(own, work, point, state, up, beyond))
    if near >= 0 and view.model[o].one_step == 0:
        dearer = max(price - own.point_price[near], 0.0)
        more = KEPT * price_of_block(o, view, own, dearer)
        afterwards = min(afterwards, value_afterwards(own, work, near, state, up, beyond) + more)
    now = price_of_block(o, view, own, price) + price_of_excess(o, view, own) * excess
    return now + afterwards


@compiled_apart
def choose_cheapest(
    o: int, view: View, own: PlannerMemory, here: int, staying: float, values: Floats
) -> int:
    """Return the point to be at, -1 to stay off the front.

    A point that would not even carry what there is to carry now is never gone to; where none does,
    the one that carries most is, unless the present deployment is off the front and carries enough.

    Args:
        o: Row of the operator.
        view: What is known of it.
        own: The planner's; `capacity_outside` is of the present deployment.
        here: The point that this is, -1 where it is none.
        staying: What staying is expected to cost.
        values: What being at each point is expected to cost, the way there not included.
    """
    need = rate_to_carry(o, view, own)
    largest, most = -1, 0.0
    best, least = here, staying
    if not keeps_limits(o, view, view.counts[o]) or total(view.counts[o]) == 0:
        least = np.inf
    for point in range(own.front_used):
        if not keeps_limits(o, view, own.points[point]):
            continue
        capacity = own.point_capacity[point]
        if capacity > most:
            largest, most = point, capacity
        if point == here or capacity < need:
            continue
        value = values[point] + price_of_move(o, view, own, here, point)
        if value < least - 1e-12:
            best, least = point, value
    if largest >= 0 and most < need:
        return here if here < 0 and own.capacity_outside >= need else largest
    return best


@compiled
def choose_point(o: int, view: View, own: PlannerMemory, here: int) -> int:
    """Return the point to be at, by the plan's values in the present state of the rate."""
    peak, short = find_envelopes(o, view, own)
    values = Workspace(view.workspace[o]).of_point
    fill_values(o, view, own, peak, short, values)
    staying = values[here] if here >= 0 else value_outside_candidates(o, view, own, peak, short)
    if carried_by(own, here) < rate_to_carry(o, view, own):
        staying += price_of_staying_exceeded(o, view, own) - price_of_excess(o, view, own)
    return choose_cheapest(o, view, own, here, staying, values)
