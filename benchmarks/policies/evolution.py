"""CMA-ES, by the library of its author, behind the promise of a search: a rival to compare with.

What breaks the limits is ranked behind everything that keeps them, by its excess: the strategy
looks at ranks alone, so that the size of the step between them does not matter.

Source: Hansen, Ostermeier: Completely Derandomized Self-Adaptation in Evolution Strategies,
Evolutionary Computation 9, 2001; package `cma`.
"""

from __future__ import annotations

import numpy as np

from weir_policies.application_manager.search.protocol import Limits, Trial, TrialOutcome
from weir_policies.model.arrays import Floats

STEP = 0.25
"""First standard deviation; the cube has edges of 1, and the start is in its middle."""
BEHIND = 1e6
"""More money than any solution costs."""


class EvolutionSearch:
    """Asks for generations.

    Args:
        start: Mean of the first generation, of shape `(d,)`.
        limits: What a solution must keep.
        rng: Gives the seed.
    """

    def __init__(self, start: Floats, *, limits: Limits, rng: np.random.Generator) -> None:
        import cma  # here, so that listing benchmarks needs no library

        self._limits = limits
        self._strategy = cma.CMAEvolutionStrategy(
            start,
            STEP,
            {"bounds": [0.0, 1.0], "seed": int(rng.integers(1, 2**31)), "verbose": -9},
        )
        self._waiting = [Trial(coordinates=start, origin="start")]
        self._generation: list[Floats] = []
        self._losses: list[float] = []

    def ask(self, count: int) -> list[Trial]:
        """Return up to `count` trials of the present generation, and begin the next one."""
        if not self._waiting:
            self._generation = self._strategy.ask()
            self._losses = []
            self._waiting = [
                Trial(coordinates=np.asarray(each), origin="generation")
                for each in self._generation
            ]
        asked, self._waiting = self._waiting[:count], self._waiting[count:]
        return asked

    def tell(self, trial: Trial, outcome: TrialOutcome) -> None:
        """Learn what came of a trial; the strategy learns of a generation as a whole."""
        if trial.origin == "start":
            return
        excess = outcome.excess(self._limits)
        self._losses.append(outcome.money if excess == 0 else BEHIND * (1 + excess))
        if len(self._losses) == len(self._generation):
            self._strategy.tell(self._generation, self._losses)
