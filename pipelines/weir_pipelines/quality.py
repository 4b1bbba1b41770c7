"""What is wrong with a day: faults of its minutes, gaps, and rates that no job can produce.

What can be wrong with a minute or a day, by name.

A fault says that something was seen and dealt with; how much of the minute is left is told by the
completeness beside it.
"""

from __future__ import annotations

from enum import StrEnum

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from weir_pipelines.settings import DAY_MINUTES, WHOLE


class Fault(StrEnum):
    """What was wrong."""

    BLOCKED = "blocked"
    """A source was back-pressured and reports no backlog: what arrived is more than what it took,
    by how much nobody knows."""
    BACKLOG = "backlog"
    """A source was back-pressured; what arrived was taken from its backlog."""
    CLOCK = "clock"
    """The clock of the samples and the task's own do not agree: one of them was set."""
    DUPLICATE = "duplicate"
    """A sample was there twice."""
    GAP = "gap"
    """Samples are missing."""
    LATE = "late"
    """A sample was received long after it was scraped; it was used at its place."""
    NOT_A_NUMBER = "notANumber"
    """A sample was NaN, infinite, or a negative count."""
    RESET = "reset"
    """A counter fell without a restart that its labels would tell."""
    RESTART = "restart"
    """The job, or a task of it, was started anew."""


INCOMPLETE = "incomplete"
"""Minutes of a day that samples cover in part; this and the next are problems of a day."""
UNSEEN = "unseen"
"""Minutes of which there is no sample at all."""
FROM_NOTHING = "recordsFromNothing"
"""Records came out and none went in."""
WITH_NOTHING = "busyWithNothing"
"""It was busy and took in nothing."""
IMPOSSIBLE = frozenset({FROM_NOTHING, WITH_NOTHING})
"""What no job can do: whatever says so is wrong."""


BUSY = 0.5
"""Utilisation from which on an operator cannot be without records."""


def find_problems(arrivals: DataFrame) -> DataFrame:
    """Return what is wrong with each operator's day.

    Args:
        arrivals: As the table `arrivals`.

    Returns:
        As the table `quality`, with `app` and `day`; nothing of an operator without a problem.
    """
    taken, given = F.coalesce("taken", F.lit(0.0)), F.coalesce("given", F.lit(0.0))
    measured = F.col("taken").isNotNull()
    found = F.array_compact(
        F.array(
            _when(F.col("completeness") < WHOLE, INCOMPLETE),
            _when(measured & (taken == 0) & (given > 0), FROM_NOTHING),
            _when(measured & (taken == 0) & (F.col("utilisation") > BUSY), WITH_NOTHING),
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


def _when(condition: Column, problem: str) -> Column:
    return F.when(condition, F.lit(problem))
