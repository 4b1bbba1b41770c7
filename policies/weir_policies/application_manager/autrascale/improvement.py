"""Expected improvement with a margin: where a better score is to be hoped for.

    K = mu - f(x+) - xi,   Z = K / sigma,   EI = K Phi(Z) + sigma phi(Z);   0 where sigma = 0

Source: Zhang et al., IEEE TPDS 2024, Eq. 6. A greater margin xi explores more.
"""

from __future__ import annotations

import numpy as np
from scipy.special import ndtr

from weir_policies.model.arrays import Floats


def expect_improvement(mean: Floats, deviation: Floats, *, best: float, margin: float) -> Floats:
    """Return EI of candidates.

    Args:
        mean: mu of each, `(m,)`.
        deviation: sigma of each, `(m,)`.
        best: Greatest score so far, f(x+).
        margin: xi.
    """
    gain = mean - best - margin
    with np.errstate(divide="ignore", invalid="ignore"):  # sigma = 0 is answered in the last line
        z = gain / deviation
        density = np.exp(-(z**2) / 2) / np.sqrt(2 * np.pi)
        expected = gain * ndtr(z) + deviation * density
    return np.where(deviation > 0, np.maximum(expected, 0.0), 0.0)
