"""EDF's Q-learning: `ql-edf`, a table Q over states (deployment, rate level) and actions.

    a       = with probability epsilon any valid action, else the valid one of least Q(s, a);
              the first of equals: stay, remove, add
    c       = w_reconfiguration [a] + w_violation [the budget was missed] + w_resources k/k_max
    Q(s, a) <- (1 - alpha) Q(s, a) + alpha (c + gamma min_a' Q(s', a')),  a' valid in s'

The action of an interval is what was proposed, also where it was denied; its cost then includes the
reconfiguration that was not made. `ql`, the later paper's, learns from what was done. Here, alpha
and epsilon are constant, and levels are the multiples of `max_rate / levels` nearest to the rate.

How urgent a change is follows its score: the gain Q(s, stay) - Q(s, a), relative to the greatest
gain that any valid action had in any state visited so far, or to 1 while that is less.

Source: Cardellini, Lo Presti, Nardelli, Russo Russo, Future Generation Computer Systems 2018 (EDF),
section 5.2, algorithm 1, equations 1 and 2. What it leaves open, and what was taken:
1. It does not say what a denied action teaches. Its algorithm 1 updates Q of the action that the
   Operator Manager chose, and does not ask whether it was granted.
2. All nodes are alike there. With several node types, a state counts the replicas of each, and an
   action moves one replica of one type, as in `ql`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from weir_policies.kernels.compiled import compiled
from weir_policies.kernels.explaining import explain_scores, name_scores
from weir_policies.kernels.levels import LearningParameters, nearest_level
from weir_policies.kernels.policy import definition
from weir_policies.kernels.steps import (
    choose_action,
    count_actions,
    draw_action,
    find_action,
    is_valid,
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
)
from weir_policies.kernels.view import Memory, View
from weir_policies.kernels.wording import urgency_of_need, urgency_of_saving
from weir_policies.model.arrays import Counts
from weir_policies.model.node_types import Deployment
from weir_policies.operator_manager.q_learning import describe_why
from weir_policies.parameters import setting
from weir_policies.policy import Decision, Observation

STAY = 0
"""The action that moves nothing."""


class EdfQLearningMemory(Table):
    """Settings and learned state; the table is Q."""

    gamma: float
    alpha: float
    epsilon: float
    quantum: float
    """Width of a rate level, records/s."""
    levels: int
    updates: int
    most_gain: float
    """Greatest gain that a valid action had in a visited state, at least 1."""


@dataclass(frozen=True, kw_only=True, slots=True)
class EdfQLearningParameters(LearningParameters):
    """Settings of `ql-edf`."""

    alpha: float = setting(0.1, low=0, high=1, low_allowed=False)
    """Learning rate: weight of what an interval taught."""
    epsilon: float = setting(0.05, low=0, high=1)
    """Probability to explore."""


def _prepare(parameters: EdfQLearningParameters, view: View, ticks: int) -> Memory:
    keys = count_keys(view, levels=int(parameters.levels), actions=int(count_actions(view)))
    return allocate_table(
        EdfQLearningMemory, view, parameters, keys=keys, writes=ticks, most_gain=1.0
    )


@compiled
def find_state(o: int, view: View, own: EdfQLearningMemory, counts: Counts, rate: float) -> int:
    """Return the key of a state's first action; those of the others follow."""
    level = nearest_level(rate, own.quantum, own.levels)
    return encode(counts, view.model[o].max_replicas + 1, level, own.levels) * count_actions(view)


@compiled
def find_best(o: int, view: View, own: EdfQLearningMemory) -> tuple[int, float]:
    """Return the valid action of least Q in the present state, and that value."""
    counts = view.counts[o]
    state, size = find_state(o, view, own, counts, view.seen[o].rate), total(counts)
    best, best_cost = STAY, np.inf
    for action in range(count_actions(view)):
        if is_valid(o, view, counts, size, action):
            value = read(own.keys, own.values, state + action)
            if value < best_cost:
                best, best_cost = action, value
    return best, best_cost


@compiled
def find_gain(o: int, view: View, own: EdfQLearningMemory, value: float) -> float:
    """Return by how much a value of Q is less than that of staying in the present state."""
    state = find_state(o, view, own, view.counts[o], view.seen[o].rate)
    return read(own.keys, own.values, state + STAY) - value


@compiled
def learn(o: int, view: View, memory: Memory) -> None:
    """Update Q of the action proposed last with what the interval cost."""
    own, model, cost = EdfQLearningMemory(memory[o]), view.model[o], view.cost[o]
    action = find_action(view.counts_before[o], view.proposed[o])
    moved = model.weight_reconfiguration if action != STAY else 0.0
    violated = model.weight_violation * cost.violation
    paid = moved + violated + model.weight_resources * cost.resources
    if action >= 0 and not np.isnan(paid):
        _, following = find_best(o, view, own)
        state = find_state(o, view, own, view.counts_before[o], view.before[o].rate)
        place = find_place(own.keys, state + action)
        own.values[place] += own.alpha * (paid + own.gamma * following - own.values[place])
    _, best_cost = find_best(o, view, own)
    own.most_gain = max(own.most_gain, find_gain(o, view, own, best_cost))
    own.updates += 1


@compiled
def decide(o: int, view: View, memory: Memory) -> None:
    """Take the valid action of least Q, or explore."""
    own = EdfQLearningMemory(memory[o])
    if view.draws[o, 0] <= own.epsilon:
        choose_action(o, view, draw_action(o, view))
    else:
        best, _ = find_best(o, view, own)
        choose_action(o, view, best)


def _explain(observation: Observation, target: Deployment, view: View, memory: Memory) -> Decision:
    own = EdfQLearningMemory(memory[0])
    here = observation.deployment
    state = find_state(0, view, own, view.counts[0], observation.rate)
    scores = name_scores(view, lambda action: read(own.keys, own.values, state + action))
    reason = describe_why(view, own.epsilon, own.updates, target, scores)
    if target == here:
        return explain_scores(observation, target, reason, scores)
    score = float(find_gain(0, view, own, scores[target])) / own.most_gain
    decision = explain_scores(observation, target, f"{reason}; its score is {score:.2g}", scores)
    urgency = urgency_of_need(score) if target.size > here.size else urgency_of_saving(score)
    return replace(decision, urgency=urgency)


define = definition(
    EdfQLearningParameters,
    _prepare,
    learn=learn,
    decide=decide,
    explain=_explain,
    needed=("budget",),
    grow=partial(grow, EdfQLearningMemory),
    draws=True,
)
