"""Tables of learned values, for states that are counted in the millions and visited in thousands.

A state is a deployment and a rate level. Its key is a number in mixed radix: counts are the digits
to the base `k_max + 1`, the level is the last. A table is dense, indexed by the key, while all keys
are few; else it is a hash table with open addressing (linear probing), which holds what was written
and answers 0 for the rest. A caller reads and writes through the same functions either way.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from weir_policies.errors import ParameterError
from weir_policies.kernels.compiled import compiled
from weir_policies.kernels.fields import Fields, array
from weir_policies.kernels.levels import LearningParameters
from weir_policies.kernels.view import Memory, View
from weir_policies.model.arrays import Counts, Floats

DENSE_UP_TO = 1 << 20
"""Keys up to which a table is dense."""
FULL = 0.5
"""Part of a hash table that may be in use: beyond, probing becomes slow."""

_MIXER = -7046029254386353131  # 2^64 / golden ratio, as a signed number: spreads neighbouring keys


class Table(Fields):
    """A table; a policy that keeps one adds its own fields."""

    keyed: int
    """Places for keys: as many as for values, or 1 where the table is dense."""
    places: int
    keys: Counts = array("keyed")
    """The key of each value of a hash table; -1 where there is none."""
    values: Floats = array("places")


def count_keys(view: View, *, levels: int, actions: int = 1) -> int:
    """Return the number of keys: deployments in mixed radix, times levels, times actions."""
    base = int(view.model["max_replicas"].max()) + 1
    return int(base ** view.counts.shape[1]) * levels * actions


def size_table(keys: int, *, writes: int) -> tuple[int, int]:
    """Return how many places a table needs for keys, and for values.

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
            f"The states of some 10^{len(str(keys)) - 1} deployments, levels and actions cannot be "
            "numbered; give fewer node types or a smaller maxReplicas"
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
def read(keys: Counts, values: Floats, key: int) -> float:
    """Return the value of the key, 0 if it has none; `keys` and `values` are one row."""
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
    """Return the place of the key in `values`, adding it if necessary."""
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


def allocate_table(
    kind: type[Table],
    view: View,
    parameters: LearningParameters,
    *,
    keys: int,
    writes: int,
    **values: Any,
) -> Memory:
    """Return memory whose tables are empty.

    Args:
        kind: What it holds, a `quantum` among it.
        view: The operators.
        parameters: Settings, as for `Fields.allocate`.
        keys: How many keys there are.
        writes: How many different ones will be written at most.
        values: Other fields, as for `Fields.allocate`.

    Raises:
        ParameterError: The keys do not fit 63 bits.
    """
    keyed, places = size_table(keys, writes=writes)
    quanta = parameters.find_quanta(view)
    memory = kind.allocate(view, parameters, quantum=quanta, keyed=keyed, places=places, **values)
    for row in memory:
        kind(row).keys[:] = -1
    return memory


@compiled
def _copy_table(keys: Counts, values: Floats, new_keys: Counts, new_values: Floats) -> None:
    for place in range(keys.size):
        if keys[place] != -1:
            new_values[find_place(new_keys, keys[place])] = values[place]


def grow(kind: type[Table], memory: Memory) -> Memory:
    """Return the memory with room for further writes: the same, or one with larger tables."""
    tables = [kind(row) for row in memory]
    places = int(tables[0].places)
    if tables[0].keyed == 1 or max((own.keys != -1).sum() for own in tables) < FULL * places:
        return memory
    scalars = {
        name: [getattr(own, name) for own in tables]
        for name, field in kind.fields.items()
        if field.shape is None
    }
    scalars["keyed"] = scalars["places"] = [2 * places] * len(tables)
    larger = kind.allocate_rows(len(tables), scalars)
    for own, row in zip(tables, larger, strict=True):
        new = kind(row)
        new.keys[:] = -1
        _copy_table(own.keys, own.values, new.keys, new.values)
        for name, field in kind.fields.items():
            if field.shape is not None and name not in ("keys", "values"):
                setattr(new, name, getattr(own, name))
    return larger
