"""Q-learning on post-decision states: `ql-pds`, and with an estimate of violations `ql-pds-plus`.

A post-decision state is (k', rate level): the deployment after the action, before the rate moves.
What an action costs for certain (the reconfiguration, the resources of k') is known; only the
violation is learned, in one table V over post-decision states:

    q(s, a) = V(k', level) + c_estimated(k', level) + c_known(a, k')
    a       = the valid action of least q(s, a); the first of equals, staying first
    V(pds) <- (1 - alpha) V(pds) + alpha (c_violation - c_estimated + gamma min_a' q(s', a'))

`ql-pds-plus` estimates: w_violation where the believed model says that k' breaks the budget at the
middle of the level. `ql-pds` estimates 0.

Source: Russo Russo, Cardellini, Lo Presti, ACM TAAS 2023, section 4.3, equations 9 to 12.
`published: 1` takes the old value of an update from the state before the action, as the program
behind the published tables did.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np

from weir_policies.kernels.compiled import compiled, compiled_apart
from weir_policies.kernels.explaining import explain_scores, name_scores
from weir_policies.kernels.fields import array
from weir_policies.kernels.levels import LearningParameters, learning_rate, level_of, middle_of
from weir_policies.kernels.policy import definition
from weir_policies.kernels.prediction import predict_after, price_of
from weir_policies.kernels.steps import (
    can_move,
    choose_action,
    price_after,
    step_of,
    total,
)
from weir_policies.kernels.tables import (
    Table,
    allocate_table,
    count_keys,
    encode,
    find_place,
    grow,
    read,
    size_table,
)
from weir_policies.kernels.view import Memory, View
from weir_policies.model.arrays import Floats
from weir_policies.model.node_types import Deployment
from weir_policies.parameters import setting
from weir_policies.policy import Decision, Observation

ESTIMATES = {"ql-pds": False, "ql-pds-plus": True}
"""Whether a policy estimates violations."""
UNKNOWN = -1.0
"""Stands where an estimate was not needed yet."""


class PdsMemory(Table):
    """Settings and learned state of `ql-pds` and `ql-pds-plus`; the table is V."""

    gamma: float
    least_alpha: float
    quantum: float
    """Width of a rate level, records/s."""
    levels: int
    published: int
    estimating: int
    updates: int
    weighed: int
    """State, by key, that `best` is the action for, and when that was."""
    weighed_at: float
    best: int
    estimated: int
    """Places for estimates: as many as for values where the table is dense, else none."""
    estimates: Floats = array("estimated")
    """Those worked out so far, which cost more than a read; `UNKNOWN`."""


@dataclass(frozen=True, kw_only=True, slots=True)
class QLearningPdsParameters(LearningParameters):
    """Settings of `ql-pds` and `ql-pds-plus`."""

    least_alpha: float = setting(0.1, low=0, high=1)
    """Floor of the learning rate."""
    published: int = setting(0, low=0, high=1)
    """1 takes the old value from the state before the action."""


def _prepare(parameters: QLearningPdsParameters, estimates: bool, view: View, ticks: int) -> Memory:
    keys = count_keys(view, levels=int(parameters.levels))
    keyed, places = size_table(keys, writes=ticks)
    memory = allocate_table(
        PdsMemory,
        view,
        parameters,
        keys=keys,
        writes=ticks,
        estimating=estimates,
        weighed=-1,
        estimated=places if estimates and keyed == 1 else 0,
    )
    for row in memory:
        PdsMemory(row).estimates[:] = UNKNOWN
    return memory


@compiled_apart
def estimate(o: int, view: View, place: int, change: int, level: int, quantum: float) -> float:
    """Return the expected cost of violations with `change` replicas more, by the believed model."""
    rate = middle_of(level, quantum)
    time, _ = predict_after(o, view, view.counts[o], place, change, rate)
    return view.model[o].weight_violation if time > view.seen[o].budget else 0.0


@compiled
def violation_of(
    o: int, view: View, own: PdsMemory, place: int, change: int, key: int, level: int
) -> float:
    """Return V and the estimated violation of where an action leads: what is not known."""
    expected = 0.0
    if own.estimating:
        expected = own.estimates[key] if own.estimated else UNKNOWN
        if expected == UNKNOWN:
            expected = estimate(o, view, place, change, level, own.quantum)
    return read(own.keys, own.values, key) + expected


@compiled
def known_cost(o: int, view: View, price: float, change: int) -> float:
    """Return what an action costs that leads to a deployment of this price per hour."""
    resources = price / view.model[o].top_cost
    moved = view.model[o].weight_reconfiguration if change else 0.0
    return moved + view.model[o].weight_resources * resources


@compiled
def value_of(
    o: int, view: View, own: PdsMemory, place: int, change: int, key: int, level: int
) -> float:
    """Return q(s, a) in the present state."""
    price = price_after(o, view, view.counts[o], place, change)
    unknown = violation_of(o, view, own, place, change, key, level)
    return unknown + known_cost(o, view, price, change)


@compiled
def weigh_moves(o: int, view: View, own: PdsMemory, here: int, level: int) -> tuple[int, float]:
    """Return the best of the valid actions but staying, 0 for none, and its value.

    `here` is the key of the present state, `level` its rate's.
    """
    counts, prices = view.counts[o], view.price[o]
    base = view.model[o].max_replicas + 1
    size = total(counts)
    best, best_cost = 0, np.inf
    action = 0
    for change in (-1, 1):
        stride = own.levels
        before = 0.0  # the price of the node types before this one
        for place in range(counts.size):
            action += 1
            if can_move(o, view, counts, size, place, change):
                price = before + (counts[place] + change) * prices[place]
                for other in range(place + 1, counts.size):
                    price += counts[other] * prices[other]
                key = here + change * stride
                value = violation_of(o, view, own, place, change, key, level)
                value += known_cost(o, view, price, change)
                if value < best_cost:
                    best, best_cost = action, value
            before += counts[place] * prices[place]
            stride *= base
    return best, best_cost


@compiled
def remember_estimates(o: int, view: View, own: PdsMemory, here: int, level: int) -> None:
    """Work out the estimates that the present state needs and a dense table does not hold yet."""
    quantum, estimates = own.quantum, own.estimates
    counts = view.counts[o]
    base = view.model[o].max_replicas + 1
    size = total(counts)
    if estimates[here] == UNKNOWN:
        estimates[here] = estimate(o, view, 0, 0, level, quantum)
    for change in (-1, 1):
        stride = own.levels
        for place in range(counts.size):
            if can_move(o, view, counts, size, place, change):
                key = here + change * stride
                if estimates[key] == UNKNOWN:
                    estimates[key] = estimate(o, view, place, change, level, quantum)
            stride *= base


@compiled
def learn(o: int, view: View, memory: Memory) -> None:
    """Update V with the violation that followed the last action."""
    own = PdsMemory(memory[o])
    levels, quantum = own.levels, own.quantum
    keys, values = own.keys, own.values
    base = view.model[o].max_replicas + 1
    level = level_of(view.seen[o].rate, quantum, levels)
    level_before = level_of(view.before[o].rate, quantum, levels)
    here = encode(view.counts[o], base, level, levels)
    post_decision = here + level_before - level
    expected = 0.0
    if own.estimating:
        expected = UNKNOWN
        if own.estimated:
            if here != own.weighed:  # else they were worked out when it was
                remember_estimates(o, view, own, here, level)
            expected = own.estimates[post_decision]
        if expected == UNKNOWN:
            expected = estimate(o, view, 0, 0, level_before, quantum)
    stays = known_cost(o, view, price_of(o, view, view.counts[o]), 0)
    staying = violation_of(o, view, own, 0, 0, here, level) + stays
    best, moving = weigh_moves(o, view, own, here, level)
    violation = view.model[o].weight_violation * view.cost[o].violation
    aim = violation - expected + own.gamma * min(staying, moving)
    alpha = learning_rate(own.updates, own.least_alpha)
    place = find_place(keys, post_decision)
    old = values[place]
    if own.published:
        old = read(keys, values, encode(view.counts_before[o], base, level_before, levels))
    if not np.isnan(aim):  # an interval of unknown cost teaches nothing
        values[place] = (1 - alpha) * old + alpha * aim
    own.updates += 1

    # Leave the action for `decide`, which comes next: weighing is most of the work. The update may
    # have changed what staying is worth, and nothing else of what was weighed.
    if here == post_decision:
        staying = violation_of(o, view, own, 0, 0, here, level) + stays
    own.weighed, own.weighed_at = here, view.seen[o].time
    own.best = best if moving < staying else 0


@compiled
def decide(o: int, view: View, memory: Memory) -> None:
    """Take the valid action of least value."""
    own = PdsMemory(memory[o])
    level = level_of(view.seen[o].rate, own.quantum, own.levels)
    here = encode(view.counts[o], view.model[o].max_replicas + 1, level, own.levels)
    if here == own.weighed and view.seen[o].time == own.weighed_at:
        choose_action(o, view, own.best)
        return
    staying = value_of(o, view, own, 0, 0, here, level)
    best, moving = weigh_moves(o, view, own, here, level)
    choose_action(o, view, best if moving < staying else 0)


def _explain(observation: Observation, target: Deployment, view: View, memory: Memory) -> Decision:
    own = PdsMemory(memory[0])
    levels, base = int(own.levels), int(view.model[0].max_replicas) + 1
    level = level_of(observation.rate, own.quantum, levels)

    def score_of(action: int) -> float:
        key = encode(view.target[0], base, level, levels)
        place, change = step_of(action, view.counts.shape[1])
        return value_of(0, view, own, place, change, key, level)

    scores = name_scores(view, score_of)
    reason = (
        f"the lowest expected cost of {len(scores)} actions, {scores[target]:.3g}, "
        f"after learning from {own.updates:,} intervals"
    )
    return explain_scores(observation, target, reason, scores)


define = definition(
    QLearningPdsParameters,
    _prepare,
    choices=ESTIMATES,
    learn=learn,
    decide=decide,
    explain=_explain,
    needed=("budget",),
    grow=partial(grow, PdsMemory),
)
