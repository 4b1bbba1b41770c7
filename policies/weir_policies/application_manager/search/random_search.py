"""Random search: the starting points, then points drawn evenly from the cube.

Ignores all outcomes. Any other search must be better.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from weir_policies.application_manager.search.protocol import Trial, TrialOutcome
from weir_policies.application_manager.search.space import Space
from weir_policies.model.arrays import Floats


class RandomSearch:
    """Draws points."""

    def __init__(self, space: Space, *, starts: Sequence[Floats], rng: np.random.Generator) -> None:
        self._starts, self._dimensions, self._rng = list(starts), space.dimensions, rng

    def ask(self, count: int) -> list[Trial]:
        """Return `count` trials."""
        return [self._draw() for _ in range(count)]

    def tell(self, trial: Trial, outcome: TrialOutcome) -> None:
        """Learn nothing."""

    def _draw(self) -> Trial:
        if self._starts:
            return Trial(coordinates=self._starts.pop(0), origin="start")
        return Trial(coordinates=self._rng.random(self._dimensions), origin="random")
