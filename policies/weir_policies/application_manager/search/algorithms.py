"""Searches by name."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from weir_policies.application_manager.search.promise import Limits, Search
from weir_policies.application_manager.search.random_search import RandomSearch
from weir_policies.application_manager.search.space import Space
from weir_policies.errors import ParameterError
from weir_policies.model.arrays import Floats

NAMES = ("random",)


def build_search(
    name: str,
    *,
    space: Space,
    limits: Limits,
    starts: Sequence[Floats],
    evaluations: int,
    rng: np.random.Generator,
) -> Search:
    """Return a new search.

    Args:
        name: One of `NAMES`.
        space: What to search.
        limits: What a solution must keep.
        starts: Points to begin with, each of shape `(d,)`; the first is what is in force.
        evaluations: How many full evaluations it may ask for; short ones count their part.
        rng: The only source of randomness.

    Raises:
        ParameterError: No search has this name.
    """
    if name == "random":
        return RandomSearch(space, starts=starts, rng=rng)
    raise ParameterError(f"Expected a search out of {NAMES}, got {name!r}")
