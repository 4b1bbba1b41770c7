"""The arithmetic of `queueing`: what deployments are judged by, their score, and which one wins.

Deployments are gone through one by one (`kernels.menus`) and judged only as far as they could still
win: what is too dear, or has less speed than the load needs on any sharing, is never predicted.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from weir_policies.kernels.compiled import compiled, compiled_apart, pasted
from weir_policies.kernels.menus import (
    END,
    FIRST,
    go_on,
    is_allowed,
    most_kinds,
    needs_restart,
    price_evenly,
)
from weir_policies.kernels.percentiles import predict_percentile
from weir_policies.kernels.prediction import predict_one
from weir_policies.kernels.view import EQUAL, MAX_REPLICAS, SERVICE_MEAN, SHARING, View
from weir_policies.model.arrays import Counts, Floats

AS_GOOD = 0.05
"""Where nothing fits: what is within this part of the best scores the same; the cheapest wins."""
MEAN = 0.0
"""Stands for a percentile where the mean is judged."""

# Which of the policy's rules decided. KEEP: the present deployment fits and nothing is worth a
# change. SAVE: something cheaper fits too. NEED: it does not fit, something else does; LASTING:
# with a margin of growth where it takes a restart. Nothing: keeps the budget (TOO_SLOW), has the
# capacity, though it keeps the budget (TOO_BUSY) or does not (TOO_SMALL).
KEEP, SAVE, NEED, LASTING, TOO_SLOW, TOO_BUSY, TOO_SMALL = range(7)

# Columns of what is found out of each deployment for the explanation.
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
    if view.rules[o, SHARING] == EQUAL:
        speed = size * slowest
    return rate * view.traits[o, SERVICE_MEAN] / speed * (1 - 1e-12)


@compiled
def most_speed(o: int, view: View) -> float:
    """Return the sum of speedups that no deployment exceeds."""
    fastest = 0.0
    for place in range(view.counts.shape[1]):
        fastest = max(fastest, view.speedup[o, place])
    return fastest * view.rules[o, MAX_REPLICAS]


@compiled
def least_price(o: int, view: View, plan: Plan, rate: float) -> float:
    """Return a price below which nothing has the speed for a rate within the cap."""
    cheapest = np.inf
    for place in range(view.counts.shape[1]):
        cheapest = min(cheapest, view.price[o, place] / view.speedup[o, place])
    speed = rate * view.traits[o, SERVICE_MEAN] / plan.cap * (1 - 1e-9)
    return np.inf if speed > most_speed(o, view) else speed * cheapest


@compiled
def can_resize(o: int, view: View) -> bool:
    """Return whether there is a replica that could have another size without a restart."""
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
    price, restarts = price_evenly(o, view, counts), needs_restart(o, view, counts)
    score = price / (1 - plan.saving) if restarts else price
    if score > least:
        return np.inf, np.inf
    saves = case <= SAVE and price < price_evenly(o, view, view.counts[o])
    rate = max(plan.rate, plan.catching_up)
    if saves:
        rate = max(rate, plan.peak)
    if (saves and plan.obstructed) or least_busy(o, view, counts, rate) > plan.cap:
        return np.inf, np.inf
    if case > SAVE and is_too_little(o, view, plan, counts):
        return np.inf, np.inf
    time, busy = judge_now(o, view, plan, counts)
    if time > plan.budget or busy > plan.cap:
        return np.inf, np.inf
    if saves and not fits_at(o, view, plan, counts, plan.peak):
        return np.inf, np.inf
    if case == LASTING and restarts and not fits_at(o, view, plan, counts, plan.lasting):
        return np.inf, np.inf
    return score, time


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
    kinds = most_kinds(o, view)
    rate = max(plan.rate, plan.catching_up)
    floor = least_price(o, view, plan, max(rate, plan.peak) if case == SAVE else rate)
    if not can_resize(o, view):
        floor /= 1 - plan.saving
    most, number = 1, FIRST  # of one node type first: dear mixes need not be looked at then
    while floor <= least and floor < np.inf:
        skip = number == FIRST and price_evenly(o, view, row) > least
        number = go_on(o, view, row, most, number, skip)
        if number == END and most == kinds:
            return least
        if number == END:
            most, number = kinds, FIRST
            continue
        if price_evenly(o, view, row) > least:
            continue
        score, takes = score_price(o, view, plan, case, row, least)
        if score < least or (score == least and takes < time):
            least, time = score, takes
            for place in range(row.size):
                view.target[o, place] = row[place]
    for place in range(row.size):
        row[place] = 0
    return least


@compiled_apart
def score_shortage(
    o: int, view: View, plan: Plan, case: int, counts: Counts, worst: float
) -> float:
    """Return the score of a deployment where none fits; `inf` where ruled out.

    It is the response time, or utilisation where capacity is what is lacking. What scores above
    `worst` for certain counts as ruled out.
    """
    bound = least_busy(o, view, counts, max(plan.rate, plan.catching_up))
    if case != TOO_SLOW and bound > worst:
        return np.inf
    if case != TOO_SMALL and least_busy(o, view, counts, plan.rate) >= 1:
        return np.inf  # it cannot keep up
    if is_too_little(o, view, plan, counts):
        return np.inf
    time, busy = judge_now(o, view, plan, counts)
    if case == TOO_SLOW:
        return time
    return np.inf if case == TOO_BUSY and time > plan.budget else busy


@compiled_apart
def search_shortage(o: int, view: View, plan: Plan, case: int, row: Counts) -> float:
    """Write the cheapest of those that are nearly the best where none fits; return the best score.

    The score is `inf`, and nothing written, where the case rules all out.
    """
    kinds, best = most_kinds(o, view), np.inf
    needed = plan.rate * view.traits[o, SERVICE_MEAN]
    if case != TOO_SMALL and needed >= most_speed(o, view):
        return best  # nothing keeps up
    enough, price, stays = np.inf, np.inf, False
    for is_first in (True, False):  # what is the best, then the cheapest of those near it
        number, skip = FIRST, False
        while not stays:
            number = go_on(o, view, row, kinds, number, skip)
            if number == END:
                break
            skip = number == FIRST and price_evenly(o, view, row) >= price
            if skip:
                continue
            score = score_shortage(o, view, plan, case, row, enough)
            if is_first:
                best = min(best, score)
                enough = best
            elif score <= enough and price_evenly(o, view, row) < price:
                price = price_evenly(o, view, row)
                for place in range(row.size):
                    view.target[o, place] = row[place]
        enough = best * (1 + AS_GOOD)
        if best == np.inf:
            return best
        if is_first and is_allowed(o, view, view.counts[o]):
            stays = score_shortage(o, view, plan, case, view.counts[o], enough) <= enough
    return best


@pasted
def choose(o: int, view: View, plan: Plan, row: Counts) -> None:
    """Write the target; pasted into the one kernel that calls it, to be compiled once.

    Args:
        o: Row of the operator.
        view: What is known of it.
        plan: What deployments are judged by.
        row: Zeros, and zeros again in the end, `(t,)`.
    """
    here = view.counts[o]
    for place in range(here.size):
        view.target[o, place] = here[place]
    fits = fits_here(o, view, plan)
    if fits and plan.obstructed:
        return
    price = price_evenly(o, view, here)
    for case in (SAVE, LASTING, NEED):
        if fits == (case == SAVE):
            least, time = (price, -np.inf) if fits else (np.inf, np.inf)
            score = search_price(o, view, plan, case, row, least, time)
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
    """Write what is to be said of deployments `(d, t)` into `found`, `(d, FOUND)`."""
    here_price = price_evenly(o, view, view.counts[o])
    best = np.inf
    for index in range(rows.shape[0]):
        row, about = rows[index], found[index]
        time, busy = judge_now(o, view, plan, row)
        about[PRICE], about[TIME], about[BUSY] = price_evenly(o, view, row), time, busy
        about[RESTARTS] = needs_restart(o, view, row)
        about[TOO_LITTLE] = is_too_little(o, view, plan, row)
        saves = case <= SAVE and about[PRICE] < here_price and not plan.obstructed
        if saves and time <= plan.budget and busy <= plan.cap:
            about[FAILS_AT_PEAK] = not fits_at(o, view, plan, row, plan.peak)
        if case <= LASTING:
            about[SCORE], _ = score_price(o, view, plan, case, row, np.inf)
        else:
            about[SCORE] = score_shortage(o, view, plan, case, row, np.inf)
            best = min(best, about[SCORE])
    for index in range(rows.shape[0] if case > LASTING else 0):
        if found[index, SCORE] <= best * (1 + AS_GOOD):
            found[index, SCORE] = best
