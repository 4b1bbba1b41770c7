"""Algorithm 4 of the paper: budgets given weights, weights given budgets, again and again.

Each phase is a Bayesian optimisation with a Gaussian process (Matern 5/2) and expected improvement.
It begins with the best solution so far and three random points, and asks for 25 evaluations in all;
it ends when a round of both has improved nothing. One half alone is the paper's optimisation of
budgets (its Figure 20) or of weights (its Figure 21).

Source: Russo Russo, Cardellini, Lo Presti, ACM TAAS 2023, section 5.2, Algorithms 3 and 4; three
first points as in the program behind it. Departures:
1. It does not say how the solver keeps violations and reconfigurations within their limits (the
   program adds 100 to the money where they are not, a cliff that no Gaussian process follows). Here
   they are outcomes with surrogates of their own, which serves the algorithm better.
2. Points are those of `space`, whose budgets add up to the bound exactly.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

import numpy as np

from weir_policies.application_manager.search.protocol import Limits, Trial, TrialOutcome, rank
from weir_policies.application_manager.search.space import WEIGHT_COORDINATES, Space
from weir_policies.application_manager.search.surrogate import Fit, SurrogateSearch
from weir_policies.model.arrays import Floats

PHASE = 25
"""Evaluations of a phase (the paper's N_BO)."""
RANDOM_POINTS = 3
"""Of those, drawn at random in the beginning."""


class AlternatingSearch:
    """Searches one part of the cube, then the other.

    Args:
        space: What to search.
        parts: What to vary in turn: `budgets`, `weights` or both.
        limits: What a solution must keep.
        starts: Points to begin with, each of shape `(d,)`; the first is what is in force.
        fit: Makes a surrogate.
        rng: The only source of randomness.
    """

    def __init__(
        self,
        space: Space,
        *,
        parts: Sequence[str],
        limits: Limits,
        starts: Sequence[Floats],
        fit: Fit,
        rng: np.random.Generator,
    ) -> None:
        free = {
            "weights": list(range(WEIGHT_COORDINATES)),
            "budgets": list(range(WEIGHT_COORDINATES, space.dimensions)),
        }
        # An operator alone has no budget to choose.
        self._parts = [(part, free[part]) for part in parts if free[part]]
        self._limits, self._fit, self._rng = limits, fit, rng
        self._first = [Trial(coordinates=each, origin="start") for each in starts]
        self._best: tuple[Trial, TrialOutcome] | None = None
        self._phases = self._plan()
        self._part = ""
        self._surrogate: SurrogateSearch | None = None
        self._random: list[Floats] = []
        self._left = 0

    def ask(self, count: int) -> list[Trial]:
        """Return up to `count` trials of the present phase; none when nothing improves any more."""
        if self._first:
            first, self._first = self._first[:count], self._first[count:]
            return first
        if self._left == 0 and not self._begin_phase():
            return []
        surrogate = self._surrogate
        if surrogate is None:
            raise TypeError("Expected a phase to have begun")
        trials: list[Trial] = []
        for _ in range(min(count, self._left)):
            if self._random:
                point, origin = self._random.pop(), f"random {self._part}"
            else:
                surrogate.refresh()
                point, origin = surrogate.propose(self._rng), f"improvement of {self._part}"
                if len(trials) + 1 < count:
                    surrogate.believe(point)
            trials.append(Trial(coordinates=point, origin=origin))
        self._left -= len(trials)
        return trials

    def tell(self, trial: Trial, outcome: TrialOutcome) -> None:
        """Learn what came of a trial."""
        if self._surrogate is not None:
            self._surrogate.add(trial, outcome)
        if self._best is None or rank(outcome, self._limits) < rank(self._best[1], self._limits):
            self._best = trial, outcome

    def _begin_phase(self) -> bool:
        phase = next(self._phases, None)
        if phase is None or self._best is None:
            return False
        self._part, free = phase
        trial, outcome = self._best
        self._surrogate = SurrogateSearch(free, trial.coordinates, self._limits, self._fit)
        self._surrogate.add(trial, outcome)
        self._random = []
        for _ in range(RANDOM_POINTS):
            point = trial.coordinates.copy()
            point[free] = self._rng.random(len(free))
            self._random.append(point)
        self._left = PHASE
        return True

    def _plan(self) -> Iterator[tuple[str, list[int]]]:
        """Yield the parts in turn until a round of them improves nothing; one part is one round."""
        for _ in itertools.count():
            before = self._best
            yield from self._parts
            if len(self._parts) < 2 or self._best is before:
                return
