"""What the planner says of its choice: its forecast, what it weighed, or which rule it follows."""

from __future__ import annotations

import math

from weir_policies.kernels.explaining import explain_rule, explain_scores
from weir_policies.kernels.view import Memory, View
from weir_policies.model.cost import price_per_hour
from weir_policies.model.node_types import Deployment
from weir_policies.operator_manager.planner_books import is_planned
from weir_policies.operator_manager.planner_choice import (
    price_of_move,
    see_envelopes,
    value_off_menu,
)
from weir_policies.operator_manager.planner_fit import price_of_restart
from weir_policies.operator_manager.planner_memory import (
    ADVISERS,
    BLOCK,
    BOOK,
    FOLLOWED,
    KEPT,
    LONG,
    MISTRUSTED,
    PLAN,
    PLANS,
    RUNG_CAPACITY,
    RUNGS_USED,
    SEASON,
    rung_counts,
)
from weir_policies.operator_manager.planner_menu import find_rung, fits_pools
from weir_policies.operator_manager.planner_plan import (
    block_of_plan,
    probability_of_excess,
    value_of,
)
from weir_policies.operator_manager.planner_rules import need_of_brief, need_of_long
from weir_policies.operator_manager.wording import say_deployment, say_rate
from weir_policies.promise import Decision, Observation

LIKELY = 0.1
"""Probability with which the rate exceeds what it is said to reach."""


def explain(observation: Observation, target: Deployment, view: View, memory: Memory) -> Decision:
    """Return the decision in words."""
    if not is_planned(0, memory):
        return explain_rule(observation, target, _say_rule(view, memory) + _say_mistrust(memory))
    scores = _score(observation, view, memory)
    named = say_deployment(target, observation.model.node_types)
    price = price_per_hour(target, observation.model.node_types)
    peak, delay = forecast_peak(view, memory)
    ahead = delay * observation.interval
    reason = f"up to {say_rate(peak)} are expected within {_say_duration(ahead)}, and {named}"
    rung = find_rung(0, view, memory, view.target[0])
    if rung >= 0:
        carried = float(memory.values[0, RUNG_CAPACITY + rung])
        reason += f" carries {say_rate(carried)} for {price:.4g} per hour"
    else:
        reason += f" costs {price:.4g} per hour"
    here = observation.deployment
    restart = price_of_restart(0, view, memory)
    if target != here:
        saved = scores[here] - scores[target]
        reason += f"; to stay would be expected to cost {saved:.3g} more (a restart: {restart:.3g})"
    else:
        reason += f"; no other is worth a restart ({restart:.3g})"
    return explain_scores(observation, target, reason + _say_mistrust(memory), scores)


def _say_rule(view: View, memory: Memory) -> str:
    """Return which rule is followed instead of a plan, and why."""
    if memory.ints[0, FOLLOWED] == LONG:
        need = need_of_long(0, view, memory)
        rule = f"the largest rate of late with some room, {say_rate(need)}, must be carried"
    else:
        need = need_of_brief(0, view, memory)
        rule = f"the present rate with some room, {say_rate(need)}, must be carried"
    if memory.ints[0, PLANS] == 0:
        return f"there is no plan yet, and {rule}"
    books = memory.floats[0, BOOK : BOOK + ADVISERS]
    followed = books[memory.ints[0, FOLLOWED]]
    return (
        f"{rule}; on the rates of the last days this rule would have cost {followed:.3g}, and to "
        f"follow the plan {books[PLAN]:.3g}"
    )


def _say_mistrust(memory: Memory) -> str:
    if memory.ints[0, MISTRUSTED]:
        return "; response times leave the prediction, so a busy share of 70 % is the limit"
    return ""


def forecast_peak(view: View, memory: Memory) -> tuple[float, int]:
    """Return the highest rate to be expected, records/s, and in how many intervals.

    The course of the season is followed from what the next block exceeds one time in ten.
    """
    peak, short = see_envelopes(0, view, memory)
    low, high = short - 2.0, peak + 1.0
    for _ in range(30):
        middle = (low + high) / 2
        if probability_of_excess(0, memory, middle, peak, short) > LIKELY:
            low = middle
        else:
            high = middle
    first = block_of_plan(0, memory)
    season = memory.values[0, SEASON + first : SEASON + first + KEPT]
    ahead = int(season.argmax())
    return math.exp(high + float(season[ahead])), (ahead + 1) * int(memory.ints[0, BLOCK])


def _score(observation: Observation, view: View, memory: Memory) -> dict[Deployment, float]:
    """Return the expected cost of going to each rung, and of staying."""
    peak, short = see_envelopes(0, view, memory)
    here = find_rung(0, view, memory, view.counts[0])
    scores = {}
    for rung in range(int(memory.ints[0, RUNGS_USED])):
        counts = rung_counts(0, view, memory)[rung]
        if rung != here and not fits_pools(0, view, counts):
            continue
        deployment = Deployment(tuple(int(count) for count in counts))
        value = value_of(0, view, memory, rung, peak, short)
        scores[deployment] = value + price_of_move(0, view, memory, here, rung)
    if here < 0:
        scores[observation.deployment] = value_off_menu(0, view, memory, peak, short)
    if not fits_pools(0, view, view.counts[0]):
        scores[observation.deployment] = math.inf
    least = min(scores.values())
    return {deployment: score - least for deployment, score in scores.items()}


def _say_duration(seconds: float) -> str:
    """Return a duration such as `40 s`, `25 min` or `3.5 h`."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
