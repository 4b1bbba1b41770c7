"""The plan: what each rung will cost from now on, by dynamic programming over the blocks to come.

Backward in time, for every state of the rate and every rung,

    Q(rung) = price of a block + price of an excess * P(rate exceeds the rung) + E[V'(rung)]
    V(rung) = min(Q(rung), min over other rungs of their Q + price of getting there)

where P and the expectation are of the learned dynamics (`planner_rate`), the season taken into
account (`planner_season`). What lies beyond the horizon is valued as it was a day ago. A decision
compares Q of all rungs in the present state; the probability of an excess is then exact for the
present peak, not that of a level.

Two rules that know nothing of the rate's dynamics, for when the plan does not know much either.

* `BRIEF` keeps room for a little more than the present rate, like `queueing`: up at once, down when
  the last three intervals would have fitted something cheaper as well.
* `LONG` keeps room for the largest rate of the last 60 blocks, like `window-max`.

Both choose among the planner's candidates, whose capacities are known, so a decision compares
numbers. The policies that they are like also judge what is beside the menu.

Whom the planner follows: its plan, or one of two simple rules (`planner_rules`).

A plan is as good as what was learned, and in its first hours little was; and there are rates that
its picture of the dynamics does not fit. So a book is kept for every adviser: what its deployments
would have cost on the rates that came, by the model. The planner follows one, `BRIEF` at first, and
leaves it for the one with the cheapest book when that is cheaper by more than chance and a change
of course are worth. Books fade over two days.

What the books do not know: backlog and the time until a new replica is there, but for what excesses
have cost on average so far; and what the response time of a deployment that is not in force would
have been. Until there is a plan, its book is as that of `BRIEF`.

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
    find_rung,
    fits_pools,
    same_per_pool,
)
from weir_policies.operator_manager.planner.policy import choose_rung, rate_to_carry
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
    ADVISERS,
    AHEAD,
    BLOCK,
    BLOCK_PEAK,
    BLOCKS,
    BOOK,
    BRIEF,
    BRIEF_WINDOW,
    CANDIDATE_CAPACITY,
    CANDIDATE_PRICE,
    CANDIDATES_USED,
    CARRIES,
    DAY,
    EXCEEDED,
    EXPECTED,
    FOLLOWED,
    GAPS,
    GROUP,
    KEPT,
    LEVEL_FROM,
    LEVEL_STEP,
    LINK_FROM,
    LINK_TO,
    LINK_WEIGHT,
    LONG,
    LONG_PEAK,
    LONG_WINDOW,
    NEXT_PLAN,
    OFF_MENU,
    PEAKS,
    PLAN,
    PLANNED_AT,
    PLANS,
    RATES,
    ROW,
    RUNG_HEIGHT,
    RUNG_PRICE,
    RUNGS,
    RUNGS_USED,
    SEASON,
    SEEN_INTERVALS,
    SINCE_CHANGE,
    STATES,
    advised_counts,
    beginnings,
    candidate_counts,
    expected_values,
    rung_counts,
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
    """Return records/s that a deployment must carry for `BRIEF` to stay there."""
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
    if memory.ints[o, FOLLOWED] != BRIEF or memory.ints[o, SINCE_CHANGE] == 0:
        return 1.0
    if not is_behind(seen) or seen[BUSIEST] < SATURATED or seen[PROCESSED] <= 0:
        return 1.0
    if seen[PROCESSED] >= rate_to_carry(o, view, memory):
        return 1.0
    return max(carries / seen[PROCESSED], 1.0)


@compiled
def need_of_long(o: int, view: View, memory: Memory) -> float:
    """Return records/s that a deployment must carry for `LONG` to be there."""
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
def choose_briefly(o: int, view: View, memory: Memory, carries: float) -> int:
    """Return the candidate that `BRIEF` goes to, -1 to stay.

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
    """Return the candidate that `LONG` goes to, -1 to stay; arguments as of `choose_briefly`."""
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
"""Part of the followed book by which it must be cheaper besides: what two good advisers differ by
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
    """Return whether what was in force at the last tick has less room than `BRIEF` wants."""
    carries = memory.floats[o, CARRIES + memory.ints[o, FOLLOWED]]
    return need_of_brief(o, view, memory) > carries


@compiled
def forget_capacities(o: int, memory: Memory) -> None:
    """Let what the advisers' deployments carry be worked out anew: the model has changed."""
    for adviser in range(ADVISERS):
        memory.floats[o, CARRIES + adviser] = UNKNOWN


@compiled
def fade_books(o: int, memory: Memory) -> None:
    """Let the books fade by a block."""
    for adviser in range(ADVISERS):
        memory.ints[o, EXCEEDED + adviser] = 0
        memory.floats[o, BOOK + adviser] *= FADE


@compiled_apart
def follow(o: int, view: View, memory: Memory) -> None:
    """Write the target of the adviser that is followed; speeds are the corrected ones."""
    ints, adviser = memory.ints[o], memory.ints[o, FOLLOWED]
    own = advised_counts(o, view, memory)[adviser]
    if ints[SEEN_INTERVALS] == 0 or not is_equal(own, view.counts[o]):
        carries = find_capacity(o, view, memory, view.counts[o])
    else:
        carries = memory.floats[o, CARRIES + adviser]
    _advise(o, view, memory, adviser, carries)


@compiled_apart
def keep_books(o: int, view: View, memory: Memory) -> None:
    """Charge every adviser for the interval that ended, choose one, and let the others move on.

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
        for adviser in range(ADVISERS):
            copy_counts(advised[adviser], counts)
    note_rate(o, view, memory)
    _move(o, view, memory, ints[FOLLOWED], counts)
    for adviser in range(ADVISERS):
        _charge(o, view, memory, adviser)
    _choose_adviser(o, view, memory)
    present, off_menu = advised[ADVISERS], memory.floats[o, OFF_MENU]
    copy_counts(present, counts)
    copy_counts(advised[ints[FOLLOWED]], counts)
    for adviser in range(ADVISERS):
        if adviser != ints[FOLLOWED]:
            copy_counts(counts, advised[adviser])
            carries = memory.floats[o, CARRIES + adviser]
            memory.floats[o, OFF_MENU] = carries
            _advise(o, view, memory, adviser, carries)
            if view.rules[o, STEP] == 1:
                step_towards(o, view)
            _move(o, view, memory, adviser, view.target[o])
    memory.floats[o, OFF_MENU] = off_menu
    copy_counts(counts, present)
    copy_counts(view.target[o], present)


@compiled
def _advise(o: int, view: View, memory: Memory, adviser: int, carries: float) -> None:
    """Write where an adviser would go from the view's deployment, which carries so much."""
    target = view.target[o]
    copy_counts(target, view.counts[o])
    if adviser == PLAN and memory.ints[o, PLANS] > 0:
        here = find_rung(o, view, memory, view.counts[o])
        rung = choose_rung(o, view, memory, here)
        if rung != here:
            copy_counts(target, rung_counts(o, view, memory)[rung])
        return
    if adviser == LONG:
        row = choose_for_long(o, view, memory, carries)
    else:
        row = choose_briefly(o, view, memory, carries)
    if row >= 0:
        copy_counts(target, candidate_counts(o, view, memory)[row])


@compiled_apart
def _move(o: int, view: View, memory: Memory, adviser: int, to: Counts) -> None:
    """Let an adviser be at a deployment, and charge for a restart if it took one."""
    own = advised_counts(o, view, memory)[adviser]
    if is_equal(own, to):
        return
    if not same_per_pool(view, o, own, to):
        memory.floats[o, BOOK + adviser] += price_of_restart(o, view, memory)
    copy_counts(own, to)
    memory.floats[o, CARRIES + adviser] = UNKNOWN


@compiled_apart
def _charge(o: int, view: View, memory: Memory, adviser: int) -> None:
    """Enter what an adviser's deployment costs in an interval of the rate seen.

    The first excess in a block stands for as many violations as one has brought so far: on paper
    more replicas are there at once and carry no backlog, in a cluster they come late and do.
    """
    floats, ints, traits = memory.floats[o], memory.ints[o], view.traits[o]
    own = advised_counts(o, view, memory)[adviser]
    if floats[CARRIES + adviser] == UNKNOWN:
        floats[CARRIES + adviser] = find_capacity(o, view, memory, own)
    cost = traits[WEIGHT_RESOURCES] * price_of(o, view, own) / traits[TOP_COST]
    if view.seen[o, RATE] > floats[CARRIES + adviser]:
        excess = price_of_excess(o, view, memory)
        if ints[EXCEEDED + adviser] == 0:
            cost += excess
        elif (ints[EXCEEDED + adviser] + 1) * traits[WEIGHT_VIOLATION] > excess:
            cost += traits[WEIGHT_VIOLATION]
        ints[EXCEEDED + adviser] += 1
    floats[BOOK + adviser] += cost


@compiled
def _choose_adviser(o: int, view: View, memory: Memory) -> None:
    """Leave the adviser that is followed, if another's book is cheaper by enough."""
    floats, ints = memory.floats[o], memory.ints[o]
    followed = ints[FOLLOWED]
    best = followed
    for adviser in range(ADVISERS):
        exists = adviser != PLAN or ints[PLANS] > 0
        if exists and floats[BOOK + adviser] < floats[BOOK + best]:
            best = adviser
    book = floats[BOOK + followed]
    enough = RESTARTS_LOST * price_of_restart(o, view, memory) + PART_LOST * book
    if book - floats[BOOK + best] > enough:
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
    """Turn Q of all rungs into V, in place."""
    restart = price_of_restart(o, view, memory)
    used = memory.ints[o, RUNGS_USED]
    rungs = rung_counts(o, view, memory)
    if view.rules[o, STEP] == 1:  # rungs are counts of one type, in order
        for rung in range(1, used):
            steps = distance(o, view, rungs[rung], rungs[rung - 1])
            row[rung] = min(row[rung], row[rung - 1] + steps * restart)
        for rung in range(used - 2, -1, -1):
            steps = distance(o, view, rungs[rung], rungs[rung + 1])
            row[rung] = min(row[rung], row[rung + 1] + steps * restart)
        return
    least = np.inf
    for rung in range(used):
        least = min(least, row[rung])
    if grouped:  # a resize costs nothing: the best of a group stands for all
        for rung in range(used):
            for other in range(used):
                if memory.ints[o, GROUP + other] == memory.ints[o, GROUP + rung]:
                    row[rung] = min(row[rung], row[other])
    for rung in range(used):
        row[rung] = min(row[rung], least + restart)


@compiled_apart
def make_plan(o: int, view: View, memory: Memory, afresh: bool) -> None:
    """Plan from the present block on.

    Args:
        o: Row of the operator.
        view: Its model.
        memory: The planner's; rungs, season and dynamics are up to date.
        afresh: The rungs or levels are new, so that earlier plans say nothing.
    """
    ints = memory.ints[o]
    rows, begun = value_rows(o, memory), beginnings(o, memory)
    used = ints[RUNGS_USED]
    turn = ints[PLANS] % 2
    if afresh:
        begun[:] = 0.0
    grouped = False
    for rung in range(used):
        grouped = grouped or ints[GROUP + rung] != rung
    rounds = ROUNDS if afresh or ints[PLANS] < SETTLED else 1
    for state in range(STATES):
        for rung in range(used):
            rows[AHEAD % 2, state, rung] = begun[turn, state, rung]
    for left in range(rounds - 1, -1, -1):
        for block in range(AHEAD - 1, -1, -1):
            _plan_block(o, view, memory, block, grouped, left == 0 and block < KEPT)
        least = np.inf
        for state in range(STATES):
            for rung in range(used):
                least = min(least, rows[0, state, rung])
        for state in range(STATES):
            for rung in range(used):
                rows[0, state, rung] -= least
                rows[AHEAD % 2, state, rung] = rows[0, state, rung]
    for state in range(STATES):
        for rung in range(used):
            begun[turn, state, rung] = rows[0, state, rung]
    ints[PLANS] += 1
    ints[PLANNED_AT] = ints[BLOCKS]
    ints[NEXT_PLAN] = ints[BLOCKS] + min(KEPT, max(2, ints[BLOCKS] // 2))


@compiled_apart
def _plan_block(o: int, view: View, memory: Memory, block: int, grouped: bool, keep: bool) -> None:
    """Work out the values at the beginning of a block from those at its end."""
    ints, values = memory.ints[o], memory.values[o]
    rows, expected = value_rows(o, memory), expected_values(o, memory)
    later, now = rows[(block + 1) % 2], rows[block % 2]
    used = ints[RUNGS_USED]
    excess = price_of_excess(o, view, memory)
    row = values[ROW : ROW + RUNGS]
    for state in range(STATES):
        for rung in range(used):
            row[rung] = 0.0
        for link in range(ints[LINK_FROM + state], ints[LINK_FROM + state + 1]):
            weight, to = values[LINK_WEIGHT + link], ints[LINK_TO + link]
            for rung in range(used):
                row[rung] += weight * later[to, rung]
        if keep:
            for rung in range(used):
                expected[block, state, rung] = row[rung]
        peak = memory.floats[o, LEVEL_FROM] + (state // GAPS) * memory.floats[o, LEVEL_STEP]
        for rung in range(used):
            step = values[RUNG_HEIGHT + rung] - values[SEASON + block] - peak
            row[rung] += price_of_block(o, view, memory, values[RUNG_PRICE + rung])
            row[rung] += excess * read_tail(o, memory, state, step)
        _allow_moves(o, view, memory, row, grouped)
        for rung in range(used):
            now[state, rung] = row[rung]


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
def value_afterwards(o: int, memory: Memory, rung: int, peak: float, short: float) -> float:
    """Return the cost to be expected after the present block with a rung."""
    level, up = place_level(o, memory, peak)
    gap, beyond = place_gap(peak - short)
    at = EXPECTED + (block_of_plan(o, memory) * STATES + level * GAPS + gap) * RUNGS + rung
    values = memory.values[o]
    near = (1 - beyond) * values[at] + beyond * values[at + RUNGS]
    at += GAPS * RUNGS
    far = (1 - beyond) * values[at] + beyond * values[at + RUNGS]
    return (1 - up) * near + up * far


@compiled
def value_of(o: int, view: View, memory: Memory, rung: int, peak: float, short: float) -> float:
    """Return Q of a rung in the present state of the rate."""
    values = memory.values[o]
    season = values[SEASON + block_of_plan(o, memory)]
    height = values[RUNG_HEIGHT + rung] - season
    excess = probability_of_excess(o, memory, height, peak, short)
    return (
        price_of_block(o, view, memory, values[RUNG_PRICE + rung])
        + price_of_excess(o, view, memory) * excess
        + value_afterwards(o, memory, rung, peak, short)
    )
