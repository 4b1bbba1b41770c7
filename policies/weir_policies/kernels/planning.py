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

import numpy as np

from weir_policies.kernels.compiled import compiled
from weir_policies.kernels.ranking import count_states, list_deployments, number_of
from weir_policies.kernels.steps import count_actions, is_valid, step_of, take, total
from weir_policies.kernels.view import (
    MAX_REPLICAS,
    TOP_COST,
    WEIGHT_RECONFIGURATION,
    WEIGHT_RESOURCES,
    WEIGHT_VIOLATION,
    Memory,
    View,
    empty_memory,
)
from weir_policies.model.arrays import Floats
from weir_policies.model.node_types import Deployment

# Columns of `Memory.floats` and `Memory.ints`; a policy's own begin at OWN and end before HEAD.
GAMMA, QUANTUM = range(2)
LEVELS, DEPLOYMENTS = range(2)
OWN, HEAD = 2, 12


def new_plan(
    view: View, *, levels: int, gamma: float, quanta: Floats, policy: str, published: bool
) -> Memory:
    """Return the memory of a plan that has seen no transition and expects no violation.

    Behind the head, `floats` hold the transitions, a place to work in and the prices; `ints` the
    deployments and their neighbours; `values` are U and the expected violations c.

    Args:
        view: The operators.
        levels: Of the rate, L.
        gamma: Weight of the next interval's costs against this one's.
        quanta: Width of a level, `(o,)`.
        policy: Its name, for the refusal.
        published: Whether nothing follows a level that was never seen; else it stays.

    Raises:
        ParameterError: There are too many states.
    """
    states = count_states(view, levels=levels, policy=policy)
    types, actions, deployments = view.counts.shape[1], count_actions(view), states // levels
    memory = empty_memory(
        view,
        floats=HEAD + levels * (levels + 3) + deployments,
        ints=HEAD + deployments * (types + actions),
        values=2 * states,
    )
    memory.floats[:, GAMMA] = gamma
    memory.floats[:, QUANTUM] = quanta
    memory.ints[:, LEVELS] = levels
    for o in range(view.counts.shape[0]):
        listed = list_deployments(types, int(view.rules[o, MAX_REPLICAS]))
        memory.ints[o, DEPLOYMENTS] = len(listed)
        memory.ints[o, HEAD : HEAD + listed.size] = listed.ravel()
        if not published:
            for level in range(levels):
                count_transition(o, memory, level, level)
        find_neighbours(o, view, memory)
        remember_prices(o, view, memory)
    return memory


# Where what stands behind the head begins. (A kernel cannot return a part of an array.)


@compiled
def totals_at(o: int, memory: Memory) -> int:
    """Return where in `floats` the transitions counted from each level stand, `(L,)`."""
    return HEAD + memory.ints[o, LEVELS] ** 2


@compiled
def prices_at(o: int, memory: Memory) -> int:
    """Return where in `floats` the prices of the deployments stand, parts of the most, `(d,)`."""
    return HEAD + memory.ints[o, LEVELS] * (memory.ints[o, LEVELS] + 3)


@compiled
def counts_at(view: View, deployment: int) -> int:
    """Return where in `ints` the replicas per node type of a deployment stand, `(t,)`."""
    return HEAD + deployment * view.counts.shape[1]


@compiled
def neighbours_at(o: int, view: View, memory: Memory, deployment: int) -> int:
    """Return where in `ints` the deployments that its actions lead to stand, `(a,)`; -1 is none."""
    first = counts_at(view, memory.ints[o, DEPLOYMENTS])
    return first + deployment * count_actions(view)


@compiled
def violations_at(o: int, memory: Memory, deployment: int) -> int:
    """Return where in `values` the violations expected of a deployment stand, `(L,)`."""
    return (memory.ints[o, DEPLOYMENTS] + deployment) * memory.ints[o, LEVELS]


@compiled
def count_transition(o: int, memory: Memory, before: int, after: int) -> None:
    """Count one transition from a level to another."""
    memory.floats[o, HEAD + after * memory.ints[o, LEVELS] + before] += 1
    memory.floats[o, totals_at(o, memory) + before] += 1


@compiled
def find_neighbours(o: int, view: View, memory: Memory) -> None:
    """Find where the actions lead from every deployment, within the limits of today."""
    types, actions = view.counts.shape[1], count_actions(view)
    most = view.rules[o, MAX_REPLICAS]
    for deployment in range(memory.ints[o, DEPLOYMENTS]):
        first = counts_at(view, deployment)
        counts = memory.ints[o, first : first + types]
        first = neighbours_at(o, view, memory, deployment)
        neighbours = memory.ints[o, first : first + actions]
        size = total(counts)
        for action in range(actions):
            neighbours[action] = -1
            if is_valid(o, view, counts, size, action):
                place, change = step_of(action, counts.size)
                counts[place] += change
                neighbours[action] = number_of(counts, most)
                counts[place] -= change


@compiled
def remember_prices(o: int, view: View, memory: Memory) -> None:
    """Keep what every deployment costs at today's prices."""
    for deployment in range(memory.ints[o, DEPLOYMENTS]):
        first = counts_at(view, deployment)
        price = 0.0
        for place in range(view.counts.shape[1]):
            price += memory.ints[o, first + place] * view.price[o, place]
        memory.floats[o, prices_at(o, memory) + deployment] = price / view.traits[o, TOP_COST]


@compiled
def value_of(o: int, view: View, memory: Memory, action: int, after: int, level: int) -> float:
    """Return what an action is expected to cost for ever, discounted.

    Args:
        o: Row of the operator.
        view: Its weights.
        memory: The plan.
        action: The action.
        after: Number of the deployment that it leads to.
        level: Of the rate.
    """
    moved = view.traits[o, WEIGHT_RECONFIGURATION] if action > 0 else 0.0
    resources = view.traits[o, WEIGHT_RESOURCES] * memory.floats[o, prices_at(o, memory) + after]
    return memory.values[o, after * memory.ints[o, LEVELS] + level] + (moved + resources)


@compiled
def find_best(o: int, view: View, memory: Memory, level: int) -> int:
    """Return the valid action of least value from the present deployment, the first of equals."""
    counts = view.counts[o]
    size, here = total(counts), number_of(counts, view.rules[o, MAX_REPLICAS])
    first = neighbours_at(o, view, memory, here)
    best, least = 0, np.inf
    for action in range(count_actions(view)):
        after = memory.ints[o, first + action]
        if after >= 0 and is_valid(o, view, counts, size, action):
            value = value_of(o, view, memory, action, after, level)
            if value < least:
                best, least = action, value
    return best


@compiled
def sweep(o: int, view: View, memory: Memory) -> float:
    """Improve U once for every post-decision state, in place; return the greatest change."""
    levels, gamma = memory.ints[o, LEVELS], memory.floats[o, GAMMA]
    violated = view.traits[o, WEIGHT_VIOLATION]
    moved = view.traits[o, WEIGHT_RECONFIGURATION]
    totals, prices = totals_at(o, memory), prices_at(o, memory)
    best = memory.floats[o, totals + levels : totals + 2 * levels]
    expected = memory.floats[o, totals + 2 * levels : totals + 3 * levels]
    greatest = 0.0
    for deployment in range(memory.ints[o, DEPLOYMENTS]):
        neighbours = neighbours_at(o, view, memory, deployment)
        violations = violations_at(o, memory, deployment)
        for level in range(levels):
            best[level] = np.inf
            expected[level] = 0.0
        for action in range(count_actions(view)):
            after = memory.ints[o, neighbours + action]
            if after >= 0:
                known = view.traits[o, WEIGHT_RESOURCES] * memory.floats[o, prices + after]
                if action > 0:
                    known += moved
                for level in range(levels):
                    value = memory.values[o, after * levels + level] + known
                    best[level] = min(best[level], value)
        for after in range(levels):
            cost = violated * memory.values[o, violations + after] + gamma * best[after]
            for level in range(levels):
                expected[level] += memory.floats[o, HEAD + after * levels + level] * cost
        for level in range(levels):
            place = deployment * levels + level
            seen = memory.floats[o, totals + level]
            value = expected[level] / seen if seen > 0 else 0.0
            greatest = max(greatest, abs(value - memory.values[o, place]))
            memory.values[o, place] = value
    return greatest


def score_actions(view: View, memory: Memory, level: int) -> dict[Deployment, float]:
    """Return the planned value of every valid action, by where it leads."""
    here = view.counts[0]
    number = number_of(here, int(view.rules[0, MAX_REPLICAS]))
    neighbours = neighbours_at(0, view, memory, number)
    scores = {}
    for action in range(count_actions(view)):
        after = int(memory.ints[0, neighbours + action])
        if after >= 0 and is_valid(0, view, here, total(here), action):
            take(0, view, action)
            deployment = Deployment(tuple(int(count) for count in view.target[0]))
            scores[deployment] = value_of(0, view, memory, action, after, level)
    return scores
