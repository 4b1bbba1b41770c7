"""A state as inputs of a network: how a deployment and a rate level become numbers.

Few inputs of a state differ from 0, so a code is a list of places and the values there; its length
is the same for all states, and unused entries have the value 0. With `n` node types, `k_max`
replicas and `l` levels:

| encoding       | inputs                | deployment                     | level           |
|----------------|-----------------------|--------------------------------|-----------------|
| `minimal`      | n + 1                 | k_i / k_max                    | level / (l - 1) |
| `reduced1`     | n k_max + 1           | one-hot per type               | level / (l - 1) |
| `reduced2`     | n k_max + l           | one-hot per type               | one-hot         |
| `reduced2-set` | n k_max + 2^n - 1 + l | and of the set of types in use | one-hot         |
| `large`        | deployments + l       | one-hot of the whole           | one-hot         |

One-hot per type: k_i = c > 0 sets input c - 1 of type i, and k_i = 0 sets none. `published` sets
the input before the type's first for k_i = 0, which is the last of the type before, and for the
first type input 1: there 0 replicas look like 2. So did the program behind the published tables.

Source: Russo Russo, Cardellini, Lo Presti, ACM TAAS 2023, appendix B.3, figure 26.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from math import comb
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from weir_policies.errors import ParameterError
from weir_policies.kernels.compiled import compiled
from weir_policies.model.arrays import Counts

Singles = NDArray[np.float32]
"""Numbers of a network; the docstring beside it names the shape."""

MAX_INPUTS = 4096
"""Inputs up to which a network is built: the first layer's weights grow with their square."""

SHARES, PER_TYPE, WHOLE = range(3)  # codes of a deployment


class Encoding(StrEnum):
    """How a state becomes a network's inputs."""

    MINIMAL = "minimal"
    REDUCED1 = "reduced1"
    REDUCED2 = "reduced2"
    REDUCED2_SET = "reduced2-set"
    LARGE = "large"


class Scheme(NamedTuple):
    """An encoding for one shape of operators, as kernels take it."""

    inputs: int
    """Length of the network's input."""
    active: int
    """Entries of a code."""
    deployment: int
    """`SHARES`, `PER_TYPE` or `WHOLE`."""
    level_at: int
    """First input of the level."""
    one_hot_level: bool
    types_in_use: bool
    """The set of types in use has its own inputs, right before the level's."""
    published: bool
    max_replicas: int
    levels: int
    binomials: Counts
    """Binomial coefficients, `(k_max + n, n + 1)`: they number the deployments."""


@dataclass(frozen=True, slots=True)
class Codes:
    """`b` states of each of `r` runs as inputs of the runs' networks."""

    places: Counts
    """`(r, b, active)`: the inputs of all runs stand in one row."""
    values: Singles
    """`(r, b, active)`."""


def make_scheme(
    encoding: Encoding, *, node_types: int, max_replicas: int, levels: int, published: bool
) -> Scheme:
    """Return an encoding for operators of a shape.

    Raises:
        ParameterError: It would have too many inputs.
    """
    per_type = encoding in (Encoding.REDUCED1, Encoding.REDUCED2, Encoding.REDUCED2_SET)
    types_in_use = encoding is Encoding.REDUCED2_SET
    one_hot_level = encoding not in (Encoding.MINIMAL, Encoding.REDUCED1)
    width = node_types
    if per_type:
        width = node_types * max_replicas + (2**node_types - 1 if types_in_use else 0)
    elif encoding is Encoding.LARGE:
        width = comb(max_replicas + node_types, node_types) - 1
    inputs = width + (levels if one_hot_level else 1)
    if inputs > MAX_INPUTS:
        raise ParameterError(
            f"Expected at most {MAX_INPUTS:,} inputs, got {inputs:,} from the encoding "
            f"{encoding.value!r} with {node_types} node types; choose 'reduced2'"
        )
    numbered = max_replicas + node_types if encoding is Encoding.LARGE else 0
    return Scheme(
        inputs=inputs,
        active=2 if encoding is Encoding.LARGE else node_types + types_in_use + 1,
        deployment=WHOLE if encoding is Encoding.LARGE else PER_TYPE if per_type else SHARES,
        level_at=width,
        one_hot_level=one_hot_level,
        types_in_use=types_in_use,
        published=published,
        max_replicas=max_replicas,
        levels=levels,
        binomials=np.array(
            [[comb(upper, lower) for lower in range(node_types + 1)] for upper in range(numbered)],
            dtype=np.int64,
        ).reshape(numbered, node_types + 1),
    )


@compiled
def encode(
    scheme: Scheme, counts: Counts, level: int, first: int, places: Counts, values: Singles
) -> None:
    """Write the code of a state.

    Args:
        scheme: The encoding.
        counts: Replicas per node type, `(t,)`. Those beyond `k_max`, which a live operator has
            for a while when its limit was lowered, are not seen.
        level: Of the rate.
        first: Place of the run's first input: the inputs of all runs stand in one row.
        places: Filled with the inputs that differ from 0, `(active,)`.
        values: Filled with the values there, `(active,)`.
    """
    maximum, last = scheme.max_replicas, scheme.active - 1
    in_use, seen, rank = 0, 0, 0
    for place in range(counts.size):
        count = min(counts[place], maximum - seen)
        seen += count
        if count > 0:
            in_use += 1 << place
        if scheme.deployment == WHOLE:
            # seen + place rises strictly from type to type: these numbers are a combination, and
            # this its rank in the combinatorial number system. Rank 0 is no replica at all.
            rank += scheme.binomials[seen + place, place + 1]
        elif scheme.deployment == SHARES:
            places[place], values[place] = first + place, count / maximum
        elif count > 0 or scheme.published:
            at = place * maximum + count - 1
            places[place], values[place] = first + (1 if at < 0 else at), 1.0
        else:
            places[place], values[place] = first, 0.0
    if scheme.deployment == WHOLE:
        places[0], values[0] = first + max(rank - 1, 0), 1.0
    elif scheme.deployment == PER_TYPE and scheme.published:
        _set_once(counts.size, places, values)
    if scheme.types_in_use:
        places[last - 1] = first + scheme.level_at - (1 << counts.size) + max(in_use, 1)
        values[last - 1] = 1.0
    if scheme.one_hot_level:
        places[last], values[last] = first + scheme.level_at + level, 1.0
    else:
        places[last], values[last] = first + scheme.level_at, level / max(scheme.levels - 1, 1)


@compiled
def _set_once(entries: int, places: Counts, values: Singles) -> None:
    """Set an input that two types share to 1, not 2."""
    for later in range(1, entries):
        for earlier in range(later):
            if places[later] == places[earlier]:
                values[later] = 0.0
