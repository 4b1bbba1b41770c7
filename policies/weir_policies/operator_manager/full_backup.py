"""Full backup: `full-backup`, reinforcement learning that learns a model and plans every interval.

    k        = replicas, whatever their type; one is added and removed of a single node type
    l        = the rate to the nearest multiple of `max_rate / levels`, the highest for all above
    P(l, l') = how often level l' followed level l; a level that was never left stays
    C(k, l)  = share of intervals that k at level l broke the budget:
               C <- (1 - alpha) C + alpha [it did]; then C(k', l') is raised to it where k' <= k
               and l' >= l, and lowered to it where k' >= k and l' <= l
    Q(k, l, a) = w_reconfiguration [a] + w_resources k'/k_max
                 + sum_l' P(l, l') (w_violation C(k', l') + gamma min_a' Q(k', l', a'))
    a        = the valid action of least Q; the first of equals: stay, remove, add

All Q are backed up once per interval, from those of the interval before. It never explores.

How urgent a change is follows its score: the gain Q(stay) - Q(a), relative to the greatest gain
that any valid action had in any state visited so far, or to 1 while that is less.

Source: Cardellini, Lo Presti, Nardelli, Russo Russo, Future Generation Computer Systems 2018 (EDF),
section 5.2, algorithm 2, equations 3 to 5. There all nodes are alike. Departures:
1. Where no replica of the node type is there, one of the dearest is removed.
2. It stays until it has learned from one interval.
3. The known cost is taken off by its parts, so weights may change without spoiling C.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from weir_policies.errors import ParameterError
from weir_policies.kernels.compiled import compiled
from weir_policies.kernels.explaining import explain_rule, explain_scores
from weir_policies.kernels.levels import LevelParameters
from weir_policies.kernels.policy import Algorithm
from weir_policies.kernels.ranking import MOST_STATES
from weir_policies.kernels.steps import has_room, total
from weir_policies.kernels.view import (
    MAX_REPLICAS,
    RATE,
    VIOLATION,
    WEIGHT_RECONFIGURATION,
    WEIGHT_RESOURCES,
    WEIGHT_VIOLATION,
    Memory,
    View,
    empty_memory,
)
from weir_policies.model.node_types import Deployment
from weir_policies.operator_manager.urgency import urgency_of_need, urgency_of_saving
from weir_policies.parameters import read_parameters, refuse_outside
from weir_policies.promise import Decision, Neighbourhood, Observation

# Columns of `Memory.floats`; the transitions follow, `(L, L)`, from HEAD on.
ALPHA, GAMMA, QUANTUM, MOST_GAIN = range(4)
HEAD = 4
# Columns of `Memory.ints`.
LEVELS, NODE_TYPE, UPDATES = range(3)
# `Memory.values` holds three tables over replicas and levels, `(k_max, L)` each: what follows an
# action (Q without its known cost), the least Q, and C.
FOLLOWING, LEAST, VIOLATED = range(3)

CHANGES = (0, -1, 1)
"""What the actions do to the replicas, in the order in which the first of equals wins."""


@dataclass(frozen=True, kw_only=True, slots=True)
class FullBackupParameters(LevelParameters):
    """Settings of `full-backup`.

    Raises:
        ParameterError: One is out of its range.
    """

    gamma: float = 0.99
    """Weight of the next interval's costs against this one's."""
    alpha: float = 0.1
    """Learning rate of C."""
    node_type: int = 0
    """Node type that is added and removed: its place in the operator's list, from 0."""

    def __post_init__(self) -> None:
        """Refuse what is out of range."""
        LevelParameters.__post_init__(self)
        refuse_outside("gamma", self.gamma, low=0, high=1, high_allowed=False)
        refuse_outside("alpha", self.alpha, low=0, high=1, low_allowed=False)
        refuse_outside("node_type", self.node_type, low=0)
        if self.node_type != int(self.node_type):
            raise ParameterError(f"Expected a whole number for node_type, got {self.node_type}")


def define(values: Mapping[str, Any], *, name: str) -> Algorithm:
    """Return the algorithm registered as `full-backup`, its parameters bound."""
    parameters = read_parameters(FullBackupParameters, values, policy=name)
    return Algorithm(
        neighbourhood=Neighbourhood.ONE,
        prepare=partial(_prepare, parameters),
        learn=learn,
        decide=decide,
        explain=_explain,
        needed=("budget",),
    )


def _prepare(parameters: FullBackupParameters, view: View, ticks: int) -> Memory:
    levels, types = int(parameters.levels), view.counts.shape[1]
    most = int(view.rules[:, MAX_REPLICAS].max())
    if parameters.node_type >= types:
        raise ParameterError(
            f"Expected node_type below {types}, the number of node types, "
            f"got {parameters.node_type}"
        )
    if levels * max(levels, most) > MOST_STATES:
        raise ParameterError(
            f"Expected levels of which the transitions fit {MOST_STATES:,} numbers, got {levels}: "
            "give 1000 or fewer"
        )
    memory = empty_memory(view, floats=HEAD + levels**2, ints=3, values=3 * most * levels)
    memory.floats[:, ALPHA] = parameters.alpha
    memory.floats[:, GAMMA] = parameters.gamma
    memory.floats[:, QUANTUM] = parameters.find_quanta(view)
    memory.floats[:, MOST_GAIN] = 1.0
    memory.ints[:, LEVELS] = levels
    memory.ints[:, NODE_TYPE] = int(parameters.node_type)
    return memory


@compiled
def nearest_level(o: int, memory: Memory, rate: float) -> int:
    """Return the level whose rate is nearest."""
    level = int(rate / memory.floats[o, QUANTUM] + 0.5)
    return min(level, memory.ints[o, LEVELS] - 1)


@compiled
def place_of(o: int, view: View, memory: Memory, table: int, replicas: int, level: int) -> int:
    """Return where in `Memory.values` a state stands in a table."""
    most, levels = view.rules[o, MAX_REPLICAS], memory.ints[o, LEVELS]
    return (table * most + replicas - 1) * levels + level


@compiled
def known_cost(o: int, view: View, change: int, replicas: int) -> float:
    """Return what an action that leads to so many replicas costs for certain."""
    moved = view.traits[o, WEIGHT_RECONFIGURATION] if change != 0 else 0.0
    return moved + view.traits[o, WEIGHT_RESOURCES] * replicas / view.rules[o, MAX_REPLICAS]


@compiled
def value_of(o: int, view: View, memory: Memory, change: int, replicas: int, level: int) -> float:
    """Return Q of an action that leads to so many replicas; all are equal before an interval."""
    if memory.ints[o, UPDATES] == 0:
        return 0.0
    following = memory.values[o, place_of(o, view, memory, FOLLOWING, replicas, level)]
    return known_cost(o, view, change, replicas) + following


@compiled
def is_possible(o: int, view: View, memory: Memory, change: int) -> bool:
    """Return whether the present deployment allows a change."""
    size = total(view.counts[o])
    if change < 0:
        return size > 1
    if change == 0:
        return True
    place = memory.ints[o, NODE_TYPE]
    return size < view.rules[o, MAX_REPLICAS] and has_room(o, view, view.counts[o], place)


@compiled
def find_gain(o: int, view: View, memory: Memory, change: int) -> float:
    """Return what a change is better by than staying, in the present state."""
    size, level = total(view.counts[o]), nearest_level(o, memory, view.seen[o, RATE])
    staying = value_of(o, view, memory, 0, size, level)
    return staying - value_of(o, view, memory, change, size + change, level)


@compiled
def find_score(o: int, view: View, memory: Memory, change: int) -> float:
    """Return the gain of a change, relative to the greatest that was met."""
    return find_gain(o, view, memory, change) / memory.floats[o, MOST_GAIN]


@compiled
def learn_violation(o: int, view: View, memory: Memory) -> None:
    """Update C with the last interval, and keep it monotone: in replicas and in the rate."""
    size, level = total(view.counts[o]), nearest_level(o, memory, view.seen[o, RATE])
    alpha, here = memory.floats[o, ALPHA], place_of(o, view, memory, VIOLATED, size, level)
    new = (1 - alpha) * memory.values[o, here] + alpha * view.cost[o, VIOLATION]
    memory.values[o, here] = new
    for replicas in range(1, size + 1):
        for higher in range(level, memory.ints[o, LEVELS]):
            place = place_of(o, view, memory, VIOLATED, replicas, higher)
            memory.values[o, place] = max(memory.values[o, place], new)
    for replicas in range(size, view.rules[o, MAX_REPLICAS] + 1):
        for lower in range(level + 1):
            place = place_of(o, view, memory, VIOLATED, replicas, lower)
            memory.values[o, place] = min(memory.values[o, place], new)


@compiled
def back_up(o: int, view: View, memory: Memory) -> None:
    """Compute all Q anew from the least Q of the last time, then the least Q from them."""
    levels, most = memory.ints[o, LEVELS], view.rules[o, MAX_REPLICAS]
    violated, gamma = view.traits[o, WEIGHT_VIOLATION], memory.floats[o, GAMMA]
    for level in range(levels):
        row = HEAD + level * levels
        seen = 0.0
        for after in range(levels):
            seen += memory.floats[o, row + after]
        for replicas in range(1, most + 1):
            expected = 0.0
            for after in range(levels):
                share = 1.0 if seen == 0 and after == level else 0.0
                if seen > 0:
                    share = memory.floats[o, row + after] / seen
                if share > 0:
                    broken = memory.values[o, place_of(o, view, memory, VIOLATED, replicas, after)]
                    least = memory.values[o, place_of(o, view, memory, LEAST, replicas, after)]
                    expected += share * (violated * broken + gamma * least)
            memory.values[o, place_of(o, view, memory, FOLLOWING, replicas, level)] = expected
    for replicas in range(1, most + 1):
        for level in range(levels):
            least = value_of(o, view, memory, 0, replicas, level)
            if replicas > 1:
                least = min(least, value_of(o, view, memory, -1, replicas - 1, level))
            if replicas < most:
                least = min(least, value_of(o, view, memory, 1, replicas + 1, level))
            memory.values[o, place_of(o, view, memory, LEAST, replicas, level)] = least


@compiled
def learn(o: int, view: View, memory: Memory) -> None:
    """Count the transition, learn the violation, and back up."""
    levels = memory.ints[o, LEVELS]
    before = nearest_level(o, memory, view.before[o, RATE])
    after = nearest_level(o, memory, view.seen[o, RATE])
    memory.floats[o, HEAD + before * levels + after] += 1
    learn_violation(o, view, memory)
    memory.ints[o, UPDATES] += 1
    back_up(o, view, memory)
    for change in CHANGES:
        if is_possible(o, view, memory, change):
            gain = find_gain(o, view, memory, change)
            memory.floats[o, MOST_GAIN] = max(memory.floats[o, MOST_GAIN], gain)


@compiled
def move(o: int, view: View, memory: Memory, change: int) -> None:
    """Write the deployment that a change leads to as target."""
    dearest, highest = 0, -1.0
    for place in range(view.counts.shape[1]):
        view.target[o, place] = view.counts[o, place]
        if view.counts[o, place] > 0 and view.price[o, place] > highest:
            dearest, highest = place, view.price[o, place]
    chosen = memory.ints[o, NODE_TYPE]
    if change < 0 and view.counts[o, chosen] == 0:
        chosen = dearest
    view.target[o, chosen] += change


@compiled
def decide(o: int, view: View, memory: Memory) -> None:
    """Take the valid action of least Q."""
    size, level = total(view.counts[o]), nearest_level(o, memory, view.seen[o, RATE])
    best, least = 0, np.inf
    for change in CHANGES:
        if is_possible(o, view, memory, change):
            value = value_of(o, view, memory, change, size + change, level)
            if value < least:
                best, least = change, value
    move(o, view, memory, best)


def _explain(observation: Observation, target: Deployment, view: View, memory: Memory) -> Decision:
    """Compare the values of the actions, and say the score of the chosen one."""
    updates = int(memory.ints[0, UPDATES])
    if updates == 0:
        return explain_rule(observation, target, "it has learned from no interval yet")
    size = observation.deployment.size
    level = nearest_level(0, memory, observation.rate)
    scores = {}
    for change in CHANGES:
        if is_possible(0, view, memory, change):
            move(0, view, memory, change)
            deployment = Deployment(tuple(int(count) for count in view.target[0]))
            scores[deployment] = float(value_of(0, view, memory, change, size + change, level))
    change = target.size - size
    gain = float(find_score(0, view, memory, change))
    reason = (
        f"of {len(scores)} actions the learned model expects it to cost least, "
        f"{scores[target]:.3g}, a score of {gain:.2g} after {updates:,} intervals learned"
    )
    decision = explain_scores(observation, target, reason, scores)
    if change == 0:
        return decision
    urgency = urgency_of_need(gain) if change > 0 else urgency_of_saving(gain)
    return replace(decision, urgency=urgency)
