"""One constrained Bayesian optimisation over weights and budgets together, short runs first.

1. What is in force is evaluated in full; the other starts, and a Latin hypercube, by short runs.
2. Then the point of greatest constrained expected improvement, again and again (`landscape`); a
   batch believes in its own predictions. A point is simulated for a short time where that tells
   more about its money per slot than a full simulation would:

       v / (v + noise_short) / length  >  v / (v + noise_full)

   v is the variance of the surrogate there: the left and right sides are the parts of it that the
   simulation would take away, per slot. So the search begins short, and goes over to full ones
   where it knows enough that the short ones' noise counts.
3. The last part of the budget is for full simulations: only they count as solutions.

This is Weir's own; `alternating` is the paper's.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.stats import qmc

from weir_policies.application_manager.search.landscape import Fit, Landscape
from weir_policies.application_manager.search.promise import Limits, Outcome, Trial
from weir_policies.application_manager.search.space import Space
from weir_policies.model.arrays import Floats

SHORT = 0.25
"""Length of a short simulation, as a part of a full one."""
POINTS_PER_DIMENSION = 2
"""Of the Latin hypercube."""
MOST_SCATTERED = 0.3
"""Part of the evaluations that the hypercube takes at most."""
FULL_FROM = 0.4
"""Part of the evaluations after which all simulations are full."""


class JointSearch:
    """Searches the whole cube at once.

    Args:
        space: What to search.
        limits: What a solution must keep.
        starts: Points to begin with, each of shape `(d,)`; the first is what is in force.
        evaluations: How many full evaluations it may ask for.
        fit: Makes a surrogate.
        rng: The only source of randomness.
    """

    def __init__(
        self,
        space: Space,
        *,
        limits: Limits,
        starts: Sequence[Floats],
        evaluations: int,
        fit: Fit,
        rng: np.random.Generator,
    ) -> None:
        self._rng, self._evaluations, self._used = rng, evaluations, 0.0
        self._landscape = Landscape(range(space.dimensions), starts[0], limits, fit)
        scattered = min(
            POINTS_PER_DIMENSION * space.dimensions, int(MOST_SCATTERED * evaluations / SHORT)
        )
        cube = qmc.LatinHypercube(space.dimensions, rng=rng).random(scattered)
        self._first = [
            Trial(coordinates=starts[0], origin="start"),
            *(Trial(coordinates=each, fidelity=SHORT, origin="start") for each in starts[1:]),
            *(Trial(coordinates=each, fidelity=SHORT, origin="scattered") for each in cube),
        ]

    def ask(self, count: int) -> list[Trial]:
        """Return `count` trials."""
        if self._first:
            first, self._first = self._first[:count], self._first[count:]
            return first
        self._landscape.refresh()
        trials: list[Trial] = []
        for _ in range(count):
            point = self._landscape.propose(self._rng)
            trials.append(
                Trial(coordinates=point, fidelity=self._choose_length(point), origin="improvement")
            )
            self._landscape.believe(point)
        return trials

    def tell(self, trial: Trial, outcome: Outcome) -> None:
        """Learn what came of a trial."""
        self._used += trial.fidelity
        self._landscape.add(trial, outcome)

    def _choose_length(self, point: Floats) -> float:
        if self._used >= FULL_FROM * self._evaluations:
            return 1.0
        deviation, surrogate = self._landscape.money(point)
        known = {
            short: deviation**2 / (deviation**2 + surrogate.noise(short=short) ** 2)
            for short in (True, False)
        }
        return SHORT if known[True] / SHORT > known[False] else 1.0
