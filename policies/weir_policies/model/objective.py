"""What an objective can bound of a response time, and what a bound on one statistic is for another.

Budgets are means. A bound on a percentile is divided into budgets as the bound on the mean that
corresponds to it, by the ratio of both: the measured one where there is one, else that of an
exponential time.
"""

from __future__ import annotations

import math
from enum import StrEnum


class Statistic(StrEnum):
    """Which statistic of the response times is bounded, the lower ones first."""

    MEAN = "Mean"
    P95 = "P95"
    P99 = "P99"

    @property
    def word(self) -> str:
        """Its name in sentences, and in labels of metrics."""
        return self.value.lower()

    @property
    def quantile(self) -> float | None:
        """The percentile as a part of one; `None` for the mean."""
        return {Statistic.P95: 0.95, Statistic.P99: 0.99}.get(self)

    @property
    def typical_tail(self) -> float:
        """The statistic over the mean, of an exponential time."""
        return 1.0 if self.quantile is None else -math.log(1 - self.quantile)


QUANTILES: dict[str, float] = {"p50": 0.5} | {
    each.word: each.quantile for each in Statistic if each.quantile is not None
}
"""Quantiles that are measured and shown of a response time, as parts of one, by their names."""


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
