"""The planner's season before its first interval: what was usual while others watched.

The usual rates take the places of what the planner learns itself (`planner_season`), which moves
them on by the same averages: after a week of its own, two thirds of what it holds to be usual at a
time of day is its own. That the rate will follow them is put as evidence into the regression by
which the planner weighs its season, as much as `EVIDENCE` of its own: where the rate goes its own
way, that is outweighed as soon.

Hourly means stand for the highest rates of blocks, which are a little higher. Only differences
between times count, so that makes none.
"""

from __future__ import annotations

import numpy as np

from weir_policies.kernels.view import Memory
from weir_policies.model.arrays import Floats
from weir_policies.model.season import HOURS, Season
from weir_policies.operator_manager.planner_memory import (
    BEGAN,
    DAY,
    DAY_CHANGE,
    DAY_DAY,
    DAY_WEEK,
    DAYS_SEEN,
    LAG,
    USUAL_DAY,
    USUAL_WEEK,
    WEEK,
    WEEK_CHANGE,
    WEEK_WEEK,
    WEEKS_SEEN,
)

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
    # A few weeks do not tell all of what is special of a part of the week: see `planner_season`.
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
