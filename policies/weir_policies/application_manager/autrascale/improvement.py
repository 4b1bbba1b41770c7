"""Expected improvement with a margin: where a better score is to be hoped for.

    K = mu - f(x+) - xi,   Z = K / sigma,   EI = K Phi(Z) + sigma phi(Z);   0 where sigma = 0

Source: Zhang et al., IEEE TPDS 2024, Eq. 6. A greater margin xi explores more. It is the search's
expected improvement with the sign turned: scores are to be great, the search's outputs small.
"""

from __future__ import annotations

import numpy as np

from weir_policies.application_manager.search.improvement import expected_improvement
from weir_policies.model.arrays import Floats


def expect_improvement(mean: Floats, deviation: Floats, *, best: float, margin: float) -> Floats:
    """Return EI of candidates.

    Args:
        mean: mu of each, `(m,)`.
        deviation: sigma of each, `(m,)`.
        best: Greatest score so far, f(x+).
        margin: xi.
    """
    is_open = deviation > 0
    divisor = np.where(is_open, deviation, 1.0)  # any number: the last line answers sigma = 0
    return np.where(is_open, expected_improvement(-mean, divisor, -(best + margin)), 0.0)
