"""One constrained Bayesian optimisation over weights and budgets together.

1. The current settings are evaluated in full, and so are the other starting points.
2. The weights come first: they decide most of the money and the limits, and there are only two,
   however many operators there are. Pairs all over their square are tried with the current budgets
   in short simulations, and the best of them in full.
3. Then each full simulation takes the point with the greatest constrained expected improvement
   (`surrogate`) within a trust region around the best trial (`trust_region`). If that region has
   become narrow, every other point is searched in the whole cube. Within a batch, predictions count
   as outcomes.

The surrogates do not use the short simulations. A learning policy pays for learning in the first
slots, and that cost differs from point to point: a short simulation separates good weights from bad
ones, but not the best from the second best.

This is Weir's own; `alternating` is the paper's.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

from weir_policies.application_manager.search.protocol import Limits, Trial, TrialOutcome, rank
from weir_policies.application_manager.search.space import WEIGHT_COORDINATES, Space
from weir_policies.application_manager.search.surrogate import Fit, SurrogateSearch
from weir_policies.application_manager.search.trust_region import TrustRegion
from weir_policies.model.arrays import Floats

SHORT = 0.25
"""Length of a short simulation, as a part of a full one."""
VIOLATIONS, RECONFIGURATIONS = (0.3, 0.5, 0.7, 0.9), (0.5, 0.75, 0.95)
"""First weights, as coordinates of the cube, every pair of them. Where a reconfiguration is dearer
than resources (above 0.5) lay the cheapest of 512 scattered points in all settings looked at."""
MAX_SHORT = 0.2
"""Part of the evaluations that they take at most; where that is not enough, some are left out."""
PROMOTED = 3
"""Of them, tried in full."""
MAX_PROMOTED = 0.2
"""Part of the evaluations that these take at most, but for the first."""


class JointSearch:
    """Searches the whole cube at once."""

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
        self._rng, self._limits = rng, limits
        self._surrogate = SurrogateSearch(range(space.dimensions), starts[0], limits, fit)
        self._region = TrustRegion(space.dimensions, limits)
        pairs = rng.permutation(list(itertools.product(VIOLATIONS, RECONFIGURATIONS)))
        self._planned = [
            *(Trial(coordinates=each, origin="start") for each in starts),
            *(
                Trial(
                    coordinates=np.array([*pair, *starts[0][WEIGHT_COORDINATES:]]),
                    fidelity=SHORT,
                    origin="weights",
                )
                for pair in pairs[: int(MAX_SHORT * evaluations / SHORT)]
            ),
        ]
        self._untold = len(starts)
        self._proposed = 0
        self._short: list[tuple[Trial, TrialOutcome]] = []
        self._promoted = min(PROMOTED, max(1, int(MAX_PROMOTED * evaluations)))

    def ask(self, count: int) -> list[Trial]:
        """Return up to `count` trials."""
        if not self._planned and self._short:
            self._promote()
        if self._planned:
            planned, self._planned = self._planned[:count], self._planned[count:]
            return planned
        self._surrogate.refresh()
        trials: list[Trial] = []
        for _ in range(count):
            elsewhere = self._region.is_narrow and self._proposed % 2 == 1
            edge = None if elsewhere else self._region.edge
            point = self._surrogate.propose(self._rng, edge=edge)
            self._proposed += 1
            trials.append(Trial(coordinates=point, origin="improvement"))
            self._surrogate.believe(point)
        return trials

    def tell(self, trial: Trial, outcome: TrialOutcome) -> None:
        """Learn what came of a trial."""
        if trial.fidelity < 1:
            self._short.append((trial, outcome))
            return
        best = self._surrogate.best
        if self._untold > 0:
            self._untold -= 1
        elif best is not None:
            self._region.judge(outcome, best[1])
        self._surrogate.add(trial, outcome)

    def _promote(self) -> None:
        """Plan the best of the short trials in full."""
        ranked = sorted(self._short, key=lambda each: rank(each[1], self._limits))
        self._short = []
        self._planned = [
            Trial(coordinates=trial.coordinates, origin="best weights")
            for trial, _ in ranked[: self._promoted]
        ]
        self._untold = len(self._planned)
