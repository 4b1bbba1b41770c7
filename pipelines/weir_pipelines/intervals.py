"""95 % intervals of ratios of sums, from the scatter between minutes.

A mean service time is seconds over records, a selectivity records over records: ratios of sums over
minutes. Minutes differ more than the records in them do (warm caches, other keys), so the interval
comes from minutes and not from single records.

Source: the ratio estimator of sampling theory, Cochran, Sampling Techniques, 3rd ed., section 6.3.
"""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812

from weir_pipelines.clipping import at_least

Z = 1.959964
"""Quantile of the normal distribution for 95 %."""


def ratio(part: str, whole: str) -> Column:
    """Return the ratio of two sums, null where the second is 0."""
    return F.sum(part) / F.nullif(F.sum(whole), F.lit(0.0))


def ratio_error(part: str, whole: str) -> Column:
    """Return the standard error of `ratio`, an aggregate; null from fewer than two rows.

    With residuals `e = part - ratio * whole` of m rows it is `sqrt(m / (m - 1) * sum(e^2))` over
    the sum of `whole`; the squares are multiplied out, so that one pass over the rows is enough.
    """
    y, x = F.col(part), F.col(whole)
    estimate = ratio(part, whole)
    squares = F.sum(y * y) - 2 * estimate * F.sum(y * x) + estimate * estimate * F.sum(x * x)
    count = F.count("*")
    # Rounding can leave the sum of squares a little below 0.
    variance = count / F.nullif(count - 1, F.lit(0)) * at_least(squares, 0.0)
    return F.sqrt(variance) / F.nullif(F.sum(x), F.lit(0.0))
