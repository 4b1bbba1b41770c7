"""Tables of learned values, for states that are counted in the millions and visited in thousands.

A state is a deployment and a rate level. Its key is a number in mixed radix: counts are the digits
to the base `k_max + 1`, the level is the last. A table is dense, indexed by the key, while all keys
are few; else it is a hash table with open addressing (linear probing), which holds what was written
and answers 0 for the rest. A caller reads and writes through the same functions either way.
"""

from __future__ import annotations

import numpy as np

from weir_policies.errors import ParameterError
from weir_policies.kernels.compiled import compiled
from weir_policies.kernels.view import MAX_REPLICAS, Memory, View
from weir_policies.model.arrays import Counts, Floats

DENSE_UP_TO = 1 << 20
"""Keys up to which a table is dense."""
FULL = 0.5
"""Part of a hash table that may be in use: beyond, probing becomes slow."""

_MIXER = -7046029254386353131  # 2^64 / golden ratio, as a signed number: spreads neighbouring keys


def count_keys(view: View, *, levels: int, actions: int = 1) -> int:
    """Return how many keys there are: deployments in mixed radix, times levels, times actions."""
    base = int(view.rules[:, MAX_REPLICAS].max()) + 1
    return int(base ** view.counts.shape[1]) * levels * actions


def size_table(keys: int, *, writes: int) -> tuple[int, int]:
    """Return the columns that `Memory.keys` and `Memory.values` need.

    Args:
        keys: How many keys there are; they must fit 63 bits.
        writes: How many different ones will be written at most.

    Raises:
        ParameterError: The keys do not fit.
    """
    if keys <= DENSE_UP_TO:
        return 1, keys
    if keys >= 2**63:
        raise ParameterError(
            f"The states of {keys:.1e} deployments, levels and actions cannot be numbered; give "
            "fewer node types or a smaller maxReplicas"
        )
    capacity = 1 << max(int(np.ceil(np.log2(max(writes, 1) / FULL))), 4)
    return capacity, capacity


@compiled
def encode(counts: Counts, base: int, level: int, levels: int) -> int:
    """Return the key of a deployment `(t,)` and a level."""
    key = 0
    for place in range(counts.size - 1, -1, -1):
        key = key * base + counts[place]
    return key * levels + level


@compiled
def stride_of(place: int, base: int, levels: int) -> int:
    """Return by how much a key grows with one replica more of the node type at `place`."""
    stride = levels
    for _ in range(place):
        stride *= base
    return stride


@compiled
def read(keys: Counts, values: Floats, key: int) -> float:
    """Return what stands under the key, 0 if nothing does; `keys` and `values` are one row."""
    if keys.size == 1:
        return values[key]
    mask = keys.size - 1
    place = (key * _MIXER >> 20) & mask
    while keys[place] != -1:
        if keys[place] == key:
            return values[place]
        place = (place + 1) & mask
    return 0.0


@compiled
def find_place(keys: Counts, key: int) -> int:
    """Return where the key stands in `values`, entering it where it does not yet."""
    if keys.size == 1:
        return key
    mask = keys.size - 1
    place = (key * _MIXER >> 20) & mask
    while keys[place] != -1:
        if keys[place] == key:
            return place
        place = (place + 1) & mask
    keys[place] = key
    return place


@compiled
def _copy_row(keys: Counts, values: Floats, new_keys: Counts, new_values: Floats) -> None:
    for place in range(keys.size):
        if keys[place] != -1:
            new_values[find_place(new_keys, keys[place])] = values[place]


def grow(memory: Memory) -> Memory:
    """Return the memory with room for further writes: the same, or one with a larger table."""
    capacity = memory.keys.shape[1]
    if capacity == 1 or (memory.keys != -1).sum(axis=1).max() < FULL * capacity:
        return memory
    rows = memory.keys.shape[0]
    keys = np.full((rows, 2 * capacity), -1, dtype=np.int64)
    values = np.zeros((rows, 2 * capacity))
    for row in range(rows):
        _copy_row(memory.keys[row], memory.values[row], keys[row], values[row])
    return memory._replace(keys=keys, values=values)
