"""Which rung to be at now: the plan's values in the present state of the rate, compared."""

from __future__ import annotations

import numpy as np

from weir_policies.kernels.compiled import compiled, compiled_apart
from weir_policies.kernels.prediction import price_of
from weir_policies.kernels.steps import total
from weir_policies.kernels.view import (
    RATE,
    STEP,
    WEIGHT_RECONFIGURATION,
    Memory,
    View,
)
from weir_policies.operator_manager.planner_fit import (
    price_of_excess,
    price_of_restart,
    price_of_staying_exceeded,
    waits_beyond_budget,
)
from weir_policies.operator_manager.planner_memory import (
    BLOCK_PEAK,
    CATCH_UP,
    FLOOR,
    GROUP,
    KEPT,
    OFF_MENU,
    PEAK_LONG,
    PEAK_SHORT,
    RUNG_CAPACITY,
    RUNG_PRICE,
    RUNGS_USED,
    SEASON,
    rung_counts,
)
from weir_policies.operator_manager.planner_menu import fits_pools
from weir_policies.operator_manager.planner_plan import (
    block_of_plan,
    distance,
    price_of_block,
    probability_of_excess,
    value_afterwards,
    value_of,
)

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
def see_envelopes(o: int, view: View, memory: Memory) -> tuple[float, float]:
    """Return the envelopes of the rate with what the present block has brought so far.

    A backlog counts as rate that has to be carried besides.
    """
    floats = memory.floats[o]
    rate = max(rate_to_carry(o, view, memory), floats[BLOCK_PEAK])
    height = max(np.log(max(rate, 1e-9)), floats[FLOOR])
    height -= memory.values[o, SEASON + block_of_plan(o, memory)]
    return max(floats[PEAK_LONG], height), max(floats[PEAK_SHORT], height)


@compiled
def price_of_move(o: int, view: View, memory: Memory, here: int, rung: int) -> float:
    """Return what going to a rung costs now; `here` is the present one, -1 where it is none."""
    if here == rung:
        return 0.0
    restart = price_of_restart(o, view, memory)
    if view.rules[o, STEP] == 1:
        return restart * distance(o, view, view.counts[o], rung_counts(o, view, memory)[rung])
    if here >= 0 and memory.ints[o, GROUP + here] == memory.ints[o, GROUP + rung]:
        # A resize is free, but not worth doing for nothing.
        return RESIZE * view.traits[o, WEIGHT_RECONFIGURATION]
    return restart


@compiled_apart
def value_off_menu(o: int, view: View, memory: Memory, peak: float, short: float) -> float:
    """Return Q of a present deployment that is no rung.

    It is left for a rung after the block at the latest; or it is as good as the rung that carries
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
    for rung in range(memory.ints[o, RUNGS_USED]):
        left = price_of_move(o, view, memory, -1, rung)
        afterwards = min(afterwards, left + value_afterwards(o, memory, rung, peak, short))
        if values[RUNG_CAPACITY + rung] <= capacity * (1 + 1e-9):
            near = rung
    if near >= 0 and view.rules[o, STEP] == 0:
        dearer = max(price - values[RUNG_PRICE + near], 0.0)
        more = KEPT * price_of_block(o, view, memory, dearer)
        afterwards = min(afterwards, value_afterwards(o, memory, near, peak, short) + more)
    now = price_of_block(o, view, memory, price) + price_of_excess(o, view, memory) * excess
    return now + afterwards


@compiled
def find_largest(o: int, view: View, memory: Memory) -> int:
    """Return the rung that carries most of those that fit the pools, -1 where none does."""
    rungs = rung_counts(o, view, memory)
    best, most = -1, 0.0
    for rung in range(memory.ints[o, RUNGS_USED]):
        capacity = memory.values[o, RUNG_CAPACITY + rung]
        if capacity > most and fits_pools(o, view, rungs[rung]):
            best, most = rung, capacity
    return best


@compiled
def choose_rung(o: int, view: View, memory: Memory, here: int) -> int:
    """Return the rung to be at, -1 to stay off the menu.

    A rung that would not even carry what there is to carry now is never gone to; where none does,
    the one that carries most is.
    """
    peak, short = see_envelopes(o, view, memory)
    rungs = rung_counts(o, view, memory)
    need = rate_to_carry(o, view, memory)
    largest = find_largest(o, view, memory)
    if largest >= 0 and memory.values[o, RUNG_CAPACITY + largest] < need:
        return here if here < 0 and memory.floats[o, OFF_MENU] >= need else largest
    best = here
    if here >= 0:
        least = value_of(o, view, memory, here, peak, short)
    else:
        least = value_off_menu(o, view, memory, peak, short)
    carried = memory.values[o, RUNG_CAPACITY + here] if here >= 0 else memory.floats[o, OFF_MENU]
    if carried < need:
        least += price_of_staying_exceeded(o, view, memory) - price_of_excess(o, view, memory)
    if not fits_pools(o, view, view.counts[o]) or total(view.counts[o]) == 0:
        least = np.inf
    for rung in range(memory.ints[o, RUNGS_USED]):
        short_of_need = memory.values[o, RUNG_CAPACITY + rung] < need
        if rung == here or short_of_need or not fits_pools(o, view, rungs[rung]):
            continue
        value = value_of(o, view, memory, rung, peak, short)
        value += price_of_move(o, view, memory, here, rung)
        if value < least - 1e-12:
            best, least = rung, value
    return best
