"""The registry of search algorithms."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from weir_policies.application_manager.search.alternating import AlternatingSearch
from weir_policies.application_manager.search.gaussian_process import fit_process
from weir_policies.application_manager.search.joint import JointSearch
from weir_policies.application_manager.search.protocol import (
    Algorithm,
    Limits,
    Search,
    SurrogateName,
)
from weir_policies.application_manager.search.random_search import RandomSearch
from weir_policies.application_manager.search.space import Space
from weir_policies.application_manager.search.surrogate import Fit, Surrogate
from weir_policies.distribution import install_command
from weir_policies.errors import MissingExtraError
from weir_policies.model.arrays import Floats

_PARTS = {
    "alternating": ("budgets", "weights"),
    "weights": ("weights",),
    "budgets": ("budgets",),
}


def build_search(
    name: Algorithm,
    *,
    surrogate: SurrogateName,
    space: Space,
    limits: Limits,
    starts: Sequence[Floats],
    evaluations: int,
    rng: np.random.Generator,
) -> Search:
    """Return a new search.

    Args:
        name: Which one.
        surrogate: What it models outcomes with, where it does.
        space: What to search.
        limits: What a solution must keep.
        starts: Points to begin with, each of shape `(d,)`; the first is what is in force.
        evaluations: How many full evaluations it may ask for; short ones count their part.
        rng: The only source of randomness.

    Raises:
        MissingExtraError: It wants BoTorch, which is not installed.
    """
    if name == "random":
        return RandomSearch(space, starts=starts, rng=rng)
    fit = _fit_botorch(rng) if surrogate == "botorch" else _fit_numpy
    if name == "joint":
        return JointSearch(
            space, limits=limits, starts=starts, evaluations=evaluations, fit=fit, rng=rng
        )
    return AlternatingSearch(
        space, parts=_PARTS[name], limits=limits, starts=starts, fit=fit, rng=rng
    )


def _fit_numpy(inputs: Floats, outputs: Floats, start: Floats | None) -> Surrogate:
    return fit_process(inputs, outputs, start=start)


def _fit_botorch(rng: np.random.Generator) -> Fit:
    try:
        from weir_policies.application_manager.search.botorch_process import seeded_fit
    except ModuleNotFoundError as error:
        if error.name not in ("torch", "botorch", "gpytorch"):
            raise
        raise MissingExtraError(
            "Expected botorch for the surrogate botorch, and it is not installed: "
            f"{install_command('tune')}, or take the surrogate numpy"
        ) from error
    return seeded_fit(int(rng.integers(2**63)))
