"""Q-learning: `ql`, a table Q over states (deployment, rate level) and actions.

    a       = with probability epsilon any valid action, else the valid one of least Q(s, a);
              the first of equals, staying first
    Q(s, a) <- (1 - alpha) Q(s, a) + alpha (cost + gamma min_a' Q(s', a')),  a' valid in s'

Costs are never negative and the table begins with zeros, so each action is tried once in each state
before any is taken again: that, more than epsilon, is what keeps it restarting.

Source: Russo Russo, Cardellini, Lo Presti, ACM TAAS 2023, section 4.1. Departures:
1. The action of an interval is what was done, not what was proposed: a change that was denied or
   delayed teaches nothing about itself. An interval that no action explains teaches nothing.
2. alpha and epsilon have floors, `least_alpha` and `least_epsilon`. The paper prints none, but its
   tables come out with them and not without. Floors of 0 are its text.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np

from weir_policies.kernels.compiled import compiled
from weir_policies.kernels.explaining import explain_scores, name_scores
from weir_policies.kernels.levels import (
    LearningParameters,
    exploration_rate,
    learning_rate,
    level_of,
)
from weir_policies.kernels.policy import definition
from weir_policies.kernels.steps import (
    choose_action,
    count_actions,
    draw_action,
    find_action,
    is_valid,
    observed_cost,
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
from weir_policies.model.node_types import Deployment
from weir_policies.parameters import setting
from weir_policies.policy import Decision, Observation


class QLearningMemory(Table):
    """Settings and learned state of `ql` and `ql-fa`; the table is Q, or the weights."""

    gamma: float
    least_alpha: float
    least_epsilon: float
    quantum: float
    """Width of a rate level, records/s."""
    levels: int
    updates: int


@dataclass(frozen=True, kw_only=True, slots=True)
class QLearningParameters(LearningParameters):
    """Settings of `ql` and `ql-fa`."""

    least_alpha: float = setting(0.1, low=0, high=1)
    """Floor of the learning rate, which starts at 1."""
    least_epsilon: float = setting(0.01, low=0, high=1)
    """Floor of the probability to explore, which starts at 1."""


def _prepare(parameters: QLearningParameters, view: View, ticks: int) -> Memory:
    actions = int(count_actions(view))
    keys = count_keys(view, levels=int(parameters.levels), actions=actions)
    return new_memory(parameters, view, keys=keys, writes=ticks)


def new_memory(parameters: QLearningParameters, view: View, *, keys: int, writes: int) -> Memory:
    """Return memory with an empty table."""
    return allocate_table(QLearningMemory, view, parameters, keys=keys, writes=writes)


@compiled
def find_best(o: int, view: View, own: QLearningMemory) -> tuple[int, float]:
    """Return the valid action of least Q in the present state, and that value."""
    counts, levels = view.counts[o], own.levels
    level = level_of(view.seen[o].rate, own.quantum, levels)
    actions, size = count_actions(view), total(counts)
    here = encode(counts, view.model[o].max_replicas + 1, level, levels) * actions
    keys, values = own.keys, own.values
    best, best_cost = 0, np.inf
    for action in range(actions):
        if is_valid(o, view, counts, size, action):
            value = read(keys, values, here + action)
            if value < best_cost:
                best, best_cost = action, value
    return best, best_cost


@compiled
def learn(o: int, view: View, memory: Memory) -> None:
    """Update Q of the last action with what the interval cost."""
    own = QLearningMemory(memory[o])
    action = find_action(view.counts_before[o], view.counts[o])
    if action >= 0:
        levels = own.levels
        level = level_of(view.before[o].rate, own.quantum, levels)
        base, actions = view.model[o].max_replicas + 1, count_actions(view)
        key = encode(view.counts_before[o], base, level, levels) * actions + action
        _, following = find_best(o, view, own)
        alpha = learning_rate(own.updates, own.least_alpha)
        place = find_place(own.keys, key)
        aim = observed_cost(o, view) + own.gamma * following
        if not np.isnan(aim):  # an interval of unknown cost teaches nothing
            own.values[place] = (1 - alpha) * own.values[place] + alpha * aim
    own.updates += 1


@compiled
def decide(o: int, view: View, memory: Memory) -> None:
    """Take the valid action of least Q, or explore."""
    own = QLearningMemory(memory[o])
    if view.draws[o, 0] <= exploration_rate(own.updates, own.least_epsilon):
        choose_action(o, view, draw_action(o, view))
    else:
        best, _ = find_best(o, view, own)
        choose_action(o, view, best)


def _explain(observation: Observation, target: Deployment, view: View, memory: Memory) -> Decision:
    own = QLearningMemory(memory[0])
    levels, base = int(own.levels), int(view.model[0].max_replicas) + 1
    level = level_of(observation.rate, own.quantum, levels)
    here = encode(view.counts[0], base, level, levels) * count_actions(view)
    scores = name_scores(view, lambda action: read(own.keys, own.values, here + action))
    epsilon = exploration_rate(own.updates, own.least_epsilon)
    reason = describe_why(view, epsilon, own.updates, target, scores)
    return explain_scores(observation, target, reason, scores)


def describe_why(
    view: View,
    epsilon: float,
    updates: int,
    target: Deployment,
    scores: Mapping[Deployment, float],
) -> str:
    """Return why a learner that explores with this probability chose its target."""
    if view.draws[0, 0] <= epsilon:
        return f"chosen at random, as {epsilon:.0%} of decisions are"
    return (
        f"the lowest expected cost of {len(scores)} actions, {scores[target]:.3g}, "
        f"after learning from {updates:,} intervals"
    )


define = definition(
    QLearningParameters,
    _prepare,
    learn=learn,
    decide=decide,
    explain=_explain,
    needed=("budget",),
    grow=partial(grow, QLearningMemory),
    draws=True,
)
