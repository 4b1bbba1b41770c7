"""Model-based reinforcement learning: `model-based`, which learns a model and plans with it.

    P(l, l') = how often level l' followed level l, each level having stayed once to begin with
    c(k, l)  = probability that k breaks the budget at level l, from 0 on:
               c <- (1 - alpha) c + alpha [it did], then no higher level may be less likely to,
               and no lower one more likely
    U        = improved by `sweeps` sweeps of `kernels.planning`, after every interval while fewer
               than `eager` were seen, then every `period` intervals, a period that grows
    a        = the valid action of least value; the first of equals, staying first

It never explores: what it does not know counts as free of violations.

Source: the program behind Russo Russo, Cardellini, Lo Presti, ACM TAAS 2023, which has it beside
the policies of the paper. `published: 1` keeps its slip: putting the probabilities in order moves
the level of the state in hand, so that after a change the action is chosen for, and remembered
with, the highest level (after a rise) or the next lower one (after a fall).
"""

from __future__ import annotations

from dataclasses import dataclass

from weir_policies.kernels.compiled import compiled
from weir_policies.kernels.explaining import explain_scores
from weir_policies.kernels.levels import LearningParameters, learning_rate, level_of
from weir_policies.kernels.planning import (
    Plan,
    count_transition,
    find_best,
    find_neighbours,
    new_plan,
    remember_prices,
    score_actions,
    sweep,
)
from weir_policies.kernels.policy import definition
from weir_policies.kernels.ranking import number_of
from weir_policies.kernels.steps import choose_action
from weir_policies.kernels.view import Memory, View
from weir_policies.model.node_types import Deployment
from weir_policies.parameters import setting
from weir_policies.policy import Decision, Observation

LONGEST = 50_000.0
"""Intervals that a period grows to."""


class ModelBasedPlan(Plan):
    """A plan, and when it is made."""

    least_alpha: float
    period: float
    growth: float
    next_planning: float
    """Updates after which it is planned."""
    moved_at: float
    """Time of the state whose level was moved."""
    eager: int
    sweeps: int
    published: int
    updates: int
    moved: int
    """What its level was moved to."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelBasedParameters(LearningParameters):
    """Settings of `model-based`."""

    least_alpha: float = setting(0.1, low=0, high=1)
    """Floor of the learning rate of c, which starts at 1."""
    eager: int = setting(100, low=0, whole=True)
    """Intervals below which every one is followed by planning."""
    period: float = setting(50.0, low=1)
    """Intervals from one planning to the next afterwards."""
    growth: float = setting(1.0, low=1)
    """What the period is multiplied by each time; up to 50,000 intervals."""
    sweeps: int = setting(1, low=1, high=10_000, whole=True)
    """Sweeps of one planning."""
    published: int = setting(0, low=0, high=1)
    """1 moves the level of the state in hand."""


def _prepare(parameters: ModelBasedParameters, view: View, ticks: int) -> Memory:
    return new_plan(
        ModelBasedPlan,
        view,
        parameters,
        policy="model-based",
        unseen_stay=True,
        next_planning=parameters.eager,
        moved_at=-1.0,
    )


@compiled
def present_level(rate: float, time: float, own: ModelBasedPlan) -> int:
    """Return the level of a rate seen at a time; under `published` what it was moved to."""
    if own.published and time == own.moved_at:
        return own.moved
    return level_of(rate, own.quantum, own.levels)


@compiled
def learn_violation(o: int, view: View, own: ModelBasedPlan, level: int) -> int:
    """Update c with the last interval and put it in order; return -1, 0 or 1 for how it moved."""
    here = number_of(view.counts[o], view.model[o].max_replicas)
    violations = own.violations[here]
    alpha = learning_rate(own.updates, own.least_alpha)
    old = violations[level]
    new = (1 - alpha) * old + alpha * view.cost[o].violation
    violations[level] = new
    if new > old:
        for higher in range(level + 1, own.levels):
            violations[higher] = max(violations[higher], new)
        return 1
    if new < old:
        for lower in range(level):
            violations[lower] = min(violations[lower], new)
        return -1
    return 0


@compiled
def learn(o: int, view: View, memory: Memory) -> None:
    """Learn the transition and the violation, and plan where it is due."""
    own = ModelBasedPlan(memory[o])
    level = level_of(view.seen[o].rate, own.quantum, own.levels)
    before = present_level(view.before[o].rate, view.before[o].time, own)
    count_transition(own, before, level)
    direction = learn_violation(o, view, own, level)
    own.moved = level
    if direction > 0:
        own.moved = own.levels - 1
    elif direction < 0:
        own.moved = max(level - 1, 0)
    own.moved_at = view.seen[o].time
    own.updates += 1
    if own.updates < own.eager or own.updates >= own.next_planning:
        find_neighbours(o, view, own)  # the room that other operators leave changes
        remember_prices(o, view, own)
        for _ in range(own.sweeps):
            sweep(o, view, own)
    if own.updates >= own.next_planning:
        own.next_planning = own.updates + own.period
        own.period = min(own.period * own.growth, LONGEST)


@compiled
def decide(o: int, view: View, memory: Memory) -> None:
    """Take the action of least value."""
    own = ModelBasedPlan(memory[o])
    choose_action(
        o, view, find_best(o, view, own, present_level(view.seen[o].rate, view.seen[o].time, own))
    )


def _explain(observation: Observation, target: Deployment, view: View, memory: Memory) -> Decision:
    own = ModelBasedPlan(memory[0])
    scores = score_actions(view, own, present_level(observation.rate, observation.time, own))
    reason = (
        f"the learned model expects the lowest cost of {len(scores)} actions, "
        f"{scores[target]:.3g}, after learning from {own.updates:,} intervals"
    )
    return explain_scores(observation, target, reason, scores)


define = definition(
    ModelBasedParameters, _prepare, learn=learn, decide=decide, explain=_explain, needed=("budget",)
)
