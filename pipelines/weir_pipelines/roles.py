"""Sums over the series of one role, of rows in which the series of all roles are mixed."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812


def has_role(*roles: str) -> Column:
    """Return whether a row is of a series of one of the roles."""
    return F.col("metric").isin(*roles)


def sum_of(role: str, column: str | Column) -> Column:
    """Sum a column over the series of one role; null where there is none."""
    value = F.col(column) if isinstance(column, str) else column
    return F.sum(F.when(has_role(role), value))
