"""Quantiles of the end-to-end latency from cumulative bucket counters.

Inside a bucket records are taken to be spread evenly, as Prometheus' `histogram_quantile` does. A
quantile beyond the last finite bound is `inf`: that bound says only that it is larger, and a
number would look like a bound that is kept.
"""

from __future__ import annotations

import math
from collections.abc import Mapping


def quantile(share: float, counts: Mapping[float, float]) -> float:
    """Return the value below which `share` of the records lie.

    Args:
        share: In (0, 1), 0.95 for p95.
        counts: Records at or below each upper bound, in the unit of the bounds; `inf` holds all.
            Without `inf` the largest bound is taken to hold all.

    Returns:
        In the unit of the bounds; NaN where no record was counted, `inf` where the quantile lies
        beyond the last finite bound.
    """
    bounds = sorted(counts)
    if not bounds or not counts[bounds[-1]] > 0:
        return math.nan
    wanted = share * counts[bounds[-1]]
    lower, below = 0.0, 0.0
    for bound in bounds:
        # Buckets of different replicas are scraped at different moments: never let them fall.
        up_to = max(counts[bound], below)
        if up_to >= wanted:
            if math.isinf(bound):
                return math.inf
            return lower + (bound - lower) * (wanted - below) / (up_to - below)
        lower, below = bound, up_to
    return math.inf


def bound_of(label: str) -> float:
    """Return the bound that a label `le` means, NaN where it means none.

    Flink mangles label values, so `+Inf` arrives as `_Inf` and `2.5` as `2_5`.
    """
    plain = label.strip("+_")
    try:
        return float(plain.replace("_", "."))
    except ValueError:
        return math.nan
