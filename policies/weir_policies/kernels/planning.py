"""Plans by dynamic programming over all deployments and rate levels, when the rate is a chain.

U of a post-decision state (k', l) is what is to be expected from the next interval on: the rate
moves on from level l by the transition probabilities P, violations cost what is expected of k', and
the best action follows:

    U(k', l) = sum_l' P(l, l') (w_violation c(k', l') + gamma M(k', l'))
    M(k, l)  = min_a  w_reconfiguration [a] + w_resources price(k + a) + U(k + a, l)

Source: Russo Russo, Cardellini, Lo Presti, ACM TAAS 2023, section 4. P is counted, in a matrix that
stands transposed: its inner loop then runs along memory.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from weir_policies.kernels.compiled import compiled
from weir_policies.kernels.fields import Fields, array
from weir_policies.kernels.levels import LearningParameters
from weir_policies.kernels.ranking import count_states, list_deployments, number_of
from weir_policies.kernels.steps import choose_action, count_actions, is_valid, step_of, total
from weir_policies.kernels.view import Memory, View
from weir_policies.model.arrays import Counts, Floats
from weir_policies.model.node_types import Deployment


class Plan(Fields):
    """A plan over `deployments` and `levels`; a policy adds its own fields."""

    gamma: float
    """Weight of the next interval's costs against this one's."""
    quantum: float
    """Width of a level, records/s."""
    levels: int
    deployments: int
    node_types: int
    actions: int
    counted: Floats = array("levels", "levels")
    """Transitions to a level, from a level."""
    left: Floats = array("levels")
    """Transitions from each level."""
    best: Floats = array("levels")
    """Scratch: the lowest cost of an action, by level."""
    expected: Floats = array("levels")
    """Scratch: U of one deployment before it is divided by `left`, by level."""
    prices: Floats = array("deployments")
    """Parts of the most."""
    counts: Counts = array("deployments", "node_types")
    neighbours: Counts = array("deployments", "actions")
    """Deployments that the actions lead to; -1 is none."""
    values: Floats = array("deployments", "levels")
    """U."""
    violations: Floats = array("deployments", "levels")
    """Those expected, c."""


def new_plan(
    kind: type[Plan],
    view: View,
    parameters: LearningParameters,
    *,
    policy: str,
    unseen_stay: bool,
    **values: Any,
) -> Memory:
    """Return the memory of a plan that has seen no transition and expects no violation.

    Args:
        kind: What it holds.
        view: The operators.
        parameters: Settings, as for `Fields.allocate`.
        policy: Its name, for the refusal.
        unseen_stay: Whether a level that was never seen stays; else nothing follows it.
        values: Other fields, as for `Fields.allocate`.

    Raises:
        ParameterError: There are too many states.
    """
    levels = int(parameters.levels)
    count_states(view, levels=levels, policy=policy)
    types = view.counts.shape[1]
    listed = [list_deployments(types, int(maximum)) for maximum in view.model["max_replicas"]]
    memory = kind.allocate(
        view,
        parameters,
        quantum=parameters.find_quanta(view),
        deployments=np.array([len(each) for each in listed]),
        node_types=types,
        actions=count_actions(view),
        **values,
    )
    for o, deployments in enumerate(listed):
        own = kind(memory[o])
        own.counts[:] = deployments
        if unseen_stay:
            for level in range(levels):
                count_transition(own, level, level)
        find_neighbours(o, view, own)
        remember_prices(o, view, own)
    return memory


@compiled
def count_transition(own: Plan, before: int, after: int) -> None:
    """Count one transition from a level to another."""
    own.counted[after, before] += 1
    own.left[before] += 1


@compiled
def find_neighbours(o: int, view: View, own: Plan) -> None:
    """Find where the actions lead from every deployment, within the limits of today."""
    maximum = view.model[o].max_replicas
    for deployment in range(own.deployments):
        counts, neighbours = own.counts[deployment], own.neighbours[deployment]
        size = total(counts)
        for action in range(own.actions):
            neighbours[action] = -1
            if is_valid(o, view, counts, size, action):
                place, change = step_of(action, counts.size)
                counts[place] += change
                neighbours[action] = number_of(counts, maximum)
                counts[place] -= change


@compiled
def remember_prices(o: int, view: View, own: Plan) -> None:
    """Keep what every deployment costs at today's prices."""
    counts, prices = own.counts, own.prices
    for deployment in range(own.deployments):
        price = 0.0
        for place in range(view.counts.shape[1]):
            price += counts[deployment, place] * view.price[o, place]
        prices[deployment] = price / view.model[o].top_cost


@compiled
def value_of(o: int, view: View, own: Plan, action: int, after: int, level: int) -> float:
    """Return what an action is expected to cost for ever, discounted."""
    moved = view.model[o].weight_reconfiguration if action > 0 else 0.0
    resources = view.model[o].weight_resources * own.prices[after]
    return own.values[after, level] + (moved + resources)


@compiled
def find_best(o: int, view: View, own: Plan, level: int) -> int:
    """Return the valid action of least value from the present deployment, the first of equals."""
    counts = view.counts[o]
    size, here = total(counts), number_of(counts, view.model[o].max_replicas)
    neighbours = own.neighbours[here]
    best, best_cost = 0, np.inf
    for action in range(own.actions):
        after = neighbours[action]
        if after >= 0 and is_valid(o, view, counts, size, action):
            value = value_of(o, view, own, action, after, level)
            if value < best_cost:
                best, best_cost = action, value
    return best


@compiled
def sweep(o: int, view: View, own: Plan) -> float:
    """Improve U once for every post-decision state, in place; return the greatest change."""
    levels, gamma = own.levels, own.gamma
    violated, moved = view.model[o].weight_violation, view.model[o].weight_reconfiguration
    weight_resources = view.model[o].weight_resources
    counted, left, values = own.counted, own.left, own.values
    best, expected = own.best, own.expected
    neighbours, violations, prices = own.neighbours, own.violations, own.prices
    greatest = 0.0
    for deployment in range(own.deployments):
        for level in range(levels):
            best[level] = np.inf
            expected[level] = 0.0
        for action in range(own.actions):
            after = neighbours[deployment, action]
            if after >= 0:
                known = weight_resources * prices[after]
                if action > 0:
                    known += moved
                for level in range(levels):
                    best[level] = min(best[level], values[after, level] + known)
        for after in range(levels):
            cost = violated * violations[deployment, after] + gamma * best[after]
            for level in range(levels):
                expected[level] += counted[after, level] * cost
        for level in range(levels):
            value = expected[level] / left[level] if left[level] > 0 else 0.0
            greatest = max(greatest, abs(value - values[deployment, level]))
            values[deployment, level] = value
    return greatest


def score_actions(view: View, own: Plan, level: int) -> dict[Deployment, float]:
    """Return the planned value of every valid action, by where it leads."""
    here = view.counts[0]
    neighbours = own.neighbours[number_of(here, int(view.model[0].max_replicas))]
    scores = {}
    for action in range(count_actions(view)):
        after = int(neighbours[action])
        if after >= 0 and is_valid(0, view, here, total(here), action):
            choose_action(0, view, action)
            deployment = Deployment(tuple(int(count) for count in view.target[0]))
            scores[deployment] = value_of(0, view, own, action, after, level)
    return scores
