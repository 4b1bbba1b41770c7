"""Problems of a day: faults of its minutes, gaps, and rates that no job can produce."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from weir_pipelines.faults import FROM_NOTHING, INCOMPLETE, UNSEEN, WITH_NOTHING
from weir_pipelines.settings import DAY_MINUTES, WHOLE

NEEDS = ("operator", "minute", "taken", "given", "utilisation", "completeness", "faults")
"""Columns of `arrivals` that problems show in."""
BUSY = 0.5
"""Utilisation from which on an operator cannot be without records."""


def find_problems(arrivals: DataFrame) -> DataFrame:
    """Return what is wrong with each operator's day.

    Returns:
        As the table `quality`, with `app` and `day`; nothing of an operator without a problem.
    """
    taken, given = F.coalesce("taken", F.lit(0.0)), F.coalesce("given", F.lit(0.0))
    measured = F.col("taken").isNotNull()
    found = F.array_compact(
        F.array(
            F.when(F.col("completeness") < WHOLE, F.lit(INCOMPLETE)),
            F.when(measured & (taken == 0) & (given > 0), F.lit(FROM_NOTHING)),
            F.when(measured & (taken == 0) & (F.col("utilisation") > BUSY), F.lit(WITH_NOTHING)),
        )
    )
    listed = arrivals.select(
        "app", "day", "operator", "minute", F.explode(F.concat("faults", found)).alias("problem")
    )
    seen = arrivals.groupBy("app", "day", "operator").agg(
        F.count("*").alias("there"), F.min("minute").alias("first"), F.max("minute").alias("last")
    )
    unseen = seen.where(F.col("there") < DAY_MINUTES).select(
        "app",
        "day",
        "operator",
        F.lit(UNSEEN).alias("problem"),
        (F.lit(DAY_MINUTES) - F.col("there")).alias("minutes"),
        "first",
        "last",
    )
    return (
        listed.groupBy("app", "day", "operator", "problem")
        .agg(
            F.count("*").alias("minutes"),
            F.min("minute").alias("first"),
            F.max("minute").alias("last"),
        )
        .unionByName(unseen)
    )
