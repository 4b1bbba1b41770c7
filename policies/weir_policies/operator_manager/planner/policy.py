"""Weir's own policy: learns how the rate changes, and plans the cost of deployments.

In every interval, it

1. learns how the rate changes from block to block, its usual course over day and week (which may be
   known from before; all in `rate`), other rhythms (`period`), the error of its model, and what a
   restart and an excess really cost (`candidates`);
2. plans, every few hours, the expected cost of every efficient deployment (`candidates`) in every
   state of the rate, by dynamic programming (`plan`);
3. goes to another deployment if that is expected to cost less than staying, the restart included.

Its target may be any deployment, because Flink needs one restart for any change; if moves are
limited to one replica, it plans for that (`plan`). It uses only the past, has the same settings for
every workload, and has a bounded state (`state`). The policy is Weir's own.

A plan is as good as what was learned, which is little in the first hours, and some rates do not fit
its model of the dynamics. So there are also two simple rules:

* `SHORT_RULE` keeps a margin over the present rate, like `queueing`: it scales out at once, and in
  when something cheaper would have been enough for the last three intervals too. Where restarts
  bring violations, it scales out when the deployment is too small, with a larger margin, most of
  all in the first hours, and in only if that saves more than these violations cost.
* `LONG_RULE` keeps a margin over the highest rate of the last 60 blocks, like `window-max`.

Where the job is restarted for another operator anyway, a plan counts no restart, and `SHORT_RULE`
scales out as soon as the target of a restart of its own would be larger.

A rate that repeats after at most half a day, such as batches every hour, has a plan of its own
(`period`) as soon as its period is found.

Plans and rules are its *experts*. For each, it adds up what its deployments would have cost on the
measured rates, according to the model. It first follows `SHORT_RULE`. After 18 blocks, it changes
to the expert with the lowest cost when the difference is more than chance and the cost of a change.
Costs decay over two days. They do not include backlog and provisioning time, except for what
excesses have cost on average so far, or the response time of deployments that did not run. Until
there is a plan, its cost is that of `SHORT_RULE`; without a period, the cost of its plan is that of
the expert that is followed.

While records wait upstream of an operator, what arrives there is only what the operators before it
manage to process. So the planner then takes what would arrive without that (`demand_of`), and what
waits upstream as a part of the operator's own backlog. Else the operators of a dataflow that falls
behind would outgrow their deployments one after the other, each with a restart.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

import numpy as np

from weir_policies.kernels.compiled import compiled, compiled_apart
from weir_policies.kernels.explaining import explain_rule, explain_scores
from weir_policies.kernels.policy import Algorithm
from weir_policies.kernels.prediction import price_of
from weir_policies.kernels.steps import step_towards
from weir_policies.kernels.view import Memory, View
from weir_policies.kernels.wording import format_deployment, format_rate, format_share
from weir_policies.model.arrays import Counts
from weir_policies.model.cost import price_per_hour
from weir_policies.model.node_types import Deployment
from weir_policies.model.season import Season
from weir_policies.operator_manager.planner.candidates import (
    SATURATED,
    choose_candidates,
    correct,
    demand_of,
    find_capacity,
    find_point,
    is_behind,
    is_resize,
    keeps_limits,
    note_excess,
    note_resize,
    note_streak,
    note_violation,
    price_of_excess,
    price_of_restart,
    put_corrections,
    remove_corrections,
    waits_upstream,
)
from weir_policies.operator_manager.planner.period import (
    choose_in_period,
    find_period,
    is_period_plan_due,
    note_change,
    note_interval,
    plan_period,
)
from weir_policies.operator_manager.planner.plan import (
    block_of_plan,
    choose_chain,
    choose_point,
    fill_values,
    find_envelopes,
    height_exceeded,
    make_plan,
    price_of_move,
    rate_to_carry,
    remake_block,
    value_outside_candidates,
)
from weir_policies.operator_manager.planner.rate import (
    SECONDS_PER_WEEK,
    assume,
    foresee,
    link_states,
    note_block,
    note_height,
    smooth,
    span_levels,
    take_season,
)
from weir_policies.operator_manager.planner.state import (
    DAY,
    EXPERTS,
    HISTORY,
    KEPT,
    LEVELS,
    LONG_RULE,
    LONG_WINDOW,
    PERIODIC_PLAN,
    PLAN,
    SHORT_RULE,
    SHORT_WINDOW,
    PlannerMemory,
    Workspace,
)
from weir_policies.parameters import read_parameters, refuse_outside
from weir_policies.policy import Decision, Observation

HEADROOM = 0.1
"""Part by which a deployment must exceed the present rate; this and the next two are the defaults
of `queueing`."""
MARGIN = 0.1
"""Part by which the target of a restart must exceed that: a restart should last."""
SAVING = 0.1
"""Part of the price that a restart must save."""
FREE = 0.1
"""Violations per restart up to which restarts are taken to bring none."""
UNKNOWN_HALVES = 6.0
"""Blocks after which the additional margin for an unknown rate is half as large; an hour with
intervals of a minute."""
STAYS = 0.3
"""Part of the time for which the rate has stayed low that it is taken to stay low from now on."""
CHANCE = 2.0
"""Standard deviations of the number of records, if they come independently."""
LONG_HEADROOM = 0.05
"""Part by which the largest rate must be exceeded, as in `window-max`."""


@compiled
def note_rate(o: int, view: View, own: PlannerMemory) -> None:
    """Enter the rate of the interval that just ended."""
    rate = demand_of(view.seen[o])
    own.rates[own.seen_intervals % SHORT_WINDOW] = rate
    own.long_peak = max(own.long_peak, rate)
    own.seen_intervals += 1


@compiled
def note_peak(own: PlannerMemory) -> None:
    """Enter the highest rate of the block that just ended; forget that of the oldest."""
    peaks = own.peaks
    peaks[own.blocks % LONG_WINDOW] = own.block_peak
    own.long_peak = 0.0
    for place in range(LONG_WINDOW):
        own.long_peak = max(own.long_peak, peaks[place])


@compiled
def violations_of_restart(own: PlannerMemory) -> float:
    """Return how many violations followed a change on average; 0 where changes take no time."""
    return own.restart_violations / own.restarts


@compiled
def need_of_short_rule(o: int, view: View, own: PlannerMemory) -> float:
    """Return records/s that a deployment must carry for `SHORT_RULE` to stay there.

    It leaves for lack of headroom only where that brings no violation: else it waits for a reason.
    """
    headroom = HEADROOM * (1 - min(violations_of_restart(own), 1.0))
    return rate_to_carry(o, view, own) * (1 + headroom)


@compiled
def strain_of(o: int, view: View, own: PlannerMemory, carries: float) -> float:
    """Return how many times what it does a deployment is believed to carry; 1 unless it strains.

    One that falls behind with a replica that has no time left does all that it can, whatever the
    model says. One that works off what waits in time, as after a restart, does not fall behind: to
    leave it would take another restart. The interval of a change says nothing: records waited
    while it was carried out. Nor does what was measured of the real deployment tell of one on
    paper.
    """
    seen = view.seen[o]
    if own.followed != SHORT_RULE or own.since_change == 0:
        return 1.0
    if not is_behind(seen) or seen.busiest < SATURATED or seen.processed <= 0:
        return 1.0
    if seen.processed >= rate_to_carry(o, view, own):
        return 1.0
    return max(carries / seen.processed, 1.0)


@compiled
def need_of_long_rule(o: int, view: View, own: PlannerMemory) -> float:
    """Return records/s that a deployment must carry for `LONG_RULE` to be there."""
    most = max(own.long_peak, rate_to_carry(o, view, own))
    return most * (1 + LONG_HEADROOM)


@compiled
def chance_of(o: int, view: View, rate: float) -> float:
    """Return by which part chance moves the number of records of an interval: two deviations.

    Of 100 records a fifth; a deployment that the next interval may outgrow saves nothing.
    """
    records = rate * view.seen[o].interval
    return CHANCE / np.sqrt(records) if records > 0 else 0.0


@compiled_apart
def choose_short_window(o: int, view: View, own: PlannerMemory, carries: float) -> int:
    """Return the candidate that `SHORT_RULE` goes to, -1 to stay."""
    need = need_of_short_rule(o, view, own) * strain_of(o, view, own, carries)
    unknown = UNKNOWN_HALVES / (UNKNOWN_HALVES + own.blocks)
    growth = MARGIN + HEADROOM * (1 + unknown) * min(violations_of_restart(own), 1.0)
    if carries < need * (1 + growth if view.seen[o].restarts_anyway else 1.0):
        row = _find_cheapest(o, view, own, need * (1 + growth), SAVING)
        if row < 0:
            row = _find_cheapest(o, view, own, need, SAVING)
        return row if row >= 0 else _find_largest(o, view, own)
    rates = own.rates
    least, most = np.inf, rate_to_carry(o, view, own)
    for place in range(SHORT_WINDOW):
        least, most = min(least, rates[place]), max(most, rates[place])
    late = view.seen[o].response_time > view.seen[o].budget or is_behind(view.seen[o])
    late = late or waits_upstream(view.seen[o]) > 0
    rises = demand_of(view.seen[o]) > least * (1 + HEADROOM)
    if late or rises or own.seen_intervals < SHORT_WINDOW:
        return -1
    need = most * (1 + HEADROOM) * (1 + max(MARGIN, chance_of(o, view, most)))
    if violations_of_restart(own) > FREE:
        return _find_worth_restart(o, view, own, need)
    return _if_it_saves(o, view, own, _find_cheapest(o, view, own, need, SAVING), SAVING)


@compiled
def intervals_below(own: PlannerMemory, rate: float) -> int:
    """Return for how many intervals a rate was not exceeded, `LONG_WINDOW` blocks at most.

    Of a block it is known only whether it exceeded the rate; `SHORT_WINDOW` intervals did not.
    """
    intervals = 0
    if own.block_peak <= rate:
        intervals = own.in_block
        for back in range(1, min(own.blocks, LONG_WINDOW) + 1):
            if own.peaks[(own.blocks - back) % LONG_WINDOW] > rate:
                break
            intervals += own.block
    return max(intervals, SHORT_WINDOW)


@compiled_apart
def _find_worth_restart(o: int, view: View, own: PlannerMemory, need: float) -> int:
    """Return the candidate that saves most, the violations that a restart brings deducted, or -1.

    What it saves is its difference in price for as long as its capacity, less `HEADROOM`, will be
    enough: `STAYS` of the time for which it would have been enough so far.
    """
    violations = view.model[o].weight_violation * violations_of_restart(own)
    per_price = view.model[o].weight_resources / view.model[o].top_cost
    present = price_of(o, view, view.counts[o])
    candidates = own.candidates
    best, most = -1, 0.0
    for row in range(own.candidates_used):
        carries = own.candidate_capacity[row]
        if carries < need or _price_to_beat(o, view, own, row, SAVING) >= present:
            continue
        lasts = STAYS * intervals_below(own, carries / (1 + HEADROOM))
        saved = (present - own.candidate_price[row]) * per_price * lasts
        if not is_resize(o, view, own, view.counts[o], candidates[row]):
            saved -= violations
        if saved > most and keeps_limits(o, view, candidates[row]):
            best, most = row, saved
    return best


@compiled_apart
def choose_long_window(o: int, view: View, own: PlannerMemory, carries: float) -> int:
    """Return the candidate that `LONG_RULE` goes to, -1 to stay.

    Arguments are those of `choose_short_window`.
    """
    need = need_of_long_rule(o, view, own)
    if carries >= need:
        room = need * (1 + chance_of(o, view, need))
        return _if_it_saves(o, view, own, _find_cheapest(o, view, own, room, 0.0), 0.0)
    row = _find_cheapest(o, view, own, need, 0.0)
    return row if row >= 0 else _find_largest(o, view, own)


@compiled
def _price_to_beat(o: int, view: View, own: PlannerMemory, row: int, saving: float) -> float:
    """Return a candidate's price, raised where a restart leads there, so that it must save."""
    price = own.candidate_price[row]
    if is_resize(o, view, own, view.counts[o], own.candidates[row]):
        return price
    return price / (1 - saving)


@compiled_apart
def _find_cheapest(o: int, view: View, own: PlannerMemory, rate: float, saving: float) -> int:
    """Return the candidate of the least score that carries a rate, -1 where none does."""
    candidates = own.candidates
    best, least = -1, np.inf
    for row in range(own.candidates_used):
        if own.candidate_capacity[row] < rate or own.candidate_price[row] >= least:
            continue
        score = _price_to_beat(o, view, own, row, saving)
        if score < least and keeps_limits(o, view, candidates[row]):
            best, least = row, score
    return best


@compiled_apart
def _find_largest(o: int, view: View, own: PlannerMemory) -> int:
    candidates = own.candidates
    best, most = -1, 0.0
    for row in range(own.candidates_used):
        capacity = own.candidate_capacity[row]
        if capacity > most and keeps_limits(o, view, candidates[row]):
            best, most = row, capacity
    return best


@compiled
def _if_it_saves(o: int, view: View, own: PlannerMemory, row: int, saving: float) -> int:
    """Return a candidate if its score is below the present price, else -1."""
    if row < 0 or _price_to_beat(o, view, own, row, saving) >= price_of(o, view, view.counts[o]):
        return -1
    return row


REMEMBERED_DAYS = 2
"""Days over which an expert's cost decays."""
FADE = 1 - 1 / (REMEMBERED_DAYS * DAY)
"""Part of an expert's cost that is left after a block."""
RESTARTS_LOST = 2.0
"""Restarts by which another expert must be cheaper: to follow it and return takes two."""
PART_LOST = 0.03
"""Part of the followed expert's cost by which it must be cheaper besides: what two good experts
differ by over two days by chance."""
FIRST_COMPARISON = 18
"""Blocks before which `SHORT_RULE` is followed whatever the costs, three hours with intervals of a
minute: what is there in a cluster after minutes, with a backlog, is there at once on paper, and in
the first hours this is most of the difference."""
UNKNOWN = -1.0
"""Stands for what a deployment carries, until it is worked out."""


@compiled
def copy_counts(to: Counts, counts: Counts) -> None:
    """Copy a deployment `(t,)`."""
    for place in range(counts.size):
        to[place] = counts[place]


@compiled
def is_equal(one: Counts, other: Counts) -> bool:
    """Return whether two deployments `(t,)` are the same."""
    apart = 0
    for place in range(one.size):
        apart += abs(one[place] - other[place])
    return apart == 0


@compiled
def is_planned(own: PlannerMemory) -> bool:
    """Return whether there is a plan and it is followed."""
    return own.followed == PLAN and own.plans > 0


@compiled
def is_pressed(o: int, view: View, own: PlannerMemory) -> bool:
    """Return whether what was in force at the last tick has less room than `SHORT_RULE` wants."""
    carries = own.carries[own.followed]
    return need_of_short_rule(o, view, own) > carries


@compiled
def forget_capacities(own: PlannerMemory) -> None:
    """Discard the capacities of the experts' deployments: the model has changed."""
    for expert in range(EXPERTS):
        own.carries[expert] = UNKNOWN


@compiled
def decay_expert_costs(own: PlannerMemory) -> None:
    """Let the experts' costs decay by a block."""
    for expert in range(EXPERTS):
        own.exceeded[expert] = 0
        own.expert_cost[expert] *= FADE


@compiled_apart
def follow(o: int, view: View, own: PlannerMemory) -> None:
    """Write the target of the expert that is followed; speeds are the corrected ones."""
    expert = own.followed
    there = own.advised[expert]
    if own.seen_intervals == 0 or not is_equal(there, view.counts[o]):
        carries = find_capacity(o, view, own, view.counts[o])
    else:
        carries = own.carries[expert]
    _advise(o, view, own, expert, carries)


@compiled_apart
def update_expert_costs(o: int, view: View, own: PlannerMemory) -> None:
    """Charge every expert for the interval that ended, choose one, and move the others.

    Args:
        o: Row of the operator.
        view: Its speeds are the corrected ones. Counts and target are worked with, and are both the
            present deployment in the end.
        own: The planner's; `capacity_outside` is of the present deployment.
    """
    counts = view.counts[o]
    advised = own.advised
    if own.seen_intervals == 0:
        forget_capacities(own)
        for expert in range(EXPERTS):
            copy_counts(advised[expert], counts)
    note_rate(o, view, own)
    _move(o, view, own, own.followed, counts)
    for expert in range(EXPERTS):
        _charge(o, view, own, expert)
    _choose_expert(o, view, own)
    present, outside = advised[EXPERTS], own.capacity_outside
    copy_counts(present, counts)
    copy_counts(advised[own.followed], counts)
    for expert in range(EXPERTS):
        if expert != own.followed:
            copy_counts(counts, advised[expert])
            carries = own.carries[expert]
            own.capacity_outside = carries
            _advise(o, view, own, expert, carries)
            if view.model[o].one_step == 1:
                step_towards(o, view)
            _move(o, view, own, expert, view.target[o])
    own.capacity_outside = outside
    if own.period == 0:
        own.expert_cost[PERIODIC_PLAN] = own.expert_cost[own.followed]
        own.carries[PERIODIC_PLAN] = own.carries[own.followed]
        copy_counts(advised[PERIODIC_PLAN], advised[own.followed])
    copy_counts(counts, present)
    copy_counts(view.target[o], present)


@compiled
def _advise(o: int, view: View, own: PlannerMemory, expert: int, carries: float) -> None:
    """Write where an expert would go from the view's deployment, which carries so much."""
    target = view.target[o]
    copy_counts(target, view.counts[o])
    planned, periodic = expert == PLAN and own.plans > 0, expert == PERIODIC_PLAN and own.period > 0
    if planned or periodic:
        here = find_point(own, view.counts[o])
        if planned:
            point = choose_point(o, view, own, here)
        else:
            point = choose_in_period(o, view, own, here)
        if point != here:
            copy_counts(target, own.points[point])
        return
    if expert == LONG_RULE:
        row = choose_long_window(o, view, own, carries)
    else:
        row = choose_short_window(o, view, own, carries)
    if row >= 0:
        copy_counts(target, own.candidates[row])


@compiled_apart
def _move(o: int, view: View, own: PlannerMemory, expert: int, to: Counts) -> None:
    """Move an expert to a deployment, and charge for a restart if it took one."""
    there = own.advised[expert]
    if is_equal(there, to):
        return
    if not is_resize(o, view, own, there, to):
        own.expert_cost[expert] += price_of_restart(o, view, own)
    copy_counts(there, to)
    own.carries[expert] = UNKNOWN


@compiled_apart
def _charge(o: int, view: View, own: PlannerMemory, expert: int) -> None:
    """Enter what an expert's deployment costs in an interval of the rate seen.

    The first excess in a block stands for as many violations as one has brought so far: on paper
    more replicas are there at once and carry no backlog, in a cluster they come late and do.
    """
    model = view.model[o]
    there = own.advised[expert]
    if own.carries[expert] == UNKNOWN:
        own.carries[expert] = find_capacity(o, view, own, there)
    cost = model.weight_resources * price_of(o, view, there) / model.top_cost
    if demand_of(view.seen[o]) > own.carries[expert]:
        excess = price_of_excess(o, view, own)
        if own.exceeded[expert] == 0:
            cost += excess
        elif (own.exceeded[expert] + 1) * model.weight_violation > excess:
            cost += model.weight_violation
        own.exceeded[expert] += 1
    own.expert_cost[expert] += cost


@compiled
def _choose_expert(o: int, view: View, own: PlannerMemory) -> None:
    """Follow another expert if its cost is lower by more than a restart and a margin."""
    if own.blocks < FIRST_COMPARISON:
        return
    followed = own.followed
    best = followed
    for expert in range(EXPERTS):
        exists = expert != PLAN or own.plans > 0
        exists = exists and (expert != PERIODIC_PLAN or own.period > 0)
        if exists and own.expert_cost[expert] < own.expert_cost[best]:
            best = expert
    cost = own.expert_cost[followed]
    enough = RESTARTS_LOST * price_of_restart(o, view, own) + PART_LOST * cost
    if cost - own.expert_cost[best] > enough:
        own.followed = best
        own.carries[best] = own.carries[followed]


LIKELY = 0.1
"""Probability with which the rate exceeds what it is said to reach."""


def explain(observation: Observation, target: Deployment, view: View, memory: Memory) -> Decision:
    """Return the decision in words."""
    own = PlannerMemory(memory[0])
    if not is_planned(own):
        periodic = own.followed == PERIODIC_PLAN
        reason = (
            (
                _describe_period(observation, view, own)
                if periodic
                else _describe_rule(observation, target, view, own)
            )
            + _describe_shared(observation, target)
            + _describe_mistrust(own)
        )
        return explain_rule(observation, target, reason)
    scores = _score(observation, view, own)
    named = format_deployment(target, observation.model.node_types)
    price = price_per_hour(target, observation.model.node_types)
    peak, delay = forecast_peak(view, own)
    ahead = delay * observation.interval
    reason = f"up to {format_rate(peak)} are expected within {_format_duration(ahead)}; {named}"
    point = find_point(own, view.target[0])
    if point >= 0:
        carried = float(own.point_capacity[point])
        reason += f" carries {format_rate(carried)} for {price:.4g} per hour"
    else:
        reason += f" costs {price:.4g} per hour"
    here = observation.deployment
    restart = price_of_restart(0, view, own)
    if target != here:
        saved = scores[here] - scores[target]
        reason += f"; staying is expected to cost {saved:.3g} more (a restart costs {restart:.3g})"
    else:
        reason += f"; no other deployment is worth a restart, which costs {restart:.3g}"
    carry = rate_to_carry(0, view, own)
    most = _describe_reach(view, own, carry)
    reason += f"; now {format_rate(carry)} must be carried, but {most}" if most else ""
    reason += _describe_shared(observation, target) + _describe_mistrust(own)
    return explain_scores(observation, target, reason, scores)


def _describe_rule(
    observation: Observation, target: Deployment, view: View, own: PlannerMemory
) -> str:
    """Return which rule is followed instead of a plan, and why."""
    if own.followed == LONG_RULE:
        need = need_of_long_rule(0, view, own)
        rule = f"the highest recent rate plus {format_share(LONG_HEADROOM)}"
    else:
        need = need_of_short_rule(0, view, own)
        carry = rate_to_carry(0, view, own)
        rule = "the current rate"
        if carry > LITTLE_MORE * observation.rate:
            rule += " plus what waits"
        if need > LITTLE_MORE * carry:
            rule += f" plus a margin of {format_share(need / carry - 1)}"
    rule = f"it sizes for {rule}, {format_rate(need)}"
    most = _describe_reach(view, own, need)
    rule += f", but {most}" if most else ""
    node_types, here = observation.model.node_types, observation.deployment
    saved = price_per_hour(here, node_types) - price_per_hour(target, node_types)
    if target != here and saved > 0:
        rule += f"; less has been enough for a while, and saves {saved:.4g} per hour"
    violations = violations_of_restart(own)
    if own.followed == SHORT_RULE and violations > FREE and saved >= 0:
        brings = f"{violations:.2g}"
        noun = "violation" if brings == "1" else "violations"
        rule += f"; a restart that saves must pay for the {brings} {noun} that it brings on average"
    if own.plans == 0:
        return f"planner has no plan yet, so {rule}"
    return f"{rule}; {_compare_costs(observation, view, own, 'this rule')}"


def _describe_period(observation: Observation, view: View, own: PlannerMemory) -> str:
    """Return which period was planned, and why its plan is followed."""
    every = _format_duration(float(own.period) * float(own.slot_length))
    plan = (
        f"the rate repeats every {every}, and is planned for from what it did in the last periods"
    )
    if own.plans == 0:
        return plan
    return f"{plan}; {_compare_costs(observation, view, own, 'this plan')}"


LITTLE_MORE = 1.005
"""Times by which a rate must be higher for a reason to name the difference."""
_OTHERS = {
    SHORT_RULE: "the rule for the current rate",
    LONG_RULE: "the rule for the highest recent rate",
    PLAN: "the plan",
    PERIODIC_PLAN: "the plan for the period",
}
"""The experts as a reason names those that are not followed."""


def _compare_costs(observation: Observation, view: View, own: PlannerMemory, followed: str) -> str:
    """Return what the experts would have cost, and why a cheaper one is not followed."""
    costs = own.expert_cost
    others = [PLAN, SHORT_RULE, LONG_RULE, *([PERIODIC_PLAN] if own.period > 0 else [])]
    others.remove(own.followed)
    cost, best = float(costs[own.followed]), min(others, key=costs.__getitem__)
    named = [
        each for each in dict.fromkeys((others[0], best)) if each == PLAN or costs[each] < cost
    ]
    seen = min(int(own.seen_intervals) * observation.interval, REMEMBERED_DAYS * 86_400.0)
    compared = [f"{followed} would have cost {cost:.3g}"]
    compared += [f"{_OTHERS[each]} {costs[each]:.3g}" for each in named]
    text = f"over the last {_format_duration(seen)}, {', '.join(compared)}"
    if costs[best] >= cost:
        return text
    if own.blocks < FIRST_COMPARISON:
        first = FIRST_COMPARISON * int(own.block) * observation.interval
        return f"{text}; in the first {_format_duration(first)}, costs decide nothing yet"
    enough = RESTARTS_LOST * price_of_restart(0, view, own) + PART_LOST * cost
    return f"{text}; another must cost {enough:.3g} less to be followed"


def _describe_reach(view: View, own: PlannerMemory, need: float) -> str:
    """Return how many records/s can be carried, a clause; empty if so many can be."""
    capacities = own.candidate_capacity[: own.candidates_used]
    for row in capacities.argsort()[::-1]:
        if capacities[row] >= need:
            return ""
        if keeps_limits(0, view, own.candidates[row]):
            return f"no deployment carries more than {format_rate(float(capacities[row]))}"
    return ""


def _describe_shared(observation: Observation, target: Deployment) -> str:
    if observation.restarts_anyway and target != observation.deployment:
        return "; the job is restarted for another operator anyway"
    return ""


def _describe_mistrust(own: PlannerMemory) -> str:
    if own.mistrusted:
        return "; response times differ from the prediction, so replicas may be at most 70 % busy"
    return ""


def forecast_peak(view: View, own: PlannerMemory) -> tuple[float, int]:
    """Return the highest rate to be expected, records/s, and in how many intervals.

    The course of the season is followed from what the next block exceeds one time in ten.
    """
    peak, short = find_envelopes(0, view, own)
    high = height_exceeded(0, view, own, peak, short, LIKELY)
    first = block_of_plan(own)
    season = own.season[first : first + KEPT]
    ahead = int(season.argmax())
    return math.exp(high + float(season[ahead])), (ahead + 1) * int(own.block)


def _score(observation: Observation, view: View, own: PlannerMemory) -> dict[Deployment, float]:
    """Return the expected cost of going to each point, and of staying."""
    peak, short = find_envelopes(0, view, own)
    here = find_point(own, view.counts[0])
    scores = {}
    values = np.empty(int(own.front_used))
    fill_values(0, view, own, peak, short, values)
    for point, value in enumerate(values.tolist()):
        counts = own.points[point]
        if point != here and not keeps_limits(0, view, counts):
            continue
        deployment = Deployment(tuple(int(count) for count in counts))
        scores[deployment] = value + price_of_move(0, view, own, here, point)
    if here < 0:
        scores[observation.deployment] = value_outside_candidates(0, view, own, peak, short)
    if not keeps_limits(0, view, view.counts[0]):
        scores[observation.deployment] = math.inf
    least = min(scores.values())
    return {deployment: score - least for deployment, score in scores.items()}


def _format_duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


SECONDS_PER_BLOCK = 600.0
INTERVALS_PER_BLOCK = 10
"""Intervals in a block at most; fewer where an interval is longer than a minute."""
FIRST_PLAN = 2
"""Blocks to see before planning."""
DRIFTED = 0.02
"""Relative change of the model from which the front is chosen again with the next plan."""
JUMPED = 0.2
"""The same, at once."""
OUTAGE = 0.3
"""A fall below the fast envelope, in logs, beyond which a block says nothing about the season: what
feeds the job has stopped for a while."""
BELOW_FLOOR = 0.7
"""Rates below this part of the least capacity are all the same."""
WITHOUT_CANDIDATES = 1e-3
"""Records/s below which they are, where nothing is known to carry any."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PlannerParameters:
    """Settings of `planner`."""

    reconfiguration_cost: float | None = None
    """Cost of a restart in units of the weights; `None` takes the operator's weight. Violations
    that follow restarts are learned and added either way."""
    catch_up: float = 300.0
    """Seconds in which a backlog should be worked off."""
    corrects: int = 1
    """0 believes the model to the letter."""

    def __post_init__(self) -> None:
        """Refuse what is out of range."""
        refuse_outside("reconfiguration_cost", self.reconfiguration_cost, low=0)
        refuse_outside("catch_up", self.catch_up, low=0, low_allowed=False)
        refuse_outside("corrects", self.corrects, low=0, high=1)


def define(values: Mapping[str, Any], *, name: str) -> Algorithm:
    """Return the algorithm registered as `planner`, its parameters bound."""
    return _define(read_parameters(PlannerParameters, values, policy=name))


# Most operators have the same parameters.
@lru_cache(maxsize=64)
def _define(parameters: PlannerParameters) -> Algorithm:
    return Algorithm(
        prepare=partial(_prepare, parameters),
        learn=learn,
        decide=decide,
        explain=explain,
        warm_start=_warm_start,
        workspace_words=Workspace.header,
        needed=("budget", "backlog", "model.service_mean", "model.service_scv"),
        joins_restarts=True,
    )


def _prepare(parameters: PlannerParameters, view: View, ticks: int) -> Memory:
    cost = parameters.reconfiguration_cost
    memory = PlannerMemory.allocate(
        view,
        reconfiguration_cost=-1.0 if cost is None else cost,
        catch_up=parameters.catch_up,
        corrects=parameters.corrects != 0,
        node_types=view.counts.shape[1],
        lowest=np.inf,
        highest=-np.inf,
        wait_factor=1.0,
        # As good as ten blocks with an excess, each of which cost 1.2 intervals, and a quarter of a
        # restart that brought a violation: the first restarts show what they bring.
        exceeded_blocks=10.0,
        exceeded_intervals=12.0,
        restarts=0.25,
        restart_violations=0.25,
        since_change=1000,
        asked_at=-1,
        change_takes=1.0,
        next_plan=FIRST_PLAN,
    )
    for o, row in enumerate(memory):
        own = PlannerMemory(row)
        own.tried[:], own.lasted[:] = 4.0, 2.0  # an excess lasts as often as not
        choose_candidates(o, view, own)
    return memory


@compiled
def _floor(own: PlannerMemory) -> float:
    """Return the logarithm of the rate below which all rates are the same."""
    if own.front_used > 0:
        return np.log(BELOW_FLOOR * own.point_capacity[0])
    return np.log(WITHOUT_CANDIDATES)


def _warm_start(o: int, memory: Memory, season: Season) -> None:
    """Start an operator that has not completed a block yet with its usual rates."""
    own = PlannerMemory(memory[o])
    take_season(own, season, floor=_floor(own))


@compiled_apart
def read_model(o: int, view: View, own: PlannerMemory) -> float:
    """Return a number that moves by as much as anything in the model moves, in logs."""
    model = view.model[o]
    number = 3 * np.log(model.service_mean) + 2 * np.log(view.seen[o].budget)
    number += model.service_scv + model.network_time / view.seen[o].budget + model.hot_share
    number += np.log(own.wait_factor) + own.mistrusted + own.resizes_restart
    for place in range(view.counts.shape[1]):
        weight = 1 + 0.1 * place  # so that opposite moves of two node types do not cancel out
        number += weight * np.log(view.speedup[o, place])
        number += weight * 1.3 * np.log(max(view.price[o, place] / model.top_cost, 1e-9))
    for size in range(view.fullest.shape[1]):
        number += view.fullest[o, size] / view.fullest.shape[1]
    number += np.log(max(view.seen[o].min_replicas, 1))
    number += np.log(max(min(view.seen[o].max_price / model.top_cost, 1.0), 1e-9))
    return number + 5 * (model.weight_violation + 2 * model.weight_resources)


@compiled
def read_room(o: int, view: View) -> float:
    """Return a number that changes where a pool's room does."""
    number = 0.0
    for place in range(view.counts.shape[1]):
        number += (1 + 0.1 * place) * np.log(1.0 + view.limit[o, place])
    return number


@compiled
def _plan_delay(o: int, view: View, block: int) -> int:
    """Return how many intervals after the end of a block a due plan is made.

    A controller ticks StreamApps at different moments of the interval. Plans are spread over a
    block by that moment, so that StreamApps that started together do not all plan in one interval.
    Experiments tick at whole intervals: 0.
    """
    interval = view.seen[o].interval
    if not interval > 0:
        return 0
    intervals = view.seen[o].time_of_week * SECONDS_PER_WEEK / interval
    part = intervals - np.floor(intervals)
    # Rounded, so that a tick slightly late or early keeps its interval; a whole block wraps to 0.
    return int(part * block + 0.5) % block


@compiled
def learn(o: int, view: View, memory: Memory) -> None:
    """Learn from the interval that just ended; plan where a plan is due."""
    own, work = PlannerMemory(memory[o]), Workspace(view.workspace[o])
    if own.block == 0:
        interval = view.seen[o].interval
        fitting = int(SECONDS_PER_BLOCK / interval + 0.5) if interval > 0 else INTERVALS_PER_BLOCK
        own.block = min(max(fitting, 1), INTERVALS_PER_BLOCK)
    correct(o, view, own)
    note_resize(o, view, own)
    note_violation(o, view, own)
    note_change(o, view, own)
    note_streak(o, view, own)
    rate = demand_of(view.seen[o])
    first = own.highest_rate == 0
    own.highest_rate = max(own.highest_rate, rate_to_carry(o, view, own))
    own.block_peak = max(own.block_peak, rate)
    own.in_block += 1
    height = max(np.log(max(rate, 1e-9)), _floor(own))
    note_interval(own, height, view.seen[o].time, view.seen[o].interval)
    ended = own.in_block >= own.block
    if ended:
        _end_block(o, view, own, work)

    put_corrections(o, view, own)
    model = read_model(o, view, own)
    moved = abs(model - own.fingerprint)
    outgrown = 1.2 * own.highest_rate > own.candidates_reach
    due = own.blocks >= own.next_plan and own.in_block >= _plan_delay(o, view, own.block)
    due = due or is_beyond_levels(o, view, own)
    afresh = False
    room = read_room(o, view)
    changed = moved > DRIFTED or room != own.room
    pressed = room != own.room and is_pressed(o, view, own)
    if first or outgrown or moved > JUMPED or (due and changed) or pressed:
        own.fingerprint, own.room = model, room
        front = own.front_used
        choose_candidates(o, view, own)
        forget_capacities(own)
        afresh = moved > JUMPED or front != own.front_used
        due = True
        own.period_planned_at = -HISTORY
    if due and own.blocks >= FIRST_PLAN:
        _plan(o, view, own, work, afresh)
    if own.plans > 0:
        remake_block(o, view, own, work)
    if ended:
        _look_for_period(own)
    _leave_lost_period(own)
    if is_period_plan_due(own):
        plan_period(o, view, own, _floor(own))
    if find_point(own, view.counts[o]) < 0:
        own.capacity_outside = find_capacity(o, view, own, view.counts[o])
    update_expert_costs(o, view, own)
    remove_corrections(o, view)


@compiled_apart
def _look_for_period(own: PlannerMemory) -> None:
    """Find the period again; another one is planned at once."""
    before = own.period
    own.period = find_period(own)
    if own.period != before:
        own.period_planned_at = -HISTORY


@compiled
def _leave_lost_period(own: PlannerMemory) -> None:
    """Follow another expert, the plan if there is one, where there is no period any more."""
    if own.period == 0 and own.followed == PERIODIC_PLAN:
        own.followed = PLAN if own.plans > 0 else SHORT_RULE


@compiled
def is_beyond_levels(o: int, view: View, own: PlannerMemory) -> bool:
    """Return whether the rate exceeds the plan's levels; extend them if so."""
    if own.plans == 0:
        return False
    peak, _ = find_envelopes(o, view, own)
    if peak <= own.level_from + LEVELS * own.level_step:
        return False
    own.highest = max(own.highest, peak)
    return True


@compiled_apart
def _end_block(o: int, view: View, own: PlannerMemory, work: Workspace) -> None:
    note_excess(own)
    if own.blocks == 0:
        own.floor = _floor(own)
    height = max(np.log(max(own.block_peak, 1e-9)), own.floor)
    season, usual = 0.0, height
    if own.plans > 0:
        season = own.season[block_of_plan(own)]
        usual = max(height, own.peak_short + season - OUTAGE)
    note_block(o, view, own, usual)
    note_height(own, work, height - season)
    note_peak(own)
    decay_expert_costs(own)
    own.blocks += 1
    own.in_block = 0
    own.block_peak = 0.0


@compiled_apart
def _plan(o: int, view: View, own: PlannerMemory, work: Workspace, afresh: bool) -> None:
    """Foresee the season, take stock of the dynamics, and plan."""
    before = 0.0
    if own.plans > 0:
        block = min(own.blocks - own.planned_at, KEPT) - 1
        before = own.last_season if block < 0 else own.season[block]
    now = foresee(o, view, own)
    # What the season now explains is taken off the envelopes, and what it no longer does put back.
    own.peak_long += before - now
    own.peak_short += before - now
    own.lowest = min(own.lowest, own.peak_long)
    own.highest = max(own.highest, own.peak_long)
    if view.model[o].one_step == 1 and choose_chain(o, view, own):
        choose_candidates(o, view, own)
        own.period_planned_at = -HISTORY
        afresh = True
    if own.plans == 0:
        assume(own)
    if span_levels(own, work):
        afresh = True
    smooth(own, work, own.blocks - own.planned_at)
    link_states(own, work)
    make_plan(o, view, own, work, afresh)


@compiled
def decide(o: int, view: View, memory: Memory) -> None:
    """Go where the expert that is followed goes."""
    own = PlannerMemory(memory[o])
    put_corrections(o, view, own)
    follow(o, view, own)
    remove_corrections(o, view)
