"""Two rules that know nothing of the rate's dynamics, for when the plan does not know much either.

* `BRIEF` keeps room for a little more than the present rate, like `queueing`: up at once, down when
  the last three intervals would have fitted something cheaper as well.
* `LONG` keeps room for the largest rate of the last 60 blocks, like `window-max`.

Both choose among the planner's candidates, whose capacities are known, so a decision compares
numbers. The policies that they are like also judge what is beside the menu.
"""

from __future__ import annotations

import numpy as np

from weir_policies.kernels.compiled import compiled, compiled_apart
from weir_policies.kernels.prediction import price_of
from weir_policies.kernels.view import (
    BUDGET,
    BUSIEST,
    INTERVAL,
    PROCESSED,
    RATE,
    RESPONSE_TIME,
    Memory,
    View,
)
from weir_policies.operator_manager.planner_choice import rate_to_carry
from weir_policies.operator_manager.planner_fit import SATURATED, is_behind
from weir_policies.operator_manager.planner_memory import (
    BLOCK_PEAK,
    BLOCKS,
    BRIEF,
    BRIEF_WINDOW,
    CANDIDATE_CAPACITY,
    CANDIDATE_PRICE,
    CANDIDATES_USED,
    FOLLOWED,
    LONG_PEAK,
    LONG_WINDOW,
    PEAKS,
    RATES,
    SEEN_INTERVALS,
    SINCE_CHANGE,
    candidate_counts,
)
from weir_policies.operator_manager.planner_menu import fits_pools, same_per_pool

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
