"""The plan: what each rung will cost from now on, by dynamic programming over the blocks to come.

Backward in time, for every state of the rate and every rung,

    Q(rung) = price of a block + price of an excess * P(rate exceeds the rung) + E[V'(rung)]
    V(rung) = min(Q(rung), min over other rungs of their Q + price of getting there)

where P and the expectation are of the learned dynamics (`planner_rate`), the season taken into
account (`planner_season`). What lies beyond the horizon is valued as it was a day ago. A decision
compares Q of all rungs in the present state; the probability of an excess is then exact for the
present peak, not that of a level.
"""

from __future__ import annotations

import numpy as np

from weir_policies.kernels.compiled import compiled, compiled_apart
from weir_policies.kernels.view import (
    STEP,
    TOP_COST,
    WEIGHT_RESOURCES,
    Memory,
    View,
)
from weir_policies.model.arrays import Counts, Floats
from weir_policies.operator_manager.planner_fit import price_of_excess, price_of_restart
from weir_policies.operator_manager.planner_memory import (
    AHEAD,
    BLOCK,
    BLOCKS,
    EXPECTED,
    GAPS,
    GROUP,
    KEPT,
    LEVEL_FROM,
    LEVEL_STEP,
    LINK_FROM,
    LINK_TO,
    LINK_WEIGHT,
    NEXT_PLAN,
    PLANNED_AT,
    PLANS,
    ROW,
    RUNG_HEIGHT,
    RUNG_PRICE,
    RUNGS,
    RUNGS_USED,
    SEASON,
    STATES,
    beginnings,
    expected_values,
    rung_counts,
    value_rows,
)
from weir_policies.operator_manager.planner_rate import place_gap, place_level, read_tail

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
