"""Estimates the unknown part of an interval's cost, shared by several policies.

    C_u <- (1 - alpha) C_u + alpha c_u

C_u is kept per *next state* (k', l'), as EDF does, or per state and action, as equation 6 of the
ZEUS paper is printed; that is the caller's index. More replicas never cost more violations and a
higher rate never fewer, so `repair` applies an update to the states that it bounds:

    k' <= k and l' >= l:  C_u(k', l') <- max(C_u(k', l'), C_u(k, l))
    k' >= k and l' <= l:  C_u(k', l') <- min(C_u(k', l'), C_u(k, l))

Sources: Cardellini, Lo Presti, Nardelli, Russo Russo, FGCS 2018, section 5.2.2; Russo Russo, ZEUS
2018, equation 6.
"""

from __future__ import annotations

from weir_policies.kernels.compiled import compiled
from weir_policies.model.arrays import Floats


@compiled
def learn_cost(unknown: Floats, place: int, cost: float, alpha: float) -> None:
    """Move one estimate towards the cost that was observed.

    Args:
        unknown: The estimates, flat.
        place: Which one.
        cost: What was observed.
        alpha: How far to move, in [0, 1].
    """
    unknown[place] = (1 - alpha) * unknown[place] + alpha * cost


@compiled
def repair(unknown: Floats, sizes: int, levels: int, size: int, level: int) -> None:
    """Make the estimates monotone again after the one at (size, level) was updated.

    Args:
        unknown: Estimates per next state, `(sizes * levels,)`; replicas are the slow index.
        sizes: How many numbers of replicas there are; only for a single operator.
        levels: How many rate levels.
        size: Index of the number of replicas.
        level: The level.
    """
    updated = unknown[size * levels + level]
    for fewer in range(size + 1):
        for higher in range(level, levels):
            place = fewer * levels + higher
            unknown[place] = max(unknown[place], updated)
    for more in range(size, sizes):
        for lower in range(level + 1):
            place = more * levels + lower
            unknown[place] = min(unknown[place], updated)
