"""Past intervals to learn from again: a ring buffer for `r` runs at once.

Sources: Lin, "Self-improving reactive agents based on reinforcement learning, planning and
teaching", Machine Learning 8 (1992). Russo Russo, Cardellini, Lo Presti, ACM TAAS 2023, section
4.2.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from weir_policies.kernels.compiled import compiled
from weir_policies.kernels.levels import level_of
from weir_policies.kernels.steps import find_action
from weir_policies.kernels.view import View
from weir_policies.model.arrays import Counts, Floats

Items = NDArray[np.int16]
"""Small, because a live policy stores its buffer after every interval: counts and levels fit."""


class Replay(NamedTuple):
    """Intervals of `r` runs; the oldest is overwritten when `capacity` are held."""

    items: Items
    """`(r, capacity, 2 t + 3)`: deployments before and after, levels before and after, and the
    action that led from one to the other, see `kernels.steps`."""
    costs: Floats
    """What the policy learns of each interval's cost, weighted, `(r, capacity)`."""


class Batch(NamedTuple):
    """`b` intervals of each of `r` runs."""

    before: Counts
    """Deployment when it was decided, `(r, b, t)`."""
    after: Counts
    """Deployment that followed, `(r, b, t)`."""
    level_before: Counts
    """Level of the rate when it was decided, `(r, b)`."""
    level_after: Counts
    """Level of the rate that followed, `(r, b)`."""
    actions: Counts
    """`(r, b)`."""
    costs: Floats
    """`(r, b)`."""


def empty_replay(*, runs: int, node_types: int, capacity: int) -> Replay:
    """Return a buffer that holds nothing."""
    return Replay(
        items=np.zeros((runs, capacity, 2 * node_types + 3), dtype=np.int16),
        costs=np.zeros((runs, capacity)),
    )


@compiled
def push(
    view: View, replay: Replay, place: int, quanta: Floats, levels: int, costs: Floats
) -> bool:
    """Write the interval that just ended, of every run.

    Args:
        view: The deployments and rates before and after it.
        replay: Where to.
        place: Entry to overwrite.
        quanta: Width of a level, records/s, `(r,)`.
        levels: How many there are.
        costs: What is learned of its cost, `(r,)`.

    Returns:
        Whether one action led to what followed, in every run.
    """
    node_types = view.counts.shape[1]
    explained = True
    for run in range(view.counts.shape[0]):
        item = replay.items[run, place]
        for each in range(node_types):
            item[each] = view.counts_before[run, each]
            item[node_types + each] = view.counts[run, each]
        item[2 * node_types] = level_of(view.before[run].rate, quanta[run], levels)
        item[2 * node_types + 1] = level_of(view.seen[run].rate, quanta[run], levels)
        action = find_action(view.counts_before[run], view.counts[run])
        item[2 * node_types + 2] = action
        explained = explained and action >= 0
        replay.costs[run, place] = costs[run]
    return explained


def draw_batch(replay: Replay, held: int, size: int, rngs: Sequence[np.random.Generator]) -> Batch:
    """Return different intervals of each run, all equally likely.

    Args:
        replay: Where from.
        held: Entries in use, at least `size`.
        size: Intervals per run.
        rngs: One per run.
    """
    picks = np.array([rng.choice(held, size, replace=False, shuffle=False) for rng in rngs])
    rows = np.arange(picks.shape[0])[:, None]
    items = replay.items[rows, picks].astype(np.int64)  # r x b x (2 t + 3)
    node_types = (items.shape[2] - 3) // 2
    return Batch(
        before=np.ascontiguousarray(items[:, :, :node_types]),
        after=np.ascontiguousarray(items[:, :, node_types : 2 * node_types]),
        level_before=np.ascontiguousarray(items[:, :, -3]),
        level_after=np.ascontiguousarray(items[:, :, -2]),
        actions=np.ascontiguousarray(items[:, :, -1]),
        costs=replay.costs[rows, picks],
    )
