"""The usual course of the rate over a day and a week, as far as it helps to forecast.

The logarithm of each block's highest rate is averaged per part of the day, and per part of the
week, older weeks fading. How much of these usual changes to expect is not assumed but regressed:
the changes over an hour that were observed, on those that the day and the week had let expect. A
rate without season gets weights near 0, and the planner forecasts from the recent past alone.
"""

from __future__ import annotations

import numpy as np

from weir_policies.kernels.compiled import compiled, compiled_apart
from weir_policies.kernels.view import INTERVAL, TIME, TIME_OF_WEEK, Memory, View
from weir_policies.operator_manager.planner_memory import (
    AHEAD,
    BEGAN,
    BLOCK,
    BLOCKS,
    DAY,
    DAY_CHANGE,
    DAY_DAY,
    DAY_WEEK,
    DAY_WEIGHT,
    DAYS_SEEN,
    LAG,
    LAST_SEASON,
    PAST,
    SEASON,
    USUAL_DAY,
    USUAL_WEEK,
    WEEK,
    WEEK_CHANGE,
    WEEK_WEEK,
    WEEK_WEIGHT,
    WEEKS_SEEN,
)

SECONDS_PER_DAY = 86_400.0
SECONDS_PER_WEEK = 604_800.0
FADES_PER_DAY = 0.15
"""Weight of the latest day in what is usual at a time of day."""
FADES_PER_WEEK = 0.3
"""Weight of the latest week in what is usual at a time of the week."""
MEMORY = 14.0
"""Days after which the regression has forgotten all but 1/e."""
RIDGE = 0.0144
"""Keeps the weights near 0 until there is evidence: as much as a day of hourly changes of 1 %."""


@compiled
def part_of_week(view: View, o: int, blocks_ahead: float, memory: Memory) -> int:
    """Return the part of the week in which a block lies, counted from the present moment."""
    seconds = blocks_ahead * memory.ints[o, BLOCK] * view.seen[o, INTERVAL]
    weeks = view.seen[o, TIME_OF_WEEK] + seconds / SECONDS_PER_WEEK
    return min(int((weeks - np.floor(weeks)) * WEEK), WEEK - 1)


@compiled
def usual_of_week(o: int, memory: Memory, part: int, usual_of_day: float) -> float:
    """Return by how much a part of the week usually differs from that part of the day, in logs."""
    seen = memory.values[o, WEEKS_SEEN + part]
    if seen == 0:
        return 0.0
    # One week tells half of the truth, two tell two thirds.
    return (memory.values[o, USUAL_WEEK + part] - usual_of_day) * seen / (seen + 1)


@compiled_apart
def note_block(o: int, view: View, memory: Memory, height: float) -> None:
    """Learn from the block that just ended.

    Args:
        o: Row of the operator.
        view: Tells the time.
        memory: The planner's.
        height: Logarithm of the highest rate in the block.
    """
    values, floats = memory.values[o], memory.floats[o]
    week = part_of_week(view, o, -0.5, memory)
    day = week % DAY
    seconds = memory.ints[o, BLOCK] * view.seen[o, INTERVAL]
    if memory.ints[o, BLOCKS] == 0 and floats[BEGAN] > -np.inf:
        floats[BEGAN] = view.seen[o, TIME]  # but where a season was known beforehand
    age = view.seen[o, TIME] - floats[BEGAN]
    usual, special = height, 0.0
    known = values[DAYS_SEEN + day] > 0 and age > SECONDS_PER_DAY - seconds
    if known:
        usual = values[USUAL_DAY + day]
        if age > SECONDS_PER_WEEK - seconds:
            special = usual_of_week(o, memory, week, usual)
    slot = PAST + 3 * (memory.ints[o, BLOCKS] % LAG)
    lagged = memory.ints[o, BLOCKS] >= LAG
    if known and lagged and age > SECONDS_PER_DAY + LAG * seconds:
        rise = height - values[slot]
        rise_of_day, rise_of_week = usual - values[slot + 1], special - values[slot + 2]
        fade = 1 - min(seconds / (MEMORY * SECONDS_PER_DAY), 0.1)
        floats[DAY_DAY] = fade * floats[DAY_DAY] + rise_of_day**2
        floats[DAY_WEEK] = fade * floats[DAY_WEEK] + rise_of_day * rise_of_week
        floats[WEEK_WEEK] = fade * floats[WEEK_WEEK] + rise_of_week**2
        floats[DAY_CHANGE] = fade * floats[DAY_CHANGE] + rise_of_day * rise
        floats[WEEK_CHANGE] = fade * floats[WEEK_CHANGE] + rise_of_week * rise
    values[slot], values[slot + 1], values[slot + 2] = height, usual, special

    part = min(seconds * DAY / SECONDS_PER_DAY, 1.0)  # of the part of the day, one visit of it
    values[DAYS_SEEN + day] += part
    values[WEEKS_SEEN + week] += part
    weight = max(FADES_PER_DAY * part, part / values[DAYS_SEEN + day])
    values[USUAL_DAY + day] += weight * (height - values[USUAL_DAY + day])
    weight = max(FADES_PER_WEEK * part, part / values[WEEKS_SEEN + week])
    values[USUAL_WEEK + week] += weight * (height - values[USUAL_WEEK + week])


@compiled
def _weigh(o: int, memory: Memory) -> None:
    """Solve the regression for the weights of day and week, each between 0 and 1."""
    floats = memory.floats[o]
    day, week, both = floats[DAY_DAY] + RIDGE, floats[WEEK_WEEK] + RIDGE, floats[DAY_WEEK]
    divisor = day * week - both * both
    of_day = (floats[DAY_CHANGE] * week - floats[WEEK_CHANGE] * both) / divisor
    of_week = (floats[WEEK_CHANGE] * day - floats[DAY_CHANGE] * both) / divisor
    floats[DAY_WEIGHT] = min(max(of_day, 0.0), 1.0)
    floats[WEEK_WEIGHT] = min(max(of_week, 0.0), 1.0)


@compiled_apart
def _usual_height(o: int, memory: Memory, week: int, mean: float) -> float:
    """Return what is to be expected of a part of the week beyond the mean, in logs."""
    values, floats = memory.values[o], memory.floats[o]
    height = 0.0
    for offset in range(-1, 2):  # smoothed over neighbours
        share = 0.5 if offset == 0 else 0.25
        part = (week + offset) % WEEK
        usual = mean
        if values[DAYS_SEEN + part % DAY] > 0:
            usual = values[USUAL_DAY + part % DAY]
        special = usual_of_week(o, memory, part, usual)
        height += share * (floats[DAY_WEIGHT] * (usual - mean) + floats[WEEK_WEIGHT] * special)
    return height


@compiled_apart
def foresee(o: int, view: View, memory: Memory) -> float:
    """Fill the season of the blocks to come; return that of the one that just ended, in logs."""
    values = memory.values[o]
    _weigh(o, memory)
    mean, parts = 0.0, 0
    for day in range(DAY):
        if values[DAYS_SEEN + day] > 0:
            mean += values[USUAL_DAY + day]
            parts += 1
    mean /= max(parts, 1)
    for ahead in range(AHEAD):
        week = part_of_week(view, o, ahead + 0.5, memory)
        values[SEASON + ahead] = _usual_height(o, memory, week, mean)
    memory.floats[o, LAST_SEASON] = _usual_height(
        o, memory, part_of_week(view, o, -0.5, memory), mean
    )
    return memory.floats[o, LAST_SEASON]
