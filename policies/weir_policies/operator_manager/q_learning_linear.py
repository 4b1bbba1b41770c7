"""Q-learning with linear function approximation: `ql-fa`.

Q(s, a) is the sum of the weights of the features that the post-decision state (k', l) activates:

1. the action adds a replica          2. the action removes one
3. a tile of (replicas, level, types in use), two levels wide
4. the same, shifted by half a tile
5. a stripe of (level - 2 replicas, types in use): where load and replicas are in balance

    w_i <- w_i + alpha (cost + gamma min_a' Q(s', a') - Q(s, a))   for every active feature i
    a    = as in `ql`

Source: Russo Russo, Cardellini, Lo Presti, ACM TAAS 2023, section 6.2.2, and their earlier paper
that it refers to. As there, alpha is not divided by the number of active features; it begins at 1,
so that the first hundred updates diverge, and some seeds never recover from that.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from weir_policies.kernels.compiled import compiled
from weir_policies.kernels.explaining import explain_scores, name_scores
from weir_policies.kernels.levels import exploration_rate, learning_rate, level_of
from weir_policies.kernels.policy import definition
from weir_policies.kernels.steps import (
    choose_action,
    count_actions,
    draw_action,
    find_action,
    is_valid,
    observed_cost,
    step_of,
    total,
)
from weir_policies.kernels.tables import find_place, grow, read
from weir_policies.kernels.view import Memory, View
from weir_policies.model.node_types import Deployment
from weir_policies.operator_manager.q_learning import (
    QLearningMemory,
    QLearningParameters,
    describe_why,
    new_memory,
)
from weir_policies.policy import Decision, Observation

ADDS, REMOVES, FIRST_TILE = range(3)  # keys of the features 1 and 2, and where the tiles begin
FEATURES = 4
"""Features that an action activates at most."""


def _prepare(parameters: QLearningParameters, view: View, ticks: int) -> Memory:
    sets = 2 ** view.counts.shape[1]
    replicas, levels = int(view.model["max_replicas"].max()), int(parameters.levels)
    tiled = 2 * (replicas + 1) * count_tiles(levels) * sets
    stripes = (levels + 2 * replicas) // stripe_width(replicas, levels) + 1
    keys = FIRST_TILE + tiled + stripes * sets
    return new_memory(parameters, view, keys=keys, writes=FEATURES * ticks)


@compiled
def count_tiles(levels: int) -> int:
    """Return how many tiles the levels are cut into."""
    return (levels + 1) // 2


@compiled
def stripe_width(replicas: int, levels: int) -> int:
    """Return how wide a stripe is, for so many replicas at most."""
    return max((levels + 2 * replicas) // (replicas + 1), 1)


@compiled
def find_tile(value: float, low: float, high: float, tiles: int) -> int:
    """Return the tile of a value: [low, high] is cut evenly, what is outside is at an end."""
    if value <= low:
        return 0
    if value >= high:
        return tiles - 1
    return max(0, int(np.ceil(tiles / (high - low) * (value - low))) - 1)


@compiled
def find_keys(
    o: int, view: View, own: QLearningMemory, place: int, change: int, level: int
) -> tuple[int, int, int]:
    """Return the keys of features 3, 4 and 5 after a change of the present deployment."""
    types = view.counts.shape[1]
    size, used = change, 0
    for other in range(types):
        count = view.counts[o, other] + change if other == place else view.counts[o, other]
        size += view.counts[o, other]
        used |= (count > 0) << other
    replicas, levels = view.model[o].max_replicas, own.levels
    tiles, sets = count_tiles(levels), 1 << types
    half = levels / tiles / 2
    first = (size * tiles + find_tile(level, 0.0, levels, tiles)) * sets + used
    second = (size * tiles + find_tile(level, -half, levels + half, tiles)) * sets + used
    stripe = (level - 2 * size + 2 * (replicas + 1)) // stripe_width(replicas, levels)
    beyond = (replicas + 1) * tiles * sets
    return (
        FIRST_TILE + first,
        FIRST_TILE + beyond + second,
        FIRST_TILE + 2 * beyond + stripe * sets + used,
    )


@compiled
def value_of(
    o: int, view: View, own: QLearningMemory, place: int, change: int, moved: int, level: int
) -> float:
    """Return Q of a post-decision state: `change` of the present deployment, by an action `moved`.

    The two differ when the past is judged: the change is made already, the action counts still.
    """
    keys, weights = own.keys, own.values
    value = 0.0
    if moved != 0:
        value = read(keys, weights, ADDS if moved > 0 else REMOVES)
    first, second, stripe = find_keys(o, view, own, place, change, level)
    value += read(keys, weights, first)
    value += read(keys, weights, second)
    return value + read(keys, weights, stripe)


@compiled
def find_best(o: int, view: View, own: QLearningMemory) -> tuple[int, float]:
    """Return the valid action of least Q in the present state, and that value."""
    level = level_of(view.seen[o].rate, own.quantum, own.levels)
    size = total(view.counts[o])
    best, best_cost = 0, np.inf
    for action in range(count_actions(view)):
        if is_valid(o, view, view.counts[o], size, action):
            place, change = step_of(action, view.counts.shape[1])
            value = value_of(o, view, own, place, change, change, level)
            if value < best_cost:
                best, best_cost = action, value
    return best, best_cost


@compiled
def learn(o: int, view: View, memory: Memory) -> None:
    """Move the weights of the last action's features towards what the interval cost."""
    own = QLearningMemory(memory[o])
    action = find_action(view.counts_before[o], view.counts[o])
    if action >= 0:
        keys, weights = own.keys, own.values
        level = level_of(view.before[o].rate, own.quantum, own.levels)
        _, moved = step_of(action, view.counts.shape[1])
        _, following = find_best(o, view, own)
        old = value_of(o, view, own, 0, 0, moved, level)
        error = observed_cost(o, view) + own.gamma * following - old
        if not np.isnan(error):
            step = learning_rate(own.updates, own.least_alpha) * error
            if moved != 0:
                weights[find_place(keys, ADDS if moved > 0 else REMOVES)] += step
            first, second, stripe = find_keys(o, view, own, 0, 0, level)
            weights[find_place(keys, first)] += step
            weights[find_place(keys, second)] += step
            weights[find_place(keys, stripe)] += step
    own.updates += 1


@compiled
def decide(o: int, view: View, memory: Memory) -> None:
    """Take the valid action of least Q, or explore."""
    own = QLearningMemory(memory[o])
    if view.draws[o, 0] <= exploration_rate(own.updates, own.least_epsilon):
        choose_action(o, view, draw_action(o, view))
    else:
        best, _ = find_best(o, view, own)
        choose_action(o, view, best)


def _explain(observation: Observation, target: Deployment, view: View, memory: Memory) -> Decision:
    own = QLearningMemory(memory[0])
    level = level_of(observation.rate, own.quantum, int(own.levels))

    def score_of(action: int) -> float:
        place, change = step_of(action, view.counts.shape[1])
        return value_of(0, view, own, place, change, change, level)

    scores = name_scores(view, score_of)
    epsilon = exploration_rate(own.updates, own.least_epsilon)
    reason = describe_why(view, epsilon, own.updates, target, scores)
    return explain_scores(observation, target, reason, scores)


define = definition(
    QLearningParameters,
    _prepare,
    learn=learn,
    decide=decide,
    explain=_explain,
    needed=("budget",),
    grow=partial(grow, QLearningMemory),
    draws=True,
)
