"""Plans for operators whose replicas count as equal: what the 2018 policies share.

Their papers know one kind of node. Here a plan counts an operator's replicas, all of them, as ones
of the chosen node type: an action adds one of that type, or removes one, of another type first.
Its place is among those that the operator may run on. Prices are that type's. The arithmetic is
`chains`, `unknown_costs` and `backups`; this module keeps their arrays in a policy's memory and
reads them off a view.

A plan covers one operator (row o) or all of them (`JOINT`, row 0): then a state is all operators'
replicas and the rate at the sources, a violation is any operator's, and moving several at once
costs one reconfiguration.
"""

from __future__ import annotations

import numpy as np

from weir_policies.errors import ParameterError
from weir_policies.kernels.backups import expect, improve, list_moves, refuse_large_plans
from weir_policies.kernels.chains import begin_chain, count_transition, nearest_level
from weir_policies.kernels.compiled import compiled
from weir_policies.kernels.levels import LevelParameters
from weir_policies.kernels.prediction import predict_one
from weir_policies.kernels.steps import has_room, total
from weir_policies.kernels.view import (
    BUDGET,
    BUSIEST,
    MAX_REPLICAS,
    NO_POOL,
    RATE,
    TOP_COST,
    VIOLATION,
    WEIGHT_RECONFIGURATION,
    WEIGHT_RESOURCES,
    WEIGHT_VIOLATION,
    Memory,
    View,
    empty_memory,
)
from weir_policies.model.arrays import Floats

# Columns of `Memory.floats`. MOST_BUSY is the utilisation above which an interval is violated;
# where it is infinite, the budget of the response time decides. GAIN is the rate per source's.
GAMMA, ALPHA, QUANTUM, MOST_BUSY, GAIN = range(5)
# Columns of `Memory.ints`; a policy's own begin at OWN and end before HEAD.
LEVELS, DEPLOYMENTS, ACTIONS, AXES, NODE_TYPE, JOINT = range(6)
OWN, HEAD = 6, 10


def new_plan(
    view: View,
    parameters: LevelParameters,
    *,
    policy: str,
    gamma: float,
    alpha: float,
    node_type: int,
    most_busy: float = np.inf,
    joint: bool = False,
) -> Memory:
    """Return the memory of plans that have seen nothing.

    Behind their heads, `floats` hold the chain and the deployments' costs, `ints` the chain's
    bands, the numbers of replicas, the moves and room for one deployment; `values` hold V, H, two
    places to work in, and the unknown costs.

    Raises:
        ParameterError: A plan is too large, or there is no such node type.
    """
    operators, types = view.counts.shape
    own = [np.flatnonzero(pools != NO_POOL) for pools in view.pool]
    fewest = min(places.size for places in own)
    if node_type >= fewest:
        raise ParameterError(
            f"Expected node_type of {policy} below {fewest}, the number of node types, got "
            f"{node_type}; give the place of the type that it adds, counted from 0"
        )
    levels = int(parameters.levels)
    limits = [int(most) for most in view.rules[:, MAX_REPLICAS]]
    spaces = [limits] if joint else [[most] for most in limits]
    for space in spaces:
        refuse_large_plans(space, levels=levels, policy=policy)
    moves = [list_moves(space) for space in spaces]
    deployments = max(len(each) for each in moves)
    memory = empty_memory(
        view,
        floats=HEAD + levels * (levels + 1) + deployments,
        ints=HEAD + 2 * levels + len(spaces[0]) + max(each.size for each in moves) + types,
        values=5 * deployments * levels,
    )
    gains = find_gains(view) if joint else np.ones(operators)
    memory.floats[:, GAMMA], memory.floats[:, ALPHA] = gamma, alpha
    memory.floats[:, MOST_BUSY], memory.floats[:, GAIN] = most_busy, gains
    quanta = parameters.find_quanta(view) / gains
    memory.floats[:, QUANTUM] = quanta.min() if joint else quanta
    memory.ints[:, LEVELS] = levels
    memory.ints[:, NODE_TYPE] = [places[node_type] for places in own]
    memory.ints[:, JOINT], memory.ints[:, AXES] = joint, len(spaces[0])
    for o, (space, moved) in enumerate(zip(spaces, moves, strict=True)):
        memory.ints[o, DEPLOYMENTS], memory.ints[o, ACTIONS] = moved.shape
        first = HEAD + 2 * levels
        memory.ints[o, first : first + len(space)] = space
        first += len(space)
        memory.ints[o, first : first + moved.size] = moved.ravel()
        counted = HEAD + levels * levels
        begin_chain(
            memory.floats[o, HEAD:counted],
            memory.floats[o, counted : counted + levels],
            memory.ints[o, HEAD : HEAD + levels],
            memory.ints[o, HEAD + levels : HEAD + 2 * levels],
        )
    return memory


def find_gains(view: View) -> Floats:
    """Return the records/s at each operator per record/s at every source, `(o,)`."""
    gains = np.ones(view.counts.shape[0])
    gains[view.edges[:, 1]] = 0.0
    for (above, below), selectivity in zip(view.edges, view.selectivity, strict=True):
        gains[below] += gains[above] * selectivity
    return gains


@compiled
def level_at(o: int, memory: Memory, rate: float) -> int:
    """Return the level of a rate at operator o."""
    quantum = memory.floats[o, QUANTUM] * memory.floats[o, GAIN]
    return nearest_level(rate, quantum, memory.ints[o, LEVELS])


@compiled
def number_at(o: int, view: View, memory: Memory) -> int:
    """Return the number of the deployment in force, of one operator or of all."""
    if memory.ints[o, JOINT] == 0:
        return min(max(total(view.counts[o]), 1), view.rules[o, MAX_REPLICAS]) - 1
    number, stride = 0, 1
    for row in range(view.counts.shape[0]):
        most = view.rules[row, MAX_REPLICAS]
        number += (min(max(total(view.counts[row]), 1), most) - 1) * stride
        stride *= most
    return number


@compiled
def was_violated(o: int, view: View, memory: Memory) -> float:
    """Return 1 where the interval just ended was violated, else 0 (or what part of it was)."""
    if memory.ints[o, JOINT]:
        worst = 0.0
        for row in range(view.counts.shape[0]):
            worst = max(worst, view.cost[row, VIOLATION])
        return worst
    if memory.floats[o, MOST_BUSY] < np.inf:
        return 1.0 if view.seen[o, BUSIEST] > memory.floats[o, MOST_BUSY] else 0.0
    return view.cost[o, VIOLATION]


@compiled
def would_violate(row: int, size: int, level: int, o: int, view: View, memory: Memory) -> bool:
    """Return whether so many replicas of an operator break its bound, by the believed model.

    Args:
        row: The operator.
        size: Its replicas.
        level: Of the plan.
        o: Row of the plan.
        view: What is believed.
        memory: The plan.
    """
    types = view.counts.shape[1]
    scratch = memory.ints.shape[1] - types
    counts = memory.ints[o, scratch : scratch + types]
    counts[:] = 0
    counts[memory.ints[row, NODE_TYPE]] = size
    rate = level * memory.floats[o, QUANTUM] * memory.floats[row, GAIN]
    time, busy = predict_one(row, view, counts, rate)
    if memory.floats[o, MOST_BUSY] < np.inf:
        return busy > memory.floats[o, MOST_BUSY]
    return time > view.seen[row, BUDGET]


@compiled
def judge_all(o: int, view: View, memory: Memory) -> None:
    """Write the cost of violations of every state, by the believed model."""
    levels, deployments = memory.ints[o, LEVELS], memory.ints[o, DEPLOYMENTS]
    states = deployments * levels
    unknown = memory.values[o, 4 * states : 5 * states]
    unknown[:] = 0.0
    stride = 1
    for axis in range(memory.ints[o, AXES]):
        row = axis if memory.ints[o, JOINT] else o
        most = view.rules[row, MAX_REPLICAS]
        for size in range(1, most + 1):
            for level in range(levels):
                if would_violate(row, size, level, o, view, memory):
                    for deployment in range(deployments):
                        if deployment // stride % most == size - 1:
                            place = deployment * levels + level
                            unknown[place] = view.traits[o, WEIGHT_VIOLATION]
        stride *= most


@compiled
def remember_resources(o: int, view: View, memory: Memory) -> None:
    """Write what every deployment costs at today's prices, weighted."""
    levels, deployments = memory.ints[o, LEVELS], memory.ints[o, DEPLOYMENTS]
    first = HEAD + levels * (levels + 1)
    top = 0.0
    for axis in range(memory.ints[o, AXES]):
        top += view.traits[axis if memory.ints[o, JOINT] else o, TOP_COST]
    weight = view.traits[o, WEIGHT_RESOURCES] / top
    for deployment in range(deployments):
        price, left = 0.0, deployment
        for axis in range(memory.ints[o, AXES]):
            row = axis if memory.ints[o, JOINT] else o
            most = view.rules[row, MAX_REPLICAS]
            price += (1 + left % most) * view.price[row, memory.ints[row, NODE_TYPE]]
            left //= most
        memory.floats[o, first + deployment] = weight * price


@compiled
def observe_level(o: int, view: View, memory: Memory) -> None:
    """Count the transition of the rate in the interval just ended."""
    levels = memory.ints[o, LEVELS]
    counted = HEAD + levels * levels
    count_transition(
        memory.floats[o, HEAD:counted],
        memory.floats[o, counted : counted + levels],
        memory.ints[o, HEAD : HEAD + levels],
        memory.ints[o, HEAD + levels : HEAD + 2 * levels],
        level_at(o, memory, view.before[o, RATE]),
        level_at(o, memory, view.seen[o, RATE]),
    )


@compiled
def sweep(o: int, view: View, memory: Memory) -> float:
    """Do one sweep over all states and actions; return the greatest change of a value."""
    levels, deployments = memory.ints[o, LEVELS], memory.ints[o, DEPLOYMENTS]
    states = deployments * levels
    counted = HEAD + levels * levels
    sizes = HEAD + 2 * levels
    values, expected = memory.values[o, :states], memory.values[o, states : 2 * states]
    expect(
        values,
        memory.values[o, 4 * states : 5 * states],
        expected,
        memory.floats[o, HEAD:counted],
        memory.floats[o, counted : counted + levels],
        memory.ints[o, HEAD : HEAD + levels],
        memory.ints[o, HEAD + levels : HEAD + 2 * levels],
        deployments,
        memory.floats[o, GAMMA],
    )
    return improve(
        values,
        expected,
        memory.floats[o, counted + levels : counted + levels + deployments],
        memory.values[o, 2 * states : 3 * states],
        memory.values[o, 3 * states : 4 * states],
        memory.ints[o, sizes : sizes + memory.ints[o, AXES]],
        levels,
        view.traits[o, WEIGHT_RECONFIGURATION],
    )


@compiled
def take_move(o: int, view: View, memory: Memory, after: int) -> bool:
    """Write the targets of a deployment that one action leads to; return whether they can be.

    Args:
        o: Row of the plan.
        view: Where from, and the targets.
        memory: The plan.
        after: The deployment's number.
    """
    left = after
    for axis in range(memory.ints[o, AXES]):
        row = axis if memory.ints[o, JOINT] else o
        place = memory.ints[row, NODE_TYPE]
        most = view.rules[row, MAX_REPLICAS]
        change = 1 + left % most - total(view.counts[row])
        left //= most
        for other in range(view.counts.shape[1]):
            view.target[row, other] = view.counts[row, other]
        if change > 0:
            if not has_room(row, view, view.counts[row], place):
                return False
            view.target[row, place] += 1
        elif change < 0:
            leaving = place
            for other in range(view.counts.shape[1]):
                if other != place and view.counts[row, other] > 0:
                    leaving = other
            view.target[row, leaving] -= 1
    return True


@compiled
def score_of(o: int, view: View, memory: Memory, action: int, here: int, level: int) -> float:
    """Return Q of an action, infinite where it cannot be; the view's targets follow it.

    Args:
        o: Row of the plan.
        view: The state.
        memory: The plan.
        action: Number of the action, 0 stays.
        here: Number of the deployment in force.
        level: Of the rate.
    """
    levels, states = memory.ints[o, LEVELS], memory.ints[o, DEPLOYMENTS] * memory.ints[o, LEVELS]
    moves = HEAD + 2 * levels + memory.ints[o, AXES]
    after = memory.ints[o, moves + here * memory.ints[o, ACTIONS] + action]
    if after < 0 or not take_move(o, view, memory, after):
        return np.inf
    moving = view.traits[o, WEIGHT_RECONFIGURATION] if action else 0.0
    return memory.values[o, states + after * levels + level] + moving


@compiled
def take_best(o: int, view: View, memory: Memory) -> None:
    """Write the targets of the action of least Q, the first of equals, staying first."""
    here, level = number_at(o, view, memory), level_at(o, memory, view.seen[o, RATE])
    best, least = 0, np.inf
    for action in range(memory.ints[o, ACTIONS]):
        score = score_of(o, view, memory, action, here, level)
        if score < least:
            best, least = action, score
    score_of(o, view, memory, best, here, level)
