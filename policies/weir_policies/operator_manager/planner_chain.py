"""Which node type to climb on where a decision moves one replica at most.

A ladder of several node types cannot be climbed then: on the way from one to another the slowest
replica dictates. So the planner stays on one type, the one on which the course that is foreseen
costs least: a dynamic program over the blocks to come, each step of a replica paid for, the rate
taken to follow the season from its recent peak on.
"""

from __future__ import annotations

import numpy as np

from weir_policies.kernels.compiled import compiled_apart
from weir_policies.kernels.view import WEIGHT_VIOLATION, Memory, View
from weir_policies.operator_manager.planner_fit import price_of_restart
from weir_policies.operator_manager.planner_memory import (
    AHEAD,
    BLOCK,
    CANDIDATE_CAPACITY,
    CANDIDATE_PRICE,
    CANDIDATES,
    CHAIN,
    PEAK_LONG,
    PLANS,
    SEASON,
)
from weir_policies.operator_manager.planner_menu import find_capacity, room_in_pools
from weir_policies.operator_manager.planner_plan import price_of_block

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
