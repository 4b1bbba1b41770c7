"""The plan: what each point will cost from now on, by dynamic programming over the blocks to come.

Backward in time, for every state of the rate and every point,

    Q(point) = price of a block + price of an excess * P(rate exceeds the point) + E[V'(point)]
    V(point) = min(Q(point), min over other front of their Q + price of getting there)

where P and the expectation are of the learned dynamics (`rate`), the season taken into
account (`rate`). What lies beyond the horizon is valued as it was a day ago. A decision
compares Q of all front in the present state; the probability of an excess is then exact for the
present peak, not that of a level.

Which node type to climb on where a decision moves one replica at most.

A ladder of several node types cannot be climbed then: on the way from one to another the slowest
replica dictates. So the planner stays on one type, the one on which the course that is foreseen
costs least: a dynamic program over the blocks to come, each step of a replica paid for, the rate
taken to follow the season from its recent peak on.

Which point to be at now: the plan's values in the present state of the rate, compared.
"""

from __future__ import annotations

import numpy as np

from weir_policies.kernels.compiled import compiled, compiled_apart
from weir_policies.kernels.prediction import price_of
from weir_policies.kernels.steps import total
from weir_policies.kernels.view import (
    RATE,
    STEP,
    TOP_COST,
    WEIGHT_RECONFIGURATION,
    WEIGHT_RESOURCES,
    WEIGHT_VIOLATION,
    Memory,
    View,
)
from weir_policies.model.arrays import Counts, Floats
from weir_policies.operator_manager.planner.candidates import (
    find_capacity,
    fits_pools,
    price_of_excess,
    price_of_restart,
    price_of_staying_exceeded,
    room_in_pools,
    waits_beyond_budget,
)
from weir_policies.operator_manager.planner.rate import place_gap, place_level, read_tail
from weir_policies.operator_manager.planner.state import (
    AHEAD,
    BLOCK,
    BLOCK_PEAK,
    BLOCKS,
    CANDIDATE_CAPACITY,
    CANDIDATE_PRICE,
    CANDIDATES,
    CATCH_UP,
    CHAIN,
    EXPECTED,
    FLOOR,
    FRONT,
    FRONT_USED,
    GAPS,
    GROUP,
    KEPT,
    LEVEL_FROM,
    LEVEL_STEP,
    LINK_FROM,
    LINK_TO,
    LINK_WEIGHT,
    NEXT_PLAN,
    OFF_MENU,
    PEAK_LONG,
    PEAK_SHORT,
    PLANNED_AT,
    PLANS,
    POINT_CAPACITY,
    POINT_HEIGHT,
    POINT_PRICE,
    ROW,
    SEASON,
    STATES,
    beginnings,
    expected_values,
    point_counts,
    value_rows,
)

SETTLED = 8
"""Plans after which the values of the day before are good enough to lean on."""
ROUNDS = 3
"""Horizons that are planned one after the other until then."""


@compiled
def distance(o: int, view: View, one: Counts, other: Counts) -> int:
    """Return how many replicas must join or leave."""
    moved = 0
    for place in range(one.size):
        moved += abs(one[place] - other[place])
    return moved


@compiled
def price_of_block(o: int, view: View, memory: Memory, price: float) -> float:
    """Return what a deployment of that price per hour costs over a block."""
    share = price / view.traits[o, TOP_COST]
    return memory.ints[o, BLOCK] * view.traits[o, WEIGHT_RESOURCES] * share


@compiled_apart
def _allow_moves(o: int, view: View, memory: Memory, row: Floats, grouped: bool) -> None:
    """Turn Q of all front into V, in place."""
    restart = price_of_restart(o, view, memory)
    used = memory.ints[o, FRONT_USED]
    front = point_counts(o, view, memory)
    if view.rules[o, STEP] == 1:  # front are counts of one type, in order
        for point in range(1, used):
            steps = distance(o, view, front[point], front[point - 1])
            row[point] = min(row[point], row[point - 1] + steps * restart)
        for point in range(used - 2, -1, -1):
            steps = distance(o, view, front[point], front[point + 1])
            row[point] = min(row[point], row[point + 1] + steps * restart)
        return
    least = np.inf
    for point in range(used):
        least = min(least, row[point])
    if grouped:  # a resize costs nothing: the best of a group stands for all
        for point in range(used):
            for other in range(used):
                if memory.ints[o, GROUP + other] == memory.ints[o, GROUP + point]:
                    row[point] = min(row[point], row[other])
    for point in range(used):
        row[point] = min(row[point], least + restart)


@compiled_apart
def make_plan(o: int, view: View, memory: Memory, afresh: bool) -> None:
    """Plan from the present block on.

    Args:
        o: Row of the operator.
        view: Its model.
        memory: The planner's; front, season and dynamics are up to date.
        afresh: The front or levels are new, so that earlier plans say nothing.
    """
    ints = memory.ints[o]
    rows, begun = value_rows(o, memory), beginnings(o, memory)
    used = ints[FRONT_USED]
    turn = ints[PLANS] % 2
    if afresh:
        begun[:] = 0.0
    grouped = False
    for point in range(used):
        grouped = grouped or ints[GROUP + point] != point
    rounds = ROUNDS if afresh or ints[PLANS] < SETTLED else 1
    for state in range(STATES):
        for point in range(used):
            rows[AHEAD % 2, state, point] = begun[turn, state, point]
    for left in range(rounds - 1, -1, -1):
        for block in range(AHEAD - 1, -1, -1):
            _plan_block(o, view, memory, block, grouped, left == 0 and block < KEPT)
        least = np.inf
        for state in range(STATES):
            for point in range(used):
                least = min(least, rows[0, state, point])
        for state in range(STATES):
            for point in range(used):
                rows[0, state, point] -= least
                rows[AHEAD % 2, state, point] = rows[0, state, point]
    for state in range(STATES):
        for point in range(used):
            begun[turn, state, point] = rows[0, state, point]
    ints[PLANS] += 1
    ints[PLANNED_AT] = ints[BLOCKS]
    ints[NEXT_PLAN] = ints[BLOCKS] + min(KEPT, max(2, ints[BLOCKS] // 2))


@compiled_apart
def _plan_block(o: int, view: View, memory: Memory, block: int, grouped: bool, keep: bool) -> None:
    """Work out the values at the beginning of a block from those at its end."""
    ints, values = memory.ints[o], memory.values[o]
    rows, expected = value_rows(o, memory), expected_values(o, memory)
    later, now = rows[(block + 1) % 2], rows[block % 2]
    used = ints[FRONT_USED]
    excess = price_of_excess(o, view, memory)
    row = values[ROW : ROW + FRONT]
    for state in range(STATES):
        for point in range(used):
            row[point] = 0.0
        for link in range(ints[LINK_FROM + state], ints[LINK_FROM + state + 1]):
            weight, to = values[LINK_WEIGHT + link], ints[LINK_TO + link]
            for point in range(used):
                row[point] += weight * later[to, point]
        if keep:
            for point in range(used):
                expected[block, state, point] = row[point]
        peak = memory.floats[o, LEVEL_FROM] + (state // GAPS) * memory.floats[o, LEVEL_STEP]
        for point in range(used):
            step = values[POINT_HEIGHT + point] - values[SEASON + block] - peak
            row[point] += price_of_block(o, view, memory, values[POINT_PRICE + point])
            row[point] += excess * read_tail(o, memory, state, step)
        _allow_moves(o, view, memory, row, grouped)
        for point in range(used):
            now[state, point] = row[point]


@compiled
def block_of_plan(o: int, memory: Memory) -> int:
    """Return which block of the plan is the present one."""
    return min(memory.ints[o, BLOCKS] - memory.ints[o, PLANNED_AT], KEPT - 1)


@compiled
def probability_of_excess(
    o: int, memory: Memory, height: float, peak: float, short: float
) -> float:
    """Return the probability that the rate exceeds a capacity within a block.

    Args:
        o: Row of the operator.
        memory: The planner's.
        height: Logarithm of the capacity, less the season.
        peak: The slow envelope now.
        short: The fast one.
    """
    level, up = place_level(o, memory, peak)
    gap, beyond = place_gap(peak - short)
    state = level * GAPS + gap
    step = height - peak
    near = (1 - beyond) * read_tail(o, memory, state, step)
    near += beyond * read_tail(o, memory, state + 1, step)
    far = (1 - beyond) * read_tail(o, memory, state + GAPS, step)
    far += beyond * read_tail(o, memory, state + GAPS + 1, step)
    return (1 - up) * near + up * far


@compiled
def value_afterwards(o: int, memory: Memory, point: int, peak: float, short: float) -> float:
    """Return the cost to be expected after the present block with a point."""
    level, up = place_level(o, memory, peak)
    gap, beyond = place_gap(peak - short)
    at = EXPECTED + (block_of_plan(o, memory) * STATES + level * GAPS + gap) * FRONT + point
    values = memory.values[o]
    near = (1 - beyond) * values[at] + beyond * values[at + FRONT]
    at += GAPS * FRONT
    far = (1 - beyond) * values[at] + beyond * values[at + FRONT]
    return (1 - up) * near + up * far


@compiled
def value_of(o: int, view: View, memory: Memory, point: int, peak: float, short: float) -> float:
    """Return Q of a point in the present state of the rate."""
    values = memory.values[o]
    season = values[SEASON + block_of_plan(o, memory)]
    height = values[POINT_HEIGHT + point] - season
    excess = probability_of_excess(o, memory, height, peak, short)
    return (
        price_of_block(o, view, memory, values[POINT_PRICE + point])
        + price_of_excess(o, view, memory) * excess
        + value_afterwards(o, memory, point, peak, short)
    )


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


RESIZE = 0.02
"""What a resize must save to be done, as a part of the weight of a restart."""


@compiled
def rate_to_carry(o: int, view: View, memory: Memory) -> float:
    """Return records/s that arrive, and what must be carried besides to work off a backlog.

    A usual queue is none: else a deployment would be left for it, and gone back to where there is
    less of it.
    """
    waits = max(waits_beyond_budget(view.seen[o]), 0.0)
    return view.seen[o, RATE] + waits / memory.floats[o, CATCH_UP]


@compiled
def find_envelopes(o: int, view: View, memory: Memory) -> tuple[float, float]:
    """Return the envelopes of the rate with what the present block has brought so far.

    A backlog counts as rate that has to be carried besides.
    """
    floats = memory.floats[o]
    rate = max(rate_to_carry(o, view, memory), floats[BLOCK_PEAK])
    height = max(np.log(max(rate, 1e-9)), floats[FLOOR])
    height -= memory.values[o, SEASON + block_of_plan(o, memory)]
    return max(floats[PEAK_LONG], height), max(floats[PEAK_SHORT], height)


@compiled
def price_of_move(o: int, view: View, memory: Memory, here: int, point: int) -> float:
    """Return what going to a point costs now; `here` is the present one, -1 where it is none."""
    if here == point:
        return 0.0
    restart = price_of_restart(o, view, memory)
    if view.rules[o, STEP] == 1:
        return restart * distance(o, view, view.counts[o], point_counts(o, view, memory)[point])
    if here >= 0 and memory.ints[o, GROUP + here] == memory.ints[o, GROUP + point]:
        # A resize is free, but not worth doing for nothing.
        return RESIZE * view.traits[o, WEIGHT_RECONFIGURATION]
    return restart


@compiled_apart
def value_off_menu(o: int, view: View, memory: Memory, peak: float, short: float) -> float:
    """Return Q of a present deployment that is no point.

    It is left for a point after the block at the latest; or it is as good as the point that carries
    nearly as much, but dearer by what it costs more until the next plan. Where moves are by one
    replica only the former holds, or a mix on the way between two types would be put off for ever.
    """
    values = memory.values[o]
    capacity = memory.floats[o, OFF_MENU]
    price = price_of(o, view, view.counts[o])
    season = values[SEASON + block_of_plan(o, memory)]
    excess = 1.0
    if capacity > 0:
        excess = probability_of_excess(o, memory, np.log(capacity) - season, peak, short)
    near, afterwards = -1, np.inf
    for point in range(memory.ints[o, FRONT_USED]):
        left = price_of_move(o, view, memory, -1, point)
        afterwards = min(afterwards, left + value_afterwards(o, memory, point, peak, short))
        if values[POINT_CAPACITY + point] <= capacity * (1 + 1e-9):
            near = point
    if near >= 0 and view.rules[o, STEP] == 0:
        dearer = max(price - values[POINT_PRICE + near], 0.0)
        more = KEPT * price_of_block(o, view, memory, dearer)
        afterwards = min(afterwards, value_afterwards(o, memory, near, peak, short) + more)
    now = price_of_block(o, view, memory, price) + price_of_excess(o, view, memory) * excess
    return now + afterwards


@compiled
def find_largest(o: int, view: View, memory: Memory) -> int:
    """Return the point that carries most of those that fit the pools, -1 where none does."""
    front = point_counts(o, view, memory)
    best, most = -1, 0.0
    for point in range(memory.ints[o, FRONT_USED]):
        capacity = memory.values[o, POINT_CAPACITY + point]
        if capacity > most and fits_pools(o, view, front[point]):
            best, most = point, capacity
    return best


@compiled
def choose_point(o: int, view: View, memory: Memory, here: int) -> int:
    """Return the point to be at, -1 to stay off the front.

    A point that would not even carry what there is to carry now is never gone to; where none does,
    the one that carries most is.
    """
    peak, short = find_envelopes(o, view, memory)
    front = point_counts(o, view, memory)
    need = rate_to_carry(o, view, memory)
    largest = find_largest(o, view, memory)
    if largest >= 0 and memory.values[o, POINT_CAPACITY + largest] < need:
        return here if here < 0 and memory.floats[o, OFF_MENU] >= need else largest
    best = here
    if here >= 0:
        least = value_of(o, view, memory, here, peak, short)
    else:
        least = value_off_menu(o, view, memory, peak, short)
    carried = memory.values[o, POINT_CAPACITY + here] if here >= 0 else memory.floats[o, OFF_MENU]
    if carried < need:
        least += price_of_staying_exceeded(o, view, memory) - price_of_excess(o, view, memory)
    if not fits_pools(o, view, view.counts[o]) or total(view.counts[o]) == 0:
        least = np.inf
    for point in range(memory.ints[o, FRONT_USED]):
        short_of_need = memory.values[o, POINT_CAPACITY + point] < need
        if point == here or short_of_need or not fits_pools(o, view, front[point]):
            continue
        value = value_of(o, view, memory, point, peak, short)
        value += price_of_move(o, view, memory, here, point)
        if value < least - 1e-12:
            best, least = point, value
    return best
