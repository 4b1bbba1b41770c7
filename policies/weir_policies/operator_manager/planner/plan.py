"""The plan: what each point will cost from now on, by dynamic programming over the blocks to come.

Backward in time, for every state of the rate and every point,

    Q(point) = price of a block + price of an excess * P(rate exceeds the point) + E[V'(point)]
    V(point) = min(Q(point), min over other front of their Q + price of getting there)

where P and the expectation are of the learned dynamics (`planner_rate`), the season taken into
account (`planner_season`). What lies beyond the horizon is valued as it was a day ago. A decision
compares Q of all front in the present state; the probability of an excess is then exact for the
present peak, not that of a level.

Two rules that know nothing of the rate's dynamics, for when the plan does not know much either.

* `SHORT_WINDOW` keeps room for a little more than the present rate, like `queueing`: up at once,
  down when the last three intervals would have fitted something cheaper as well.
* `LONG_WINDOW` keeps room for the largest rate of the last 60 blocks, like `window-max`.

Both choose among the planner's candidates, whose capacities are known, so a decision compares
numbers. The policies that they are like also judge what is beside the menu.

Whom the planner follows: its plan, or one of two simple rules (`planner_rules`).

A plan is as good as what was learned, and in its first hours little was; and there are rates that
its picture of the dynamics does not fit. So the planner adds up for every expert what its
deployments would have cost on the rates that came, by the model. It follows one expert,
`SHORT_WINDOW` at first, and leaves it for the one with the least cost when the difference is more
than chance and a change of course are worth. Costs fade over two days.

What the books do not know: backlog and the time until a new replica is there, but for what excesses
have cost on average so far; and what the response time of a deployment that is not in force would
have been. Until there is a plan, its book is as that of `SHORT_WINDOW`.

Source: to follow the expert of the least cost so far, and to bound the changes, is the idea of
Kalai and Vempala, Efficient algorithms for online decision problems, JCSS 2005. Departures: nothing
is drawn at random, so that their bound on the regret is not ours; books fade; a change must be
worth two restarts and 3 %.
"""

from __future__ import annotations

import numpy as np

from weir_policies.kernels.compiled import compiled, compiled_apart
from weir_policies.kernels.prediction import price_of
from weir_policies.kernels.steps import step_towards
from weir_policies.kernels.view import (
    BUDGET,
    BUSIEST,
    INTERVAL,
    PROCESSED,
    RATE,
    RESPONSE_TIME,
    STEP,
    TOP_COST,
    WEIGHT_RESOURCES,
    WEIGHT_VIOLATION,
    Memory,
    View,
)
from weir_policies.model.arrays import Counts, Floats
from weir_policies.operator_manager.planner.candidates import (
    find_capacity,
    find_point,
    fits_pools,
    same_per_pool,
)
from weir_policies.operator_manager.planner.policy import choose_point, rate_to_carry
from weir_policies.operator_manager.planner.rate import (
    SATURATED,
    is_behind,
    place_gap,
    place_level,
    price_of_excess,
    price_of_restart,
    read_tail,
)
from weir_policies.operator_manager.planner.state import (
    AHEAD,
    BLOCK,
    BLOCK_PEAK,
    BLOCKS,
    BRIEF_WINDOW,
    CANDIDATE_CAPACITY,
    CANDIDATE_PRICE,
    CANDIDATES_USED,
    CARRIES,
    DAY,
    EXCEEDED,
    EXPECTED,
    EXPERT_COST,
    EXPERTS,
    FOLLOWED,
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
    LONG_PEAK,
    LONG_WINDOW,
    NEXT_PLAN,
    OFF_MENU,
    PEAKS,
    PLAN,
    PLANNED_AT,
    PLANS,
    POINT_HEIGHT,
    POINT_PRICE,
    RATES,
    ROW,
    SEASON,
    SEEN_INTERVALS,
    SHORT_WINDOW,
    SINCE_CHANGE,
    STATES,
    advised_counts,
    beginnings,
    candidate_counts,
    expected_values,
    point_counts,
    value_rows,
)

HEADROOM = 0.1
"""Part by which a deployment must exceed the present rate; this and the next two are the defaults
of `queueing`."""
MARGIN = 0.1
"""Part by which the target of a restart must exceed that: a restart should last."""
SAVING = 0.1
"""Part of the price that a restart must save."""
CHANCE = 2.0
"""Standard deviations of the number of records, if they come independently."""
LONG_HEADROOM = 0.05
"""Part by which the largest rate must be exceeded, as in `window-max`."""


@compiled
def note_rate(o: int, view: View, memory: Memory) -> None:
    """Enter the rate of the interval that just ended."""
    floats, ints = memory.floats[o], memory.ints[o]
    rate = view.seen[o, RATE]
    floats[RATES + ints[SEEN_INTERVALS] % BRIEF_WINDOW] = rate
    floats[LONG_PEAK] = max(floats[LONG_PEAK], rate)
    ints[SEEN_INTERVALS] += 1


@compiled
def note_peak(o: int, memory: Memory) -> None:
    """Enter the highest rate of the block that just ended; forget that of the oldest."""
    floats, peaks = memory.floats[o], memory.values[o, PEAKS : PEAKS + LONG_WINDOW]
    peaks[memory.ints[o, BLOCKS] % LONG_WINDOW] = floats[BLOCK_PEAK]
    floats[LONG_PEAK] = 0.0
    for place in range(LONG_WINDOW):
        floats[LONG_PEAK] = max(floats[LONG_PEAK], peaks[place])


@compiled
def need_of_brief(o: int, view: View, memory: Memory) -> float:
    """Return records/s that a deployment must carry for `SHORT_WINDOW` to stay there."""
    return rate_to_carry(o, view, memory) * (1 + HEADROOM)


@compiled
def strain_of(o: int, view: View, memory: Memory, carries: float) -> float:
    """Return how many times what it does a deployment is believed to carry; 1 unless it strains.

    One that falls behind with a replica that has no time left does all that it can, whatever the
    model says. One that works off what waits in time, as after a restart, does not fall behind: to
    leave it would take another restart. The interval of a change tells nothing: records waited
    while it was carried out. Nor does what was measured of the real deployment tell of one on
    paper.
    """
    seen = view.seen[o]
    if memory.ints[o, FOLLOWED] != SHORT_WINDOW or memory.ints[o, SINCE_CHANGE] == 0:
        return 1.0
    if not is_behind(seen) or seen[BUSIEST] < SATURATED or seen[PROCESSED] <= 0:
        return 1.0
    if seen[PROCESSED] >= rate_to_carry(o, view, memory):
        return 1.0
    return max(carries / seen[PROCESSED], 1.0)


@compiled
def need_of_long(o: int, view: View, memory: Memory) -> float:
    """Return records/s that a deployment must carry for `LONG_WINDOW` to be there."""
    most = max(memory.floats[o, LONG_PEAK], rate_to_carry(o, view, memory))
    return most * (1 + LONG_HEADROOM)


@compiled
def chance_of(o: int, view: View, rate: float) -> float:
    """Return by which part chance moves the number of records of an interval: two deviations.

    Of 100 records a fifth; a deployment that the next interval may outgrow saves nothing.

    Args:
        o: Row of the operator.
        view: Where it is.
        rate: Records/s.
    """
    records = rate * view.seen[o, INTERVAL]
    return CHANCE / np.sqrt(records) if records > 0 else 0.0


@compiled_apart
def choose_short_window(o: int, view: View, memory: Memory, carries: float) -> int:
    """Return the candidate that `SHORT_WINDOW` goes to, -1 to stay.

    Args:
        o: Row of the operator.
        view: Where it is.
        memory: The planner's.
        carries: Records/s that the present deployment carries.
    """
    need = need_of_brief(o, view, memory) * strain_of(o, view, memory, carries)
    if carries < need:
        row = _find_cheapest(o, view, memory, need * (1 + MARGIN), SAVING)
        if row < 0:
            row = _find_cheapest(o, view, memory, need, SAVING)
        return row if row >= 0 else _find_largest(o, view, memory)
    rates = memory.floats[o, RATES : RATES + BRIEF_WINDOW]
    least, most = np.inf, rate_to_carry(o, view, memory)
    for place in range(BRIEF_WINDOW):
        least, most = min(least, rates[place]), max(most, rates[place])
    late = view.seen[o, RESPONSE_TIME] > view.seen[o, BUDGET] or is_behind(view.seen[o])
    rises = view.seen[o, RATE] > least * (1 + HEADROOM)
    if late or rises or memory.ints[o, SEEN_INTERVALS] < BRIEF_WINDOW:
        return -1
    need = most * (1 + HEADROOM) * (1 + max(MARGIN, chance_of(o, view, most)))
    return _if_it_saves(o, view, memory, _find_cheapest(o, view, memory, need, SAVING), SAVING)


@compiled_apart
def choose_for_long(o: int, view: View, memory: Memory, carries: float) -> int:
    """Return the candidate that `LONG_WINDOW` goes to, -1 to stay.

    Arguments are those of `choose_short_window`.
    """
    need = need_of_long(o, view, memory)
    if carries >= need:
        room = need * (1 + chance_of(o, view, need))
        return _if_it_saves(o, view, memory, _find_cheapest(o, view, memory, room, 0.0), 0.0)
    row = _find_cheapest(o, view, memory, need, 0.0)
    return row if row >= 0 else _find_largest(o, view, memory)


@compiled
def _price_to_beat(o: int, view: View, memory: Memory, row: int, saving: float) -> float:
    """Return a candidate's price, raised where a restart leads there, so that it must save."""
    price = memory.values[o, CANDIDATE_PRICE + row]
    if same_per_pool(view, o, view.counts[o], candidate_counts(o, view, memory)[row]):
        return price
    return price / (1 - saving)


@compiled_apart
def _find_cheapest(o: int, view: View, memory: Memory, rate: float, saving: float) -> int:
    """Return the candidate of the least score that carries a rate, -1 where none does."""
    values, candidates = memory.values[o], candidate_counts(o, view, memory)
    best, least = -1, np.inf
    for row in range(memory.ints[o, CANDIDATES_USED]):
        if values[CANDIDATE_CAPACITY + row] < rate or values[CANDIDATE_PRICE + row] >= least:
            continue
        score = _price_to_beat(o, view, memory, row, saving)
        if score < least and fits_pools(o, view, candidates[row]):
            best, least = row, score
    return best


@compiled_apart
def _find_largest(o: int, view: View, memory: Memory) -> int:
    """Return the candidate that carries most, -1 where there is none."""
    candidates = candidate_counts(o, view, memory)
    best, most = -1, 0.0
    for row in range(memory.ints[o, CANDIDATES_USED]):
        capacity = memory.values[o, CANDIDATE_CAPACITY + row]
        if capacity > most and fits_pools(o, view, candidates[row]):
            best, most = row, capacity
    return best


@compiled
def _if_it_saves(o: int, view: View, memory: Memory, row: int, saving: float) -> int:
    """Return a candidate if its score is below the present price, else -1."""
    if row < 0 or _price_to_beat(o, view, memory, row, saving) >= price_of(o, view, view.counts[o]):
        return -1
    return row


FADE = 1 - 1 / (2 * DAY)
"""Part of the books that is left after a block: two days are remembered."""
RESTARTS_LOST = 2.0
"""Restarts by which another book must be cheaper: to change the course and back takes two."""
PART_LOST = 0.03
"""Part of the followed book by which it must be cheaper besides: what two good experts differ by
over two days by chance."""
UNKNOWN = -1.0
"""Stands for what a deployment carries, until it is worked out."""


@compiled
def copy_counts(to: Counts, counts: Counts) -> None:
    """Copy a deployment `(t,)`."""
    for place in range(counts.size):
        to[place] = counts[place]


@compiled
def is_equal(one: Counts, other: Counts) -> bool:
    """Return whether two deployments `(t,)` are the same."""
    apart = 0
    for place in range(one.size):
        apart += abs(one[place] - other[place])
    return apart == 0


@compiled
def is_planned(o: int, memory: Memory) -> bool:
    """Return whether the plan is followed, and there is one."""
    return memory.ints[o, FOLLOWED] == PLAN and memory.ints[o, PLANS] > 0


@compiled
def is_pressed(o: int, view: View, memory: Memory) -> bool:
    """Return whether what was in force at the last tick has less room than `SHORT_WINDOW` wants."""
    carries = memory.floats[o, CARRIES + memory.ints[o, FOLLOWED]]
    return need_of_brief(o, view, memory) > carries


@compiled
def forget_capacities(o: int, memory: Memory) -> None:
    """Let what the experts' deployments carry be worked out anew: the model has changed."""
    for expert in range(EXPERTS):
        memory.floats[o, CARRIES + expert] = UNKNOWN


@compiled
def fade_books(o: int, memory: Memory) -> None:
    """Let the books fade by a block."""
    for expert in range(EXPERTS):
        memory.ints[o, EXCEEDED + expert] = 0
        memory.floats[o, EXPERT_COST + expert] *= FADE


@compiled_apart
def follow(o: int, view: View, memory: Memory) -> None:
    """Write the target of the expert that is followed; speeds are the corrected ones."""
    ints, expert = memory.ints[o], memory.ints[o, FOLLOWED]
    own = advised_counts(o, view, memory)[expert]
    if ints[SEEN_INTERVALS] == 0 or not is_equal(own, view.counts[o]):
        carries = find_capacity(o, view, memory, view.counts[o])
    else:
        carries = memory.floats[o, CARRIES + expert]
    _advise(o, view, memory, expert, carries)


@compiled_apart
def update_expert_costs(o: int, view: View, memory: Memory) -> None:
    """Charge every expert for the interval that ended, choose one, and let the others move on.

    Args:
        o: Row of the operator.
        view: Its speeds are the corrected ones. Counts and target are worked with, and are both the
            present deployment in the end.
        memory: The planner's; `OFF_MENU` is of the present deployment.
    """
    ints, counts = memory.ints[o], view.counts[o]
    advised = advised_counts(o, view, memory)
    if ints[SEEN_INTERVALS] == 0:
        forget_capacities(o, memory)
        for expert in range(EXPERTS):
            copy_counts(advised[expert], counts)
    note_rate(o, view, memory)
    _move(o, view, memory, ints[FOLLOWED], counts)
    for expert in range(EXPERTS):
        _charge(o, view, memory, expert)
    _choose_expert(o, view, memory)
    present, off_menu = advised[EXPERTS], memory.floats[o, OFF_MENU]
    copy_counts(present, counts)
    copy_counts(advised[ints[FOLLOWED]], counts)
    for expert in range(EXPERTS):
        if expert != ints[FOLLOWED]:
            copy_counts(counts, advised[expert])
            carries = memory.floats[o, CARRIES + expert]
            memory.floats[o, OFF_MENU] = carries
            _advise(o, view, memory, expert, carries)
            if view.rules[o, STEP] == 1:
                step_towards(o, view)
            _move(o, view, memory, expert, view.target[o])
    memory.floats[o, OFF_MENU] = off_menu
    copy_counts(counts, present)
    copy_counts(view.target[o], present)


@compiled
def _advise(o: int, view: View, memory: Memory, expert: int, carries: float) -> None:
    """Write where an expert would go from the view's deployment, which carries so much."""
    target = view.target[o]
    copy_counts(target, view.counts[o])
    if expert == PLAN and memory.ints[o, PLANS] > 0:
        here = find_point(o, view, memory, view.counts[o])
        point = choose_point(o, view, memory, here)
        if point != here:
            copy_counts(target, point_counts(o, view, memory)[point])
        return
    if expert == LONG_WINDOW:
        row = choose_for_long(o, view, memory, carries)
    else:
        row = choose_short_window(o, view, memory, carries)
    if row >= 0:
        copy_counts(target, candidate_counts(o, view, memory)[row])


@compiled_apart
def _move(o: int, view: View, memory: Memory, expert: int, to: Counts) -> None:
    """Let an expert be at a deployment, and charge for a restart if it took one."""
    own = advised_counts(o, view, memory)[expert]
    if is_equal(own, to):
        return
    if not same_per_pool(view, o, own, to):
        memory.floats[o, EXPERT_COST + expert] += price_of_restart(o, view, memory)
    copy_counts(own, to)
    memory.floats[o, CARRIES + expert] = UNKNOWN


@compiled_apart
def _charge(o: int, view: View, memory: Memory, expert: int) -> None:
    """Enter what an expert's deployment costs in an interval of the rate seen.

    The first excess in a block stands for as many violations as one has brought so far: on paper
    more replicas are there at once and carry no backlog, in a cluster they come late and do.
    """
    floats, ints, traits = memory.floats[o], memory.ints[o], view.traits[o]
    own = advised_counts(o, view, memory)[expert]
    if floats[CARRIES + expert] == UNKNOWN:
        floats[CARRIES + expert] = find_capacity(o, view, memory, own)
    cost = traits[WEIGHT_RESOURCES] * price_of(o, view, own) / traits[TOP_COST]
    if view.seen[o, RATE] > floats[CARRIES + expert]:
        excess = price_of_excess(o, view, memory)
        if ints[EXCEEDED + expert] == 0:
            cost += excess
        elif (ints[EXCEEDED + expert] + 1) * traits[WEIGHT_VIOLATION] > excess:
            cost += traits[WEIGHT_VIOLATION]
        ints[EXCEEDED + expert] += 1
    floats[EXPERT_COST + expert] += cost


@compiled
def _choose_expert(o: int, view: View, memory: Memory) -> None:
    """Leave the expert that is followed, if another's book is cheaper by enough."""
    floats, ints = memory.floats[o], memory.ints[o]
    followed = ints[FOLLOWED]
    best = followed
    for expert in range(EXPERTS):
        exists = expert != PLAN or ints[PLANS] > 0
        if exists and floats[EXPERT_COST + expert] < floats[EXPERT_COST + best]:
            best = expert
    book = floats[EXPERT_COST + followed]
    enough = RESTARTS_LOST * price_of_restart(o, view, memory) + PART_LOST * book
    if book - floats[EXPERT_COST + best] > enough:
        ints[FOLLOWED] = best
        floats[CARRIES + best] = floats[CARRIES + followed]


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
