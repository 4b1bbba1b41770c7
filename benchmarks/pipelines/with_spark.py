"""The plan of `with_polars` by Spark's DataFrames: the two engines at equal work.

    python -m benchmarks.pipelines.with_spark TABLES OUT DAYS

Weir's own jobs do more for a minute and use arrays in Spark's tasks. Here, Spark itself finds the
steps between samples, spreads them over minutes and sums them by operator. It writes one folder
`OUT/app=APP/day=DAY` for each application and day.
"""

from __future__ import annotations

import sys
from datetime import timedelta
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812

from benchmarks.pipelines.made_up_history import FIRST
from benchmarks.pipelines.with_polars import MARGIN_MS, SETTINGS
from weir_pipelines.samples import begin_ms
from weir_pipelines.session import open_session
from weir_pipelines.settings import DAY_MS, MINUTE_MS

KEY = ("app", "day", "series")
MEMORY = "3g"


def rebuild_days(samples: DataFrame, series: DataFrame, days: int) -> DataFrame:
    """Return the rate and completeness of each operator and minute of the first days.

    Args:
        samples: `app`, `series`, `time_ms` and `value`.
        series: `app`, `day`, `series` and `operator`.
        days: How many, from `FIRST` on.
    """
    number = (F.col("time_ms") - begin_ms(FIRST)) / DAY_MS
    margin = MARGIN_MS / DAY_MS
    near = F.sequence(F.floor(number - margin), F.floor(number + margin))
    placed = (
        samples.withColumn("number", F.explode(near))
        .where(F.col("number").between(0, days - 1))
        .withColumn("day", F.date_add(F.lit(FIRST), F.col("number").cast("int")))
    )
    in_order = Window.partitionBy(*KEY).orderBy("time_ms", "value")
    length = F.col("time_ms") - F.col("begin_ms")
    rise = F.col("value") - F.col("before")
    usual = F.median(F.when(length > 0, length)).over(Window.partitionBy(*KEY))
    steps = (
        placed.withColumn("begin_ms", F.lag("time_ms").over(in_order))
        .withColumn("before", F.lag("value").over(in_order))
        .withColumn("usual", usual)
        .where((length > 0) & (length <= SETTINGS.gap_after * F.col("usual")) & (rise >= 0))
    )
    first = F.floor(F.col("begin_ms") / MINUTE_MS)
    last = F.floor((F.col("time_ms") - 1) / MINUTE_MS)
    begin = F.greatest(F.col("begin_ms"), F.col("touched") * MINUTE_MS)
    end = F.least(F.col("time_ms"), (F.col("touched") + 1) * MINUTE_MS)
    minutes = (
        steps.withColumn("touched", F.explode(F.sequence(first, last)))
        .withColumn("part_ms", end - begin)
        .groupBy(*KEY, "touched")
        .agg(
            F.sum(rise * F.col("part_ms") / length).alias("rise"),
            F.sum("part_ms").alias("covered_ms"),
        )
    )
    midnight = F.unix_date("day") * (DAY_MS // MINUTE_MS)
    return (
        minutes.where(F.col("touched").between(midnight, midnight + DAY_MS // MINUTE_MS - 1))
        .join(F.broadcast(series), [*KEY])
        .groupBy("app", "day", "operator", "touched")
        .agg(
            (F.sum("rise") / F.sum("covered_ms") * 1000).alias("arrived"),
            (F.sum("covered_ms") / MINUTE_MS).alias("completeness"),
        )
    )


def main(session: SparkSession, tables: Path, out: Path, days: int) -> None:
    """Rebuild the first days of all applications."""
    after = FIRST + timedelta(days=days)
    samples = session.read.parquet(str(tables / "samples" / "v1"))
    series = session.read.parquet(str(tables / "series" / "v1"))
    rows = rebuild_days(
        samples.where(F.col("day") <= F.lit(after)),
        series.select(*KEY, "operator").where(F.col("day") < F.lit(after)),
        days,
    )
    rows.repartition("app", "day").write.partitionBy("app", "day").parquet(str(out))


if __name__ == "__main__":
    opened = open_session(
        options={
            "spark.driver.memory": MEMORY,
            "spark.local.dir": str(Path(sys.argv[2], "shuffle")),
        }
    )
    try:
        main(opened, Path(sys.argv[1]), Path(sys.argv[2], "rows"), int(sys.argv[3]))
    finally:
        opened.stop()
