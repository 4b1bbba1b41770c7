"""The usual rate of each hour of the week, and whether a day's level differs from it.

A profile has each hour of the week (UTC), from the means of the hours of the last weeks. A change
of level is found by comparing each hour of a day with the same hour of the week in the weeks
before. With fewer than two of those, nothing is claimed: compared with days of other kinds, every
quiet weekend would be another level. The day's factor is the median over its hours, so that an
outage or one burst is no change.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

NEEDS = ("operator", "minute", "arrived", "completeness")
"""Columns of `arrivals` that hours are made of."""
Z = 1.959964
"""Quantile of the normal distribution for 95 %."""
WEEKS = 5
"""How far back a profile looks: what was usual longer ago is not."""
FEWEST = 2
"""Hours that what is usual is made of."""
COVERED = 0.5
"""Completeness from which on a minute counts for its hour."""
MINUTES = 30
"""Of such minutes that an hour needs."""
FEWEST_HOURS = 6
"""Hours of a day that can be compared, before anything is said of its level."""
MATTERS = 1.2
"""Factor from which on another level matters to whoever plans for it."""


def average_hours(arrivals: DataFrame) -> DataFrame:
    """Return the mean arrival rate of each hour that is covered well enough.

    Returns:
        Columns `app`, `day`, `operator`, `hour` (of the day), `week_hour`, `rate`.
    """
    usable = arrivals.where((F.col("completeness") >= COVERED) & F.col("arrived").isNotNull())
    hour = F.floor(F.pmod("minute", F.lit(86_400)) / 3600).cast("int")
    hours = (
        usable.withColumn("hour", hour)
        .groupBy("app", "day", "operator", "hour")
        .agg(F.avg("arrived").alias("rate"), F.count("*").alias("minutes"))
        .where(F.col("minutes") >= MINUTES)
    )
    return hours.withColumn("week_hour", F.weekday("day") * 24 + F.col("hour")).drop("minutes")


def profile_hours(hours: DataFrame, as_of: DataFrame) -> DataFrame:
    """Return what usually arrives at each hour of the week.

    Args:
        hours: What `average_hours` returns, of the day and the weeks before it.
        as_of: Columns `app`, `day`: as of which days.

    Returns:
        As the table `profiles`, with `app` and `day`.
    """
    asked = as_of.select("app", F.col("day").alias("as_of"))
    age = F.datediff("as_of", "day")
    recent = hours.join(asked, "app").where((age >= 0) & (age < 7 * WEEKS))
    return (
        recent.groupBy("app", "as_of", "operator", F.col("week_hour").alias("hour"))
        .agg(
            F.count("*").alias("days"),
            F.percentile("rate", F.lit(0.1)).alias("low"),
            F.median("rate").alias("usual"),
            F.percentile("rate", F.lit(0.9)).alias("high"),
        )
        .withColumnRenamed("as_of", "day")
    )


def find_regimes(hours: DataFrame, as_of: DataFrame) -> DataFrame:
    """Return how the level of each of the days compares with what was usual before it.

    Args:
        hours: What `average_hours` returns, of the day and the weeks before it.
        as_of: Columns `app`, `day`: which days are judged.

    Returns:
        As the table `regimes`, with `app` and `day`; days without enough to compare left out.
    """
    asked = as_of.select("app", "day")
    today = hours.join(asked, ["app", "day"]).where(F.col("rate") > 0)
    before = hours.select(
        "app",
        "operator",
        "week_hour",
        F.col("day").alias("then"),
        F.col("rate").alias("then_rate"),
    ).where(F.col("then_rate") > 0)
    age = F.datediff("day", "then")
    compared = (
        today.join(before, ["app", "operator", "week_hour"])
        .where((age > 0) & (age < 7 * WEEKS))
        .groupBy("app", "day", "operator", "week_hour", "rate")
        .agg(F.median("then_rate").alias("usual"), F.count("*").alias("weeks"))
        .where(F.col("weeks") >= FEWEST)
        .withColumn("log", F.log(F.col("rate") / F.col("usual")))
    )
    levels = compared.groupBy("app", "day", "operator").agg(
        F.count("*").alias("hours"),
        F.median("log").alias("level"),
        # Of a median, from the hours' standard deviation, as if they were normal.
        (F.stddev_samp("log") * 1.2533 / F.sqrt(F.count("*"))).alias("error"),
    )
    low, high = F.col("level") - Z * F.col("error"), F.col("level") + Z * F.col("error")
    return levels.where(F.col("hours") >= FEWEST_HOURS).select(
        "app",
        "day",
        "operator",
        "hours",
        F.exp("level").alias("factor"),
        F.exp(low).alias("low"),
        F.exp(high).alias("high"),
        ((F.exp(low) > MATTERS) | (F.exp(high) < 1 / MATTERS)).alias("changed"),
    )
