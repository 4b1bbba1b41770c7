"""What experience says of the model: speeds, waiting times, and what a restart and an excess cost.

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
from weir_policies.kernels.prediction import predict_one, share_of, water_level
from weir_policies.kernels.view import (
    BACKLOG,
    BUDGET,
    BY_LOAD,
    RATE,
    RESPONSE_TIME,
    SERVICE_MEAN,
    SHARING,
    VIOLATION,
    WEIGHT_RECONFIGURATION,
    WEIGHT_VIOLATION,
    Memory,
    View,
)
from weir_policies.model.arrays import Floats
from weir_policies.operator_manager.planner_memory import (
    BLOCK,
    BLOCK_EXCEEDED,
    CORRECTS,
    EXCEEDED_BLOCKS,
    EXCEEDED_INTERVALS,
    LAST_CAPACITY,
    MISTRUST,
    MISTRUSTED,
    ONCE_LASTED,
    ONCE_TRIED,
    RECONFIGURATION_COST,
    RESTART_VIOLATIONS,
    RESTARTS,
    RUNG_CAPACITY,
    SINCE_CHANGE,
    STREAK,
    WAIT_FACTOR,
    WAIT_WEIGHT,
    saved_speedups,
    speed_factors,
    speed_weights,
)
from weir_policies.operator_manager.planner_menu import find_capacity, find_rung

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
    rung = find_rung(o, view, memory, view.counts[o])
    if rung >= 0:
        return memory.values[o, RUNG_CAPACITY + rung]
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
