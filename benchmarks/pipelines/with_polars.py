"""The same minutes by polars in one process: what Spark is measured against.

    python -m benchmarks.pipelines.with_polars TABLES OUT DAYS

Reads the tables of samples and labels of the first days, each with the margins of its neighbours,
finds the steps between samples, spreads them over minutes and sums them by operator: the part of
`rebuild_arrivals` that touches every sample, and all that there is to do for counters without
faults. It goes day by day, as memory is bounded. It looks for gaps, falls and duplicates, and for
nothing else.
"""

from __future__ import annotations

import sys
from datetime import date, timedelta
from pathlib import Path

import polars as pl

from weir_pipelines.samples import begin_ms
from weir_pipelines.settings import DAY_MS, MINUTE_MS, ArrivalSettings

SETTINGS = ArrivalSettings()
MARGIN_MS = int(SETTINGS.margin * 1000)


def rebuild_day(samples: pl.LazyFrame, series: pl.LazyFrame, day: date) -> pl.LazyFrame:
    """Return the rate and completeness of each operator and minute of one application's day."""
    first_minute = begin_ms(day) // MINUTE_MS
    length = pl.col("time_ms") - pl.col("begin_ms")
    rise = pl.col("value") - pl.col("before")
    usual = length.filter(length > 0).median().over("series")
    steps = (
        samples.sort("series", "time_ms", "value")
        .with_columns(
            pl.col("time_ms").shift(1).over("series").alias("begin_ms"),
            pl.col("value").shift(1).over("series").alias("before"),
        )
        .with_columns(usual.alias("usual"))
        .filter((length > 0) & (length <= SETTINGS.gap_after * pl.col("usual")) & (rise >= 0))
    )
    first = pl.col("begin_ms") // MINUTE_MS
    last = (pl.col("time_ms") - 1) // MINUTE_MS
    spread = steps.with_columns(pl.int_ranges(first, last + 1).alias("touched")).explode("touched")
    begin = pl.max_horizontal("begin_ms", pl.col("touched") * MINUTE_MS)
    end = pl.min_horizontal("time_ms", (pl.col("touched") + 1) * MINUTE_MS)
    part = (end - begin).alias("part_ms")
    minutes = spread.group_by("series", "touched").agg(
        (rise * part / length).sum().alias("rise"), part.sum().alias("covered_ms")
    )
    return (
        minutes.filter(
            pl.col("touched").is_between(first_minute, first_minute + DAY_MS // MINUTE_MS - 1)
        )
        .join(series.select("series", "operator"), on="series")
        .group_by("operator", "touched")
        .agg(
            (pl.col("rise").sum() / pl.col("covered_ms").sum() * 1000).alias("arrived"),
            (pl.col("covered_ms").sum() / MINUTE_MS).alias("completeness"),
        )
        .sort("operator", "touched")
    )


def main(tables: Path, out: Path, days: int) -> None:
    """Rebuild the first days of all applications."""
    for app in sorted((tables / "samples" / "v1").glob("app=*")):
        files = {
            date.fromisoformat(each.parent.name.removeprefix("day=")): each
            for each in sorted(app.glob("day=*/samples.parquet"))
        }
        for day in list(files)[:days]:
            neighbours = [day + timedelta(days=offset) for offset in (-1, 0, 1)]
            begin, end = begin_ms(day) - MARGIN_MS, begin_ms(day) + DAY_MS + MARGIN_MS
            samples = pl.scan_parquet(
                [files[each] for each in neighbours if each in files], hive_partitioning=False
            ).filter(pl.col("time_ms") >= begin, pl.col("time_ms") < end)
            labels = str(files[day]).replace("/samples/v1/", "/series/v1/")
            series = pl.scan_parquet(labels.replace("samples.", "series."))
            rebuild_day(samples, series, day).collect().write_parquet(
                out / f"{app.name.removeprefix('app=')}-{day}.parquet"
            )


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]))
