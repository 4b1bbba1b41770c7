"""Value iteration: `value-iteration`, an optimal plan for a rate that is a Markov chain.

    P(l, l') = how often level l' followed level l in a training trace
    U        = the fixed point of `kernels.planning` under P, violations by the queueing model at
               the middle of a level; sweeps go on until nothing changes by `tolerance`
    a        = the valid action of least value; the first of equals, staying first

It plans once, before the first tick. Without a training trace, as in a live controller, it counts
transitions and holds until it has counted `first_solve`; then it plans, and again whenever their
number has doubled.

Source: Russo Russo, Cardellini, Lo Presti, ACM TAAS 2023, section 4 ("DP"). Departures:
1. A level that was never seen is taken to stay. `published: 1` lets nothing follow it, as the
   program behind the published figures did: there all is then free of cost.
2. Planning without a training trace is not in the paper.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from weir_policies.kernels.compiled import compiled
from weir_policies.kernels.explaining import explain_rule, explain_scores
from weir_policies.kernels.levels import LearningParameters, find_gains, level_of, middle_of
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
from weir_policies.kernels.prediction import predict_one
from weir_policies.kernels.steps import choose_action
from weir_policies.kernels.view import Memory, View
from weir_policies.model.arrays import Floats
from weir_policies.model.node_types import Deployment
from weir_policies.parameters import setting
from weir_policies.policy import Decision, Observation

SWEEPS = 10_000
"""Most sweeps of one planning; with gamma 0.99 a thousand reach any sensible tolerance."""


class ValueIterationPlan(Plan):
    """A plan, and when it was and will be made."""

    tolerance: float
    trained: int
    planned: int
    learned: int
    """Intervals."""
    next_solve: int
    """Intervals learned at which it is planned."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ValueIterationParameters(LearningParameters):
    """Settings of `value-iteration`."""

    tolerance: float = setting(1e-4, low=0, low_allowed=False)
    """Change of a value below which a sweep is the last."""
    first_solve: int = setting(120, low=1, whole=True)
    """Intervals to be seen before the first plan, where there is no training trace."""
    published: int = setting(0, low=0, high=1)
    """1 lets nothing follow a level that was never seen."""


def _prepare(parameters: ValueIterationParameters, view: View, ticks: int) -> Memory:
    return new_plan(
        ValueIterationPlan,
        view,
        parameters,
        policy="value-iteration",
        unseen_stay=not parameters.published,
        next_solve=int(parameters.first_solve),
    )


def train(view: View, memory: Memory, rates: Floats) -> Memory:
    """Plan for rates, `(n,)`, records/s at every source, similar to the future ones."""
    for o, gain in enumerate(find_gains(view)):
        own = ValueIterationPlan(memory[o])
        levels = int(own.levels)
        seen = (rates * gain / own.quantum).astype(np.int64).clip(max=levels - 1)
        counted = np.zeros((levels, levels))
        np.add.at(counted, (seen[1:], seen[:-1]), 1.0)
        known = counted.sum(axis=0) > 0
        # What was assumed of a level gives way to what was seen of it.
        counted[:, ~known] = own.counted[:, ~known]
        own.counted[:] = counted
        own.left[:] = counted.sum(axis=0)
        own.trained = 1
        solve(o, view, own)
    return memory


@compiled
def solve(o: int, view: View, own: ValueIterationPlan) -> None:
    """Plan with the transitions counted, today's prices and the model as it is believed now."""
    find_neighbours(o, view, own)
    remember_prices(o, view, own)
    for deployment in range(own.deployments):
        counts = own.counts[deployment]
        for level in range(own.levels):
            time, _ = predict_one(o, view, counts, middle_of(level, own.quantum))
            own.violations[deployment, level] = 1.0 if time > view.seen[o].budget else 0.0
    for _ in range(SWEEPS):
        if sweep(o, view, own) < own.tolerance:
            break
    own.planned = 1


@compiled
def learn(o: int, view: View, memory: Memory) -> None:
    """Without a training trace: count the transition, and plan where enough are new."""
    own = ValueIterationPlan(memory[o])
    if own.trained:
        return
    before = level_of(view.before[o].rate, own.quantum, own.levels)
    count_transition(own, before, level_of(view.seen[o].rate, own.quantum, own.levels))
    own.learned += 1
    if own.learned >= own.next_solve:
        solve(o, view, own)
        own.next_solve = 2 * own.learned


@compiled
def decide(o: int, view: View, memory: Memory) -> None:
    """Take the action that the plan says; without one, stay."""
    own = ValueIterationPlan(memory[o])
    if own.planned == 0:
        choose_action(o, view, 0)
        return
    level = level_of(view.seen[o].rate, own.quantum, own.levels)
    choose_action(o, view, find_best(o, view, own, level))


def _explain(observation: Observation, target: Deployment, view: View, memory: Memory) -> Decision:
    own = ValueIterationPlan(memory[0])
    if not own.planned:
        reason = (
            f"there is no training trace, and only {own.learned} of the {own.next_solve} intervals "
            "that a plan needs have been measured"
        )
        return explain_rule(observation, target, reason)
    level = level_of(observation.rate, own.quantum, int(own.levels))
    scores = score_actions(view, own, level)
    reason = f"the plan expects the lowest cost of {len(scores)} actions, {scores[target]:.3g}"
    return explain_scores(observation, target, reason, scores)


define = definition(
    ValueIterationParameters,
    _prepare,
    learn=learn,
    decide=decide,
    explain=_explain,
    needed=("budget", "model.service_mean", "model.service_scv"),
    train=train,
)
