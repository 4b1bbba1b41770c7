"""What a search knows so far, and which point is worth trying next.

There are three surrogates, for money, violations and reconfigurations, over the evaluated points.
The value of a point is the expected improvement of its money over the cheapest solution that met
the limits, times the probability that it meets them; before there is such a solution, only the
probability. Outputs are modelled by logarithms: money and shares are above zero and differ by
factors.

Source of expected improvement: Jones, Schonlau, Welch: Efficient Global Optimization of Expensive
Black-Box Functions, Journal of Global Optimization 13, 1998, equation 15. Its product with the
probabilities of meeting all limits: Gardner et al.: Bayesian Optimization with Inequality
Constraints, ICML 2014.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, Self

import numpy as np
from scipy.special import log_ndtr, ndtr

from weir_policies.application_manager.search.protocol import Limits, Trial, TrialOutcome, rank
from weir_policies.model.arrays import Floats

MIN_IMPROVEMENT = 1e-300
"""Below, a number has no logarithm worth comparing."""


def expected_improvement(mean: Floats, deviation: Floats, best: float) -> Floats:
    """Return by how much a normal output is expected to be below the best, 0 where it is above.

    Args:
        mean: Of the outputs, `(m,)`.
        deviation: Their standard deviations, above 0, `(m,)`.
        best: Least output so far.
    """
    below = (best - mean) / deviation
    density = np.exp(-(below**2) / 2) / np.sqrt(2 * np.pi)
    return np.maximum(deviation * (below * ndtr(below) + density), 0.0)


def log_improvement(mean: Floats, deviation: Floats, best: float) -> Floats:
    """Return the logarithm of the expected improvement, very small if there is none."""
    return np.log(np.maximum(expected_improvement(mean, deviation, best), MIN_IMPROVEMENT))


def log_probability_below(mean: Floats, deviation: Floats, limit: float) -> Floats:
    """Return the logarithm of the probability that a normal output is below a limit, `(m,)`."""
    return log_ndtr((limit - mean) / deviation)


MIN_LIMIT = 0.001
"""Shares are distinguished down to a tenth of their limit, at least of this one."""
SCATTERED, NEAR = 512, 128
"""Points that are compared: so many all over the cube, so many around each centre and distance."""
CENTRES = 3
DISTANCES = (0.15, 0.04)
"""Standard deviations around the best points known."""
LAST_DISTANCES = (0.03, 0.01)
"""The same around the best points weighed."""
MIN_MONEY = 1e-9


class Surrogate(Protocol):
    """A distribution over functions of the cube."""

    @property
    def parameters(self) -> Floats:
        """What a fit with more outputs may begin with."""
        ...

    def predict(self, points: Floats) -> tuple[Floats, Floats]:
        """Return mean and standard deviation of outputs at points, `(m, d)`."""
        ...

    def believe(self, point: Floats) -> Self:
        """Return the surrogate as if its prediction at a point, `(d,)`, had been observed."""
        ...


Fit = Callable[[Floats, Floats, Floats | None], Surrogate]
"""Fits a surrogate to inputs `(n, d)` and outputs `(n,)`, beginning with the parameters of a former
fit."""


class SurrogateSearch:
    """Trials, their outcomes, and the surrogates that they give.

    Args:
        free: Places of the coordinates that vary; the surrogates see no others.
        base: A point that gives the others their values, `(d,)`.
        limits: What a solution must keep.
        fit: Makes a surrogate.
    """

    def __init__(self, free: Sequence[int], base: Floats, limits: Limits, fit: Fit) -> None:
        self._free, self._base, self._limits, self._fit = list(free), base, limits, fit
        self._trials: list[Trial] = []
        self._outcomes: list[TrialOutcome] = []
        self._surrogates: list[Surrogate] = []
        self._stale = True

    def add(self, trial: Trial, outcome: TrialOutcome) -> None:
        """Take note of what came of a trial; of a full one, short ones are no solutions."""
        self._trials.append(trial)
        self._outcomes.append(outcome)
        self._stale = True

    @property
    def best(self) -> tuple[Trial, TrialOutcome] | None:
        """The best trial and its outcome, or `None`."""
        known = zip(self._trials, self._outcomes, strict=True)
        return min(known, key=lambda each: rank(each[1], self._limits), default=None)

    def refresh(self) -> None:
        """Fit the surrogates to the outcomes since the last time."""
        if not self._stale:
            return
        inputs = np.array([trial.coordinates[self._free] for trial in self._trials])
        former: list[Floats | None] = [each.parameters for each in self._surrogates]
        self._surrogates = [
            self._fit(inputs, outputs, start)
            for outputs, start in zip(self._outputs(), former or [None] * 3, strict=True)
        ]
        self._stale = False

    def believe(self, point: Floats) -> None:
        """Use a point's predictions as if observed, until the next outcome."""
        self._surrogates = [each.believe(point[self._free]) for each in self._surrogates]

    def propose(self, rng: np.random.Generator, *, edge: float | None = None) -> Floats:
        """Return the point that is worth most, `(d,)`, found by weighing many.

        Args:
            rng: The only source of randomness.
            edge: Look no further than half of this from the best trial, coordinate by coordinate;
                `None` is to look everywhere.
        """
        order = sorted(
            range(len(self._trials)), key=lambda n: rank(self._outcomes[n], self._limits)
        )
        known = np.array([self._trials[n].coordinates[self._free] for n in order[:CENTRES]])
        if edge is None:
            reach, last_reach, low, high = DISTANCES, LAST_DISTANCES, np.zeros(()), np.ones(())
            points = np.vstack(
                [rng.random((SCATTERED, len(self._free))), self._around(known, reach, rng)]
            )
        else:
            centre = known[:1]
            reach, last_reach = (edge / 4, edge / 16), (edge / 16, edge / 64)
            low, high = (np.clip(centre + side * edge / 2, 0.0, 1.0) for side in (-1, 1))
            points = np.vstack([_scatter(centre, low, high, rng), self._around(centre, reach, rng)])
        points = np.clip(points, low, high)
        best = points[np.argsort(-self._weigh(points), kind="stable")[:CENTRES]]
        last = np.clip(np.vstack([best, self._around(best, last_reach, rng)]), low, high)
        proposed = self._base.copy()
        proposed[self._free] = last[int(np.argmax(self._weigh(last)))]
        return proposed

    def _weigh(self, points: Floats) -> Floats:
        """Return the logarithm of what points, `(m, free)`, are worth."""
        money, violations, reconfigurations = self._surrogates
        worth = log_probability_below(*violations.predict(points), 0.0)
        worth += log_probability_below(*reconfigurations.predict(points), 0.0)
        best = self.best
        if best is not None and best[1].keeps(self._limits):
            worth += log_improvement(*money.predict(points), _log_money(best[1]))
        return worth

    def _outputs(self) -> tuple[Floats, Floats, Floats]:
        """Return what is modelled, `(n,)` each: logarithms, those of shares 0 at their limits."""
        limits = self._limits
        return (
            np.array([_log_money(each) for each in self._outcomes]),
            _log_share([each.violations for each in self._outcomes], limits.violations),
            _log_share([each.reconfigurations for each in self._outcomes], limits.reconfigurations),
        )

    def _around(
        self, centres: Floats, distances: Sequence[float], rng: np.random.Generator
    ) -> Floats:
        """Return points near the centres, `(c, free)`; about half of their coordinates stay."""
        shape = (NEAR, len(self._free))
        near = [
            centre + distance * rng.standard_normal(shape) * (rng.random(shape) < 0.5)
            for centre in centres
            for distance in distances
        ]
        return np.clip(np.vstack(near), 0.0, 1.0)


def _scatter(centre: Floats, low: Floats, high: Floats, rng: np.random.Generator) -> Floats:
    """Return points of a box, `(m, free)`; about half of their coordinates are its centre's."""
    shape = (SCATTERED, centre.shape[1])
    moved = rng.random(shape) < 0.5
    moved[np.arange(SCATTERED), rng.integers(shape[1], size=SCATTERED)] = True
    return np.where(moved, rng.uniform(low, high, shape), centre)


def _log_money(outcome: TrialOutcome) -> float:
    return float(np.log(max(outcome.money, MIN_MONEY)))


def _log_share(shares: Sequence[float], limit: float) -> Floats:
    resolution = max(limit, MIN_LIMIT) / 10
    return np.log((np.array(shares) + resolution) / (limit + resolution))
