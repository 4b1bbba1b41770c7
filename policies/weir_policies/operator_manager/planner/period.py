"""A rate that repeats within half a day: its period is found, and one period is planned.

The season (`rate`) knows the course of a day in parts of ten minutes. Batches every hour need other
periods, and every interval counts. So, for every lag, the mean squared difference of the rate's
logarithm from that so many intervals earlier is kept. The period is the first lag at which it is a
local minimum, and far below its mean over all shorter lags. Noise, jumps and slow courses have no
such lag: for them, differences do not fall with the lag. Multiples of the period make it exact to a
fraction of an interval.

What is expected after an interval is what came after the same moment of up to `PERIODS` periods
before, each moved to the present level. Each of them is as likely as the others, give or take how
much the rate usually differs from that of a period ago. A dynamic program over one period, repeated
`ROUNDS` times, says what each point will cost from each interval on (see `plan`).

Source: A. de Cheveigné, H. Kawahara, "YIN, a fundamental frequency estimator for speech and music",
JASA 2002, steps 2 to 4.
Departures from it:
1. Differences decay instead of having a window.
2. The period must have been seen three times.
3. Multiples of the period are used instead of a parabola.
"""

from __future__ import annotations

import math

import numpy as np

from weir_policies.kernels.compiled import compiled, compiled_apart
from weir_policies.kernels.prediction import price_of
from weir_policies.kernels.view import View
from weir_policies.model.arrays import Floats
from weir_policies.operator_manager.planner.candidates import keeps_limits, price_of_restart
from weir_policies.operator_manager.planner.plan import (
    allow_moves,
    carried_by,
    choose_cheapest,
    find_near,
    is_grouped,
    price_of_move,
    rate_to_carry,
)
from weir_policies.operator_manager.planner.state import (
    HISTORY,
    LAGS,
    LONGEST_CHANGE,
    PERIOD_ROWS,
    PERIODS,
    PlannerMemory,
    Workspace,
)

FADE = 1 - 1 / HISTORY
"""Part of what is known of differences that is left after an interval."""
SHORTEST = 5
"""Intervals of a period at least: a shorter one leaves no time for a change."""
SIMILAR = 0.4
"""Part of the usual squared difference that is left after a period at most."""
SEEN = 2.0
"""Periods that all differences of a lag must have come from: then the third one has ended. As they
decay, a period near the longest must have been seen almost four times."""
ROUNDS = 3
"""Periods that a plan looks ahead, one after the other with the same costs."""
NEAR = 15
"""Intervals from which the present level comes at most; of shorter periods, the last fourth."""
MOST_OFF = 0.15
"""By how much an interval moves the level at most, in logs."""
STEPS_TO_LEVEL = 3
"""Steps in which a level is estimated, each from the one before."""
LEAST_SPREAD = 0.01
"""Standard deviation of the expected rate at least, in logs."""
PER_DEVIATION = 1.25
"""Standard deviation of a normal distribution, divided by its mean absolute deviation."""
MADE_AGAIN = 10
"""Intervals after which the plan is made again; an eighth of the period where that is more."""


@compiled
def height_ago(own: PlannerMemory, intervals: int) -> float:
    """Return the logarithm of the rate so many intervals ago."""
    return own.recent_heights[(own.slots - 1 - intervals) % HISTORY]


@compiled_apart
def note_interval(own: PlannerMemory, height: float, time: float, interval: float) -> None:
    """Enter the rate of an interval; what was not measured is taken to be as before.

    Args:
        own: The planner's.
        height: Logarithm of the rate.
        time: Seconds at its end.
        interval: Its length, s.
    """
    if own.slot_length == 0:
        own.slot_length = interval
    if own.slot_length <= 0:
        return
    missed = int((time - own.slot_time) / own.slot_length + 0.5) - 1 if own.slots > 0 else 0
    if missed < 0:  # shorter intervals: the highest rate counts
        last = (own.slots - 1) % HISTORY
        own.recent_heights[last] = max(own.recent_heights[last], height)
        return
    own.slot_time = time
    if missed > LAGS:  # begin anew
        own.slots, missed = 0, 0
        own.period = 0.0
        for lag in range(LAGS + 1):
            own.differences[lag], own.seen_since[lag] = 0.0, 0.0
    before = height_ago(own, 0) if own.slots > 0 else height
    for back in range(missed, -1, -1):
        _enter(own, height if back == 0 else before)


@compiled
def _enter(own: PlannerMemory, height: float) -> None:
    """Update the differences by an interval."""
    past = own.recent_heights
    place = own.slots % HISTORY
    past[place] = height
    own.slots += 1
    known = min(LAGS, own.slots - 1)
    near = min(known, place)  # lags of what stands before it; the rest stands at the other end
    _add_squares(own.differences[1 : near + 1], past[place - near : place], height)
    far = past[HISTORY + place - known : HISTORY + place - near]
    _add_squares(own.differences[near + 1 : known + 1], far, height)
    seen = own.seen_since
    before = seen[(own.slots - 1) % seen.size]
    seen[own.slots % seen.size] = FADE * before + 1 if known > 0 else 0.0


@compiled
def differences_seen(own: PlannerMemory, lag: int) -> float:
    """Return how many differences of a lag are known: of the first one so many intervals before."""
    return own.seen_since[(own.slots + 1 - lag) % own.seen_since.size]


@compiled
def _add_squares(differences: Floats, past: Floats, height: float) -> None:
    """Let sums of squared differences decay, and add those from the past, its newest last."""
    lags = np.uint64(differences.size)
    for lag in range(lags):
        difference = height - past[lags - np.uint64(1) - lag]
        differences[lag] = FADE * differences[lag] + difference * difference


@compiled
def difference_at(own: PlannerMemory, lag: int) -> float:
    """Return the mean squared difference over a lag, `inf` where it was not seen often enough."""
    seen = differences_seen(own, lag)
    if lag > LAGS or seen < min(SEEN * lag, 0.6 * HISTORY):
        return np.inf
    return own.differences[lag] / seen


@compiled_apart
def find_period(own: PlannerMemory) -> float:
    """Return the period in intervals, 0 where the rate has none."""
    total = 0.0
    found, least = 0, np.inf
    for lag in range(1, LAGS):
        difference = difference_at(own, lag)
        if difference == np.inf:
            break
        total += difference
        if found > 0 and (difference >= least or lag > 1.5 * found):
            break
        if lag >= SHORTEST and difference < least and difference < SIMILAR * total / lag:
            found, least = lag, difference
    following = difference_at(own, found + 1)
    if found == 0 or following < least or following == np.inf:
        return 0.0
    period = float(found)
    for times in range(2, LAGS // found + 1):
        near, least = 0, np.inf
        middle = int(times * period + 0.5)
        for lag in range(middle - 1, middle + 2):
            difference = difference_at(own, lag)
            if difference < least:
                near, least = lag, difference
        if near == 0:
            break
        period = near / times
    return period


@compiled
def length_of_period(own: PlannerMemory) -> int:
    """Return the period in whole intervals."""
    return int(own.period + 0.5)


@compiled
def _ago(own: PlannerMemory, back: int, ahead: int) -> int:
    """Return how many intervals ago it was `ahead` intervals ahead, `back` periods ago."""
    return int(back * own.period + 0.5) - ahead


@compiled
def _limit(error: float) -> float:
    """Return an error, limited: what came earlier or later than usual does not move the level."""
    return min(max(error, -MOST_OFF), MOST_OFF)


@compiled
def _level_since(own: PlannerMemory, back: int) -> float:
    """Return by how much the last period is above an earlier one, in logs: Huber's estimate."""
    length = length_of_period(own)
    level = 0.0
    for _ in range(STEPS_TO_LEVEL):
        off = 0.0
        for ago in range(length):
            rise = height_ago(own, ago) - height_ago(own, _ago(own, back, -ago))
            off += _limit(rise - level)
        level += off / length
    return level


@compiled
def _height_at_level(own: PlannerMemory, ago: int, periods: int) -> float:
    """Return a height moved to the level of the last period.

    Levels are those of the middles of periods, and change evenly between them.
    """
    position = max(ago / own.period - 0.5, 0.0)
    back = min(int(position), periods - 2)
    part = min(position - back, 1.0)
    rise = own.period_shift[back] * (1 - part) + own.period_shift[back + 1] * part
    return height_ago(own, ago) + rise


@compiled_apart
def _find_levels(own: PlannerMemory) -> int:
    """Work out how much higher the present level is than each earlier one, and the spread.

    Returns how many periods are known.
    """
    length = length_of_period(own)
    periods = min(int(min(own.slots, HISTORY) / own.period), PERIODS)
    for back in range(periods):
        own.period_shift[back] = _level_since(own, back) if back > 0 else 0.0
    off, deviation, near = 0.0, 0.0, min(max(length // 4, 1), NEAR)
    for ago in range(length):
        expected = 0.0
        for back in range(1, periods):
            expected += _height_at_level(own, _ago(own, back, -ago), periods)
        error = _height_at_level(own, ago, periods) - expected / (periods - 1)
        error = _limit(error)
        deviation += abs(error)
        if ago < near:
            off += error
    own.period_spread = max(PER_DEVIATION * deviation / length, LEAST_SPREAD)
    own.period_level = off / near
    return periods


@compiled_apart
def plan_period(o: int, view: View, own: PlannerMemory, floor: float) -> None:
    """Plan one period from now on.

    Args:
        o: Row of the operator.
        view: Its model.
        own: The planner's; the front is up to date.
        floor: Height below which all rates are the same.
    """
    periods = _find_levels(own)
    length, used = length_of_period(own), own.front_used
    work = Workspace(view.workspace[o])
    costs, row = work.period_costs, work.of_point
    model = view.model[o]
    deviation = own.period_spread * math.sqrt(2.0)
    for ahead in range(1, length + 1):
        for point in range(used):
            costs[ahead - 1, point] = (
                model.weight_resources * own.point_price[point] / model.top_cost
            )
        for back in range(1, periods + 1):
            usual = _height_at_level(own, _ago(own, back, ahead), periods)
            height = max(usual + own.period_level, floor)
            for point in range(used):
                above = (own.point_height[point] - height) / deviation
                likely = 0.5 * math.erfc(above) / periods
                costs[ahead - 1, point] += model.weight_violation * likely
    grouped, restart = is_grouped(own), price_of_restart(o, view, own)
    for point in range(used):
        row[point] = 0.0
    for _ in range(ROUNDS):
        for ahead in range(length - 1, -1, -1):
            for point in range(used):
                row[point] += costs[ahead, point]
            if ahead < PERIOD_ROWS:
                for point in range(used):
                    own.period_costs[ahead * used + point] = costs[ahead, point]
                    own.period_values[ahead * used + point] = row[point]
            allow_moves(o, view, own, row, grouped, restart)
    own.period_planned_at = own.slots


@compiled
def is_period_plan_due(own: PlannerMemory) -> bool:
    """Return whether there is a period and its plan is old."""
    age = own.slots - own.period_planned_at
    return own.period > 0 and age >= max(length_of_period(own) // 8, MADE_AGAIN)


NEWEST = 0.3
"""Weight of the last change in how long one takes."""


@compiled
def note_change(o: int, view: View, own: PlannerMemory) -> None:
    """Learn how many intervals after a decision replicas are there; in the next one is 1.

    What was asked for and not carried out is asked for again.
    """
    asked, joined = False, False
    for place in range(view.counts.shape[1]):
        asked = asked or view.proposed[o, place] > view.counts_before[o, place]
        joined = joined or view.counts[o, place] > view.counts_before[o, place]
    if asked:
        own.asked_at = own.slots
    takes = own.slots - own.asked_at + 1
    if joined and own.asked_at >= 0 and takes <= LONGEST_CHANGE:
        own.change_takes += NEWEST * (takes - own.change_takes)
        own.asked_at = -1


@compiled
def _find_next(own: PlannerMemory, row: int, here: int, restart: float) -> int:
    """Return the point to be at in an interval ahead, from another one before."""
    values = own.period_values[row * own.front_used : (row + 1) * own.front_used]
    best, least = here, values[here]
    for point in range(own.front_used):
        value = values[point]
        value += 0.0 if own.group[point] == own.group[here] else restart
        if value < least - 1e-12:
            best, least = point, value
    return best


@compiled_apart
def _find_soon(o: int, view: View, own: PlannerMemory, row: int, here: int) -> int:
    """Return the point to be at as soon as replicas that are asked for now can be there."""
    length, point = length_of_period(own), here
    restart = price_of_restart(o, view, own)
    for ahead in range(min(int(own.change_takes + 0.5), length // 2)):
        point = _find_next(own, (row + ahead) % length, point, restart)
    return point


@compiled
def _value_off_front(o: int, view: View, own: PlannerMemory, row: int) -> float:
    """Return what staying at a present deployment that is no point is expected to cost.

    In the next interval, it exceeds as often as the point that carries nearly as much. Then it is
    left for a point; or it is as good as that one, but dearer for as long as the plan looks ahead.
    """
    model, near, afterwards = view.model[o], find_near(own), np.inf
    begin, end = row * own.front_used, (row + 1) * own.front_used
    values, costs = own.period_values[begin:end], own.period_costs[begin:end]
    for point in range(own.front_used):
        left = price_of_move(o, view, own, -1, point)
        afterwards = min(afterwards, left + values[point] - costs[point])
    per_price = model.weight_resources / model.top_cost
    price = price_of(o, view, view.counts[o])
    if near < 0:
        return model.weight_violation + price * per_price + afterwards
    dearer = (price - own.point_price[near]) * per_price
    if model.one_step == 0:
        more = ROUNDS * length_of_period(own) * max(dearer, 0.0)
        afterwards = min(afterwards, values[near] - costs[near] + more)
    return costs[near] + dearer + afterwards


@compiled_apart
def choose_in_period(o: int, view: View, own: PlannerMemory, here: int) -> int:
    """Return the point to be at, by the values of the period's plan; -1 to stay off the front.

    Replicas that take some intervals are asked for so much earlier.
    """
    need = rate_to_carry(o, view, own)
    row = (own.slots - own.period_planned_at) % length_of_period(own)
    if here >= 0 and view.model[o].one_step == 0 and own.change_takes >= 1.5:
        soon = _find_soon(o, view, own, row, here)
        carries = own.point_capacity[soon]
        larger = carries > own.point_capacity[here] and carries >= need
        if larger and keeps_limits(o, view, own.points[soon]):
            return soon
    values = own.period_values[row * own.front_used : (row + 1) * own.front_used]
    staying = values[here] if here >= 0 else _value_off_front(o, view, own, row)
    if carried_by(own, here) < need:
        staying += view.model[o].weight_violation
    return choose_cheapest(o, view, own, here, staying, values)
