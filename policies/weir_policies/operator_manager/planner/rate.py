"""How the rate moves from block to block, learned from all blocks so far.

A block is known by its height: the logarithm of its highest rate, less what the season explains.
The state after a block is two envelopes of the heights, one that falls slowly (`peak`) and one that
falls fast: where the rate has been of late, and where it is. The next state follows from the next
height alone, and of that the distribution is learned: a histogram of its difference from the peak,
for each level of the peak and each gap between the envelopes. Neighbouring levels help each other,
and all levels together stand in where little was seen. Old blocks fade.

When heights keep coming that were thought next to impossible, the regime has changed: what was
learned then counts a quarter.

The usual course of the rate over a day and a week, as far as it helps to forecast.

The logarithm of each block's highest rate is averaged per part of the day, and per part of the
week, older weeks fading. How much of these usual changes to expect is not assumed but regressed:
the changes over an hour that were observed, on those that the day and the week had let expect. A
rate without season gets weights near 0, and the planner forecasts from the recent past alone.

The planner's season before its first interval: what was usual while others watched.

The usual rates take the places of what the planner learns itself (`note_block`), which moves
them on by the same averages: after a week of its own, two thirds of what it holds to be usual at a
time of day is its own. That the rate will follow them is put as evidence into the regression by
which the planner weighs its season, as much as `EVIDENCE` of its own: where the rate goes its own
way, that is outweighed as soon.

Hourly means stand for the highest rates of blocks, which are a little higher. Only differences
between times count, so that makes none.
"""

from __future__ import annotations

import numpy as np

from weir_policies.kernels.compiled import compiled, compiled_apart
from weir_policies.kernels.view import INTERVAL, TIME, TIME_OF_WEEK, Memory, View
from weir_policies.model.arrays import Floats
from weir_policies.model.season import HOURS, Season
from weir_policies.operator_manager.planner.state import (
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
    GAPS,
    HIGHEST,
    LAG,
    LAST_SEASON,
    LEVEL_FROM,
    LEVEL_STEP,
    LEVELS,
    LINK_FROM,
    LINK_TO,
    LINK_WEIGHT,
    LOWEST,
    PAST,
    PEAK_LONG,
    PEAK_SHORT,
    PLANS,
    SCRATCH,
    SEASON,
    SEEN_STEPS,
    STATES,
    STEPS,
    SURPRISE,
    TAIL,
    USUAL_DAY,
    USUAL_WEEK,
    WEEK,
    WEEK_CHANGE,
    WEEK_WEEK,
    WEEK_WEIGHT,
    WEEKS_SEEN,
    seen_steps,
    tails,
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


EVIDENCE = 2.0
"""Days of its own learning that the season counts for when it is weighed."""


def take_season(o: int, memory: Memory, season: Season, *, floor: float) -> None:
    """Write a season into the memory of an operator that has not seen a block yet.

    Args:
        o: Row of the operator.
        memory: The planner's.
        season: What is usual; where nobody knows, nothing is written.
        floor: Logarithm of the rate below which all rates are the same.
    """
    heights = _spread_hours(season, floor)
    known = np.isfinite(heights)
    if not known.any():
        return
    values, floats = memory.values[o], memory.floats[o]
    by_day = heights.reshape(WEEK // DAY, DAY)
    days = np.isfinite(by_day).sum(axis=0)
    usual = np.where(days > 0, np.nansum(by_day, axis=0) / np.maximum(days, 1), np.nan)
    values[USUAL_DAY : USUAL_DAY + DAY] = np.nan_to_num(usual)
    values[DAYS_SEEN : DAYS_SEEN + DAY] = days * season.weeks
    values[USUAL_WEEK : USUAL_WEEK + WEEK] = np.nan_to_num(heights)
    values[WEEKS_SEEN : WEEKS_SEEN + WEEK] = known * season.weeks
    floats[BEGAN] = -np.inf  # there never was a first day that it had to learn from alone

    course = np.tile(usual, WEEK // DAY)
    # A few weeks do not tell all of what is special of a part of the week: see `note_block`.
    special = (heights - course) * season.weeks / (season.weeks + 1)
    of_day, of_week = course - np.roll(course, LAG), special - np.roll(special, LAG)
    told = np.isfinite(of_day) & np.isfinite(of_week)
    blocks = EVIDENCE * DAY * told.mean()
    of_day, of_week = of_day[told], of_week[told]
    if not told.any():
        return
    floats[DAY_DAY] = blocks * np.mean(of_day**2)
    floats[DAY_WEEK] = blocks * np.mean(of_day * of_week)
    floats[WEEK_WEEK] = blocks * np.mean(of_week**2)
    # The changes that were seen are those that the day and the week together let expect.
    floats[DAY_CHANGE] = floats[DAY_DAY] + floats[DAY_WEEK]
    floats[WEEK_CHANGE] = floats[DAY_WEEK] + floats[WEEK_WEEK]


def _spread_hours(season: Season, floor: float) -> Floats:
    """Return the logarithm of the usual rate in each part of the week, `(WEEK,)`.

    Between the middles of two hours that are known the course is a straight line, round the week.
    """
    rates = np.array(season.rates)
    known = np.isfinite(rates)
    if not known.any():
        return np.full(WEEK, np.nan)
    logs = np.maximum(np.log(np.maximum(rates[known], 1e-9)), floor)
    parts = (np.arange(WEEK) + 0.5) * HOURS / WEEK
    heights = np.interp(parts, np.arange(HOURS)[known] + 0.5, logs, period=HOURS)
    return np.where(known[parts.astype(np.int64)], heights, np.nan)


SLOW, FAST = 0.007, 0.2
"""How far the two envelopes fall per block, in logs."""
BIN = 0.025
"""Width of a histogram's bin, in logs: 2.5 % of rate."""
FIRST_BIN = -1.2
"""Where the histogram begins: a fall to 30 % of the peak; lower is all the same."""
PRIOR, PRIOR_WIDTH = 0.02, 0.1
"""What is assumed before anything was seen: heights stay, give or take 10 %."""
POOLED = 10.0
"""Blocks that all levels together count for at each level."""
FADE = 0.9998
"""Per block: after five weeks of ten-minute blocks, 1/e is left."""
NEGLIGIBLE = 1e-5
"""Probability of a transition that is left out."""
RARE, RARE_WEIGHT, TOO_OFTEN = 0.01, 0.05, 0.3
"""A height of probability below `RARE` surprises; a regime has changed when the moving share of
surprises, in which each block has weight `RARE_WEIGHT`, exceeds `TOO_OFTEN`: seven in a row."""
KEPT_OF_OLD_REGIME = 0.25


@compiled
def gap_middle(gap: int) -> float:
    """Return the difference of the two envelopes that a class stands for, in logs."""
    if gap == 0:
        return 0.0
    if gap == 1:
        return 0.06
    if gap == 2:
        return 0.15
    return 0.35 if gap == 3 else 0.8


@compiled
def place_gap(difference: float) -> tuple[int, float]:
    """Return the class below a difference of envelopes, and how far it is to the next one."""
    if difference <= 0:
        return 0, 0.0
    for gap in range(GAPS - 1):
        above = gap_middle(gap + 1)
        if difference < above:
            below = gap_middle(gap)
            return gap, (difference - below) / (above - below)
    return GAPS - 2, 1.0


@compiled
def place_level(o: int, memory: Memory, peak: float) -> tuple[int, float]:
    """Return the level below a peak, and how far it is to the next one."""
    position = (peak - memory.floats[o, LEVEL_FROM]) / memory.floats[o, LEVEL_STEP]
    position = min(max(position, 0.0), LEVELS - 1.0001)
    level = int(position)
    return level, position - level


@compiled
def find_bin(step: float) -> int:
    """Return the bin of a difference in height."""
    return min(max(int((step - FIRST_BIN) / BIN), 0), STEPS - 1)


@compiled
def read_tail(o: int, memory: Memory, state: int, step: float) -> float:
    """Return the probability that the next height exceeds the peak by more than `step`."""
    position = (step - FIRST_BIN) / BIN
    if position <= 0:
        return 1.0
    if position >= STEPS:
        return 0.0
    place = int(position)
    part = position - place
    tail = memory.values[o, TAIL + state * (STEPS + 1) + place]
    after = memory.values[o, TAIL + state * (STEPS + 1) + place + 1]
    return tail * (1 - part) + after * part


@compiled_apart
def assume(o: int, memory: Memory) -> None:
    """Add to the histograms what is assumed before anything was seen."""
    seen = seen_steps(o, memory)
    for gap in range(GAPS):
        for step in range(STEPS):
            off = FIRST_BIN + (step + 0.5) * BIN + gap_middle(gap)
            for level in range(LEVELS):
                seen[level, gap, step] += PRIOR * np.exp(-abs(off) / PRIOR_WIDTH)


@compiled_apart
def note_height(o: int, memory: Memory, height: float) -> None:
    """Learn from the height of a block, the season taken off."""
    floats = memory.floats[o]
    peak, short = floats[PEAK_LONG], floats[PEAK_SHORT]
    if memory.ints[o, PLANS] > 0:
        level, part = place_level(o, memory, peak)
        gap, beyond = place_gap(peak - short)
        level += 1 if part > 0.5 else 0
        gap += 1 if beyond > 0.5 else 0
        _notice_regime(o, memory, read_tail(o, memory, level * GAPS + gap, height - peak))
        seen_steps(o, memory)[level, gap, find_bin(height - peak)] += 1
        floats[PEAK_LONG] = max(height, peak - SLOW)
        floats[PEAK_SHORT] = max(height, short - FAST)
    elif floats[LOWEST] > floats[HIGHEST]:  # the first one
        floats[PEAK_LONG], floats[PEAK_SHORT] = height, height
    else:
        floats[PEAK_LONG] = max(height, peak - SLOW)
        floats[PEAK_SHORT] = max(height, short - FAST)
    floats[LOWEST] = min(floats[LOWEST], floats[PEAK_LONG])
    floats[HIGHEST] = max(floats[HIGHEST], floats[PEAK_LONG])


@compiled_apart
def _notice_regime(o: int, memory: Memory, tail: float) -> None:
    """Let what was learned fade when too much happens that was next to impossible."""
    floats = memory.floats[o]
    surprised = 1.0 if tail < RARE else 0.0
    floats[SURPRISE] += RARE_WEIGHT * (surprised - floats[SURPRISE])
    if floats[SURPRISE] <= TOO_OFTEN:
        return
    floats[SURPRISE] = 0.0
    for place in range(SEEN_STEPS, SEEN_STEPS + STATES * STEPS):
        memory.values[o, place] *= KEPT_OF_OLD_REGIME
    assume(o, memory)
    floats[DAY_DAY] *= KEPT_OF_OLD_REGIME
    floats[DAY_WEEK] *= KEPT_OF_OLD_REGIME
    floats[WEEK_WEEK] *= KEPT_OF_OLD_REGIME
    floats[DAY_CHANGE] *= KEPT_OF_OLD_REGIME
    floats[WEEK_CHANGE] *= KEPT_OF_OLD_REGIME


@compiled_apart
def span_levels(o: int, memory: Memory) -> bool:
    """Let the levels span the peaks seen, with room above; return whether they were changed."""
    floats = memory.floats[o]
    low, high = floats[LOWEST] - 0.1, floats[HIGHEST] + 0.3
    first, step = floats[LEVEL_FROM], floats[LEVEL_STEP]
    if step > 0 and low >= first and high <= first + step * (LEVELS - 1) + 0.2:
        return False
    new_step = max((high - low) / (LEVELS - 1), 0.02)
    if step > 0:
        _move_histograms(o, memory, low, new_step)
    floats[LEVEL_FROM], floats[LEVEL_STEP] = low, new_step
    return True


@compiled_apart
def _move_histograms(o: int, memory: Memory, low: float, new_step: float) -> None:
    """Enter what was counted at the old levels at the nearest of the new ones."""
    first, step = memory.floats[o, LEVEL_FROM], memory.floats[o, LEVEL_STEP]
    seen = seen_steps(o, memory)
    sums = memory.values[o, SCRATCH : SCRATCH + STATES]
    for gap in range(GAPS):
        for place in range(STEPS):
            for level in range(LEVELS):
                sums[level] = 0.0
            for level in range(LEVELS):
                new = int((first + level * step - low) / new_step + 0.5)
                sums[min(max(new, 0), LEVELS - 1)] += seen[level, gap, place]
            for level in range(LEVELS):
                seen[level, gap, place] = sums[level]


@compiled_apart
def smooth(o: int, memory: Memory, blocks: int) -> None:
    """Fade the histograms for so many blocks, and make distributions of them, as tails."""
    seen, tail = seen_steps(o, memory), tails(o, memory)
    fade = FADE**blocks
    pooled = memory.values[o, SCRATCH : SCRATCH + STATES]
    for gap in range(GAPS):
        everything = 0.0
        for step in range(STEPS):
            pooled[step] = 0.0
            for level in range(LEVELS):
                seen[level, gap, step] *= fade
                pooled[step] += seen[level, gap, step]
            everything += pooled[step]
        for level in range(LEVELS):
            state = level * GAPS + gap
            tail[state, STEPS] = 0.0
            for step in range(STEPS - 1, -1, -1):
                weight = POOLED * pooled[step] / everything
                for other in range(max(level - 3, 0), min(level + 4, LEVELS)):
                    near = np.exp(-0.5 * (level - other) ** 2)
                    weight += near * seen[other, gap, step]
                tail[state, step] = tail[state, step + 1] + weight
            whole = tail[state, 0]
            for step in range(STEPS):
                tail[state, step] /= whole


@compiled_apart
def link_states(o: int, memory: Memory) -> None:
    """Work out which states follow which, and how likely, as a sparse matrix."""
    ints, values = memory.ints[o], memory.values[o]
    step_of_level = memory.floats[o, LEVEL_STEP]
    tail = tails(o, memory)
    row = values[SCRATCH : SCRATCH + STATES]
    for state in range(STATES):
        row[state] = 0.0
    used = 0
    for state in range(STATES):
        level, gap = state // GAPS, state % GAPS
        ints[LINK_FROM + state] = used
        for step in range(STEPS):
            probability = tail[state, step] - tail[state, step + 1]
            if probability < 1e-6:
                continue
            height = FIRST_BIN + (step + 0.5) * BIN
            peak = max(height, -SLOW)
            short = max(height, -gap_middle(gap) - FAST)
            position = min(max(level + peak / step_of_level, 0.0), LEVELS - 1.0001)
            new_level = int(position)
            up = position - new_level
            new_gap, beyond = place_gap(peak - short)
            at = new_level * GAPS + new_gap
            row[at] += probability * (1 - up) * (1 - beyond)
            row[at + 1] += probability * (1 - up) * beyond
            row[at + GAPS] += probability * up * (1 - beyond)
            row[at + GAPS + 1] += probability * up * beyond
        first, kept = used, 0.0
        for other in range(STATES):
            if row[other] > NEGLIGIBLE:
                ints[LINK_TO + used] = other
                values[LINK_WEIGHT + used] = row[other]
                kept += row[other]
                used += 1
            row[other] = 0.0
        for link in range(first, used):
            values[LINK_WEIGHT + link] /= kept
    ints[LINK_FROM + STATES] = used
