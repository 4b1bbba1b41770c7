"""Numbers deployments without gaps, for tables with a value for every deployment.

They are ordered by the replicas of the first node type, then of the second, and so on. The number
of a deployment is how many come before it, computed with binomial coefficients; no list is
searched.
"""

from __future__ import annotations

import math

import numpy as np

from weir_policies.errors import ParameterError
from weir_policies.kernels.compiled import compiled
from weir_policies.kernels.view import View
from weir_policies.model.arrays import Counts

MAX_STATES = 1_000_000
"""States above which a table that holds them all is refused."""


def count_states(view: View, *, levels: int, policy: str) -> int:
    """Return the number of states, deployments times levels, of the largest operator.

    Raises:
        ParameterError: They are too many for a table.
    """
    types, maximum = view.counts.shape[1], int(view.model["max_replicas"].max())
    states = count_deployments(types, maximum) * levels
    if states > MAX_STATES:
        raise ParameterError(
            f"Expected at most {MAX_STATES:,} states for {policy}, got {states:,}: give fewer "
            f"than {types} node types, a smaller maxReplicas than {maximum} or fewer than {levels} "
            "levels"
        )
    return states


def count_deployments(types: int, most: int) -> int:
    """Return the number of deployments of 1 to `most` replicas on so many node types."""
    return math.comb(most + types, types) - 1


def list_deployments(types: int, most: int) -> Counts:
    """Return all deployments of 1 to `most` replicas, `(d, t)`, in the order of `number_of`."""
    rows = np.zeros((1, 0), dtype=np.int64)
    for _ in range(types):
        ways = most - rows.sum(axis=1) + 1
        first = np.repeat(np.cumsum(ways) - ways, ways)
        added = np.arange(ways.sum(), dtype=np.int64) - first
        rows = np.column_stack([np.repeat(rows, ways, axis=0), added])
    return rows[1:]  # the first is the empty one


@compiled
def choose(n: int, k: int) -> int:
    """Return the binomial coefficient n over k."""
    ways = 1
    for each in range(k):
        ways = ways * (n - each) // (each + 1)
    return ways


@compiled
def number_of(counts: Counts, most: int) -> int:
    """Return the number of a deployment `(t,)` of at most so many replicas, from 0 on."""
    number, left = -1, most  # the empty deployment comes first and is none
    for place in range(counts.size):
        after = counts.size - place
        number += choose(left + after, after)
        left -= counts[place]
        number -= choose(left + after, after)
    return number
