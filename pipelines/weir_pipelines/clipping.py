"""Bounds that leave what is unknown unknown.

Spark's `greatest` and `least` skip nulls: with them, an unknown rate would become 0.
"""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812


def at_least(value: Column, bound: float) -> Column:
    """Return the value, or the bound where it is below; null where it is null."""
    return F.when(value < bound, F.lit(bound)).otherwise(value)


def at_most(value: Column, bound: float) -> Column:
    """Return the value, or the bound where it is above; null where it is null."""
    return F.when(value > bound, F.lit(bound)).otherwise(value)


def share(part: Column, whole: Column) -> Column:
    """Return what share of a whole a part is, in [0, 1]; null where the whole is 0 or unknown."""
    return at_most(at_least(part / F.nullif(whole, F.lit(0.0)), 0.0), 1.0)
