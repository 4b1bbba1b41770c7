"""One Jacobi sweep of value iteration, for one operator or for all of them jointly.

A state is a deployment and a rate level. A deployment is a number in mixed radix whose digits are
the operators' replicas less one; an action moves every digit by -1, 0 or 1. With what is known of a
deployment's cost, R(k'), and of moving, w:

    G(k', l) = sum_l' P(l, l') (C_u(k', l') + gamma V(k', l'))
    Q(s, a)  = R(k') + w [a] + G(k', l),    k' = k + a
    V(k, l)  = min_a Q(s, a)

G does not know where one came from, so a sweep computes it once per k' and level, not per action.
All moving costs the same, so the least over the 3^n actions is a least over neighbours, found axis
by axis: V = min(H(k), w + min over the box around k of H), H = R + G.

All arrays are flat, `(D * L,)` with levels as the fast index; a chain's are those of `chains`.

Sources: Cardellini, Lo Presti, Nardelli, Russo Russo, FGCS 2018, algorithm 2; Russo Russo, ZEUS
2018, algorithm 1. Both papers sweep with the values of the sweep before (Jacobi).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

import numpy as np

from weir_policies.errors import ParameterError
from weir_policies.kernels.compiled import compiled
from weir_policies.model.arrays import Counts, Floats

STATES_AT_MOST = 1_000_000
PAIRS_AT_MOST = 3_000_000
"""States times actions of a joint plan: four operators of five replicas at 52 levels are below."""


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
    if states > STATES_AT_MOST:
        raise ParameterError(
            f"{policy} would need {states:,} states and plans for {STATES_AT_MOST:,} at most; "
            "give a smaller maxReplicas or fewer levels"
        )
    if len(sizes) > 1 and pairs > PAIRS_AT_MOST:
        raise ParameterError(
            f"{policy} with centralised = 1 would need {pairs:,} pairs of states and actions and "
            f"plans for {PAIRS_AT_MOST:,} at most; give centralised = 0, fewer operators, a "
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
def expect(
    values: Floats,
    unknown: Floats,
    expected: Floats,
    counted: Floats,
    left: Floats,
    first: Counts,
    last: Counts,
    deployments: int,
    gamma: float,
) -> None:
    """Write G: what follows a deployment at a level, from the next interval on.

    Args:
        values: V, `(D * L,)`.
        unknown: C_u per next state, `(D * L,)`.
        expected: G, `(D * L,)`: written.
        counted: Transitions, `(L * L,)`, as the other three of `chains.begin_chain`.
        left: Transitions from each level, `(L,)`.
        first: Begin of each level's band, `(L,)`.
        last: Its end, `(L,)`.
        deployments: D.
        gamma: Weight of the future.
    """
    levels = left.size
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
def improve(
    values: Floats,
    expected: Floats,
    resources: Floats,
    box: Floats,
    other: Floats,
    sizes: Counts,
    levels: int,
    moving: float,
) -> float:
    """Write V, the least over all actions; return its greatest change.

    Args:
        values: V, `(D * L,)`: written.
        expected: G, `(D * L,)`; R is added to it, so that it holds H afterwards.
        resources: R, weighted, `(D,)`.
        box: Room to work in, `(D * L,)`.
        other: Room to work in, `(D * L,)`.
        sizes: Numbers of replicas per operator, `(n,)`.
        levels: L.
        moving: What any action but staying costs, weighted.
    """
    deployments = resources.size
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
