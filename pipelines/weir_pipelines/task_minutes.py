"""From series to tasks: what each parallel task did in each minute, its metrics side by side."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from weir_pipelines import metrics
from weir_pipelines.clipping import share
from weir_pipelines.roles import has_role, sum_of
from weir_pipelines.settings import ArrivalSettings

SUBTASK = ("app", "day", "operator", "task", "job_id", "subtask", "attempt", "minute")
"""What a row is about."""


def measure_tasks(minutes: DataFrame, series: DataFrame, settings: ArrivalSettings) -> DataFrame:
    """Return what each attempt of each parallel task did in each minute.

    Args:
        minutes: What `measure_series` returns.
        series: The labels, columns `app` and those of the table `series`; one row per series.
        settings: How far clocks may differ.

    Returns:
        One row per `SUBTASK`. Of each of records in and out: the rise (`in_rise`, `out_rise`) and
        the milliseconds that it covers (`in_ms`, `out_ms`). Of busy and blocked time: shares
        (`busy`, `blocked`), null where unknown. Of the backlog: `pending`, null where the task
        reports none, and `growth` in records/s. `first_ms`, `last_ms` of the samples, and one
        column per fault that is seen here, `is_...`.
    """
    # The labels are few enough for every worker. From here on an application's day is worked out in
    # one place: nothing moves any more.
    labelled = minutes.join(F.broadcast(series), "series").repartition("app", "day")
    tasks = labelled.groupBy(*SUBTASK).agg(
        sum_of(metrics.RECORDS_IN, "rise").alias("in_rise"),
        sum_of(metrics.RECORDS_IN, "rise_ms").alias("in_ms"),
        sum_of(metrics.RECORDS_OUT, "rise").alias("out_rise"),
        sum_of(metrics.RECORDS_OUT, "rise_ms").alias("out_ms"),
        _share_of_time(metrics.BUSY).alias("busy"),
        _share_of_time(metrics.BLOCKED).alias("blocked"),
        sum_of(metrics.PENDING, "last").alias("pending"),
        # Several functions may each have a backlog: their rates add up.
        sum_of(metrics.PENDING, _per_second("change", "change_ms")).alias("growth"),
        F.min("first_ms").alias("first_ms"),
        F.max("last_ms").alias("last_ms"),
        F.bool_or("is_gap").alias("is_gap"),
        F.bool_or(has_role(*metrics.COUNTERS) & F.col("is_reset")).alias("is_reset"),
        F.bool_or("is_duplicate").alias("is_duplicate"),
        F.bool_or("is_late").alias("is_late"),
        # A source of the old kind reports NaN for its busy time all its life.
        F.bool_or(~has_role(*metrics.STATES) & F.col("is_nan")).alias("is_nan"),
        _clock_difference().alias("clock_difference"),
    )
    is_clock = F.abs(F.col("clock_difference")) > settings.clock_tolerance
    told = tasks.withColumn("is_clock", F.coalesce(is_clock, F.lit(False)))
    # How long a minute was whose clock was set, nobody knows: it covers nothing.
    covering = {
        name: F.when(F.col("is_clock"), F.lit(0.0)).otherwise(F.col(name))
        for name in ("in_ms", "out_ms", "in_rise", "out_rise")
    }
    return told.withColumns(covering).drop("clock_difference")


def _clock_difference() -> Column:
    """Return seconds by which the task's own clock went ahead of the samples'; null if unknown.

    Busy, idle and back-pressured time together are what elapsed at the task, because Flink computes
    the first as the rest. All three must have been sampled together.

    Source: Flink 2.3, `TaskIOMetricGroup.getAccumulatedBusyTime`.
    """
    own = sum((sum_of(state, "moved") for state in metrics.STATES), F.lit(0.0))
    elapsed = [sum_of(state, "elapsed_ms") for state in metrics.STATES]
    together = (elapsed[0] == elapsed[1]) & (elapsed[1] == elapsed[2])
    return F.when(together, (own - elapsed[0]) / 1000)


def _share_of_time(state: str) -> Column:
    """Return the share of the covered time that was spent in a state, in [0, 1].

    Flink books an idle stretch when it ends or after 5 s at the latest, so busy time may run ahead
    in one minute and be set back in the next: what is beyond the bounds is that, and no share.
    """
    return share(sum_of(state, "change"), sum_of(state, "change_ms"))


def _per_second(amount: str, milliseconds: str) -> Column:
    return F.col(amount) / F.nullif(F.col(milliseconds), F.lit(0.0)) * 1000
