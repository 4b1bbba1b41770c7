"""The Markov decision processes of 2018: `mdp`, planned, and `mdp-rl`, learned.

Both take the rate for a Markov chain and judge an operator by its utilisation:

    c = w_res k'/K + w_rcf [a] + w_util [U(k', l') > max_utilisation],      k' = k + a
    V(s) = min_a  sum_l' P(l, l') (c + gamma V(k', l'))

`mdp` knows U by the queueing model and P by a training trace, and plans once. Without a trace, as
in a live controller, it counts what it sees, holds until it has seen `first_solve` intervals,
plans, and plans again whenever it has seen twice as many.

`mdp-rl` begins with nothing; after every interval it counts the transition, learns the violation
(`known: 1` takes it from the queueing model instead, which the paper calls RL+) and sweeps once:

    C_u(k', l') <- (1 - alpha) C_u + alpha w_util [violated]

`centralised: 1` decides for all operators at once, with the same arithmetic on the joint state
space. Then a violation is that of the response time: any operator's beyond its budget.

Source: Russo Russo, ZEUS 2018, equations 1 to 6, algorithm 1. Departures:
1. The unknown cost is kept per next state; equation 6 keeps it per state and action, which fits the
   published numbers less well.
2. The centralised violation is any operator's response time beyond its budget; there it is the
   application's, beyond T_SLA.
3. Replicas count as ones of the node type `node_type`, see `kernels.homogeneous`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from weir_policies.kernels.chains import estimate_chain, fill_chain
from weir_policies.kernels.compiled import compiled
from weir_policies.kernels.explaining import explain_rule, explain_scores
from weir_policies.kernels.homogeneous import (
    ALPHA,
    DEPLOYMENTS,
    GAIN,
    HEAD,
    JOINT,
    LEVELS,
    OWN,
    QUANTUM,
    find_gains,
    judge_all,
    level_at,
    new_plan,
    number_at,
    observe_level,
    remember_resources,
    sweep,
    take_best,
    was_violated,
)
from weir_policies.kernels.levels import LevelParameters
from weir_policies.kernels.policy import Algorithm
from weir_policies.kernels.unknown_costs import learn_cost
from weir_policies.kernels.view import RATE, WEIGHT_VIOLATION, Memory, View
from weir_policies.model.arrays import Floats
from weir_policies.model.node_types import Deployment
from weir_policies.operator_manager.mdp_scores import score_actions
from weir_policies.parameters import read_parameters, refuse_outside
from weir_policies.policy import Decision, Neighbourhood, Observation

LEARNED, NEXT, KNOWN = OWN, OWN + 1, OWN + 2  # columns of `Memory.ints`
CLOSE = 1e-6
"""Change of a value below which a sweep of `mdp` is the last."""
SWEEPS = 10_000
"""Most sweeps of one planning."""
TRAINED = -1
"""Stands in `NEXT` where a training trace has settled the plan."""


@dataclass(frozen=True, kw_only=True, slots=True)
class MdpParameters(LevelParameters):
    """Settings of `mdp`.

    Raises:
        ParameterError: One is out of its range.
    """

    gamma: float = 0.99
    """Weight of the next interval's costs against this one's."""
    max_utilisation: float = 0.7
    """Utilisation above which an interval counts as violated; unused where centralised."""
    centralised: int = 0
    """1 decides for all operators at once."""
    node_type: int = 0
    """Place of the node type that it adds, counted from 0."""
    first_solve: int = 120
    """Intervals to be seen before the first plan, where there is no training trace."""

    def __post_init__(self) -> None:
        """Refuse what is out of range."""
        LevelParameters.__post_init__(self)
        refuse_outside("gamma", self.gamma, low=0, high=1, high_allowed=False)
        refuse_outside("max_utilisation", self.max_utilisation, low=0, low_allowed=False, high=1)
        refuse_outside("centralised", self.centralised, low=0, high=1)
        refuse_outside("node_type", self.node_type, low=0)
        refuse_outside("first_solve", self.first_solve, low=1)


@dataclass(frozen=True, kw_only=True, slots=True)
class MdpRlParameters(LevelParameters):
    """Settings of `mdp-rl`.

    Raises:
        ParameterError: One is out of its range.
    """

    gamma: float = 0.99
    """Weight of the next interval's costs against this one's."""
    alpha: float = 0.1
    """Weight of a new observation of a state's violations."""
    known: int = 0
    """1 takes violations from the queueing model instead of learning them: RL+."""
    max_utilisation: float = 0.7
    """Utilisation above which an interval counts as violated; unused where centralised."""
    centralised: int = 0
    """1 decides for all operators at once."""
    node_type: int = 0
    """Place of the node type that it adds, counted from 0."""

    def __post_init__(self) -> None:
        """Refuse what is out of range."""
        LevelParameters.__post_init__(self)
        refuse_outside("gamma", self.gamma, low=0, high=1, high_allowed=False)
        refuse_outside("alpha", self.alpha, low=0, high=1)
        refuse_outside("known", self.known, low=0, high=1)
        refuse_outside("max_utilisation", self.max_utilisation, low=0, low_allowed=False, high=1)
        refuse_outside("centralised", self.centralised, low=0, high=1)
        refuse_outside("node_type", self.node_type, low=0)


def define(values: Mapping[str, Any], *, name: str) -> Algorithm:
    """Return the algorithm registered as `mdp` or `mdp-rl`, its parameters bound."""
    planned = name == "mdp"
    parameters: MdpParameters | MdpRlParameters
    if planned:
        parameters = read_parameters(MdpParameters, values, policy=name)
    else:
        parameters = read_parameters(MdpRlParameters, values, policy=name)
    known = isinstance(parameters, MdpParameters) or bool(parameters.known)
    model = ("model.service_mean", "model.service_scv") if known else ()
    return Algorithm(
        neighbourhood=Neighbourhood.ONE,
        prepare=partial(_prepare, parameters, name),
        learn=learn_for_plan if planned else learn,
        decide=decide_by_plan if planned else decide,
        explain=_explain_plan if planned else _explain,
        needed=("budget", *model) if parameters.centralised else model,
        train=train if planned else None,
        joint=bool(parameters.centralised),
    )


def _prepare(
    parameters: MdpParameters | MdpRlParameters, name: str, view: View, ticks: int
) -> Memory:
    joint = bool(parameters.centralised)
    memory = new_plan(
        view,
        parameters,
        policy=name,
        gamma=parameters.gamma,
        alpha=0.0 if isinstance(parameters, MdpParameters) else parameters.alpha,
        node_type=int(parameters.node_type),
        most_busy=np.inf if joint else parameters.max_utilisation,
        joint=joint,
    )
    if isinstance(parameters, MdpParameters):
        memory.ints[:, NEXT] = int(parameters.first_solve)
    else:
        memory.ints[:, KNOWN] = int(parameters.known)
    return memory


def train(view: View, memory: Memory, rates: Floats) -> Memory:
    """Plan for rates, `(n,)`, records/s at every source, that are like those to come."""
    levels = int(memory.ints[0, LEVELS])
    counted = HEAD + levels * levels
    for o, gain in enumerate(find_gains(view)):
        quantum = memory.floats[o, QUANTUM] * memory.floats[o, GAIN]
        seen = (rates * gain / quantum + 0.5).astype(np.int64).clip(max=levels - 1)
        fill_chain(
            estimate_chain(seen, number=levels),
            memory.floats[o, HEAD:counted],
            memory.floats[o, counted : counted + levels],
            memory.ints[o, HEAD : HEAD + levels],
            memory.ints[o, HEAD + levels : HEAD + 2 * levels],
        )
        memory.ints[o, NEXT] = TRAINED
        solve(o, view, memory)
        if memory.ints[o, JOINT]:
            break
    return memory


@compiled
def solve(o: int, view: View, memory: Memory) -> None:
    """Iterate values until they stand, with the chain counted so far and the believed model."""
    judge_all(o, view, memory)
    remember_resources(o, view, memory)
    for _ in range(SWEEPS):
        if sweep(o, view, memory) < CLOSE:
            break


@compiled
def learn_for_plan(o: int, view: View, memory: Memory) -> None:
    """Without a training trace: count the transition, and plan where enough are new."""
    if memory.ints[o, NEXT] == TRAINED:
        return
    observe_level(o, view, memory)
    memory.ints[o, LEARNED] += 1
    if memory.ints[o, LEARNED] >= memory.ints[o, NEXT]:
        solve(o, view, memory)
        memory.ints[o, NEXT] = 2 * memory.ints[o, LEARNED]


@compiled
def decide_by_plan(o: int, view: View, memory: Memory) -> None:
    """Take the action that the plan says; without one, stay."""
    take_best(o, view, memory)


@compiled
def learn(o: int, view: View, memory: Memory) -> None:
    """Count the transition, learn or work out the violations, sweep once."""
    observe_level(o, view, memory)
    levels = memory.ints[o, LEVELS]
    states = memory.ints[o, DEPLOYMENTS] * levels
    if memory.ints[o, KNOWN]:
        judge_all(o, view, memory)
    else:
        place = number_at(o, view, memory) * levels + level_at(o, memory, view.seen[o, RATE])
        cost = view.traits[o, WEIGHT_VIOLATION] * was_violated(o, view, memory)
        unknown = memory.values[o, 4 * states : 5 * states]
        learn_cost(unknown, place, cost, memory.floats[o, ALPHA])
    remember_resources(o, view, memory)
    sweep(o, view, memory)
    memory.ints[o, LEARNED] += 1


@compiled
def decide(o: int, view: View, memory: Memory) -> None:
    """Take the action of least Q."""
    take_best(o, view, memory)


def _explain_plan(
    observation: Observation, target: Deployment, view: View, memory: Memory
) -> Decision:
    """Compare the planned values, or say why there is no plan yet."""
    seen, wanted = memory.ints[0, LEARNED], memory.ints[0, NEXT]
    if wanted != TRAINED and seen < wanted and not memory.values[0].any():
        reason = f"it has no training trace, and of {wanted} intervals that it needs saw {seen}"
        return explain_rule(observation, target, reason)
    scores = score_actions(view, memory)
    reason = f"of {len(scores)} actions the plan expects it to cost least, {scores[target]:.3g}"
    return explain_scores(observation, target, reason, scores)


def _explain(observation: Observation, target: Deployment, view: View, memory: Memory) -> Decision:
    """Compare Q of all valid actions."""
    scores = score_actions(view, memory)
    reason = (
        f"of {len(scores)} actions it has the least expected cost, {scores[target]:.3g}, "
        f"after {memory.ints[0, LEARNED]:,} intervals learned"
    )
    return explain_scores(observation, target, reason, scores)
