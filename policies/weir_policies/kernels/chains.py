"""How often one rate level followed another: the shared estimate of a Markov chain.

    P(l, l') = n(l, l') / sum_j n(l, j)

The counts n stand transposed, flat, `(L * L,)`: those of what led *to* a level lie side by side,
which is how a backup reads them. Levels change little from one interval to the next, so each level
remembers the band of levels that it was reached from, and a backup reads no zeros beyond.

A level that was never left is taken to stay: every level begins with one count on the diagonal.

Sources: Cardellini, Lo Presti, Nardelli, Russo Russo, FGCS 2018, algorithm 2; Russo Russo, ZEUS
2018, equation 5.
"""

from __future__ import annotations

import numpy as np

from weir_policies.kernels.compiled import compiled
from weir_policies.model.arrays import Counts, Floats


@compiled
def nearest_level(rate: float, quantum: float, levels: int) -> int:
    """Return the level whose rate, level times quantum, is nearest; the highest for all above."""
    return min(int(rate / quantum + 0.5), levels - 1)


@compiled
def begin_chain(counted: Floats, left: Floats, first: Counts, last: Counts) -> None:
    """Start every level with one transition to itself.

    Args:
        counted: Transitions to a level, from a level, `(L * L,)`.
        left: Transitions from a level, `(L,)`.
        first: Lowest level that a level was reached from, `(L,)`.
        last: Highest one, `(L,)`.
    """
    counted[:] = 0.0
    for level in range(left.size):
        counted[level * left.size + level] = 1.0
        left[level] = 1.0
        first[level] = level
        last[level] = level


@compiled
def count_transition(
    counted: Floats, left: Floats, first: Counts, last: Counts, before: int, after: int
) -> None:
    """Count that one level followed another; the arrays are those of `begin_chain`."""
    counted[after * left.size + before] += 1.0
    left[before] += 1.0
    first[after] = min(first[after], before)
    last[after] = max(last[after], before)


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


def fill_chain(
    probabilities: Floats, counted: Floats, left: Floats, first: Counts, last: Counts
) -> None:
    """Write known probabilities `(L, L)` where a backup looks for counts."""
    counted[:] = probabilities.T.ravel()
    left[:] = 1.0
    for level, reached in enumerate(probabilities.T):
        from_levels = np.flatnonzero(reached)
        first[level] = from_levels[0] if from_levels.size else level
        last[level] = from_levels[-1] if from_levels.size else level - 1
