"""What an objective can bound of a response time, and what a bound on one statistic is for another.

A percentile is that of a gamma law, as in `model.queueing`. Budgets are means. A bound on a
percentile is divided into budgets as the bound on the mean that corresponds to it, by the ratio of
both: the measured one where there is one, else that of an exponential time.
"""

from __future__ import annotations

import math
from enum import StrEnum

import numpy as np
from scipy.special import gammaincinv

from weir_policies.model.arrays import Floats


class Statistic(StrEnum):
    """Which statistic of the response times is bounded, the lower ones first."""

    MEAN = "mean"
    P95 = "p95"
    P99 = "p99"

    @property
    def quantile(self) -> float | None:
        """The percentile as a part of one; `None` for the mean."""
        return {"p95": 0.95, "p99": 0.99}.get(self.value)

    @property
    def typical_tail(self) -> float:
        """The statistic over the mean, of an exponential time."""
        return 1.0 if self.quantile is None else -math.log(1 - self.quantile)


def infer_tail(statistic: Statistic, *, known: Statistic, tail: float) -> float:
    """Return how many times the mean a statistic is, by how many times it another one is.

    Args:
        statistic: Of the response times at the end of some paths.
        known: Of those from source to sink.
        tail: How many times the mean `known` is; 1 for the mean itself, which tells nothing.
    """
    if statistic is Statistic.MEAN:
        return 1.0
    return max(1.0, statistic.typical_tail * tail / known.typical_tail)


def take_statistic(
    statistic: Statistic, *, mean: Floats, variance: Floats, constant: Floats
) -> Floats:
    """Return a statistic of response times, s, shape `(b,)`; `inf` where the mean is.

    Args:
        statistic: Which one.
        mean: Seconds, shape `(b,)`.
        variance: Seconds^2, shape `(b,)`.
        constant: The part of the mean that does not vary, such as network time, s, shape `(b,)`.
    """
    if statistic.quantile is None:
        return mean
    queued = np.maximum(mean - constant, 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        scale = variance / queued
        percentile = scale * gammaincinv(queued / scale, statistic.quantile)
    varies = np.isfinite(queued) & (queued > 0) & (variance > 0)
    return np.where(varies, percentile, queued) + constant
