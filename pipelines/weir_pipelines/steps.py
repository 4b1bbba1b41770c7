"""From samples to what each series did minute by minute; knows no labels.

A *step* leads from one sample of a series to the next. It is *sound* where the two are as far apart
as usual: then the rise between them belongs to its time, spread evenly. A step over missing samples
says how much came but not when, and a step down says nothing; both leave their time uncovered.

Each day is worked out from its own samples and a margin of its neighbours', so a day comes out the
same alone or among others. The work is partitioned by series and day, never by application: one
application with most of the data is spread as well as many small ones.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812  (Spark's own convention)

from weir_pipelines.settings import DAY_MINUTES, DAY_MS, MINUTE_MS, ArrivalSettings

AROUND = 10
"""Steps before and after one whose median is the usual distance: scrape intervals may change within
a day, and a step is to be held against its own time's."""


def measure_series(samples: DataFrame, settings: ArrivalSettings) -> DataFrame:
    """Return what each series did in each minute.

    Args:
        samples: Columns `series`, `time_ms`, `value`, `received_ms`; of whole days and margins.
        settings: Where a gap begins, and what is late.

    Returns:
        One row per `series`, `day` and `minute` (Unix seconds):

        - `rise`, `rise_ms`: sum over sound steps that do not fall, and the time they cover.
        - `change`, `change_ms`: the same over all sound steps.
        - `elapsed_ms`, `moved`: time and difference over all steps that end here, sound or not,
          that do not fall below what a restart would give.
        - `last`: the last value.
        - `first_ms`, `last_ms`: of the samples here; null where the minute lies inside a gap.
        - `is_gap`, `is_reset`, `is_duplicate`, `is_late`, `is_nan`.
    """
    return _sum_by_minute(_spread(_find_steps(_by_day(samples, settings), settings)))


def _by_day(samples: DataFrame, settings: ArrivalSettings) -> DataFrame:
    """Give each sample to its day and, in the margin of midnight, to the neighbouring one."""
    margin = int(settings.margin * 1000)
    time = F.col("time_ms")
    own = F.floor(time / DAY_MS).cast("int")
    within = F.pmod(time, F.lit(DAY_MS))
    days = (
        F.when(within < margin, F.array(own, own - 1))
        .when(within >= DAY_MS - margin, F.array(own, own + 1))
        .otherwise(F.array(own))
    )
    usable = ~F.isnan("value") & (F.abs("value") != float("inf")) & (F.col("value") >= 0)
    dealt = samples.select(
        "series",
        F.explode(days).alias("day"),
        "time_ms",
        "value",
        (F.col("received_ms") - time > settings.late_after * 1000).alias("is_late"),
        usable.alias("usable"),
    )
    # Once moved, a series' day stays where it is until it has become minutes.
    return dealt.repartition("series", "day")


def _find_steps(samples: DataFrame, settings: ArrivalSettings) -> DataFrame:
    """Add to each sample the step that leads to it."""
    # What cannot be used forms a group of its own, and so breaks no step.
    whole = Window.partitionBy("series", "day", "usable")
    ordered = whole.orderBy("time_ms", "value")
    stepped = samples.select(
        "*",
        F.lag("time_ms").over(ordered).alias("begin_ms"),
        F.lag("value").over(ordered).alias("before"),
    ).withColumn("length_ms", F.col("time_ms") - F.col("begin_ms"))
    # Two samples at one time are no distance.
    around = F.sort_array(
        F.collect_list(F.nullif(F.col("length_ms"), F.lit(0))).over(
            ordered.rowsBetween(-AROUND, AROUND)
        )
    )
    usual = F.get(around, F.floor((F.size(around) - 1) / 2).cast("int"))  # of two, the lower
    length = F.col("length_ms")
    gap = length > settings.gap_after * F.col("usual_ms")
    return (
        stepped.withColumn("usual_ms", usual)
        .withColumn("is_gap", F.coalesce(F.col("usable") & gap, F.lit(False)))
        .withColumn("sound", F.coalesce(F.col("usable") & ~gap & (length > 0), F.lit(False)))
        .withColumn("falls", F.coalesce(F.col("value") < F.col("before"), F.lit(False)))
    )


def _spread(steps: DataFrame) -> DataFrame:
    """Return one row per step and minute that it touches."""
    first = F.floor(F.col("begin_ms") / MINUTE_MS)
    # A sample on the stroke of the minute ends the minute before.
    last = F.floor((F.col("time_ms") - 1) / MINUTE_MS)
    many = (F.col("length_ms") > 0) & (first < last)
    touched = F.when(many, F.sequence(first, last)).otherwise(F.array(last))
    spread = steps.withColumn("touched", F.explode(touched))
    begin = F.greatest(F.col("begin_ms"), F.col("touched") * MINUTE_MS)
    end = F.least(F.col("time_ms"), (F.col("touched") + 1) * MINUTE_MS)
    return spread.withColumn("part_ms", F.coalesce(end - begin, F.lit(0))).withColumn(
        "ends", last == F.col("touched")
    )


def _sum_by_minute(parts: DataFrame) -> DataFrame:
    sound, falls, ends = F.col("sound"), F.col("falls"), F.col("ends")
    difference = F.col("value") - F.col("before")
    share = difference * F.col("part_ms") / F.col("length_ms")
    usable_end = ends & F.col("usable") & F.col("begin_ms").isNotNull()
    minutes = parts.groupBy("series", "day", "touched").agg(
        _sum_where(sound & ~falls, share).alias("rise"),
        _sum_where(sound & ~falls, F.col("part_ms")).alias("rise_ms"),
        _sum_where(sound, share).alias("change"),
        _sum_where(sound, F.col("part_ms")).alias("change_ms"),
        _sum_where(usable_end, F.col("length_ms")).alias("elapsed_ms"),
        _sum_where(usable_end, difference).alias("moved"),
        F.max_by(F.when(ends & F.col("usable"), F.col("value")), "time_ms").alias("last"),
        F.min(F.when(ends, F.col("time_ms"))).alias("first_ms"),
        F.max(F.when(ends, F.col("time_ms"))).alias("last_ms"),
        F.bool_or("is_gap").alias("is_gap"),
        F.bool_or(ends & falls).alias("is_reset"),
        F.bool_or(ends & F.coalesce(F.col("length_ms") == 0, F.lit(False))).alias("is_duplicate"),
        F.bool_or(ends & F.coalesce(F.col("is_late"), F.lit(False))).alias("is_late"),
        F.bool_or(~F.col("usable")).alias("is_nan"),
    )
    minute = (F.col("touched") * 60).alias("minute")
    # The margin has served: its minutes are the neighbouring days'.
    own = F.floor(F.col("touched") / DAY_MINUTES) == F.col("day")
    kept = [name for name in minutes.columns if name != "touched"]
    return minutes.where(own).select(*kept, minute)


def _sum_where(condition: Column, value: Column) -> Column:
    """Sum, 0 where no row fulfils the condition."""
    return F.sum(F.when(condition, value).otherwise(F.lit(0).cast("double")))
