"""What replicas worked: service times and utilisation, per operator, pool and minute.

The Java helper counts records, seconds and squared seconds per function; the busiest function of an
operator's day is what limits it, as in the live controller. Where no helper counts, busy time per
record stands for the service time, without a variance.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812

from weir_pipelines import metrics
from weir_pipelines.clipping import at_least, share
from weir_pipelines.roles import sum_of
from weir_pipelines.settings import ArrivalSettings
from weir_pipelines.steps import measure_series

_US = 1e-6
_KEY = ("app", "day", "operator", "pool", "minute")

HELPER = "helper"
BUSY_TIME = "busyTime"


def measure_work(samples: DataFrame, series: DataFrame, settings: ArrivalSettings) -> DataFrame:
    """Return what each operator's replicas in each pool did in each minute.

    Args:
        samples: As the table `samples`, of whole days and their margins.
        series: As the table `series`; one that is written on several days may be there repeatedly.
        settings: Where a gap begins.

    Returns:
        As the table `work`, with `app` and `day`; minutes in which nothing was served left out.
    """
    labels = F.broadcast(series.drop("day").dropDuplicates(["series"]))
    minutes = measure_series(samples, settings).join(labels, "series").repartition("app", "day")
    functions = minutes.groupBy(*_KEY, "task", "function", "subtask").agg(
        _rise(metrics.SERVICE_N).alias("n"),
        (_rise(metrics.SERVICE_US) * _US).alias("s"),
        (_rise(metrics.SERVICE_US2) * _US * _US).alias("s2"),
        _rise(metrics.LATENCY_N).alias("sink_n"),
        (_rise(metrics.LATENCY_US) * _US).alias("sink_s"),
        _rise(metrics.RECORDS_IN).alias("taken"),
        _rise(metrics.RECORDS_OUT).alias("given"),
        (sum_of(metrics.BUSY, "change") / 1000).alias("busy_s"),
        (sum_of(metrics.BUSY, "change_ms") / 1000).alias("busy_of"),
    )
    operators = (
        _choose_function(functions)
        .groupBy(*_KEY)
        .agg(
            F.count_distinct("task", "subtask").cast("double").alias("sampled"),
            F.max("tasks").alias("tasks"),
            F.sum(F.when(F.col("limits"), F.col("n"))).alias("n"),
            F.sum(F.when(F.col("limits"), F.col("s"))).alias("s"),
            F.sum(F.when(F.col("limits"), F.col("s2"))).alias("s2"),
            F.sum("sink_n").alias("sink_records"),
            F.sum("sink_s").alias("sink_seconds"),
            F.sum("taken").alias("taken"),
            F.sum("given").alias("given"),
            F.sum("busy_s").alias("busy_s"),
            # Busy time may run ahead a little, and be set back later.
            F.max(share(F.col("busy_s"), F.col("busy_of"))).alias("busy"),
        )
    )
    return _shape(operators)


def _choose_function(functions: DataFrame) -> DataFrame:
    """Mark the rows of the function that spent most seconds in the operator's day."""
    whole = Window.partitionBy("app", "day", "operator")
    one = Window.partitionBy("app", "day", "operator", "task", "function")
    return (
        functions.withColumn("spent", F.sum("s").over(one))
        .withColumn("limits", F.col("spent") == F.max("spent").over(whole))
        .withColumn("tasks", F.size(F.collect_set("task").over(whole)))
    )


def _shape(operators: DataFrame) -> DataFrame:
    counted = F.col("n").isNotNull()
    # Flink counts no input at a source.
    passed = F.when(F.col("taken") > 0, F.col("taken")).otherwise(F.col("given"))
    return operators.select(
        "operator",
        "pool",
        "minute",
        (F.col("sampled") / F.col("tasks")).alias("replicas"),
        F.when(counted, F.col("n")).otherwise(passed).alias("records"),
        F.when(counted, F.col("s")).otherwise(at_least(F.col("busy_s"), 0.0)).alias("seconds"),
        F.when(counted, F.col("s2")).alias("squares"),
        F.col("busy").alias("utilisation"),
        F.when(counted, F.lit(HELPER)).otherwise(F.lit(BUSY_TIME)).alias("source"),
        "sink_records",
        "sink_seconds",
        "app",
        F.date_from_unix_date("day").alias("day"),
    ).where((F.col("records") > 0) & F.col("seconds").isNotNull())


def _rise(role: str) -> Column:
    return sum_of(role, "rise")
