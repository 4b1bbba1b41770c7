"""Expected improvement, and the probability of keeping a limit.

Source: Jones, Schonlau, Welch: Efficient Global Optimization of Expensive Black-Box Functions,
Journal of Global Optimization 13, 1998, equation 15. Its product with the probabilities of keeping
all limits: Gardner et al.: Bayesian Optimization with Inequality Constraints, ICML 2014.
"""

from __future__ import annotations

import numpy as np
from scipy.special import log_ndtr, ndtr

from weir_policies.model.arrays import Floats

LEAST = 1e-300
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
    """Return the logarithm of the expected improvement, very small where there is none."""
    return np.log(np.maximum(expected_improvement(mean, deviation, best), LEAST))


def log_probability_below(mean: Floats, deviation: Floats, limit: float) -> Floats:
    """Return the logarithm of the probability that a normal output is below a limit, `(m,)`."""
    return log_ndtr((limit - mean) / deviation)
