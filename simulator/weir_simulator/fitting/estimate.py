"""Means and ratios with 95 % intervals.

Intervals come from the scatter between samples, not from the number of records: whatever makes the
samples differ (neighbours on the machine, warm caches, the time of day) then widens them.

Sources: Cochran, "Sampling Techniques" (1977), chapter 6 (linearised variance of a ratio); David,
"Order Statistics" (1981), section 2.5 (interval of a median, without assuming a distribution).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

CONFIDENCE = 0.95


@dataclass(frozen=True, kw_only=True, slots=True)
class Estimate:
    """A number with its interval."""

    value: float
    low: float = 0.0
    high: float = math.inf
    """Bounds of the 95 % interval; 0 and `inf` where the number is only assumed."""
    samples: int = 0
    """How many it comes from; 0 where it is assumed or given."""

    def holds(self, value: float) -> bool:
        """Return whether the interval has the value."""
        return self.low <= value <= self.high


def student_quantile(freedom: float) -> float:
    """Return how many standard errors lie on each side of an estimate.

    Args:
        freedom: Degrees of freedom of the errors, above 0.
    """
    # Imported here, and not scipy.stats, which takes 50 MiB: a controller that fits nothing
    # yet does without.
    from scipy.special import stdtrit

    return float(stdtrit(freedom, (1 + CONFIDENCE) / 2))


def around(value: float, error: float, *, samples: int, freedom: float) -> Estimate:
    """Return an estimate of something that is not negative.

    Args:
        value: The number.
        error: Its standard error; `inf` if unknown.
        samples: How many it comes from.
        freedom: Degrees of freedom of the error.
    """
    # Without freedom the scatter is unknown, and with it the interval.
    half = math.inf if freedom < 1 else error * student_quantile(freedom)
    return Estimate(value=value, low=max(value - half, 0.0), high=value + half, samples=samples)


def estimate_ratio(amounts: ArrayLike, bases: ArrayLike) -> Estimate:
    """Return the sum of the amounts over the sum of the bases.

    With numbers of records as bases and mean times records as amounts it is a weighted mean.

    Args:
        amounts: Shape `(n,)`, n >= 1.
        bases: Above 0 in sum, shape `(n,)`.
    """
    above, below = np.asarray(amounts, dtype=np.float64), np.asarray(bases, dtype=np.float64)
    value = float(above.sum() / below.sum())
    count = above.size
    scatter = float(((above - value * below) ** 2).sum())
    error = math.sqrt(scatter * count / max(count - 1, 1)) / float(below.sum())
    return around(value, error, samples=count, freedom=count - 1)


def estimate_mean(values: ArrayLike) -> Estimate:
    """Return the mean of values, shape `(n,)`, n >= 1."""
    listed = np.asarray(values, dtype=np.float64)
    return estimate_ratio(listed, np.ones_like(listed))


def estimate_median(values: ArrayLike) -> Estimate:
    """Return the median of values, shape `(n,)`, n >= 1; its interval runs from value to value.

    Fewer than six values are too few for an interval: the truth may lie outside all of them.
    """
    from scipy.special import bdtr  # here for the same reason as above

    ordered = np.sort(np.asarray(values, dtype=np.float64))
    count = ordered.size
    # How many of the values lie below the median is binomial.
    at_most = bdtr(np.arange(count + 1), count, 0.5)
    below = int(np.searchsorted(at_most, (1 - CONFIDENCE) / 2))
    if below < 1:
        return Estimate(value=float(np.median(ordered)), samples=count)
    return Estimate(
        value=float(np.median(ordered)),
        low=float(ordered[below - 1]),
        high=float(ordered[count - below]),
        samples=count,
    )
