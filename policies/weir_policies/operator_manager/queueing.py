"""The cheapest deployment whose predicted response time meets the budget, reached in one step.

The queueing model predicts every deployment at the planned rate (the measured one plus headroom). A
deployment *fits* if it meets the budget, and if no replica would be busier than a cap while the
backlog is worked off. Then:

1. The present deployment does not fit: go to the cheapest that does, at once. If that takes a
   restart, it must also fit with a margin for growth, if any deployment does.
2. It fits, but a cheaper one does too, and would have at the highest rate of the last intervals
   plus a margin: go there, unless the operator is saturated or late, or the rate rises.
3. Nothing fits: take the lowest response time, or the most capacity if capacity is missing.
4. Otherwise stay.

A change of sizes needs no restart. So a deployment that needs one must be cheaper by
`minimum_saving` than the best that does not. Differences between the directions are hysteresis: a
need is judged at the planned rate, a saving at a higher one.

The policy remembers the rates and the backlog of the last intervals, and draws no random numbers.
It is Weir's own; its model is in `model/queueing.py`. `find_case` chooses; `tabulate` and `explain`
put the choice into words.

Deployments are enumerated one by one (`kernels.enumeration`) and judged only as far as they could
still win: one that costs too much, or has less speed than the load needs with any sharing, is never
predicted. To explain a decision, `tabulate` judges all deployments with the same functions. Only
the expectation of a candidate is predicted at the measured rate and not at the planned one, so that
it can be compared with the result.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from weir_policies.kernels.bounds import keeps_bounds
from weir_policies.kernels.compiled import compiled, compiled_apart, pasted
from weir_policies.kernels.enumeration import (
    END,
    FIRST,
    count_near,
    is_allowed,
    list_rows,
    most_alone,
    most_kinds,
    needs_restart,
    next_deployment,
    next_nearby,
    price_evenly,
)
from weir_policies.kernels.expectation import expect_all
from weir_policies.kernels.fields import Fields, array
from weir_policies.kernels.percentiles import normal_quantile, predict_percentile
from weir_policies.kernels.policy import Algorithm
from weir_policies.kernels.prediction import predict_one
from weir_policies.kernels.steps import total
from weir_policies.kernels.view import EQUAL, Memory, View
from weir_policies.kernels.wording import (
    format_deployment,
    format_rate,
    format_share,
    format_time,
    urgency_of_need,
    urgency_of_saving,
)
from weir_policies.model.arrays import Counts, Floats
from weir_policies.model.cost import price_per_hour
from weir_policies.model.deployments import COMPLETE_UP_TO
from weir_policies.model.node_types import Deployment
from weir_policies.model.queueing import min_response_time
from weir_policies.parameters import read_parameters, refuse_outside
from weir_policies.policy import Candidate, Decision, Expectation, Observation

AS_GOOD = 0.05
"""Where nothing fits: what is within this part of the best scores the same; the cheapest wins."""
MEAN = 0.0
"""Stands for a percentile where the mean is judged."""

# Which of the policy's rules decided. KEEP: the present deployment fits and nothing is worth a
# change. SAVE: something cheaper fits too. NEED: it does not fit, something else does; LASTING:
# with a margin of growth where it takes a restart. Nothing: keeps the budget (TOO_SLOW), has the
# capacity, though it keeps the budget (TOO_BUSY) or does not (TOO_SMALL).
KEEP, SAVE, NEED, LASTING, TOO_SLOW, TOO_BUSY, TOO_SMALL = range(7)

# Columns of what is found out of each deployment for the explanation, see `Judged`.
PRICE, TIME, BUSY, SCORE, FAILS_AT_PEAK, TOO_LITTLE, RESTARTS = range(7)
FOUND = 7


class Plan(NamedTuple):
    """What the deployments are judged by."""

    rate: float
    """Records/s planned for."""
    catching_up: float
    """Records/s that must be carried while the backlog is worked off."""
    peak: float
    """Records/s that a cheaper deployment must carry."""
    lasting: float
    """Records/s that a deployment must carry to be worth a restart that is needed."""
    budget: float
    quantile: float
    """Percentile that must keep the budget; `MEAN`."""
    normal: float
    """The same percentile of a standard normal law."""
    cap: float
    """Busy share that no replica may exceed."""
    saving: float
    """Part of the cost that a restart must save over the best that needs none."""
    strained: bool
    """The operator must not get less capacity, whatever the model says."""
    obstructed: bool
    """Nothing cheaper is considered while the present deployment fits."""


@compiled_apart
def judge(o: int, view: View, plan: Plan, counts: Counts, rate: float) -> tuple[float, float]:
    """Return the response time that must keep the budget, and the busiest replica's utilisation."""
    if plan.quantile == MEAN:
        return predict_one(o, view, counts, rate)
    return predict_percentile(o, view, counts, rate, plan.quantile, plan.normal)


@compiled
def judge_now(o: int, view: View, plan: Plan, counts: Counts) -> tuple[float, float]:
    """Return the response time at the planned rate, and utilisation while catching up."""
    time, busy = judge(o, view, plan, counts, plan.rate)
    if plan.catching_up > plan.rate:
        _, busy = judge(o, view, plan, counts, plan.catching_up)
    return time, busy


@compiled
def fits_at(o: int, view: View, plan: Plan, counts: Counts, rate: float) -> bool:
    """Return whether a deployment keeps the budget and the cap at a rate."""
    time, busy = judge(o, view, plan, counts, rate)
    return time <= plan.budget and busy <= plan.cap


@compiled
def least_busy(o: int, view: View, counts: Counts, rate: float) -> float:
    """Return what the busiest replica's utilisation cannot be below, without a prediction."""
    size, speed, slowest = 0, 0.0, np.inf
    for place in range(counts.size):
        if counts[place] > 0:
            size += counts[place]
            speed += counts[place] * view.speedup[o, place]
            slowest = min(slowest, view.speedup[o, place])
    if view.model[o].sharing == EQUAL:
        speed = size * slowest
    return rate * view.model[o].service_mean / speed * (1 - 1e-12)


@compiled
def most_speed(o: int, view: View) -> float:
    """Return the sum of speedups that no deployment exceeds."""
    fastest = 0.0
    for place in range(view.counts.shape[1]):
        fastest = max(fastest, view.speedup[o, place])
    return fastest * view.model[o].max_replicas


@compiled
def least_price(o: int, view: View, plan: Plan, rate: float) -> float:
    """Return a price below which nothing has the speed for a rate within the cap."""
    cheapest = np.inf
    for place in range(view.counts.shape[1]):
        cheapest = min(cheapest, view.price[o, place] / view.speedup[o, place])
    speed = rate * view.model[o].service_mean / plan.cap * (1 - 1e-9)
    return np.inf if speed > most_speed(o, view) else speed * cheapest


@compiled
def can_resize(o: int, view: View) -> bool:
    """Return whether any replica could have another size without a restart."""
    for place in range(view.counts.shape[1]):
        for other in range(view.counts.shape[1]):
            shared = other != place and view.pool[o, other] == view.pool[o, place]
            if shared and view.counts[o, place] > 0:
                return True
    return False


@compiled
def is_too_little(o: int, view: View, plan: Plan, counts: Counts) -> bool:
    """Return whether a deployment has less capacity than the present one of a strained operator.

    A present deployment that breaks a limit must go, even if what is allowed is less.
    """
    if not plan.strained or not is_allowed(o, view, view.counts[o]):
        return False
    more = 1e-9
    for place in range(counts.size):
        more += (counts[place] - view.counts[o, place]) * view.speedup[o, place]
    return more < 0


@compiled_apart
def score_price(
    o: int, view: View, plan: Plan, case: int, counts: Counts, least: float
) -> tuple[float, float]:
    """Return the score of a deployment where some fit, and its response time; `inf` if ruled out.

    The score is the price; with a restart raised, so that it must save `Plan.saving`.

    Args:
        o: Row of the operator.
        view: What is known of it.
        plan: What deployments are judged by.
        case: Rule to judge by: `SAVE`, `KEEP`, `NEED` or `LASTING`.
        counts: The deployment, `(t,)`.
        least: A score to beat or to equal; what cannot counts as ruled out.
    """
    score = score_unpredicted(o, view, plan, case, counts, least)
    if score == np.inf:
        return np.inf, np.inf
    time, busy = judge_now(o, view, plan, counts)
    if time > plan.budget or busy > plan.cap or not lasts(o, view, plan, case, counts):
        return np.inf, np.inf
    return score, time


@compiled
def score_unpredicted(
    o: int, view: View, plan: Plan, case: int, counts: Counts, least: float
) -> float:
    """Return the score of `score_price`, `inf` where it takes no prediction to rule it out."""
    if not keeps_bounds(o, view, counts):
        return np.inf
    price = price_evenly(o, view, counts)
    score = price / (1 - plan.saving) if needs_restart(o, view, counts) else price
    if score > least:
        return np.inf
    saves = case <= SAVE and price < price_evenly(o, view, view.counts[o])
    rate = max(plan.rate, plan.catching_up)
    if saves:
        rate = max(rate, plan.peak)
    if (saves and plan.obstructed) or least_busy(o, view, counts, rate) > plan.cap:
        return np.inf
    if case > SAVE and is_too_little(o, view, plan, counts):
        return np.inf
    return score


@compiled
def lasts(o: int, view: View, plan: Plan, case: int, counts: Counts) -> bool:
    """Return whether a deployment that fits now also fits at the higher rate, if one matters."""
    if case <= SAVE and price_evenly(o, view, counts) < price_evenly(o, view, view.counts[o]):
        return fits_at(o, view, plan, counts, plan.peak)
    if case == LASTING and needs_restart(o, view, counts):
        return fits_at(o, view, plan, counts, plan.lasting)
    return True


@compiled_apart
def search_price(
    o: int, view: View, plan: Plan, case: int, row: Counts, least: float, time: float
) -> float:
    """Write the deployment of the least score where some fit; return that score.

    Args:
        o: Row of the operator.
        view: What is known of it; its target is left alone where nothing is better.
        plan: What deployments are judged by.
        case: Rule to judge by.
        row: Zeros, and zeros again in the end, `(t,)`.
        least: The score to beat.
        time: The response time with which it was reached; of equals the faster wins.
    """
    kinds, types = most_kinds(o, view), row.size
    rate = max(plan.rate, plan.catching_up)
    floor = least_price(o, view, plan, max(rate, plan.peak) if case == SAVE else rate)
    if not can_resize(o, view):
        floor /= 1 - plan.saving
    if floor == np.inf:
        return least
    # Of one node type first: dear mixes need not be looked at then.
    for last in range(types):
        place = types - 1 - last
        if floor > least:
            break
        row[place] = 1
        if price_evenly(o, view, row) <= least:
            count = fewest_that_fit(o, view, plan, case, row, place)
            # The present number may win with fewer demands, because it takes no restart.
            for each in (min(count, total(view.counts[o])), max(count, total(view.counts[o]))):
                row[place] = each
                if 1 <= each <= most_alone(o, view, place):
                    score, takes = score_price(o, view, plan, case, row, least)
                    if score < least or (score == least and takes < time):
                        least, time = score, takes
                        write_target(o, view, row)
        row[place] = 0
    for following in range(count_near(types) if types > 1 else 0):
        if floor > least or not next_nearby(o, view, following, row):
            continue
        score, takes = score_price(o, view, plan, case, row, least)
        if score < least or (score == least and takes < time):
            least, time = score, takes
            write_target(o, view, row)
    for place in range(types):
        row[place] = 0
    number = END if kinds == 1 else FIRST
    while number != END and floor <= least:
        skip = number == FIRST and price_evenly(o, view, row) > least
        number = next_deployment(o, view, row, kinds, number, skip)
        if number == END or price_evenly(o, view, row) > least:
            continue
        score, takes = score_price(o, view, plan, case, row, least)
        if score < least or (score == least and takes < time):
            least, time = score, takes
            write_target(o, view, row)
    for place in range(types):
        row[place] = 0
    return least


@compiled
def write_target(o: int, view: View, row: Counts) -> None:
    """Write a deployment as target."""
    for place in range(row.size):
        view.target[o, place] = row[place]


@compiled_apart
def fewest_that_fit(o: int, view: View, plan: Plan, case: int, row: Counts, place: int) -> int:
    """Return the fewest replicas of one node type alone that `score_price` does not rule out.

    More of them never wait longer, are busier or cost less, so this is the best of them, and there
    may be ten thousand to go through. Of a node type that is free, the fewest as fast as the most.

    Args:
        o: Row of the operator.
        view: What is known of it.
        plan: What deployments are judged by.
        case: Rule to judge by.
        row: Without replicas of other node types; those of this one are left at any number.
        place: The node type.

    Returns:
        The number; more than `most_alone` where none fit.
    """
    low, high = 0, most_alone(o, view, place) + 1  # too few, and enough
    row[place] = high - 1
    _, fastest = score_price(o, view, plan, case, row, np.inf)
    if view.price[o, place] > 0:
        fastest = np.inf
    while high - low > 1:
        row[place] = (low + high) // 2
        score, time = score_price(o, view, plan, case, row, np.inf)
        if score < np.inf and time <= fastest:
            high = row[place]
        else:
            low = row[place]
    return high


@compiled_apart
def score_shortage(
    o: int, view: View, plan: Plan, case: int, counts: Counts, worst: float
) -> float:
    """Return the score of a deployment where none fits; `inf` where ruled out.

    It is the response time, or utilisation where capacity is what is lacking. What scores above
    `worst` for certain counts as ruled out.
    """
    if is_hopeless(o, view, plan, case, counts, worst):
        return np.inf
    time, busy = judge_now(o, view, plan, counts)
    return shortage_of(plan, case, time, busy)


@compiled
def is_hopeless(o: int, view: View, plan: Plan, case: int, counts: Counts, worst: float) -> bool:
    """Return whether `score_shortage` rules a deployment out without a prediction."""
    if not keeps_bounds(o, view, counts):
        return True
    bound = least_busy(o, view, counts, max(plan.rate, plan.catching_up))
    if case != TOO_SLOW and bound > worst:
        return True
    if case != TOO_SMALL and least_busy(o, view, counts, plan.rate) >= 1:
        return True  # it cannot keep up
    return is_too_little(o, view, plan, counts)


@compiled
def shortage_of(plan: Plan, case: int, time: float, busy: float) -> float:
    """Return the score of a deployment that is expected to take and to do so much."""
    if case == TOO_SLOW:
        return time
    return np.inf if case == TOO_BUSY and time > plan.budget else busy


@compiled_apart
def search_shortage(o: int, view: View, plan: Plan, case: int, row: Counts) -> float:
    """Write the cheapest of those that are nearly the best where none fits; return the best score.

    The score is `inf`, and nothing written, where the case rules all out.
    """
    kinds, best = most_kinds(o, view), np.inf
    needed = plan.rate * view.model[o].service_mean
    if case != TOO_SMALL and needed >= most_speed(o, view):
        return best  # nothing keeps up
    enough, price, stays = np.inf, np.inf, False
    for is_first in (True, False):  # what is the best, then the cheapest of those near it
        number, skip = FIRST, False
        if kinds == 1 and row.size > 1 and not stays:
            for last in range(row.size):
                place = row.size - 1 - last
                row[place] = most_alone(o, view, place)
                if row[place] > 0 and not is_first:
                    row[place] = fewest_near_best(o, view, plan, case, row, place, enough)
                enough, price = judge_shortage(o, view, plan, case, row, is_first, enough, price)
                row[place] = 0
            for following in range(count_near(row.size)):
                if not next_nearby(o, view, following, row):
                    continue
                enough, price = judge_shortage(o, view, plan, case, row, is_first, enough, price)
            for place in range(row.size):
                row[place] = 0
        while not stays and (kinds > 1 or row.size == 1):
            number = next_deployment(o, view, row, kinds, number, skip)
            if number == END:
                break
            skip = number == FIRST and price_evenly(o, view, row) >= price
            if skip:
                continue
            enough, price = judge_shortage(o, view, plan, case, row, is_first, enough, price)
        if is_first:
            best = enough
        enough = best * (1 + AS_GOOD)
        if best == np.inf:
            return best
        if is_first and is_allowed(o, view, view.counts[o]):
            stays = score_shortage(o, view, plan, case, view.counts[o], enough) <= enough
    return best


@compiled_apart
def judge_shortage(
    o: int,
    view: View,
    plan: Plan,
    case: int,
    row: Counts,
    is_first: bool,
    enough: float,
    price: float,
) -> tuple[float, float]:
    """Judge one deployment of `search_shortage`; return the score and the price to beat.

    Args:
        o: Row of the operator.
        view: What is known of it; the target is written where the deployment is a better one.
        plan: What deployments are judged by.
        case: Rule to judge by.
        row: The deployment.
        is_first: Whether the best score is sought, not yet the cheapest of those near it.
        enough: The best score so far, then the worst that is near it.
        price: Of the target, once one near the best was found.
    """
    score = score_shortage(o, view, plan, case, row, enough)
    if is_first:
        return min(enough, score), price
    if score <= enough and price_evenly(o, view, row) < price:
        write_target(o, view, row)
        return enough, price_evenly(o, view, row)
    return enough, price


@compiled_apart
def fewest_near_best(
    o: int, view: View, plan: Plan, case: int, row: Counts, place: int, enough: float
) -> int:
    """Return the fewest replicas of one node type alone that score `enough`, else the most.

    As in `fewest_that_fit`, more of them never score worse.
    """
    low, high = 0, most_alone(o, view, place)
    while high - low > 1:
        row[place] = (low + high) // 2
        if score_shortage(o, view, plan, case, row, enough) <= enough:
            high = row[place]
        else:
            low = row[place]
    return high


@pasted
def choose(o: int, view: View, plan: Plan, row: Counts) -> None:
    """Write the target; pasted into the one kernel that calls it, to be compiled once."""
    here = view.counts[o]
    for place in range(here.size):
        view.target[o, place] = here[place]
    fits = fits_here(o, view, plan)
    if fits and plan.obstructed:
        return
    price = price_evenly(o, view, here)
    for case in (SAVE, LASTING, NEED):
        if fits == (case == SAVE):
            best_score, time = (price, -np.inf) if fits else (np.inf, np.inf)
            score = search_price(o, view, plan, case, row, best_score, time)
            if fits or score < np.inf:
                return
    for case in (TOO_BUSY, TOO_SLOW, TOO_SMALL):
        if search_shortage(o, view, plan, case, row) < np.inf:
            return


@compiled
def fits_here(o: int, view: View, plan: Plan) -> bool:
    """Return whether the present deployment keeps all limits, the budget and the cap."""
    if not is_allowed(o, view, view.counts[o]):
        return False
    time, busy = judge_now(o, view, plan, view.counts[o])
    return time <= plan.budget and busy <= plan.cap


@compiled_apart
def find_case(o: int, view: View, plan: Plan, target: Counts) -> int:
    """Return by which rule a target was chosen: the first by which it has a score."""
    if fits_here(o, view, plan):
        for place in range(target.size):
            if target[place] != view.counts[o, place]:
                return SAVE
        return KEEP
    for case in (LASTING, NEED):
        score, _ = score_price(o, view, plan, case, target, np.inf)
        if score < np.inf:
            return case
    for case in (TOO_BUSY, TOO_SLOW):
        if score_shortage(o, view, plan, case, target, np.inf) < np.inf:
            return case
    return TOO_SMALL


@compiled_apart
def judge_all(o: int, view: View, plan: Plan, case: int, rows: Counts, found: Floats) -> None:
    """Write the judgements of deployments `(d, t)` into `found`, `(d, FOUND)`."""
    best = np.inf
    for index in range(rows.shape[0]):
        row, about = rows[index], found[index]
        time, busy = judge_now(o, view, plan, row)
        about[PRICE], about[TIME], about[BUSY] = price_evenly(o, view, row), time, busy
        about[RESTARTS] = needs_restart(o, view, row)
        about[TOO_LITTLE] = is_too_little(o, view, plan, row)
        about[FAILS_AT_PEAK] = 0.0
        about[SCORE] = np.inf
        if case > LASTING:
            if not is_hopeless(o, view, plan, case, row, np.inf):
                about[SCORE] = shortage_of(plan, case, time, busy)
            best = min(best, about[SCORE])
        elif time <= plan.budget and busy <= plan.cap:
            if lasts(o, view, plan, case, row):
                about[SCORE] = score_unpredicted(o, view, plan, case, row, np.inf)
            else:
                about[FAILS_AT_PEAK] = case <= SAVE and not plan.obstructed
    for index in range(rows.shape[0] if case > LASTING else 0):
        if found[index, SCORE] <= best * (1 + AS_GOOD):
            found[index, SCORE] = best


class Judged(NamedTuple):
    """What is found out of a deployment."""

    price: float
    """Currency per hour."""
    response_time: float
    """Mean or percentile at the planned rate, s."""
    utilisation: float
    """Of the worst replica while catching up."""
    score: float
    """What was minimised; `inf` is ruled out."""
    fails_at_peak: float
    """1 where it is cheaper, fits now, and would not at the peak rate."""
    too_little: float
    """1 where it has less capacity than now, in an operator under strain."""
    restarts: float
    """1 where only a restart goes there."""


class Words(NamedTuple):
    """What prevents a change, for people; `None` if nothing does."""

    strain: str | None
    """Why the operator must not get less capacity."""
    obstacle: str | None
    """Why nothing cheaper is considered while the present deployment fits."""


class Shown(NamedTuple):
    """A deployment that is shown."""

    deployment: Deployment
    judged: Judged
    expectation: Expectation
    """At the measured rate."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Weighed:
    """What came out of judging all deployments."""

    plan: Plan
    words: Words
    case: int
    """Which rule decided, of those in `find_case`."""
    chosen: Judged
    """The winner."""
    present: Judged | None
    """The present deployment, which may be the winner; `None` where it is out of bounds."""
    some_fail_at_peak: bool
    """Some are cheaper, fit now, and would not at the peak rate."""
    shown: tuple[Shown, ...]
    """The chosen, then the next best, the present, and cheaper ones."""

    @property
    def quantile(self) -> float | None:
        """Percentile that must keep the budget; `None` is the mean."""
        return None if self.plan.quantile == MEAN else self.plan.quantile


def tabulate(observation: Observation, target: Deployment, view: View, memory: Memory) -> Weighed:
    """Judge all deployments of the only operator of a view."""
    there = np.array(target.counts, dtype=np.int64)
    most, types = observation.model.max_replicas, there.size
    room = min(math.comb(most + types, types), 2 * COMPLETE_UP_TO) + count_near(types)
    rows, found = np.empty((room, types), dtype=np.int64), np.empty((room, FOUND))
    plan, case, used, chosen, present, facts = weigh(0, view, memory, there, rows, found)
    counts, found = rows[:used], found[:used]
    if facts.incomplete:  # what is near comes last, and some of it twice
        counts, first, place = np.unique(counts, axis=0, return_index=True, return_inverse=True)
        found, chosen = found[first], int(place[chosen])
        present = int(place[present]) if present >= 0 else present
    selected = np.empty(SELECTED, dtype=np.int64)
    selected = selected[: select_rows(found, chosen, present, selected)]
    judged = {
        row: Judged(*about)
        for row, about in zip(selected.tolist(), found[selected].tolist(), strict=True)
    }
    others = [row for row in judged if row != chosen]
    shown = [chosen, *sorted(others, key=lambda row: (judged[row].score, judged[row].price))]
    return Weighed(
        plan=plan,
        words=_describe_obstacles(observation, plan, view, facts),
        case=case,
        chosen=judged[chosen],
        present=judged.get(present),
        some_fail_at_peak=bool(found[:, FAILS_AT_PEAK].any()),
        shown=_expect(view, observation.rate, counts[shown], [judged[row] for row in shown]),
    )


NEXT_BEST = 4
"""Candidates shown that fit, but cost more than the chosen one."""
CHEAPER = 4
"""Candidates shown that are cheaper and were ruled out, the fastest for their price."""
SELECTED = 1 + (NEXT_BEST + 1) + 1 + CHEAPER
"""The most rows that `select_rows` writes."""

_CHOSEN = {
    KEEP: "it meets the budget, and nothing else is worth a change",
    SAVE: "the cheapest that meets the budget, now and at the highest recent rate",
    NEED: "the cheapest that meets the budget",
    LASTING: "the cheapest that meets the budget",
    TOO_SLOW: "the cheapest of the fastest",
    TOO_BUSY: "the cheapest of those with the most capacity",
    TOO_SMALL: "the cheapest of those with the most capacity",
}


@compiled_apart
def select_rows(found: Floats, chosen: int, present: int, selected: Counts) -> int:
    """Write the numbers of the rows to show, some of them twice; return how many.

    The chosen one comes first, then the best, the present one, and of the cheaper ones that were
    ruled out those that no other beats in both price and response time, the fastest first.

    Args:
        found: What was found out of each deployment, `(d, FOUND)`.
        chosen: Row of the winner.
        present: Row of the present deployment; -1 where there is none.
        selected: Filled with row numbers, `(SELECTED,)`.
    """
    selected[0] = chosen
    used, last, floor = 1, -1, -np.inf
    for _ in range(NEXT_BEST + 1):
        best, least = -1, np.inf
        for row in range(found.shape[0]):
            score = found[row, SCORE]
            follows = score > floor or (score == floor and row > last)
            if follows and score < least:
                best, least = row, score
        if best < 0:
            break
        selected[used] = best
        used, last, floor = used + 1, best, least
    if present >= 0:
        selected[used] = present
        used += 1
    most, price = used + CHEAPER, found[chosen, PRICE]
    while used < most:
        fastest, cheapest = np.inf, np.inf
        for row in range(found.shape[0]):
            if found[row, SCORE] == np.inf and found[row, PRICE] < price:
                time = found[row, TIME]
                if time < fastest or (time == fastest and found[row, PRICE] < cheapest):
                    fastest, cheapest = time, found[row, PRICE]
        if fastest == np.inf:
            break
        for row in range(found.shape[0]):
            ruled_out = found[row, SCORE] == np.inf and used < most
            if ruled_out and found[row, PRICE] == cheapest and found[row, TIME] == fastest:
                selected[used] = row
                used += 1
        price = cheapest
    return used


def _expect(view: View, rate: float, counts: Counts, judged: Sequence[Judged]) -> tuple[Shown, ...]:
    """Return deployments `(d, t)` with what is expected of them at a rate, records/s."""
    expected = np.empty((len(judged), 2))
    expect_all(0, view, counts, rate, expected)
    return tuple(
        Shown(
            Deployment(tuple(row)),
            about,
            Expectation(response_time=time, utilisation=busy, cost_per_hour=about.price),
        )
        for row, about, (time, busy) in zip(counts.tolist(), judged, expected.tolist(), strict=True)
    )


def explain(observation: Observation, weighed: Weighed) -> Decision:
    """Return the decision in words."""
    chosen = weighed.shown[0]
    return Decision(
        target=chosen.deployment,
        reason=_describe_reason(observation, weighed),
        candidates=tuple(
            Candidate(
                deployment=each.deployment,
                score=each.judged.score,
                expectation=each.expectation,
                verdict=_judge(weighed, each.judged),
            )
            for each in weighed.shown
        ),
        expectation=chosen.expectation,
        urgency=_rate_urgency(observation, weighed),
    )


def _judge(weighed: Weighed, judged: Judged) -> str:
    """Return why a deployment was chosen or rejected."""
    plan, chosen = weighed.plan, weighed.chosen
    if judged is chosen:
        return f"Chosen: {_CHOSEN[weighed.case]}"
    if judged.response_time == math.inf:
        return f"Rejected: it cannot keep up with {format_rate(plan.rate)}"
    if judged.response_time > plan.budget:
        time = format_time(judged.response_time)
        return f"Rejected: {time} would exceed the budget of {format_time(plan.budget)}"
    if judged.utilisation > plan.cap:
        busy = format_share(judged.utilisation)
        return f"Rejected: at {busy} busy, it would exceed the cap of {format_share(plan.cap)}"
    if judged.too_little:
        return f"Rejected: less capacity, while {weighed.words.strain}"
    if judged.fails_at_peak:
        return f"Rejected: too small for {format_rate(plan.peak)}, the highest recent rate"
    if math.isinf(judged.score):
        if weighed.words.obstacle is None:
            return f"Rejected: too small for {format_rate(plan.lasting)}, the rate with a margin"
        return f"Rejected: {weighed.words.obstacle}"
    more = judged.price - chosen.price
    if more > 0:
        return f"Rejected: costs {more:.4g} more per hour"
    if more < 0 or (chosen is weighed.present and judged.restarts):
        return "Rejected: saves too little for a restart"
    return "Rejected: costs the same and is no better"


def _describe_reason(observation: Observation, weighed: Weighed) -> str:
    """Return the sentence that a person reads first."""
    plan, chosen, obstacle = weighed.plan, weighed.chosen, weighed.words.obstacle
    target, _, expected = weighed.shown[0]
    named = format_deployment(target, observation.model.node_types)
    budget = f"the budget of {_describe_budget(weighed)}"
    at_rate = f"at {format_rate(plan.rate)}"
    takes = format_time(chosen.response_time)
    measured = observation.response_time
    if weighed.case == KEEP and measured > observation.budget:
        strain = weighed.words.strain
        because = "" if strain is None else f"; {strain}"
        return (
            f"Stays with {named}, although {format_time(measured)} of a budget of "
            f"{format_time(observation.budget)} is measured: the model expects {takes} {at_rate}, "
            f"so it is wrong here{because}"
        )
    if weighed.case == KEEP:
        kept = f"Stays: {named} meets {budget} {at_rate} ({takes})"
        if obstacle is not None:
            return f"{kept}; Weir does not reduce the capacity, because {obstacle}"
        if weighed.some_fail_at_peak:
            return f"{kept}, and nothing cheaper would at {format_rate(plan.peak)}"
        return f"{kept}, and nothing cheaper is worth a change"
    if chosen is weighed.present:
        go = f"Stays with {named}"
    else:
        go = f"Goes to {named} ({'one restart' if chosen.restarts else 'in place'})"
    if weighed.case == SAVE:
        present_price = price_per_hour(observation.deployment, observation.model.node_types)
        return (
            f"{go}: it meets {budget} {at_rate} ({takes}) and also at {format_rate(plan.peak)}, "
            f"and saves {present_price - chosen.price:.4g} per hour"
        )
    if weighed.case in (NEED, LASTING):
        return (
            f"{go}: {_describe_shortage(weighed)}; this is the cheapest that meets the budget, "
            f"with an expected {format_time(expected.response_time)} for "
            f"{expected.cost_per_hour:.4g} per hour"
        )
    if weighed.case in (TOO_BUSY, TOO_SMALL):
        busy = format_share(chosen.utilisation)
        return (
            f"{go}: no deployment carries {format_rate(plan.catching_up)} within the cap of "
            f"{format_share(plan.cap)}; this one has the most capacity and would be {busy} busy"
        )
    minimum = min_response_time(observation.model)
    if minimum > plan.budget:
        return (
            f"{go}: no deployment can meet {budget}, because even without load a record takes "
            f"{format_time(minimum)}; {at_rate}, this one is the fastest ({takes})"
        )
    return f"{go}: no deployment meets {budget} {at_rate}; the lowest possible is {takes}"


def _describe_shortage(weighed: Weighed) -> str:
    plan, present = weighed.plan, weighed.present
    if present is None:
        return "the present deployment breaks a limit on replicas"
    if math.isinf(present.response_time):
        return f"the present deployment cannot keep up with {format_rate(plan.rate)}"
    if present.response_time > plan.budget:
        return (
            f"at {format_rate(plan.rate)} the present deployment would take "
            f"{format_time(present.response_time)}, over the budget of {_describe_budget(weighed)}"
        )
    backlog = ", backlog included," if plan.catching_up > plan.rate else ""
    return (
        f"at {format_rate(plan.catching_up)}{backlog} the present deployment would be "
        f"{format_share(present.utilisation)} busy, over the cap of {format_share(plan.cap)}"
    )


def _describe_budget(weighed: Weighed) -> str:
    quantile = weighed.quantile
    at = "" if quantile is None else f" at the {quantile * 100:g}th percentile"
    return format_time(weighed.plan.budget) + at


def _rate_urgency(observation: Observation, weighed: Weighed) -> float:
    plan, present = weighed.plan, weighed.present
    if weighed.chosen is present:
        return 0.0
    if weighed.case == SAVE:
        cost = price_per_hour(observation.deployment, observation.model.node_types)
        return urgency_of_saving(1 - weighed.chosen.price / cost)
    if present is None:
        return urgency_of_need(0.0)  # a broken limit endangers no objective by itself
    late = 1 - plan.budget / present.response_time
    busy = present.utilisation - plan.cap
    return urgency_of_need(max(late, busy / (1 - plan.cap)))


SATURATED = 0.95
"""Busy share of a replica from which nothing is taken away, whatever the model says."""
GROWTH = 0.01
"""Part of the arriving records by which a backlog must grow to count as growing."""
ROUNDING = 1e-9
"""Part by which the cap may be exceeded: a replica that is full by the law of `ByLoad` is 0.9 busy
up to the last digit, and that is the cap's default too."""


class QueueingMemory(Fields):
    """Settings of `queueing`, and the rates of the window."""

    headroom: float
    cap: float
    catch_up: float
    saving: float
    margin: float
    quantile: float
    """`MEAN` where that is judged."""
    normal: float
    """The same percentile of a standard normal law."""
    backlog_before: float
    """Records at the beginning of the last interval."""
    window: int
    seen_rates: int
    rates: Floats = array("window")
    node_types: int
    row: Counts = array("node_types")
    """Room for one deployment, which holds zeros between decisions."""


@dataclass(frozen=True, kw_only=True, slots=True)
class QueueingParameters:
    """Settings of `queueing`."""

    headroom: float = 0.1
    """Part by which the rate planned for exceeds the measured one."""
    utilisation_cap: float = 0.9
    """Busy share that no replica may exceed; inside (0, 1). Close to 1 a small error of the
    service time makes the prediction worthless."""
    catch_up: float = 60.0
    """Seconds in which a backlog should be worked off."""
    minimum_saving: float = 0.1
    """Part of the cost that a change with a restart must save over the best one without."""
    scale_in_window: int = 3
    """Intervals whose largest rate a cheaper deployment must be able to carry. Until so many were
    seen, nothing is taken away."""
    margin: float = 0.1
    """Part by which the rate that the target of a restart must carry exceeds the one planned for,
    and for a cheaper one the largest of the window: a restart should last."""
    quantile: float | None = None
    """Percentile of the operator's response time that must keep the budget, such as 0.95. `None`
    judges the mean."""

    def __post_init__(self) -> None:
        """Refuse what is out of range."""
        refuse_outside("headroom", self.headroom, low=0)
        refuse_outside(
            "utilisation_cap",
            self.utilisation_cap,
            low=0,
            high=1,
            low_allowed=False,
            high_allowed=False,
        )
        refuse_outside("catch_up", self.catch_up, low=0, low_allowed=False)
        refuse_outside("minimum_saving", self.minimum_saving, low=0, high=1, high_allowed=False)
        refuse_outside("scale_in_window", self.scale_in_window, low=1, whole=True)
        refuse_outside("margin", self.margin, low=0)
        refuse_outside(
            "quantile", self.quantile, low=0, high=1, low_allowed=False, high_allowed=False
        )


def define(values: Mapping[str, Any], *, name: str) -> Algorithm:
    """Return the algorithm registered as `queueing`, its parameters bound."""
    parameters = read_parameters(QueueingParameters, values, policy=name)
    return Algorithm(
        prepare=partial(_prepare, parameters),
        learn=learn,
        decide=decide,
        explain=_explain,
        needed=("backlog", "budget", "model.service_mean", "model.service_scv"),
    )


def _prepare(parameters: QueueingParameters, view: View, ticks: int) -> Memory:
    quantile = parameters.quantile
    return QueueingMemory.allocate(
        view,
        headroom=parameters.headroom,
        cap=parameters.utilisation_cap,
        catch_up=parameters.catch_up,
        saving=parameters.minimum_saving,
        margin=parameters.margin,
        quantile=MEAN if quantile is None else quantile,
        normal=0.0 if quantile is None else normal_quantile(quantile),
        backlog_before=np.nan,
        window=int(parameters.scale_in_window),
        node_types=view.counts.shape[1],
    )


@compiled
def learn(o: int, view: View, memory: Memory) -> None:
    """Remember the rate of the interval, and the backlog at its beginning."""
    own = QueueingMemory(memory[o])
    own.rates[own.seen_rates % own.window] = view.seen[o].rate
    own.backlog_before = view.before[o].backlog
    own.seen_rates += 1


@compiled
def range_of_rates(own: QueueingMemory) -> tuple[float, float]:
    """Return the least and the maximum rate of the last intervals; `inf` and 0 before the first."""
    minimum, maximum = np.inf, 0.0
    for place in range(min(own.seen_rates, own.window)):
        minimum = min(minimum, own.rates[place])
        maximum = max(maximum, own.rates[place])
    return minimum, maximum


@compiled
def grown_backlog(o: int, view: View, own: QueueingMemory) -> float:
    """Return by how many records the backlog grew; NaN before the first interval was learned."""
    return view.seen[o].backlog - own.backlog_before


@compiled
def is_growing(o: int, view: View, own: QueueingMemory) -> bool:
    """Return whether the backlog grows by more than chance."""
    arrived = view.seen[o].rate * view.seen[o].interval
    return grown_backlog(o, view, own) > GROWTH * arrived + 1


@compiled
def is_rising(o: int, view: View, own: QueueingMemory) -> bool:
    """Return whether the rate exceeds the lowest recent rate by more than the headroom."""
    minimum, _ = range_of_rates(own)
    return view.seen[o].rate > minimum * (1 + own.headroom)


@compiled
def make_plan(o: int, view: View, own: QueueingMemory) -> Plan:
    """Return what the deployments are judged by."""
    seen = view.seen[o]
    planned = seen.rate * (1 + own.headroom)
    _, largest = range_of_rates(own)
    largest = max(largest, seen.rate)
    strained = seen.busiest >= SATURATED or is_growing(o, view, own)
    late = seen.response_time > seen.budget
    unseen = own.seen_rates < own.window
    return Plan(
        planned,
        planned + seen.backlog / own.catch_up,
        largest * (1 + own.headroom) * (1 + own.margin),
        planned * (1 + own.margin),
        seen.budget,
        own.quantile,
        own.normal,
        own.cap * (1 + ROUNDING),
        own.saving,
        strained,
        strained or late or is_rising(o, view, own) or unseen,
    )


@compiled
def decide(o: int, view: View, memory: Memory) -> None:
    """Jump to the deployment that wins."""
    own = QueueingMemory(memory[o])
    choose(o, view, make_plan(o, view, own), own.row)


class Facts(NamedTuple):
    """What a decision is explained with, besides the plan."""

    grown_backlog: float
    rising: bool
    incomplete: bool
    """Mixes of all node types are too many to go through."""
    seen_rates: int
    window: int


@compiled
def weigh(
    o: int, view: View, memory: Memory, target: Counts, rows: Counts, found: Floats
) -> tuple[Plan, int, int, int, int, Facts]:
    """Judge all deployments, in one call: a call from Python takes as long as many of them.

    Args:
        o: Row of the operator.
        view: What is known of it.
        memory: The policy's.
        target: The deployment that was chosen, `(t,)`.
        rows: Filled with the deployments, `(d, t)`.
        found: Filled with what is found out of each, `(d, FOUND)`.

    Returns:
        The plan, the rule that decided, how many deployments there are, which of them are the
        target and the present one (-1 where that is none), and other facts.
    """
    own = QueueingMemory(memory[o])
    plan = make_plan(o, view, own)
    case = find_case(o, view, plan, target)
    first, incomplete = 0, most_kinds(o, view) < target.size
    if incomplete:  # not every deployment is listed, but these two are
        first = 2 if is_allowed(o, view, view.counts[o]) else 1
        for place in range(target.size):
            rows[0, place] = target[place]
            rows[first - 1, place] = view.counts[o, place] if first == 2 else target[place]
    used = list_rows(o, view, own.row, rows, first)
    judge_all(o, view, plan, case, rows[:used], found)
    chosen, present = -1, -1
    for index in range(used):
        is_target, is_present = True, True
        for place in range(target.size):
            is_target = is_target and rows[index, place] == target[place]
            is_present = is_present and rows[index, place] == view.counts[o, place]
        chosen = index if is_target and chosen < 0 else chosen
        present = index if is_present and present < 0 else present
    facts = Facts(
        grown_backlog(o, view, own),
        is_rising(o, view, own),
        incomplete,
        own.seen_rates,
        own.window,
    )
    return plan, case, used, chosen, present, facts


def _explain(observation: Observation, target: Deployment, view: View, memory: Memory) -> Decision:
    return explain(observation, tabulate(observation, target, view, memory))


def _describe_obstacles(observation: Observation, plan: Plan, view: View, facts: Facts) -> Words:
    """Return why the operator must not get less, and why nothing cheaper is considered."""
    strain = obstacle = None
    if plan.strained:
        busiest = view.seen[0].busiest
        strain = f"the backlog grew by {facts.grown_backlog:,.0f} records"
        if busiest >= SATURATED:
            strain = f"a replica is {format_share(busiest)} busy"
    if strain is not None:
        obstacle = strain
    elif observation.response_time > observation.budget:
        obstacle = "the measured response time exceeds the budget"
    elif facts.rising:
        obstacle = f"the rate is rising ({format_rate(observation.rate)})"
    elif facts.seen_rates < facts.window:
        obstacle = (
            f"only {facts.seen_rates} of the {facts.window} intervals that it needs for this are "
            "measured"
        )
    return Words(strain, obstacle)
