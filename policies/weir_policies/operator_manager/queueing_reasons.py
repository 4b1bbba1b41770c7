"""What `queueing` says about its choice: the reason, and the candidates with a verdict each.

Words only; every figure comes from the weighing, but for the expectation, which is predicted at the
measured rate and not at the one planned for, so that it can be compared with what happens.
"""

from __future__ import annotations

import math

import numpy as np

from weir_policies.model.cost import price_per_hour
from weir_policies.model.deployments import find_pareto_optimal
from weir_policies.model.node_types import Deployment
from weir_policies.model.queueing import least_response_time, predict_means
from weir_policies.operator_manager.queueing_table import Weighed
from weir_policies.operator_manager.queueing_weighing import (
    KEEP,
    LASTING,
    NEED,
    SAVE,
    TOO_BUSY,
    TOO_SLOW,
    TOO_SMALL,
)
from weir_policies.operator_manager.urgency import urgency_of_need, urgency_of_saving
from weir_policies.operator_manager.wording import say_deployment, say_rate, say_share, say_time
from weir_policies.promise import Candidate, Decision, Expectation, Observation

NEXT_BEST = 4
"""Candidates shown that fit, but cost more than the chosen one."""
CHEAPER = 4
"""Candidates shown that are cheaper and were ruled out, the fastest for their price."""

_CHOSEN = {
    KEEP: "it fits, and nothing else is worth a change",
    SAVE: "the cheapest that fits, now and at the largest rate of late",
    NEED: "the cheapest that fits",
    LASTING: "the cheapest that fits",
    TOO_SLOW: "the cheapest of those that are as fast as can be",
    TOO_BUSY: "the cheapest of those with the most capacity",
    TOO_SMALL: "the cheapest of those with the most capacity",
}


def explain(observation: Observation, weighed: Weighed) -> Decision:
    """Return the decision in words."""
    rows = _select(weighed)
    expectations = _expect(observation, weighed, rows)
    candidates = tuple(
        Candidate(
            deployment=_deployment(weighed, row),
            score=float(weighed.score[row]),
            expectation=expectation,
            verdict=_judge(weighed, row),
        )
        for row, expectation in zip(rows, expectations, strict=True)
    )
    return Decision(
        target=candidates[0].deployment,
        reason=_say_reason(observation, weighed, candidates[0].expectation),
        candidates=candidates,
        expectation=candidates[0].expectation,
        urgency=_rate_urgency(observation, weighed),
    )


def _select(weighed: Weighed) -> list[int]:
    """Return the rows to show: the chosen, the next best, the present, and cheaper ones."""
    score, price = weighed.score, weighed.price
    ranked = np.argsort(score, kind="stable")[: NEXT_BEST + 1]
    best = [int(row) for row in ranked if math.isfinite(score[row])]
    cheaper = np.flatnonzero(np.isinf(score) & (price < price[weighed.chosen]))
    hopeful = cheaper[find_pareto_optimal(price[cheaper], weighed.response_time[cheaper])]
    dearest_first = hopeful[np.argsort(-price[hopeful], kind="stable")][:CHEAPER]
    present = [] if weighed.present is None else [weighed.present]
    shown = dict.fromkeys([weighed.chosen, *best, *present, *dearest_first.tolist()])
    first, *others = shown
    return [first, *sorted(others, key=lambda row: (score[row], price[row]))]


def _expect(observation: Observation, weighed: Weighed, rows: list[int]) -> list[Expectation]:
    """Return what is expected of each row at the measured rate."""
    means = predict_means(observation.model, weighed.counts[rows], observation.rate)
    return [
        Expectation(response_time=response_time, utilisation=utilisation, cost_per_hour=price)
        for response_time, utilisation, price in zip(
            *(array.tolist() for array in means), weighed.price[rows].tolist(), strict=True
        )
    ]


def _judge(weighed: Weighed, row: int) -> str:
    """Return why the row was chosen or rejected."""
    plan = weighed.plan
    present, chosen = weighed.present, weighed.chosen
    if row == chosen:
        return f"Chosen: {_CHOSEN[weighed.case]}"
    if weighed.response_time[row] == math.inf:
        return f"Rejected: it cannot keep up with {say_rate(plan.rate)}"
    if weighed.response_time[row] > plan.budget:
        time = say_time(float(weighed.response_time[row]))
        return f"Rejected: {time} would exceed the budget of {say_time(plan.budget)}"
    if weighed.utilisation[row] > plan.cap:
        busy = say_share(float(weighed.utilisation[row]))
        return f"Rejected: {busy} busy would exceed the cap of {say_share(plan.cap)}"
    if weighed.too_little[row]:
        return f"Rejected: less capacity, while {weighed.words.strain}"
    if weighed.fails_at_peak[row]:
        return f"Rejected: it would not do at {say_rate(plan.peak)}, the largest rate of late"
    price = weighed.price
    if math.isinf(weighed.score[row]):
        if weighed.words.obstacle is None:
            return f"Rejected: it would not last: too little at {say_rate(plan.lasting)}"
        return f"Rejected: {weighed.words.obstacle}"
    more = float(price[row] - price[chosen])
    if more > 0:
        return f"Rejected: costs {more:.4g} per hour more"
    if more < 0 or (chosen == present and weighed.restarts[row]):
        return "Rejected: saves too little for a restart"
    return "Rejected: costs the same and is no better"


def _say_reason(observation: Observation, weighed: Weighed, expected: Expectation) -> str:
    """Return the sentence that a person reads first."""
    plan, row, obstacle = weighed.plan, weighed.chosen, weighed.words.obstacle
    target = _deployment(weighed, row)
    named = say_deployment(target, observation.model.node_types)
    budget = f"the budget of {_say_budget(weighed)}"
    at_rate = f"at {say_rate(plan.rate)}"
    takes = say_time(float(weighed.response_time[row]))
    if weighed.case == KEEP:
        kept = f"Stays: {named} keeps {budget} {at_rate} ({takes})"
        if obstacle is not None:
            return f"{kept}, and nothing is taken away: {obstacle}"
        if weighed.fails_at_peak.any():
            return f"{kept}, and nothing cheaper would at {say_rate(plan.peak)}"
        return f"{kept}, and nothing cheaper is worth a change"
    if row == weighed.present:
        go = f"Stays with {named}"
    else:
        go = f"Goes to {named} ({'one restart' if weighed.restarts[row] else 'in place'})"
    if weighed.case == SAVE:
        saved = price_per_hour(observation.deployment, observation.model.node_types) - float(
            weighed.price[row]
        )
        return (
            f"{go}: it keeps {budget} {at_rate} ({takes}), would do at {say_rate(plan.peak)} too, "
            f"and saves {saved:.4g} per hour"
        )
    if weighed.case in (NEED, LASTING):
        return (
            f"{go}: {_say_shortage(weighed)}; the cheapest that does is expected to take "
            f"{say_time(expected.response_time)} for {expected.cost_per_hour:.4g} per hour"
        )
    if weighed.case in (TOO_BUSY, TOO_SMALL):
        busy = say_share(float(weighed.utilisation[row]))
        return (
            f"{go}: nothing carries {say_rate(plan.catching_up)} within the cap of "
            f"{say_share(plan.cap)}; this has the most capacity and is {busy} busy"
        )
    least = least_response_time(observation.model)
    if least > plan.budget:
        return (
            f"{go}: nothing can keep {budget}, because even without load a record takes "
            f"{say_time(least)}; {at_rate} this is as fast as can be ({takes})"
        )
    return f"{go}: nothing keeps {budget} {at_rate}; the least possible is {takes}"


def _say_shortage(weighed: Weighed) -> str:
    """Return what is wrong with the present deployment."""
    plan, present = weighed.plan, weighed.present
    if present is None:
        return "the present deployment breaks a limit on replicas"
    response_time = float(weighed.response_time[present])
    if math.isinf(response_time):
        return f"the present deployment cannot keep up with {say_rate(plan.rate)}"
    if response_time > plan.budget:
        return (
            f"at {say_rate(plan.rate)} the present deployment would take "
            f"{say_time(response_time)}, over the budget of {_say_budget(weighed)}"
        )
    backlog = ", backlog included," if plan.catching_up > plan.rate else ""
    return (
        f"at {say_rate(plan.catching_up)}{backlog} the present deployment would be "
        f"{say_share(float(weighed.utilisation[present]))} busy, over the cap of "
        f"{say_share(plan.cap)}"
    )


def _say_budget(weighed: Weighed) -> str:
    quantile = weighed.quantile
    at = "" if quantile is None else f" at the {quantile * 100:g}th percentile"
    return say_time(weighed.plan.budget) + at


def _rate_urgency(observation: Observation, weighed: Weighed) -> float:
    """Return how much the change is needed."""
    plan, present = weighed.plan, weighed.present
    if weighed.chosen == present:
        return 0.0
    if weighed.case == SAVE:
        cost = price_per_hour(observation.deployment, observation.model.node_types)
        return urgency_of_saving(1 - float(weighed.price[weighed.chosen]) / cost)
    if present is None:
        return urgency_of_need(0.0)  # a broken limit endangers no objective by itself
    late = 1 - plan.budget / float(weighed.response_time[present])
    busy = float(weighed.utilisation[present]) - plan.cap
    return urgency_of_need(max(late, busy / (1 - plan.cap)))


def _deployment(weighed: Weighed, row: int) -> Deployment:
    return Deployment(tuple(weighed.counts[row].tolist()))
