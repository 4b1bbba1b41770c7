"""Plans for operators with one kind of replica, shared by the 2018 policies.

Their papers have one kind of node. Here, a plan treats all replicas of an operator as ones of the
chosen node type: an action adds one of that type, or removes one, of another type first. The
parameter is its index among the types that the operator may run on. Prices are that type's.

A plan covers one operator (row o) or all of them (`joint`, row 0): then a state is all operators'
replicas and the rate at the sources, a violation is any operator's (`EACH`) or that of the slowest
path (`PATH`), and moving several at once costs one reconfiguration. A state is a deployment and a
rate level. A deployment is a number in mixed radix whose digits are the operators' replicas less
one; an action moves every digit by -1, 0 or 1.

The rate is a Markov chain, whose probabilities are counted (`observe_level`). With what is known of
a deployment's cost, R(k'), an estimate of the rest, C_u, and what moving costs, w:

    P(l, l') = n(l, l') / sum_j n(l, j)
    G(k', l) = sum_l' P(l, l') (C_u(k', l') + gamma V(k', l'))
    Q(s, a)  = R(k') + w [a] + G(k', l),    k' = k + a
    V(k, l)  = min_a Q(s, a)

G does not know where one came from, so a `sweep` computes it once per k' and level, not per action.
All moving costs the same, so the least over the 3^n actions is a least over neighbours, found axis
by axis: V = min(H(k), w + min over the box around k of H), H = R + G.

C_u is learned per next state (`learn_cost`), or comes from the queueing model (`judge_all`).

Sources: Cardellini, Lo Presti, Nardelli, Russo Russo, FGCS 2018, section 5.2, algorithm 2; Russo
Russo, ZEUS 2018, equations 5 and 6, algorithm 1. Both papers sweep with the values of the sweep
before (Jacobi). Equation 6 keeps C_u per state and action.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np

from weir_policies.errors import ParameterError
from weir_policies.kernels.compiled import compiled
from weir_policies.kernels.fields import Fields, array
from weir_policies.kernels.levels import LearningParameters, find_gains, nearest_level
from weir_policies.kernels.prediction import predict_one
from weir_policies.kernels.steps import has_room, total
from weir_policies.kernels.view import NO_POOL, Memory, View
from weir_policies.model.arrays import Counts, Floats
from weir_policies.model.node_types import Deployment

MAX_STATES = 1_000_000
"""States of one plan: more would take too long to sweep."""
MAX_PAIRS = 3_000_000
"""States times actions of a joint plan: four operators of five replicas at 52 levels are below."""
EACH, PATH = 1, 2
"""Values of `joint`: a violation is any operator's beyond its budget, or the slowest path's beyond
the greatest sum of budgets along a path. It is 0 where a plan covers one operator."""


class HomogeneousPlan(Fields):
    """A plan; of operators that are planned for jointly row 0 holds it.

    Arrays by state are flat, with levels as the fast index.
    """

    gamma: float
    """Weight of the next interval's costs against this one's."""
    alpha: float
    """Weight of a new observation of violations."""
    quantum: float
    """Width of a level, records/s at a source."""
    most_busy: float
    """Utilisation above which an interval is violated; where it is infinite, the budget of the
    response time decides."""
    gain: float
    """The operator's rate per source's."""
    joint: int
    node_type: int
    """The one that is added."""
    node_types: int
    axes: int
    """Operators that the plan is for."""
    levels: int
    deployments: int
    actions: int
    transitions: int
    """`levels` squared."""
    states: int
    """`deployments` times `levels`."""
    counted: Floats = array("transitions")
    """Transitions to a level, from a level: those to one lie side by side, as a sweep reads them.
    A level that was never left is taken to stay: each begins with one transition to itself."""
    left: Floats = array("levels")
    """Transitions from each level."""
    first: Counts = array("levels")
    """Lowest level that each was reached from: a rate changes little, and a sweep reads no zeros
    beyond."""
    last: Counts = array("levels")
    """Highest one."""
    sizes: Counts = array("axes")
    """Most replicas of each operator."""
    moves: Counts = array("deployments", "actions")
    resources: Floats = array("deployments")
    """What deployments cost, weighted."""
    values: Floats = array("states")
    """V."""
    expected: Floats = array("states")
    """H, from the last sweep."""
    box: Floats = array("states")
    """Scratch: the lowest H among a state and its neighbours along the axes so far."""
    other: Floats = array("states")
    """Scratch: the same along one axis more."""
    unknown: Floats = array("states")
    """C_u."""
    counts: Counts = array("node_types")
    """Room for one deployment."""
    on_path: int
    """Operators that are judged by paths: all of them for `PATH`, else none."""
    most_sizes: int
    """Most replicas that any of them may have; 0 where none is judged by paths."""
    times: Floats = array("on_path", "most_sizes", "levels")
    """Response times by operator, replicas and level."""
    column: Floats = array("on_path")
    """Room for one time of each operator."""
    behind: Floats = array("on_path")
    """Room to add times up along paths."""


def new_plan(
    kind: type[HomogeneousPlan],
    view: View,
    parameters: LearningParameters,
    *,
    policy: str,
    node_type: int,
    joint: int = 0,
    **values: Any,
) -> Memory:
    """Return the memory of plans that have seen nothing.

    Args:
        kind: What it holds.
        view: The operators.
        parameters: Settings, as for `Fields.allocate`.
        policy: Its name, for the refusal.
        node_type: Place among those that the operator may run on.
        joint: `EACH` or `PATH` where one plan is for all operators, else 0.
        values: Other fields, as for `Fields.allocate`.

    Raises:
        ParameterError: A plan is too large, or there is no such node type.
    """
    operators, types = view.counts.shape
    own_types = [np.flatnonzero(pools != NO_POOL) for pools in view.pool]
    fewest = min(places.size for places in own_types)
    if node_type >= fewest:
        raise ParameterError(
            f"Expected node_type of {policy} below {fewest}, the number of node types, got "
            f"{node_type}; give the index of the type that it adds, from 0"
        )
    levels = int(parameters.levels)
    limits = [int(maximum) for maximum in view.model["max_replicas"]]
    spaces = [limits] if joint else [[maximum] for maximum in limits]
    for space in spaces:
        refuse_large_plans(space, levels=levels, policy=policy)
    moves = [list_moves(space) for space in spaces]
    gains = find_gains(view) if joint else np.ones(operators)
    quanta = parameters.find_quanta(view) / gains
    plans = moves * operators if joint else moves  # rows behind the first hold none of their own
    memory = kind.allocate(
        view,
        parameters,
        quantum=quanta.min() if joint else quanta,
        gain=gains,
        joint=joint,
        node_type=np.array([places[node_type] for places in own_types]),
        node_types=types,
        axes=len(spaces[0]),
        deployments=np.array([len(moved) for moved in plans]),
        actions=moves[0].shape[1],
        transitions=levels * levels,
        states=np.array([len(moved) * levels for moved in plans]),
        on_path=operators if joint == PATH else 0,
        most_sizes=max(limits) if joint == PATH else 0,
        **values,
    )
    for row, space, moved in zip(memory, spaces, moves, strict=False):
        own = kind(row)
        own.moves[:], own.sizes[:] = moved, space
        own.counted[:: levels + 1] = own.left[:] = 1.0
        own.first[:] = own.last[:] = np.arange(levels)
    return memory


def refuse_large_plans(sizes: Sequence[int], *, levels: int, policy: str) -> None:
    """Refuse a plan that would take too long to sweep.

    Args:
        sizes: Replicas at most, per operator that is planned for jointly.
        levels: Rate levels.
        policy: Its name, for the refusal.

    Raises:
        ParameterError: Above a million states, or jointly above three million states times actions.
    """
    states = levels * int(np.prod([int(size) for size in sizes], dtype=object))
    pairs = states * 3 ** len(sizes)
    if states > MAX_STATES:
        raise ParameterError(
            f"{policy} would need {states:,} states and plans for {MAX_STATES:,} at most; "
            "give a smaller maxReplicas or fewer levels"
        )
    if len(sizes) > 1 and pairs > MAX_PAIRS:
        raise ParameterError(
            f"{policy} with centralised = 1 would need {pairs:,} pairs of states and actions and "
            f"plans for {MAX_PAIRS:,} at most; give centralised = 0, fewer operators, a "
            "smaller maxReplicas or fewer levels"
        )


def list_moves(sizes: Sequence[int]) -> Counts:
    """Return where every action leads from every deployment, `(d, 3^n)`; -1 where it cannot be.

    Staying is action 0; then come the others in lexicographic order, -1 before 0 before 1 and the
    first operator slowest.
    """
    changes = sorted(product((-1, 0, 1), repeat=len(sizes)), key=lambda change: any(change))
    strides = np.cumprod([1, *sizes[:-1]])
    numbers = np.arange(int(np.prod(sizes)))
    digits = numbers[:, None] // strides % np.array(sizes)  # d x n
    moves = np.full((numbers.size, len(changes)), -1, dtype=np.int64)
    for action, change in enumerate(changes):
        reached = digits + np.array(change)
        fits = ((reached >= 0) & (reached < np.array(sizes))).all(axis=1)
        moves[fits, action] = (reached @ strides)[fits]
    return moves


@compiled
def level_at(own: HomogeneousPlan, rate: float) -> int:
    """Return the level of a rate at the operator."""
    return nearest_level(rate, own.quantum * own.gain, own.levels)


@compiled
def number_at(o: int, view: View, own: HomogeneousPlan) -> int:
    """Return the number of the deployment in force, of one operator or of all."""
    if own.joint == 0:
        return min(max(total(view.counts[o]), 1), view.model[o].max_replicas) - 1
    number, stride = 0, 1
    for row in range(view.counts.shape[0]):
        maximum = view.model[row].max_replicas
        number += (min(max(total(view.counts[row]), 1), maximum) - 1) * stride
        stride *= maximum
    return number


@compiled
def was_violated(o: int, view: View, own: HomogeneousPlan) -> float:
    """Return 1 where the interval just ended was violated, else 0 (or what part of it was)."""
    if own.joint == PATH:
        return 1.0 if _exceeds_budgets(view, own) else 0.0
    if own.joint:
        worst = 0.0
        for row in range(view.counts.shape[0]):
            worst = max(worst, view.cost[row].violation)
        return worst
    if own.most_busy < np.inf:
        return 1.0 if view.seen[o].busiest > own.most_busy else 0.0
    return view.cost[o].violation


@compiled
def _slowest(own: HomogeneousPlan, view: View) -> float:
    """Return the greatest sum of `own.column` along a path."""
    column, behind = own.column, own.behind
    behind[:] = 0.0
    for edge in range(view.edges.shape[0] - 1, -1, -1):
        above, below = view.edges[edge, 0], view.edges[edge, 1]
        behind[above] = max(behind[above], column[below] + behind[below])
    slowest = 0.0
    for row in range(column.size):
        slowest = max(slowest, column[row] + behind[row])
    return slowest


@compiled
def _exceeds_budgets(view: View, own: HomogeneousPlan) -> bool:
    """Return whether the slowest path took longer than the budgets along a path allow."""
    for row in range(own.on_path):
        own.column[row] = view.seen[row].budget
    bound = _slowest(own, view)
    for row in range(own.on_path):
        own.column[row] = view.seen[row].response_time
    return _slowest(own, view) > bound


@compiled
def _predict(
    row: int, size: int, level: int, o: int, view: View, memory: Memory
) -> tuple[float, float]:
    """Return response time, s, and utilisation of so many replicas, by the believed model."""
    own, plan_of_row = HomogeneousPlan(memory[o]), HomogeneousPlan(memory[row])
    counts = own.counts
    counts[:] = 0
    counts[plan_of_row.node_type] = size
    return predict_one(row, view, counts, level * own.quantum * plan_of_row.gain)


@compiled
def would_violate(row: int, size: int, level: int, o: int, view: View, memory: Memory) -> bool:
    """Return whether so many replicas of an operator break its bound, by the believed model."""
    own = HomogeneousPlan(memory[o])
    time, busy = _predict(row, size, level, o, view, memory)
    if own.most_busy < np.inf:
        return busy > own.most_busy
    return time > view.seen[row].budget


@compiled
def _judge_paths(o: int, view: View, memory: Memory) -> None:
    """Write the cost of violations of every joint state, by the believed model."""
    own = HomogeneousPlan(memory[o])
    times, column = own.times, own.column
    for row in range(own.on_path):
        column[row] = view.seen[row].budget
        for size in range(1, view.model[row].max_replicas + 1):
            for level in range(own.levels):
                time, _ = _predict(row, size, level, o, view, memory)
                times[row, size - 1, level] = time
    bound = _slowest(own, view)
    for deployment in range(own.deployments):
        for level in range(own.levels):
            left = deployment
            for row in range(own.on_path):
                size = left % view.model[row].max_replicas
                left //= view.model[row].max_replicas
                column[row] = times[row, size, level]
            violated = _slowest(own, view) > bound
            own.unknown[deployment * own.levels + level] = (
                view.model[o].weight_violation if violated else 0.0
            )


@compiled
def judge_all(o: int, view: View, memory: Memory) -> None:
    """Write the cost of violations of every state, by the believed model."""
    own = HomogeneousPlan(memory[o])
    if own.joint == PATH:
        _judge_paths(o, view, memory)
        return
    levels, deployments, unknown = own.levels, own.deployments, own.unknown
    unknown[:] = 0.0
    stride = 1
    for axis in range(own.axes):
        row = axis if own.joint else o
        maximum = view.model[row].max_replicas
        for size in range(1, maximum + 1):
            for level in range(levels):
                if would_violate(row, size, level, o, view, memory):
                    for deployment in range(deployments):
                        if deployment // stride % maximum == size - 1:
                            place = deployment * levels + level
                            unknown[place] = view.model[o].weight_violation
        stride *= maximum


@compiled
def remember_resources(o: int, view: View, memory: Memory) -> None:
    """Write what every deployment costs at today's prices, weighted."""
    own = HomogeneousPlan(memory[o])
    top = 0.0
    for axis in range(own.axes):
        top += view.model[axis if own.joint else o].top_cost
    weight = view.model[o].weight_resources / top
    for deployment in range(own.deployments):
        price, left = 0.0, deployment
        for axis in range(own.axes):
            row = axis if own.joint else o
            maximum = view.model[row].max_replicas
            price += (1 + left % maximum) * view.price[row, HomogeneousPlan(memory[row]).node_type]
            left //= maximum
        own.resources[deployment] = weight * price


@compiled
def observe_level(o: int, view: View, own: HomogeneousPlan) -> None:
    """Count the transition of the rate in the interval just ended."""
    before, after = level_at(own, view.before[o].rate), level_at(own, view.seen[o].rate)
    count_transition(own, before, after)


@compiled
def count_transition(own: HomogeneousPlan, before: int, after: int) -> None:
    """Count that one level followed another."""
    own.counted[after * own.levels + before] += 1.0
    own.left[before] += 1.0
    own.first[after] = min(own.first[after], before)
    own.last[after] = max(own.last[after], before)


def estimate_chain(levels: Counts, *, number: int) -> Floats:
    """Return P of a path of levels `(n,)`: row-stochastic, `(L, L)`; unseen levels stay.

    Args:
        levels: The path, each in [0, number).
        number: How many levels there are, L.
    """
    counted = np.zeros((number, number))
    np.add.at(counted, (levels[:-1], levels[1:]), 1.0)
    unseen = counted.sum(axis=1) == 0
    counted[unseen, unseen] = 1.0
    return np.asarray(counted / counted.sum(axis=1, keepdims=True))


def fill_chain(own: HomogeneousPlan, probabilities: Floats) -> None:
    """Write known probabilities `(L, L)` where a sweep looks for counts."""
    own.counted[:] = probabilities.T.ravel()
    own.left[:] = 1.0
    for level, reached in enumerate(probabilities.T):
        from_levels = np.flatnonzero(reached)
        own.first[level] = from_levels[0] if from_levels.size else level
        own.last[level] = from_levels[-1] if from_levels.size else level - 1


@compiled
def learn_cost(own: HomogeneousPlan, size: int, level: int, cost: float) -> None:
    """Move the estimate of a deployment and level towards the cost that was observed."""
    place = size * own.levels + level
    own.unknown[place] = (1 - own.alpha) * own.unknown[place] + own.alpha * cost


@compiled
def repair(own: HomogeneousPlan, size: int, level: int) -> None:
    """Make the estimates monotone again after that of a deployment and level was updated.

    More replicas never cost more violations and a higher rate never fewer; for one operator only:

        k' <= k and l' >= l:  C_u(k', l') <- max(C_u(k', l'), C_u(k, l))
        k' >= k and l' <= l:  C_u(k', l') <- min(C_u(k', l'), C_u(k, l))
    """
    unknown, levels = own.unknown, own.levels
    updated = unknown[size * levels + level]
    for fewer in range(size + 1):
        for higher in range(level, levels):
            place = fewer * levels + higher
            unknown[place] = max(unknown[place], updated)
    for more in range(size, own.deployments):
        for lower in range(level + 1):
            place = more * levels + lower
            unknown[place] = min(unknown[place], updated)


@compiled
def sweep(o: int, view: View, own: HomogeneousPlan) -> float:
    """Do one sweep over all states and actions; return the greatest change of a value.

    It leaves H in `expected`.
    """
    _expect(own)
    return _improve(own, view.model[o].weight_reconfiguration)


@compiled
def _expect(own: HomogeneousPlan) -> None:
    """Write G: what follows a deployment at a level, from the next interval on."""
    values, unknown, expected, gamma = own.values, own.unknown, own.expected, own.gamma
    counted, left, first, last = own.counted, own.left, own.first, own.last
    levels, deployments = own.levels, own.deployments
    for deployment in range(deployments):
        row = deployment * levels
        for level in range(levels):
            expected[row + level] = 0.0
        for after in range(levels):
            worth = unknown[row + after] + gamma * values[row + after]
            column = after * levels
            for level in range(first[after], last[after] + 1):
                expected[row + level] += counted[column + level] * worth
        for level in range(levels):
            expected[row + level] /= left[level]


@compiled
def _improve(own: HomogeneousPlan, moving: float) -> float:
    """Turn G into H, and write V, the least over all actions; return its greatest change."""
    values, expected, resources = own.values, own.expected, own.resources
    box, other, sizes = own.box, own.other, own.sizes
    levels, deployments = own.levels, own.deployments
    for deployment in range(deployments):
        row = deployment * levels
        for level in range(levels):
            expected[row + level] += resources[deployment]
            box[row + level] = expected[row + level]
    stride = levels
    for axis in range(sizes.size):
        span = stride * sizes[axis]
        for place in range(deployments * levels):
            other[place] = box[place]
        for begin in range(0, deployments * levels, span):
            for place in range(begin, begin + span - stride):
                other[place] = min(other[place], box[place + stride])
            for place in range(begin + stride, begin + span):
                other[place] = min(other[place], box[place - stride])
        for place in range(deployments * levels):
            box[place] = other[place]
        stride = span
    greatest = 0.0
    for place in range(deployments * levels):
        value = min(expected[place], moving + box[place])
        greatest = max(greatest, abs(value - values[place]))
        values[place] = value
    return greatest


@compiled
def choose_move(o: int, view: View, memory: Memory, after: int) -> bool:
    """Write the targets of a deployment that one action leads to; return whether they can be."""
    own, left = HomogeneousPlan(memory[o]), after
    for axis in range(own.axes):
        row = axis if own.joint else o
        place = HomogeneousPlan(memory[row]).node_type
        maximum = view.model[row].max_replicas
        change = 1 + left % maximum - total(view.counts[row])
        left //= maximum
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
    """Return Q of an action, infinite where it cannot be; the view's targets follow it."""
    own = HomogeneousPlan(memory[o])
    after = own.moves[here, action]
    if after < 0 or not choose_move(o, view, memory, after):
        return np.inf
    moving = view.model[o].weight_reconfiguration if action else 0.0
    return float(own.expected[after * own.levels + level]) + moving


@compiled
def choose_best(o: int, view: View, memory: Memory) -> None:
    """Write the targets of the action of least Q, the first of equals, staying first."""
    own = HomogeneousPlan(memory[o])
    here, level = number_at(o, view, own), level_at(own, view.seen[o].rate)
    best, best_cost = 0, np.inf
    for action in range(own.actions):
        score = score_of(o, view, memory, action, here, level)
        if score < best_cost:
            best, best_cost = action, score
    score_of(o, view, memory, best, here, level)


def score_actions(view: View, memory: Memory) -> dict[Deployment, float]:
    """Return Q of every action that can be, by where it leads the operator of row 0."""
    own = HomogeneousPlan(memory[0])
    here, level = number_at(0, view, own), level_at(own, view.seen[0].rate)
    scores = {}
    for action in range(int(own.actions)):
        score = score_of(0, view, memory, action, here, level)
        if not math.isinf(score):
            scores[Deployment(tuple(int(count) for count in view.target[0]))] = score
    return scores


def score_joint_actions(view: View, memory: Memory) -> list[float]:
    """Return Q of every action of all operators that can be; the view's targets are overwritten."""
    own = HomogeneousPlan(memory[0])
    here, level = number_at(0, view, own), level_at(own, view.seen[0].rate)
    actions = range(int(own.actions))
    scores = [score_of(0, view, memory, action, here, level) for action in actions]
    return [score for score in scores if not math.isinf(score)]
