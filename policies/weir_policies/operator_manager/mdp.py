"""The Markov decision processes of 2018: `mdp`, planned, and `mdp-rl`, learned.

Both take the rate for a Markov chain and judge an operator by its utilisation:

    c = w_res k'/K + w_rcf [a] + w_util [U(k', l') > max_utilisation],      k' = k + a
    V(s) = min_a  sum_l' P(l, l') (c + gamma V(k', l'))

`mdp` computes U from the queueing model and P from a training trace, and plans once. Without a
trace, as in a live controller, it counts transitions, holds until it has counted `first_solve`
intervals, plans, and plans again whenever their number has doubled.

`mdp-rl` begins with nothing; after every interval it counts the transition, learns the violation
(`known: 1` takes it from the queueing model instead, which the paper calls RL+) and sweeps once:

    C_u(k', l') <- (1 - alpha) C_u + alpha w_util [violated]

`centralised: 1` decides for all operators at once, with the same arithmetic on the joint state
space. Then a violation is that of the response time: any operator's beyond its budget or, with
`end_to_end: 1`, the slowest path's beyond the greatest sum of budgets along a path.

Source: Russo Russo, ZEUS 2018, equations 1 to 6, algorithm 1. Departures:
1. The unknown cost is kept per next state; equation 6 keeps it per state and action, which fits the
   published numbers less well.
2. Without `end_to_end` the centralised violation is any operator's response time beyond its budget;
   there it is the application's, beyond T_SLA.
3. Replicas count as ones of the node type `node_type`, see `kernels.homogeneous`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from weir_policies.kernels.compiled import compiled
from weir_policies.kernels.explaining import explain_rule, explain_scores
from weir_policies.kernels.homogeneous import (
    EACH,
    PATH,
    HomogeneousPlan,
    choose_best,
    estimate_chain,
    fill_chain,
    judge_all,
    learn_cost,
    level_at,
    new_plan,
    number_at,
    observe_level,
    remember_resources,
    score_actions,
    score_joint_actions,
    sweep,
    was_violated,
)
from weir_policies.kernels.levels import LearningParameters, find_gains
from weir_policies.kernels.policy import Algorithm
from weir_policies.kernels.view import Memory, View
from weir_policies.model.arrays import Floats
from weir_policies.model.node_types import Deployment
from weir_policies.parameters import read_parameters, setting
from weir_policies.policy import Decision, Observation

MODEL = ("model.service_mean", "model.service_scv")
"""What must be known where violations are worked out."""
CLOSE = 1e-6
"""Change of a value below which a sweep of `mdp` is the last."""
SWEEPS = 10_000
"""Most sweeps of one planning."""
TRAINED = -1
"""Stands in `next_solve` where a training trace has settled the plan."""


class MdpPlan(HomogeneousPlan):
    """A plan, and from how much it was learned."""

    learned: int
    """Intervals."""
    next_solve: int
    """Intervals learned at which `mdp` plans; `TRAINED`."""
    known: int
    """1 where `mdp-rl` takes violations from the queueing model."""


@dataclass(frozen=True, kw_only=True, slots=True)
class _Parameters(LearningParameters):
    """Settings of `mdp` and `mdp-rl`."""

    max_utilisation: float = setting(0.7, low=0, low_allowed=False, high=1)
    """Utilisation above which an interval counts as violated; unused where centralised."""
    centralised: int = setting(0, low=0, high=1)
    """1 decides for all operators at once."""
    end_to_end: int = setting(0, low=0, high=1)
    """Where centralised, 1 judges the response time of the slowest path, 0 each operator's."""
    node_type: int = setting(0, low=0)
    """Place of the node type that it adds, counted from 0."""


@dataclass(frozen=True, kw_only=True, slots=True)
class MdpParameters(_Parameters):
    """Settings of `mdp`."""

    first_solve: int = setting(120, low=1)
    """Intervals to be seen before the first plan, where there is no training trace."""


@dataclass(frozen=True, kw_only=True, slots=True)
class MdpRlParameters(_Parameters):
    """Settings of `mdp-rl`."""

    alpha: float = setting(0.1, low=0, high=1)
    """Weight of a new observation of a state's violations."""
    known: int = setting(0, low=0, high=1)
    """1 takes violations from the queueing model instead of learning them: RL+."""


def define(values: Mapping[str, Any], *, name: str) -> Algorithm:
    """Return the algorithm registered as `mdp` or `mdp-rl`, its parameters bound."""
    return (_define_mdp if name == "mdp" else _define_mdp_rl)(values, name=name)


def _define_mdp(values: Mapping[str, Any], *, name: str) -> Algorithm:
    parameters = read_parameters(MdpParameters, values, policy=name)
    return Algorithm(
        prepare=partial(_prepare, parameters, name, next_solve=int(parameters.first_solve)),
        learn=learn_for_plan,
        decide=choose_best,
        explain=_explain_plan,
        needed=("budget", *MODEL) if parameters.centralised else MODEL,
        train=train,
        joint=bool(parameters.centralised),
        explain_jointly=_explain_joint_plan,
    )


def _define_mdp_rl(values: Mapping[str, Any], *, name: str) -> Algorithm:
    parameters = read_parameters(MdpRlParameters, values, policy=name)
    model = MODEL if parameters.known else ()
    return Algorithm(
        prepare=partial(_prepare, parameters, name),
        learn=learn,
        decide=choose_best,
        explain=_explain,
        needed=("budget", *model) if parameters.centralised else model,
        joint=bool(parameters.centralised),
        explain_jointly=_explain_jointly,
    )


def _prepare(parameters: _Parameters, name: str, view: View, ticks: int, **values: int) -> Memory:
    joint = (PATH if parameters.end_to_end else EACH) if parameters.centralised else 0
    return new_plan(
        MdpPlan,
        view,
        parameters,
        policy=name,
        node_type=int(parameters.node_type),
        most_busy=np.inf if joint else parameters.max_utilisation,
        joint=joint,
        **values,
    )


def train(view: View, memory: Memory, rates: Floats) -> Memory:
    """Plan for rates, `(n,)`, records/s at every source, similar to the future ones."""
    for o, gain in enumerate(find_gains(view)):
        own = MdpPlan(memory[o])
        levels = int(own.levels)
        quantum = own.quantum * own.gain
        seen = (rates * gain / quantum + 0.5).astype(np.int64).clip(max=levels - 1)
        fill_chain(own, estimate_chain(seen, number=levels))
        own.next_solve = TRAINED
        solve(o, view, memory)
        if own.joint:
            break
    return memory


@compiled
def solve(o: int, view: View, memory: Memory) -> None:
    """Iterate values until they converge, with the chain counted so far and the believed model."""
    judge_all(o, view, memory)
    remember_resources(o, view, memory)
    own = MdpPlan(memory[o])
    for _ in range(SWEEPS):
        if sweep(o, view, own) < CLOSE:
            break


@compiled
def learn_for_plan(o: int, view: View, memory: Memory) -> None:
    """Without a training trace: count the transition, and plan where enough are new."""
    own = MdpPlan(memory[o])
    if own.next_solve == TRAINED:
        return
    observe_level(o, view, own)
    own.learned += 1
    if own.learned >= own.next_solve:
        solve(o, view, memory)
        own.next_solve = 2 * own.learned


@compiled
def learn(o: int, view: View, memory: Memory) -> None:
    """Count the transition, learn or work out the violations, sweep once."""
    own = MdpPlan(memory[o])
    observe_level(o, view, own)
    if own.known:
        judge_all(o, view, memory)
    else:
        cost = view.model[o].weight_violation * was_violated(o, view, own)
        learn_cost(own, number_at(o, view, own), level_at(own, view.seen[o].rate), cost)
    remember_resources(o, view, memory)
    sweep(o, view, own)
    own.learned += 1


def _explain_plan(
    observation: Observation, target: Deployment, view: View, memory: Memory
) -> Decision:
    if _lacks_plan(memory):
        return explain_rule(observation, target, _describe_what_lacks(memory))
    scores = score_actions(view, memory)
    reason = f"the plan expects the lowest cost of {len(scores)} actions, {scores[target]:.3g}"
    return explain_scores(observation, target, reason, scores)


def _explain_joint_plan(view: View, memory: Memory) -> str:
    if _lacks_plan(memory):
        return _describe_what_lacks(memory)
    scores = score_joint_actions(view, memory)
    return f"the plan expects the lowest cost of {len(scores)} joint actions, {min(scores):.3g}"


def _explain_jointly(view: View, memory: Memory) -> str:
    scores = score_joint_actions(view, memory)
    return (
        f"the lowest expected cost of {len(scores)} joint actions, {min(scores):.3g}, "
        f"after learning from {MdpPlan(memory[0]).learned:,} intervals"
    )


def _lacks_plan(memory: Memory) -> bool:
    """Return whether neither a training trace nor enough intervals have led to a plan yet."""
    own = MdpPlan(memory[0])
    waits = own.next_solve != TRAINED and own.learned < own.next_solve
    return bool(waits and not own.expected.any())


def _describe_what_lacks(memory: Memory) -> str:
    own = MdpPlan(memory[0])
    return (
        f"there is no training trace, and only {own.learned} of the {own.next_solve} intervals "
        "that a plan needs have been measured"
    )


def _explain(observation: Observation, target: Deployment, view: View, memory: Memory) -> Decision:
    scores = score_actions(view, memory)
    reason = (
        f"the lowest expected cost of {len(scores)} actions, {scores[target]:.3g}, "
        f"after learning from {MdpPlan(memory[0]).learned:,} intervals"
    )
    return explain_scores(observation, target, reason, scores)
