"""Deep Q-learning: `dqn`, a network Q(s) with one output per action.

    a      = with probability epsilon any valid action, else the valid one of least Q(s)[a]
    buffer <- (s, a, s', cost), every interval
    every `fit_every` intervals, for `batch` intervals drawn from the buffer:
    Q(s)[a] is moved by gradient descent towards  cost + gamma min_a' Q(s')[a'],  a' valid in s'

There is no second network for the targets. The other outputs of s are left as they are.

Source: Russo Russo, Cardellini, Lo Presti, ACM TAAS 2023, section 4.2, algorithm 2. `published: 1`
takes the minimum over all actions, valid or not, as the program behind the published tables did.
Departure from the paper: a network whose weights diverged starts over.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from weir_policies.deep.memory import (
    DeepMemory,
    begin_diverged_anew,
    draw_choices,
    draw_due,
    prepare_memory,
    remember,
)
from weir_policies.deep.network import evaluate, fit
from weir_policies.deep.parameters import DeepParameters
from weir_policies.deep.policy import DeepAlgorithm
from weir_policies.deep.replay import Batch
from weir_policies.deep.weighing import (
    choose_min,
    encode_states,
    present_levels,
    rule_out,
)
from weir_policies.kernels.explaining import explain_scores, name_scores
from weir_policies.kernels.levels import exploration_rate
from weir_policies.kernels.view import View
from weir_policies.model.arrays import Floats
from weir_policies.model.node_types import Deployment
from weir_policies.parameters import read_parameters, setting
from weir_policies.policy import Decision, Observation


@dataclass(frozen=True, kw_only=True, slots=True)
class DqnParameters(DeepParameters):
    """Settings of `dqn`."""

    least_epsilon: float = setting(0.01, low=0, high=1)
    """Floor of the probability to explore, which starts at 1."""


def define(values: Mapping[str, Any], *, name: str) -> DeepAlgorithm:
    """Return the algorithm registered as `dqn`, its parameters bound."""
    parameters = read_parameters(DqnParameters, values, policy=name)
    return DeepAlgorithm(
        parameters=parameters,
        prepare=partial(_prepare, parameters),
        learn=partial(learn, parameters),
        decide=partial(decide, parameters),
        explain=partial(_explain, parameters),
    )


def _prepare(
    parameters: DqnParameters, view: View, rngs: Sequence[np.random.Generator]
) -> DeepMemory:
    memory = prepare_memory(parameters, view, rngs, outputs=2 * view.counts.shape[1] + 1)
    draw_choices(memory)
    return memory


def learn(parameters: DqnParameters, view: View, memory: DeepMemory) -> None:
    """Remember the interval, make a step of gradient descent where one is due."""
    costs = np.zeros(len(view.counts))
    for part in ("violation", "resources", "reconfiguration"):
        costs += view.model[f"weight_{part}"] * view.cost[part]
    if not remember(memory, view, costs):
        return
    batch = draw_due(memory, parameters)
    if batch is not None:
        aims = find_aims(parameters, view, memory, batch)
        if begin_diverged_anew(memory, aims):
            aims = find_aims(parameters, view, memory, batch)
        states = encode_states(memory.scheme, batch.before, batch.level_before)
        fit(memory.network, states, batch.actions, aims, learning_rate=parameters.learning_rate)
    draw_choices(memory)


def find_aims(parameters: DqnParameters, view: View, memory: DeepMemory, batch: Batch) -> Floats:
    """Return what the output of each action taken should have been, `(r, b)`."""
    following = encode_states(memory.scheme, batch.after, batch.level_after)
    outputs: Floats = evaluate(memory.network, following).astype(np.float64)  # r x b x a
    if not parameters.published:
        ruled_out = np.empty(outputs.shape)
        rule_out(view, batch.after, ruled_out)
        with np.errstate(invalid="ignore"):  # -inf of a diverged network, which `learn` sees to
            outputs += ruled_out
    return batch.costs + parameters.gamma * outputs.min(axis=2)


def score_actions(view: View, memory: DeepMemory) -> Floats:
    """Return Q(s) in the present state of each run, `(r, a)`."""
    levels = present_levels(view, memory.quanta, memory.scheme.levels)
    here = encode_states(memory.scheme, view.counts[:, None], levels[:, None])
    return evaluate(memory.network, here)[:, 0].astype(np.float64)


def decide(parameters: DqnParameters, view: View, memory: DeepMemory) -> None:
    """Take the valid action of least Q, or explore."""
    epsilon = exploration_rate(memory.learned, parameters.least_epsilon)
    choose_min(view, score_actions(view, memory), epsilon, memory.draws)


def _explain(
    parameters: DqnParameters,
    observation: Observation,
    target: Deployment,
    view: View,
    memory: DeepMemory,
) -> Decision:
    scores = name_scores(view, score_actions(view, memory)[0].__getitem__)
    epsilon = exploration_rate(memory.learned, parameters.least_epsilon)
    if memory.draws[0, 0] < epsilon:
        reason = f"chosen at random, as {epsilon:.0%} of decisions are"
    else:
        reason = (
            f"the network expects the lowest cost of {len(scores)} actions, "
            f"{scores[target]:.3g}, after learning from {memory.learned:,} intervals"
        )
    return explain_scores(observation, target, reason, scores)
