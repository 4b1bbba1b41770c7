"""Q-learning on post-decision states: `ql-pds`, and with an estimate of violations `ql-pds-plus`.

A post-decision state is (k', rate level): the deployment after the action, before the rate moves.
What an action costs for certain (the reconfiguration, the resources of k') is known; only the
violation is learned, in one table V over post-decision states:

    q(s, a) = V(k', level) + c_estimated(k', level) + c_known(a, k')
    a       = the valid action of least q(s, a); the first of equals, staying first
    V(pds) <- (1 - alpha) V(pds) + alpha (c_violation - c_estimated + gamma min_a' q(s', a'))

`ql-pds-plus` estimates: w_violation where the believed model says that k' breaks the budget at the
middle of the level. `ql-pds` estimates 0.

Source: Russo Russo, Cardellini, Lo Presti, ACM TAAS 2023, section 4.3, equations 9 to 12.
`published: 1` takes the old value of an update from the state before the action, as the program
behind the published tables did.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from weir_policies.kernels.compiled import compiled
from weir_policies.kernels.explaining import explain_scores
from weir_policies.kernels.levels import LevelParameters, learning_rate, level_of, middle_of
from weir_policies.kernels.policy import Algorithm
from weir_policies.kernels.prediction import predict_after
from weir_policies.kernels.steps import (
    can_move,
    count_actions,
    is_valid,
    price_after,
    step_of,
    take,
    total,
)
from weir_policies.kernels.tables import (
    count_keys,
    encode,
    find_place,
    read,
    size_table,
)
from weir_policies.kernels.view import (
    BUDGET,
    MAX_REPLICAS,
    RATE,
    TIME,
    TOP_COST,
    VIOLATION,
    WEIGHT_RECONFIGURATION,
    WEIGHT_RESOURCES,
    WEIGHT_VIOLATION,
    Memory,
    View,
    empty_memory,
)
from weir_policies.model.node_types import Deployment
from weir_policies.parameters import read_parameters, refuse_outside
from weir_policies.policy import Decision, Neighbourhood, Observation

# Columns of `Memory.floats`, of `Memory.ints`: WEIGHED is the state that BEST is the action for.
GAMMA, LEAST_ALPHA, QUANTUM, WEIGHED_AT = range(4)
LEVELS, PUBLISHED, ESTIMATES, UPDATES, KEYS, WEIGHED, BEST = range(7)

UNKNOWN = -1.0
"""Stands where an estimate was not needed yet."""


@dataclass(frozen=True, kw_only=True, slots=True)
class QLearningPdsParameters(LevelParameters):
    """Settings of `ql-pds` and `ql-pds-plus`.

    Raises:
        ParameterError: One is out of its range.
    """

    gamma: float = 0.99
    """Weight of the next interval's costs against this one's."""
    least_alpha: float = 0.1
    """Floor of the learning rate."""
    published: int = 0
    """1 takes the old value from the state before the action."""

    def __post_init__(self) -> None:
        """Refuse what is out of range."""
        LevelParameters.__post_init__(self)
        refuse_outside("gamma", self.gamma, low=0, high=1, high_allowed=False)
        refuse_outside("least_alpha", self.least_alpha, low=0, high=1)
        refuse_outside("published", self.published, low=0, high=1)


def define(values: Mapping[str, Any], *, name: str) -> Algorithm:
    """Return the algorithm registered as `ql-pds` or `ql-pds-plus`, its parameters bound."""
    parameters = read_parameters(QLearningPdsParameters, values, policy=name)
    return Algorithm(
        neighbourhood=Neighbourhood.ONE,
        prepare=partial(_prepare, parameters, name == "ql-pds-plus"),
        learn=learn,
        decide=decide,
        explain=_explain,
        needed=("budget",),
    )


def _prepare(parameters: QLearningPdsParameters, estimates: bool, view: View, ticks: int) -> Memory:
    keys = count_keys(view, levels=int(parameters.levels))
    columns, values = size_table(keys, writes=ticks)
    # While the table is dense, the estimates stand behind the values: they cost more than a read.
    memory = empty_memory(
        view,
        floats=4,
        ints=7,
        keys=columns,
        values=2 * values if estimates and columns == 1 else values,
    )
    memory.floats[:, GAMMA] = parameters.gamma
    memory.floats[:, LEAST_ALPHA] = parameters.least_alpha
    memory.floats[:, QUANTUM] = parameters.find_quanta(view)
    memory.ints[:, LEVELS] = int(parameters.levels)
    memory.ints[:, PUBLISHED] = int(parameters.published)
    memory.ints[:, ESTIMATES] = estimates
    memory.ints[:, KEYS] = keys
    memory.ints[:, WEIGHED] = -1
    if memory.values.shape[1] > values:
        memory.values[:, values:] = UNKNOWN
    return memory


@compiled
def estimate(o: int, view: View, place: int, change: int, level: int, quantum: float) -> float:
    """Return the expected cost of violations with `change` replicas more, by the believed model."""
    rate = middle_of(level, quantum)
    time, _ = predict_after(o, view, view.counts[o], place, change, rate)
    return view.traits[o, WEIGHT_VIOLATION] if time > view.seen[o, BUDGET] else 0.0


@compiled
def value_of(
    o: int, view: View, memory: Memory, place: int, change: int, key: int, level: int
) -> float:
    """Return q(s, a) in the present state.

    Args:
        o: Row of the operator.
        view: The state.
        memory: What was learned.
        place: Node type that the action moves.
        change: -1, 0 or 1.
        key: Of the post-decision state that it leads to.
        level: Of the present rate.
    """
    expected = 0.0
    if memory.ints[o, ESTIMATES]:
        expected = UNKNOWN
        if memory.keys.shape[1] == 1:
            expected = memory.values[o, memory.ints[o, KEYS] + key]
        if expected == UNKNOWN:
            expected = estimate(o, view, place, change, level, memory.floats[o, QUANTUM])
    value = read(memory.keys[o], memory.values[o], key) + expected
    resources = price_after(o, view, view.counts[o], place, change) / view.traits[o, TOP_COST]
    moved = view.traits[o, WEIGHT_RECONFIGURATION] if change else 0.0
    return value + (moved + view.traits[o, WEIGHT_RESOURCES] * resources)


@compiled
def weigh(o: int, view: View, memory: Memory, here: int, level: int) -> tuple[float, int, float]:
    """Return the value of staying, the best of the other valid actions (0 for none), its value.

    `here` is the key of the present state, `level` its rate's.
    """
    counts = view.counts[o]
    base = view.rules[o, MAX_REPLICAS] + 1
    size = total(counts)
    staying = value_of(o, view, memory, 0, 0, here, level)
    best, least = 0, np.inf
    action = 0
    for change in (-1, 1):
        stride = memory.ints[o, LEVELS]
        for place in range(counts.size):
            action += 1
            if can_move(o, view, counts, size, place, change):
                key = here + change * stride
                value = value_of(o, view, memory, place, change, key, level)
                if value < least:
                    best, least = action, value
            stride *= base
    return staying, best, least


@compiled
def remember_estimates(o: int, view: View, memory: Memory, here: int, level: int) -> None:
    """Work out the estimates that the present state needs and a dense table does not hold yet."""
    quantum = memory.floats[o, QUANTUM]
    counts = view.counts[o]
    base = view.rules[o, MAX_REPLICAS] + 1
    first = memory.ints[o, KEYS] + here
    size = total(counts)
    if memory.values[o, first] == UNKNOWN:
        memory.values[o, first] = estimate(o, view, 0, 0, level, quantum)
    for change in (-1, 1):
        stride = memory.ints[o, LEVELS]
        for place in range(counts.size):
            if can_move(o, view, counts, size, place, change):
                column = first + change * stride
                if memory.values[o, column] == UNKNOWN:
                    memory.values[o, column] = estimate(o, view, place, change, level, quantum)
            stride *= base


@compiled
def learn(o: int, view: View, memory: Memory) -> None:
    """Update V with the violation that followed the last action."""
    levels, quantum = memory.ints[o, LEVELS], memory.floats[o, QUANTUM]
    keys, values = memory.keys[o], memory.values[o]
    base = view.rules[o, MAX_REPLICAS] + 1
    level = level_of(view.seen[o, RATE], quantum, levels)
    level_before = level_of(view.before[o, RATE], quantum, levels)
    here = encode(view.counts[o], base, level, levels)
    post_decision = here + level_before - level
    expected = 0.0
    if memory.ints[o, ESTIMATES]:
        expected = UNKNOWN
        if keys.size == 1:
            remember_estimates(o, view, memory, here, level)
            expected = values[memory.ints[o, KEYS] + post_decision]
        if expected == UNKNOWN:
            expected = estimate(o, view, 0, 0, level_before, quantum)
    staying, best, moving = weigh(o, view, memory, here, level)
    violation = view.traits[o, WEIGHT_VIOLATION] * view.cost[o, VIOLATION]
    aim = violation - expected + memory.floats[o, GAMMA] * min(staying, moving)
    alpha = learning_rate(memory.ints[o, UPDATES], memory.floats[o, LEAST_ALPHA])
    place = find_place(keys, post_decision)
    old = values[place]
    if memory.ints[o, PUBLISHED]:
        old = read(keys, values, encode(view.counts_before[o], base, level_before, levels))
    values[place] = (1 - alpha) * old + alpha * aim
    memory.ints[o, UPDATES] += 1

    # Leave the action for `decide`, which comes next: weighing is most of the work. The update may
    # have changed what staying is worth, and nothing else of what was weighed.
    if here == post_decision:
        staying = value_of(o, view, memory, 0, 0, here, level)
    memory.ints[o, WEIGHED] = here
    memory.floats[o, WEIGHED_AT] = view.seen[o, TIME]
    memory.ints[o, BEST] = best if moving < staying else 0


@compiled
def decide(o: int, view: View, memory: Memory) -> None:
    """Take the valid action of least value."""
    levels = memory.ints[o, LEVELS]
    level = level_of(view.seen[o, RATE], memory.floats[o, QUANTUM], levels)
    here = encode(view.counts[o], view.rules[o, MAX_REPLICAS] + 1, level, levels)
    if here == memory.ints[o, WEIGHED] and view.seen[o, TIME] == memory.floats[o, WEIGHED_AT]:
        take(o, view, memory.ints[o, BEST])
        return
    staying, best, moving = weigh(o, view, memory, here, level)
    take(o, view, best if moving < staying else 0)


def _explain(observation: Observation, target: Deployment, view: View, memory: Memory) -> Decision:
    """Compare the values of all valid actions."""
    levels, base = int(memory.ints[0, LEVELS]), int(view.rules[0, MAX_REPLICAS]) + 1
    level = level_of(observation.rate, memory.floats[0, QUANTUM], levels)
    counts = view.counts[0]
    scores = {}
    for action in range(count_actions(view)):
        if is_valid(0, view, counts, observation.deployment.size, action):
            take(0, view, action)
            key = encode(view.target[0], base, level, levels)
            place, change = step_of(action, counts.size)
            deployment = Deployment(tuple(int(count) for count in view.target[0]))
            scores[deployment] = value_of(0, view, memory, place, change, key, level)
    reason = (
        f"of {len(scores)} actions it has the least expected cost, {scores[target]:.3g}, "
        f"after {memory.ints[0, UPDATES]:,} intervals learned"
    )
    return explain_scores(observation, target, reason, scores)
