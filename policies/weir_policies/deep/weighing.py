"""What actions lead to and cost for certain, for `r` runs at once.

The cost of an action that the policy need not learn is that of Russo Russo, Cardellini, Lo Presti,
ACM TAAS 2023, section 4.3: the reconfiguration and the resources of the deployment that follows.
With an estimate (`dqn-pds-plus`) also w_violation, where the believed model says that it
breaks the budget at the middle of the rate's level.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from weir_policies.deep.encodings import Codes, Scheme, Singles, encode
from weir_policies.kernels.compiled import compiled
from weir_policies.kernels.levels import level_of, middle_of
from weir_policies.kernels.prediction import predict_one
from weir_policies.kernels.steps import (
    choose_action,
    count_actions,
    is_valid,
    price_after,
    step_of,
    total,
)
from weir_policies.kernels.view import View
from weir_policies.model.arrays import Counts, Floats


class Successors(NamedTuple):
    """Where the `a` actions in `b` states of each of `r` runs lead."""

    codes: Codes
    """Of the post-decision states, `(r, b * a, active)`; of invalid actions any code."""
    costs: Floats
    """What each action costs for certain, `(r, b, a)`; `inf` where it is not valid."""


def present_levels(view: View, quanta: Floats, levels: int) -> Counts:
    """Return the level of each run's rate, `(r,)`."""
    found = np.empty(quanta.size, dtype=np.int64)
    _find_levels(view, quanta, levels, found)
    return found


def encode_states(scheme: Scheme, counts: Counts, levels: Counts) -> Codes:
    """Return the codes of `b` states of each run.

    Args:
        scheme: The encoding.
        counts: Deployments, `(r, b, t)`.
        levels: Levels of the rate, `(r, b)`.
    """
    codes = _empty_codes(scheme, *levels.shape)
    _encode_states(scheme, counts, levels, codes.places, codes.values)
    return codes


def find_successors(
    scheme: Scheme, view: View, counts: Counts, levels: Counts, quanta: Floats, *, estimates: bool
) -> Successors:
    """Return where each action leads, and what it costs for certain.

    Args:
        scheme: The encoding.
        view: Prices, limits, weights and the believed model of each run.
        counts: Deployments to act in, `(r, b, t)`.
        levels: Levels of the rate, `(r, b)`.
        quanta: Width of a level, records/s, `(r,)`.
        estimates: Whether the expected cost of violations counts as certain.
    """
    runs, states, node_types = counts.shape
    actions = 2 * node_types + 1
    codes = _empty_codes(scheme, runs, states * actions)
    costs = np.empty((runs, states, actions))
    _find_successors(
        scheme, view, counts, levels, quanta, estimates, codes.places, codes.values, costs
    )
    return Successors(codes, costs)


@compiled
def estimate_violations(
    view: View, counts: Counts, levels: Counts, quanta: Floats, costs: Floats
) -> None:
    """Write the expected cost of violations in each post-decision state.

    Args:
        view: The believed model of each run.
        counts: Deployments, `(r, b, t)`.
        levels: Levels of the rate before, `(r, b)`.
        quanta: Width of a level, records/s, `(r,)`.
        costs: Filled, `(r, b)`.
    """
    for run in range(levels.shape[0]):
        for state in range(levels.shape[1]):
            rate = middle_of(levels[run, state], quanta[run])
            costs[run, state] = _estimate(run, view, counts[run, state], rate)


@compiled
def rule_out(view: View, counts: Counts, costs: Floats) -> None:
    """Write 0 for each valid action, `inf` for each other.

    Args:
        view: The limits of each run.
        counts: Deployments to act in, `(r, b, t)`.
        costs: Filled, `(r, b, a)`.
    """
    for run in range(costs.shape[0]):
        for state in range(costs.shape[1]):
            here = counts[run, state]
            size = total(here)
            for action in range(costs.shape[2]):
                valid = is_valid(run, view, here, size, action)
                costs[run, state, action] = 0.0 if valid else np.inf


@compiled
def choose_min(view: View, scores: Floats, epsilon: float, draws: Floats) -> None:
    """Take the valid action with the lowest score in each run, the first of equals; or any.

    Args:
        view: The target of each run is written.
        scores: Of each action in the present state, `(r, a)`.
        epsilon: Probability to take any of the valid actions, all equally likely.
        draws: Two numbers drawn evenly from [0, 1) per run, `(r, 2)`.
    """
    for run in range(scores.shape[0]):
        counts = view.counts[run]
        size = total(counts)
        valid, best, best_score = 0, 0, np.inf
        for action in range(count_actions(view)):
            if is_valid(run, view, counts, size, action):
                valid += 1
                if scores[run, action] < best_score:
                    best, best_score = action, scores[run, action]
        if draws[run, 0] < epsilon:
            left = int(draws[run, 1] * valid)
            for action in range(count_actions(view)):
                if is_valid(run, view, counts, size, action):
                    if left == 0:
                        best = action
                    left -= 1
        choose_action(run, view, best)


def _empty_codes(scheme: Scheme, runs: int, states: int) -> Codes:
    """Return codes of nothing, each within its own run: of invalid actions they stay."""
    shape = (runs, states, scheme.active)
    first = np.arange(runs)[:, None, None] * scheme.inputs
    return Codes(
        places=np.broadcast_to(first, shape).copy(), values=np.zeros(shape, dtype=np.float32)
    )


@compiled
def _find_levels(view: View, quanta: Floats, levels: int, found: Counts) -> None:
    for run in range(found.size):
        found[run] = level_of(view.seen[run].rate, quanta[run], levels)


@compiled
def _encode_states(
    scheme: Scheme, counts: Counts, levels: Counts, places: Counts, values: Singles
) -> None:
    for run in range(levels.shape[0]):
        for state in range(levels.shape[1]):
            encode(
                scheme,
                counts[run, state],
                levels[run, state],
                run * scheme.inputs,
                places[run, state],
                values[run, state],
            )


@compiled
def _estimate(run: int, view: View, counts: Counts, rate: float) -> float:
    time, _ = predict_one(run, view, counts, rate)
    return view.model[run].weight_violation if time > view.seen[run].budget else 0.0


@compiled
def _find_successors(
    scheme: Scheme,
    view: View,
    counts: Counts,
    levels: Counts,
    quanta: Floats,
    estimates: bool,
    places: Counts,
    values: Singles,
    costs: Floats,
) -> None:
    actions = count_actions(view)
    for run in range(levels.shape[0]):
        weights = view.model[run]
        for state in range(levels.shape[1]):
            here = counts[run, state]
            size = total(here)
            rate = middle_of(levels[run, state], quanta[run])
            for action in range(actions):
                if not is_valid(run, view, here, size, action):
                    costs[run, state, action] = np.inf
                    continue
                place, change = step_of(action, here.size)
                resources = price_after(run, view, here, place, change) / weights.top_cost
                cost = weights.weight_resources * resources
                if action > 0:
                    cost += weights.weight_reconfiguration
                here[place] += change  # taken back below
                if estimates:
                    cost += _estimate(run, view, here, rate)
                row = state * actions + action
                encode(
                    scheme,
                    here,
                    levels[run, state],
                    run * scheme.inputs,
                    places[run, row],
                    values[run, row],
                )
                here[place] -= change
                costs[run, state, action] = cost
