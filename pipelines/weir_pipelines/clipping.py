"""A bound that leaves what is unknown unknown.

Spark's `greatest` skips nulls: with it, an unknown time would become 0.
"""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812


def at_least(value: Column, bound: float) -> Column:
    """Return the value, or the bound where it is below; null where it is null."""
    return F.when(value < bound, F.lit(bound)).otherwise(value)
