"""How the rate moves from block to block, learned from all blocks so far.

A block is known by its height: the logarithm of its highest rate, less what the season explains.
The state after a block is two envelopes of the heights, one that falls slowly (`peak`) and one that
falls fast: where the rate has been of late, and where it is. The next state follows from the next
height alone, and of that the distribution is learned: a histogram of its difference from the peak,
for each level of the peak and each gap between the envelopes. Neighbouring levels help each other,
and all levels together stand in where little was seen. Old blocks fade.

When heights keep coming that were thought next to impossible, the regime has changed: what was
learned then counts a quarter.
"""

from __future__ import annotations

import numpy as np

from weir_policies.kernels.compiled import compiled, compiled_apart
from weir_policies.kernels.view import Memory
from weir_policies.operator_manager.planner_memory import (
    DAY_CHANGE,
    DAY_DAY,
    DAY_WEEK,
    GAPS,
    HIGHEST,
    LEVEL_FROM,
    LEVEL_STEP,
    LEVELS,
    LINK_FROM,
    LINK_TO,
    LINK_WEIGHT,
    LOWEST,
    PEAK_LONG,
    PEAK_SHORT,
    PLANS,
    SCRATCH,
    SEEN_STEPS,
    STATES,
    STEPS,
    SURPRISE,
    TAIL,
    WEEK_CHANGE,
    WEEK_WEEK,
    seen_steps,
    tails,
)

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
