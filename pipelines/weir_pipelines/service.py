"""Service times, speeds of pools and selectivities of a day, with confidence intervals.

The speed of a pool is the ratio of service times on it and on the pool that served most records.
Each operator that ran on both gives an independent estimate; their logarithms are averaged,
weighted by precision.

A mean service time is seconds over records, a selectivity records over records: ratios of sums over
minutes. Minutes differ more than the records in them do (warm caches, other keys), so the 95 %
interval comes from minutes and not from single records.

Spark's `greatest` skips nulls, so an unknown time would become 0; a bound here keeps what is
unknown unknown.

Source: the ratio estimator of sampling theory, Cochran, Sampling Techniques, 3rd ed., section 6.3.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812

from weir_pipelines.settings import WHOLE


def at_least(value: Column, bound: float) -> Column:
    """Return the value, or the bound where it is below; null where it is null."""
    return F.when(value < bound, F.lit(bound)).otherwise(value)


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


def summarise_service(work: DataFrame) -> DataFrame:
    """Return the day's service time of each operator on each pool.

    Args:
        work: As the table `work`.

    Returns:
        As the table `service`, with `app` and `day`.
    """
    summed = work.groupBy("app", "day", "operator", "pool").agg(
        F.sum("records").alias("records"),
        F.count("*").alias("minutes"),
        ratio("seconds", "records").alias("mean"),
        ratio_error("seconds", "records").alias("error"),
        # Of the minutes that have squares; those without would count as zeros.
        (F.sum("squares") / F.sum(F.when(F.col("squares").isNotNull(), F.col("records")))).alias(
            "square"
        ),
        F.max_by("source", "minute").alias("source"),
    )
    return summed.select(
        "app",
        "day",
        "operator",
        "pool",
        "records",
        "minutes",
        "mean",
        _low("mean").alias("low"),
        _high("mean").alias("high"),
        # Rounding can leave a constant time with a variance just below zero.
        at_least(F.col("square") - F.col("mean") * F.col("mean"), 0.0).alias("variance"),
        "source",
    )


def estimate_speedups(service: DataFrame) -> DataFrame:
    """Return the speed of each pool relative to the one that served most.

    Args:
        service: As the table `service`.

    Returns:
        As the table `speedups`, with `app` and `day`; pools that share no operator with the
        reference, or of which nothing is sure, left out.
    """
    day = Window.partitionBy("app", "day")
    of_pool = service.withColumn(
        "served", F.sum("records").over(Window.partitionBy("app", "day", "pool"))
    )
    known = of_pool.withColumn("reference", F.max_by("pool", "served").over(day))
    # Relative variance of a mean, from its interval.
    error = (F.col("high") - F.col("low")) / (2 * Z) / F.col("mean")
    measured = known.withColumn("error2", error * error)
    on_reference = measured.where(F.col("pool") == F.col("reference")).select(
        "app",
        "day",
        "operator",
        F.col("mean").alias("reference_mean"),
        F.col("error2").alias("reference_error2"),
    )
    pairs = (
        measured.where(F.col("pool") != F.col("reference"))
        .join(on_reference, ["app", "day", "operator"])
        .withColumn("log_ratio", F.log(F.col("reference_mean") / F.col("mean")))
        # A time that never varied has no error to weigh by: a millionth stands for it.
        .withColumn("error2", F.col("error2") + F.col("reference_error2") + 1e-12)
        .withColumn("weight", 1 / F.col("error2"))
    )
    pooled = pairs.groupBy("app", "day", "pool", "reference").agg(
        (F.sum(F.col("weight") * F.col("log_ratio")) / F.sum("weight")).alias("log"),
        (1 / F.sqrt(F.sum("weight"))).alias("error"),
        F.count("*").alias("operators"),
    )
    return pooled.where(F.col("log").isNotNull()).select(
        "app",
        "day",
        "pool",
        "reference",
        F.exp("log").alias("speedup"),
        F.exp(F.col("log") - Z * F.col("error")).alias("low"),
        F.exp(F.col("log") + Z * F.col("error")).alias("high"),
        "operators",
    )


def estimate_selectivities(arrivals: DataFrame) -> DataFrame:
    """Return the records that each operator gives out per record that it takes in.

    Args:
        arrivals: As the table `arrivals`; only complete minutes count.

    Returns:
        As the table `selectivities`, with `app` and `day`.
    """
    usable = arrivals.where(
        (F.col("completeness") >= WHOLE) & (F.col("taken") > 0) & F.col("given").isNotNull()
    )
    summed = usable.groupBy("app", "day", "operator").agg(
        F.count("*").alias("minutes"),
        ratio("given", "taken").alias("selectivity"),
        ratio_error("given", "taken").alias("error"),
    )
    return summed.select(
        "app",
        "day",
        "operator",
        "minutes",
        "selectivity",
        _low("selectivity").alias("low"),
        _high("selectivity").alias("high"),
    )


def _low(value: str) -> Column:
    """Return the lower end of an interval; neither a time nor a ratio of counts is below 0."""
    return at_least(F.col(value) - Z * F.col("error"), 0.0)


def _high(value: str) -> Column:
    return F.col(value) + Z * F.col("error")
