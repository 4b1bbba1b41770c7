"""Candidates out of Omega, the parallelisms between pi^t and P_max.

Omega has millions of points with four operators; where it is small all are looked at, otherwise
uniform draws and draws around the best so far. The paper takes the argmax over all of Omega, which
takes longer than the 0.03 to 0.12 s that it prints.

Source: Zhang et al., IEEE TPDS 2024, section IV-C; the numbers of draws are ours.
"""

from __future__ import annotations

import math
from itertools import product

import numpy as np

from weir_policies.application_manager.autrascale.values import Parallelism
from weir_policies.model.arrays import Counts, Floats

ALL_BELOW = 20_000
"""Points of Omega up to which all of them are candidates."""
UNIFORM, NEARBY = 4000, 2000
"""Draws from all of Omega, and from around the best."""
REACH = 3
"""Replicas by which an operator of a nearby draw differs at most."""


def draw_candidates(
    floor: Parallelism,
    most: Parallelism,
    *,
    best: Parallelism,
    without: frozenset[Parallelism],
    rng: np.random.Generator,
) -> Counts:
    """Return candidates `(m, u)`, without those known; empty where all of Omega is known.

    Args:
        floor: pi^t.
        most: P_max of every operator.
        best: Of those known.
        without: Those known.
        rng: Draws them.
    """
    if math.prod(top - least + 1 for least, top in zip(floor, most, strict=True)) <= ALL_BELOW:
        ranges = [range(least, top + 1) for least, top in zip(floor, most, strict=True)]
        drawn = np.array([each for each in product(*ranges) if each not in without], dtype=np.int64)
        return drawn.reshape(-1, len(floor))
    low, high = np.array(floor), np.array(most)
    anywhere = rng.integers(low, high + 1, size=(UNIFORM, low.size))
    steps = rng.integers(-REACH, REACH + 1, size=(NEARBY, low.size))
    near = np.clip(np.array(best) + steps, low, high)
    drawn = np.unique(np.concatenate([anywhere, near]), axis=0)
    if not without:
        return drawn
    known = np.array(sorted(without))
    seen = (drawn[:, None, :] == known[None, :, :]).all(axis=2).any(axis=1)
    return np.asarray(drawn[~seen])


def scale_inputs(parallelisms: Counts, floor: Parallelism) -> Floats:
    """Return what a model is given of parallelisms `(m, u)`: pi^t_i / p_i.

    Latency and the part of the score for resources are both smoother in it than in the counts: the
    search needs half as many runs.
    """
    return np.array(floor, dtype=float) / parallelisms
