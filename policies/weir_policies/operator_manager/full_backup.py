"""Full backup: `full-backup`, reinforcement learning that learns a model and plans every interval.

    P(l, l') = how often rate level l' followed level l, each having stayed once to begin with
    C(k, l)  = what violations of k replicas at level l are expected to cost:
               C <- (1 - alpha) C + alpha c_violation, then C(k', l') is raised to it where
               k' <= k and l' >= l, and lowered to it where k' >= k and l' <= l
    Q(k, l, a) = w_reconfiguration [a] + w_resources k'/k_max
                 + sum_l' P(l, l') (C(k', l') + gamma min_a' Q(k', l', a'))
    a        = the valid action of least Q; the first of equals: stay, remove, add

All Q are backed up once per interval, from those of the interval before. It never explores. Levels
are the multiples of `max_rate / levels` that are nearest to the rate.

How urgent a change is follows its score: the gain Q(stay) - Q(a), relative to the greatest gain
that any valid action had in any state visited so far, or to 1 while that is less.

Source: Cardellini, Lo Presti, Nardelli, Russo Russo, Future Generation Computer Systems 2018 (EDF),
section 5.2, algorithm 2, equations 3 to 5. There all nodes are alike; replicas count here as ones
of the node type `node_type`, see `kernels.homogeneous`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from weir_policies.kernels.compiled import compiled
from weir_policies.kernels.explaining import explain_rule, explain_scores
from weir_policies.kernels.homogeneous import (
    HomogeneousPlan,
    choose_best,
    learn_cost,
    level_at,
    new_plan,
    number_at,
    observe_level,
    remember_resources,
    repair,
    score_actions,
    sweep,
    was_violated,
)
from weir_policies.kernels.levels import LearningParameters
from weir_policies.kernels.policy import definition
from weir_policies.kernels.steps import can_move, total
from weir_policies.kernels.view import Memory, View
from weir_policies.kernels.wording import urgency_of_need, urgency_of_saving
from weir_policies.model.node_types import Deployment
from weir_policies.parameters import setting
from weir_policies.policy import Decision, Observation


class FullBackupPlan(HomogeneousPlan):
    """A plan, and how often and to what gain it was learned."""

    most_gain: float
    updates: int


@dataclass(frozen=True, kw_only=True, slots=True)
class FullBackupParameters(LearningParameters):
    """Settings of `full-backup`."""

    alpha: float = setting(0.1, low=0, high=1, low_allowed=False)
    """Weight of a new observation of a state's violations."""
    node_type: int = setting(0, low=0, whole=True)
    """Place of the node type that it adds, counted from 0."""


def _prepare(parameters: FullBackupParameters, view: View, ticks: int) -> Memory:
    return new_plan(
        FullBackupPlan,
        view,
        parameters,
        policy="full-backup",
        node_type=int(parameters.node_type),
        most_busy=np.inf,
        most_gain=1.0,
    )


@compiled
def value_of(o: int, view: View, own: FullBackupPlan, change: int) -> float:
    """Return Q of a change of the replicas in the present state."""
    after, level = number_at(o, view, own) + change, level_at(own, view.seen[o].rate)
    moving = view.model[o].weight_reconfiguration if change != 0 else 0.0
    return own.expected[after * own.levels + level] + moving


@compiled
def find_gain(o: int, view: View, own: FullBackupPlan, change: int) -> float:
    """Return by how much a change is better than staying, in the present state."""
    return value_of(o, view, own, 0) - value_of(o, view, own, change)


@compiled
def find_score(o: int, view: View, own: FullBackupPlan, change: int) -> float:
    """Return the gain of a change, relative to the greatest that was met."""
    return find_gain(o, view, own, change) / own.most_gain


@compiled
def learn(o: int, view: View, memory: Memory) -> None:
    """Count the transition, learn the violation, back up, and remember the greatest gain."""
    own = FullBackupPlan(memory[o])
    here, level = number_at(o, view, own), level_at(own, view.seen[o].rate)
    observe_level(o, view, own)
    cost = view.model[o].weight_violation * was_violated(o, view, own)
    learn_cost(own, here, level, cost)
    repair(own, here, level)
    remember_resources(o, view, memory)
    sweep(o, view, own)
    own.updates += 1
    size = total(view.counts[o])
    if size > 1:
        own.most_gain = max(own.most_gain, find_gain(o, view, own, -1))
    if can_move(o, view, view.counts[o], size, own.node_type, 1):
        own.most_gain = max(own.most_gain, find_gain(o, view, own, 1))


def _explain(observation: Observation, target: Deployment, view: View, memory: Memory) -> Decision:
    own = FullBackupPlan(memory[0])
    updates = int(own.updates)
    if updates == 0:
        return explain_rule(observation, target, "the policy has not learned from any interval yet")
    change = target.size - observation.deployment.size
    scores = score_actions(view, memory)
    reason = (
        f"the learned model expects the lowest cost of {len(scores)} actions, "
        f"{scores[target]:.3g}, after learning from {updates:,} intervals"
    )
    if change == 0:
        return explain_scores(observation, target, reason, scores)
    score = float(find_score(0, view, own, change))
    decision = explain_scores(observation, target, f"{reason}; its score is {score:.2g}", scores)
    urgency = urgency_of_need(score) if change > 0 else urgency_of_saving(score)
    return replace(decision, urgency=urgency)


define = definition(
    FullBackupParameters,
    _prepare,
    learn=learn,
    decide=choose_best,
    explain=_explain,
    needed=("budget",),
)
