"""Deep Q-learning on post-decision states: `dqn-pds`, and with an estimate `dqn-pds-plus`.

As in `q_learning_pds`, but the values V of post-decision states (k', rate level) are the one output
of a network:

    q(s, a) = V(k', level) + c_estimated(k', level) + c_known(a, k')
    a       = the valid action of least q(s, a); the first of equals, staying first
    buffer <- (pds, s', c_violation), every interval
    every `fit_every` intervals, for `batch` intervals drawn from the buffer:
    V(pds) is moved by gradient descent towards
        c_violation - c_estimated(pds) + gamma min_a' q(s', a'),  a' valid in s'

It never explores. `dqn-pds-plus` estimates w_violation where the believed model says that k' breaks
the budget at the middle of the level; `dqn-pds` estimates 0.

Source: Russo Russo, Cardellini, Lo Presti, ACM TAAS 2023, section 4.3.1.
Departure from it: a network whose weights diverged starts over.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from weir_policies.deep.memory import (
    DeepMemory,
    begin_diverged_anew,
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
    estimate_violations,
    find_successors,
    present_levels,
)
from weir_policies.kernels.explaining import explain_scores, name_scores
from weir_policies.kernels.view import View
from weir_policies.model.arrays import Counts, Floats
from weir_policies.model.node_types import Deployment
from weir_policies.parameters import read_parameters
from weir_policies.policy import Decision, Observation

ESTIMATES = {"dqn-pds": False, "dqn-pds-plus": True}
"""Whether a policy estimates violations."""


def define(values: Mapping[str, Any], *, name: str) -> DeepAlgorithm:
    """Return the algorithm registered as `dqn-pds` or `dqn-pds-plus`, its parameters bound."""
    parameters = read_parameters(DeepParameters, values, policy=name)
    estimates = ESTIMATES[name]
    return DeepAlgorithm(
        parameters=parameters,
        prepare=partial(_prepare, parameters),
        learn=partial(learn, parameters, estimates),
        decide=partial(decide, estimates),
        explain=partial(_explain, estimates),
    )


def _prepare(
    parameters: DeepParameters, view: View, rngs: Sequence[np.random.Generator]
) -> DeepMemory:
    return prepare_memory(parameters, view, rngs, outputs=1)


def learn(parameters: DeepParameters, estimates: bool, view: View, memory: DeepMemory) -> None:
    """Remember the interval, make a step of gradient descent where one is due."""
    violations = view.model["weight_violation"] * view.cost["violation"]
    if not remember(memory, view, violations):
        return
    batch = draw_due(memory, parameters)
    if batch is not None:
        aims = find_aims(parameters, estimates, view, memory, batch)
        if begin_diverged_anew(memory, aims):
            aims = find_aims(parameters, estimates, view, memory, batch)
        states = encode_states(memory.scheme, batch.after, batch.level_before)
        only = np.zeros_like(batch.actions)
        fit(memory.network, states, only, aims, learning_rate=parameters.learning_rate)


def find_aims(
    parameters: DeepParameters, estimates: bool, view: View, memory: DeepMemory, batch: Batch
) -> Floats:
    """Return what V of each post-decision state should have been, `(r, b)`."""
    following = score_actions(estimates, view, memory, batch.after, batch.level_after)
    aims = batch.costs + parameters.gamma * following.min(axis=2)
    if estimates:
        expected = np.empty(aims.shape)
        estimate_violations(view, batch.after, batch.level_before, memory.quanta, expected)
        aims -= expected
    return aims


def score_actions(
    estimates: bool, view: View, memory: DeepMemory, counts: Counts, levels: Counts
) -> Floats:
    """Return q(s, a) in `b` states of each run, `(r, b, a)`; `inf` where an action is not valid.

    Args:
        estimates: Whether violations are estimated.
        view: Prices, limits, weights and the believed model of each run.
        memory: Where the network is.
        counts: Deployments, `(r, b, t)`.
        levels: Levels of the rate, `(r, b)`.
    """
    successors = find_successors(
        memory.scheme, view, counts, levels, memory.quanta, estimates=estimates
    )
    values = evaluate(memory.network, successors.codes)
    with np.errstate(invalid="ignore"):  # -inf of a diverged network; `learn` sees to it
        return successors.costs + values.reshape(successors.costs.shape)


def _score_present(estimates: bool, view: View, memory: DeepMemory) -> Floats:
    levels = present_levels(view, memory.quanta, memory.scheme.levels)
    return score_actions(estimates, view, memory, view.counts[:, None], levels[:, None])[:, 0]


def decide(estimates: bool, view: View, memory: DeepMemory) -> None:
    """Take the valid action of least q."""
    choose_min(view, _score_present(estimates, view, memory), 0.0, memory.draws)


def _explain(
    estimates: bool,
    observation: Observation,
    target: Deployment,
    view: View,
    memory: DeepMemory,
) -> Decision:
    scores = name_scores(view, _score_present(estimates, view, memory)[0].__getitem__)
    reason = (
        f"the lowest expected cost of {len(scores)} actions, {scores[target]:.3g}, "
        f"after learning from {memory.learned:,} intervals"
    )
    return explain_scores(observation, target, reason, scores)
