"""Learns how the rate changes from block to block, and its season over day and week.

A block is known by its height: the logarithm of its highest rate, less what the season explains.
The state after a block is two envelopes of the heights, one that falls slowly (`peak`) and one that
falls fast: the recent rates, and the present one. The next state depends only on the next height,
whose distribution is learned: a histogram of its difference from the peak, for each level of the
peak and each gap between the envelopes. Neighbouring levels share data, and all levels together are
used where there is little. Old blocks decay.

If heights that were nearly impossible keep coming, the regime has changed: what was learned then
counts a quarter.

For the season, the logarithm of each block's highest rate is averaged per part of the day, and per
part of the week, with decay over weeks. How much of these usual changes to expect is regressed: the
observed changes over an hour on those of the day and the week. A rate without a season gets weights
near 0, and the planner forecasts only from the recent past.

Before its first interval, the planner can take the season from a longer history. It replaces what
the planner would learn itself (`note_block`), and the same averages then update it: after a week,
two thirds of the usual rate at a time of day is the planner's own. The regression also gets
evidence that the rate follows this season, as much as `EVIDENCE` of the planner's own; if the rate
does not, this is outweighed as fast.

Hourly means replace the highest rates of blocks, which are a little higher. Only differences
between times count, so this has no effect.
"""

from __future__ import annotations

import numpy as np

from weir_policies.kernels.compiled import compiled, compiled_apart
from weir_policies.kernels.view import View
from weir_policies.model.arrays import Floats
from weir_policies.model.season import HOURS, Season
from weir_policies.operator_manager.planner.state import (
    AHEAD,
    CELLS,
    DAY,
    GAPS,
    LAG,
    LEVELS,
    NEW_REGIME,
    STATES,
    STEPS,
    WEEK,
    PlannerMemory,
    Workspace,
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
def part_of_week(view: View, o: int, blocks_ahead: float, own: PlannerMemory) -> int:
    """Return the part of the week of a block, counted from the present moment."""
    seconds = blocks_ahead * own.block * view.seen[o].interval
    weeks = view.seen[o].time_of_week + seconds / SECONDS_PER_WEEK
    return min(int((weeks - np.floor(weeks)) * WEEK), WEEK - 1)


@compiled
def usual_of_week(own: PlannerMemory, part: int, usual_of_day: float) -> float:
    """Return by how much a part of the week usually differs from that part of the day, in logs."""
    seen = own.weeks_seen[part]
    if seen == 0:
        return 0.0
    # One week shows half of the truth, two show two thirds.
    return (own.usual_week[part] - usual_of_day) * seen / (seen + 1)


@compiled_apart
def note_block(o: int, view: View, own: PlannerMemory, height: float) -> None:
    """Learn from the block that just ended.

    Args:
        o: Row of the operator.
        view: Tells the time.
        own: The planner's.
        height: Logarithm of the highest rate in the block.
    """
    week = part_of_week(view, o, -0.5, own)
    day = week % DAY
    seconds = own.block * view.seen[o].interval
    if own.blocks == 0 and own.began > -np.inf:
        own.began = view.seen[o].time  # but where a season was known beforehand
    age = view.seen[o].time - own.began
    usual, special = height, 0.0
    known = own.days_seen[day] > 0 and age > SECONDS_PER_DAY - seconds
    if known:
        usual = own.usual_day[day]
        if age > SECONDS_PER_WEEK - seconds:
            special = usual_of_week(own, week, usual)
    slot = own.blocks % LAG
    lagged = own.blocks >= LAG
    if known and lagged and age > SECONDS_PER_DAY + LAG * seconds:
        rise = height - own.past_heights[slot]
        rise_of_day = usual - own.past_usual[slot]
        rise_of_week = special - own.past_special[slot]
        fade = 1 - min(seconds / (MEMORY * SECONDS_PER_DAY), 0.1)
        own.day_day = fade * own.day_day + rise_of_day**2
        own.day_week = fade * own.day_week + rise_of_day * rise_of_week
        own.week_week = fade * own.week_week + rise_of_week**2
        own.day_change = fade * own.day_change + rise_of_day * rise
        own.week_change = fade * own.week_change + rise_of_week * rise
    own.past_heights[slot], own.past_usual[slot] = height, usual
    own.past_special[slot] = special

    part = min(seconds * DAY / SECONDS_PER_DAY, 1.0)  # of the part of the day, one visit of it
    own.days_seen[day] += part
    own.weeks_seen[week] += part
    weight = max(FADES_PER_DAY * part, part / own.days_seen[day])
    own.usual_day[day] += weight * (height - own.usual_day[day])
    weight = max(FADES_PER_WEEK * part, part / own.weeks_seen[week])
    own.usual_week[week] += weight * (height - own.usual_week[week])


@compiled
def _weigh(own: PlannerMemory) -> None:
    """Solve the regression for the weights of day and week, each between 0 and 1."""
    day, week, both = own.day_day + RIDGE, own.week_week + RIDGE, own.day_week
    divisor = day * week - both * both
    of_day = (own.day_change * week - own.week_change * both) / divisor
    of_week = (own.week_change * day - own.day_change * both) / divisor
    own.day_weight = min(max(of_day, 0.0), 1.0)
    own.week_weight = min(max(of_week, 0.0), 1.0)


@compiled_apart
def _usual_height(own: PlannerMemory, week: int, mean: float) -> float:
    """Return the usual height of a part of the week above the mean, in logs."""
    height = 0.0
    for offset in range(-1, 2):  # smoothed over neighbours
        share = 0.5 if offset == 0 else 0.25
        part = (week + offset) % WEEK
        usual = mean
        if own.days_seen[part % DAY] > 0:
            usual = own.usual_day[part % DAY]
        special = usual_of_week(own, part, usual)
        height += share * (own.day_weight * (usual - mean) + own.week_weight * special)
    return height


@compiled_apart
def foresee(o: int, view: View, own: PlannerMemory) -> float:
    """Fill the season of the next blocks; return that of the one that just ended, in logs.

    Blocks are counted from the present moment. A plan that waits within a block takes its season up
    to nine intervals late (`_plan_delay` in policy.py).
    """
    _weigh(own)
    mean, parts = 0.0, 0
    for day in range(DAY):
        if own.days_seen[day] > 0:
            mean += own.usual_day[day]
            parts += 1
    mean /= max(parts, 1)
    for ahead in range(AHEAD):
        week = part_of_week(view, o, ahead + 0.5, own)
        own.season[ahead] = _usual_height(own, week, mean)
    own.last_season = _usual_height(own, part_of_week(view, o, -0.5, own), mean)
    return own.last_season


EVIDENCE = 2.0
"""Days of its own learning that the season counts for when it is weighed."""


def take_season(own: PlannerMemory, season: Season, *, floor: float) -> None:
    """Write a season into the memory of an operator that has not seen a block yet.

    Args:
        own: The planner's.
        season: What is usual; if unknown, nothing is written.
        floor: Logarithm of the rate below which all rates are the same.
    """
    heights = _spread_hours(season, floor)
    known = np.isfinite(heights)
    if not known.any():
        return
    by_day = heights.reshape(WEEK // DAY, DAY)
    days = np.isfinite(by_day).sum(axis=0)
    usual = np.where(days > 0, np.nansum(by_day, axis=0) / np.maximum(days, 1), np.nan)
    own.usual_day = np.nan_to_num(usual)
    own.days_seen = days * season.weeks
    own.usual_week = np.nan_to_num(heights)
    own.weeks_seen = known * season.weeks
    own.began = -np.inf  # there never was a first day that it had to learn from alone

    course = np.tile(usual, WEEK // DAY)
    # A few weeks do not tell all of what is special of a part of the week: see `note_block`.
    special = (heights - course) * season.weeks / (season.weeks + 1)
    of_day, of_week = course - np.roll(course, LAG), special - np.roll(special, LAG)
    told = np.isfinite(of_day) & np.isfinite(of_week)
    blocks = EVIDENCE * DAY * told.mean()
    of_day, of_week = of_day[told], of_week[told]
    if not told.any():
        return
    own.day_day = blocks * np.mean(of_day**2)
    own.day_week = blocks * np.mean(of_day * of_week)
    own.week_week = blocks * np.mean(of_week**2)
    # The changes that were seen are those that the day and the week together let expect.
    own.day_change = own.day_day + own.day_week
    own.week_change = own.day_week + own.week_week


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
    """Return the difference of the two envelopes for a class, in logs."""
    if gap == 0:
        return 0.0
    if gap == 1:
        return 0.06
    if gap == 2:
        return 0.15
    return 0.35 if gap == 3 else 0.8


@compiled
def place_gap(difference: float) -> tuple[int, float]:
    """Return the class below a difference of envelopes, and the fraction to the next one."""
    if difference <= 0:
        return 0, 0.0
    for gap in range(GAPS - 1):
        above = gap_middle(gap + 1)
        if difference < above:
            below = gap_middle(gap)
            return gap, (difference - below) / (above - below)
    return GAPS - 2, 1.0


@compiled
def place_level(own: PlannerMemory, peak: float) -> tuple[int, float]:
    """Return the level below a peak, and the fraction to the next one."""
    position = (peak - own.level_from) / own.level_step
    position = min(max(position, 0.0), LEVELS - 1.0001)
    level = int(position)
    return level, position - level


@compiled
def find_bin(step: float) -> int:
    """Return the bin of a difference in height."""
    return min(max(int((step - FIRST_BIN) / BIN), 0), STEPS - 1)


@compiled
def position_of(step: float) -> float:
    """Return where among the bins a difference in height is.

    Below the first bin, all is exceeded for certain, beyond the last one nothing is.
    """
    return min(max((step - FIRST_BIN) / BIN, 0.0), 1.0 * STEPS)


@compiled
def place_step(step: float) -> tuple[int, float]:
    """Return the bin of a difference in height, and the fraction to the next one."""
    position = position_of(step)
    place = min(int(position), STEPS - 1)
    return place, position - place


@compiled
def read_at(tails: Floats, state: int, place: int, part: float) -> float:
    """Return the probability of a bin, and of the next one for a part; see `place_step`."""
    return tails[state, place] * (1 - part) + tails[state, place + 1] * part


@compiled
def cell_of(level: int, gap: int, step: int) -> int:
    """Return the number of a bin of a histogram."""
    return (level * GAPS + gap) * STEPS + step


@compiled
def assume(own: PlannerMemory) -> None:
    """Add to the histograms what is assumed before anything was seen."""
    for level in range(LEVELS):
        own.assumed[level] += 1.0


@compiled
def scale_histograms(own: PlannerMemory, factor: float) -> None:
    """Multiply all histograms."""
    for level in range(LEVELS):
        own.assumed[level] *= factor
    for place in range(own.cells_used):
        own.cell_counts[place] *= factor


@compiled_apart
def _count(own: PlannerMemory, cell: int) -> None:
    """Count a block in a bin; if there are too many bins, the one of the lowest count goes."""
    least = 0
    for place in range(own.cells_used):
        if own.cells[place] == cell:
            own.cell_counts[place] += 1
            return
        if own.cell_counts[place] < own.cell_counts[least]:
            least = place
    place = least
    if own.cells_used < CELLS:
        place = own.cells_used
        own.cells_used += 1
    own.cells[place], own.cell_counts[place] = cell, 1.0


@compiled_apart
def _enter_notes(own: PlannerMemory) -> None:
    """Enter in the histograms what happened since the last plan."""
    for place in range(own.notes_used):
        if own.notes[place] == NEW_REGIME:
            scale_histograms(own, KEPT_OF_OLD_REGIME)
            assume(own)
        else:
            _count(own, own.notes[place])
    own.notes_used = 0


@compiled
def _note(own: PlannerMemory, note: int) -> None:
    own.notes[own.notes_used] = note
    own.notes_used += 1


@compiled_apart
def note_height(own: PlannerMemory, work: Workspace, height: float) -> None:
    """Learn from the height of a block, the season taken off."""
    peak, short = own.peak_long, own.peak_short
    if own.plans > 0:
        level, part = place_level(own, peak)
        gap, beyond = place_gap(peak - short)
        remake_tails(own, work, level * GAPS + gap)
        level += 1 if part > 0.5 else 0
        gap += 1 if beyond > 0.5 else 0
        place, part = place_step(height - peak)
        _notice_regime(own, read_at(work.tails, level * GAPS + gap, place, part))
        _note(own, cell_of(level, gap, find_bin(height - peak)))
        own.peak_long = max(height, peak - SLOW)
        own.peak_short = max(height, short - FAST)
    elif own.lowest > own.highest:  # the first one
        own.peak_long, own.peak_short = height, height
    else:
        own.peak_long = max(height, peak - SLOW)
        own.peak_short = max(height, short - FAST)
    own.lowest = min(own.lowest, own.peak_long)
    own.highest = max(own.highest, own.peak_long)


@compiled_apart
def _notice_regime(own: PlannerMemory, tail: float) -> None:
    """Reduce the weight of what was learned when too many nearly impossible events happen."""
    surprised = 1.0 if tail < RARE else 0.0
    own.surprise += RARE_WEIGHT * (surprised - own.surprise)
    if own.surprise <= TOO_OFTEN:
        return
    own.surprise = 0.0
    _note(own, NEW_REGIME)
    own.day_day *= KEPT_OF_OLD_REGIME
    own.day_week *= KEPT_OF_OLD_REGIME
    own.week_week *= KEPT_OF_OLD_REGIME
    own.day_change *= KEPT_OF_OLD_REGIME
    own.week_change *= KEPT_OF_OLD_REGIME


@compiled_apart
def span_levels(own: PlannerMemory, work: Workspace) -> bool:
    """Extend the levels to the measured peaks, with room above; return whether they changed."""
    low, high = own.lowest - 0.1, own.highest + 0.3
    first, step = own.level_from, own.level_step
    if step > 0 and low >= first and high <= first + step * (LEVELS - 1) + 0.2:
        return False
    new_step = max((high - low) / (LEVELS - 1), 0.02)
    if step > 0:
        _enter_notes(own)
        _move_histograms(own, work, low, new_step)
    own.level_from, own.level_step = low, new_step
    return True


@compiled_apart
def _move_histograms(own: PlannerMemory, work: Workspace, low: float, new_step: float) -> None:
    """Enter what was counted at the old levels at the nearest of the new ones."""
    assumed, seen = work.sums, work.seen_steps
    for level in range(LEVELS):
        assumed[level] = 0.0
        for gap in range(GAPS):
            for step in range(STEPS):
                seen[level, gap, step] = 0.0
    for level in range(LEVELS):
        assumed[_move_level(own, level, low, new_step)] += own.assumed[level]
    for place in range(own.cells_used):
        state, step = own.cells[place] // STEPS, own.cells[place] % STEPS
        level = _move_level(own, state // GAPS, low, new_step)
        seen[level, state % GAPS, step] += own.cell_counts[place]
    own.cells_used = 0
    for level in range(LEVELS):
        own.assumed[level] = assumed[level]
        for gap in range(GAPS):
            for step in range(STEPS):
                if seen[level, gap, step] > 0:
                    own.cells[own.cells_used] = cell_of(level, gap, step)
                    own.cell_counts[own.cells_used] = seen[level, gap, step]
                    own.cells_used += 1


@compiled
def _move_level(own: PlannerMemory, level: int, low: float, new_step: float) -> int:
    new = int((own.level_from + level * own.level_step - low) / new_step + 0.5)
    return min(max(new, 0), LEVELS - 1)


@compiled_apart
def smooth(own: PlannerMemory, work: Workspace, blocks: int) -> None:
    """Fade the histograms for so many blocks, and make distributions of them, as tails."""
    _enter_notes(own)
    scale_histograms(own, FADE**blocks)
    make_tails(own, work)


@compiled_apart
def make_tails(own: PlannerMemory, work: Workspace) -> None:
    """Make distributions of all histograms, as tails."""
    _fill_histograms(own, work)
    for gap in range(GAPS):
        _pool_levels(work, gap)
        for level in range(LEVELS):
            _make_tail(work, level, gap)


@compiled_apart
def remake_tails(own: PlannerMemory, work: Workspace, state: int) -> None:
    """Make the tails of a state and of those above it again, where others have worked."""
    if work.shared == 0:
        return
    _fill_histograms(own, work)
    level, gap = state // GAPS, state % GAPS
    for other in range(gap, gap + 2):
        _pool_levels(work, other)
        _make_tail(work, level, other)
        _make_tail(work, level + 1, other)


@compiled_apart
def _fill_histograms(own: PlannerMemory, work: Workspace) -> None:
    prior, seen = work.prior, work.seen_steps
    for gap in range(GAPS):
        for step in range(STEPS):
            off = FIRST_BIN + (step + 0.5) * BIN + gap_middle(gap)
            prior[gap, step] = PRIOR * np.exp(-abs(off) / PRIOR_WIDTH)
    for level in range(LEVELS):
        for gap in range(GAPS):
            for step in range(STEPS):
                seen[level, gap, step] = own.assumed[level] * prior[gap, step]
    for place in range(own.cells_used):
        state, step = own.cells[place] // STEPS, own.cells[place] % STEPS
        seen[state // GAPS, state % GAPS, step] += own.cell_counts[place]


@compiled_apart
def _pool_levels(work: Workspace, gap: int) -> None:
    seen, pooled = work.seen_steps, work.sums
    for step in range(STEPS):
        pooled[step] = 0.0
    for level in range(LEVELS):
        for step in range(STEPS):
            pooled[step] += seen[level, gap, step]
    everything = 0.0
    for step in range(STEPS):
        everything += pooled[step]
    for step in range(STEPS):
        pooled[step] = POOLED * pooled[step] / everything


@compiled_apart
def _make_tail(work: Workspace, level: int, gap: int) -> None:
    """Make a distribution of what was seen near a level, as a tail."""
    seen, row = work.seen_steps, work.tails[level * GAPS + gap]
    row[STEPS] = 0.0
    for step in range(STEPS):
        row[step] = work.sums[step]
    for other in range(max(level - 3, 0), min(level + 4, LEVELS)):
        near = np.exp(-0.5 * (level - other) ** 2)
        for step in range(STEPS):
            row[step] += near * seen[other, gap, step]
    for step in range(STEPS - 1, -1, -1):
        row[step] += row[step + 1]
    whole = row[0]
    for step in range(STEPS):
        row[step] /= whole


@compiled_apart
def link_states(own: PlannerMemory, work: Workspace) -> None:
    """Work out which states follow which, and how likely, as a sparse matrix."""
    step_of_level = own.level_step
    tail = work.tails
    row = work.sums
    for state in range(STATES):
        row[state] = 0.0
    used = 0
    for state in range(STATES):
        level, gap = state // GAPS, state % GAPS
        work.link_from[state] = used
        lowest, highest = STATES, -1
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
            lowest, highest = min(lowest, at), max(highest, at + GAPS + 1)
            row[at] += probability * (1 - up) * (1 - beyond)
            row[at + 1] += probability * (1 - up) * beyond
            row[at + GAPS] += probability * up * (1 - beyond)
            row[at + GAPS + 1] += probability * up * beyond
        first, kept = used, 0.0
        for other in range(lowest, highest + 1):
            if row[other] > NEGLIGIBLE:
                work.link_to[used] = other
                work.link_weight[used] = row[other]
                kept += row[other]
                used += 1
            row[other] = 0.0
        for link in range(first, used):
            work.link_weight[link] /= kept
    work.link_from[STATES] = used
