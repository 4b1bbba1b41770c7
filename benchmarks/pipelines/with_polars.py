"""The same minutes by polars in one process: what Spark is measured against.

    python -m benchmarks.pipelines.with_polars TABLES OUT

Reads the tables of samples and labels, finds the steps between samples, spreads them over minutes
and sums them by operator: the part of `rebuild_arrivals` that touches every sample. It goes day by
day, as memory is bounded. It looks for gaps, falls and duplicates, and for nothing else.
"""

from __future__ import annotations

import resource
import sys
from pathlib import Path

import polars as pl

MINUTE_MS = 60_000


def rebuild_day(samples: pl.LazyFrame, series: pl.LazyFrame) -> pl.LazyFrame:
    """Return the rate and completeness of each operator and minute of one application's day."""
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
        .filter((length > 0) & (length <= 1.5 * pl.col("usual")) & (rise >= 0))
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
        minutes.join(series.select("series", "operator"), on="series")
        .group_by("operator", "touched")
        .agg(
            (pl.col("rise").sum() / pl.col("covered_ms").sum() * 1000).alias("arrived"),
            (pl.col("covered_ms").sum() / MINUTE_MS).alias("completeness"),
        )
        .sort("operator", "touched")
    )


def main(tables: Path, out: Path) -> None:
    """Rebuild all days; print the peak memory in bytes."""
    files = sorted((tables / "samples" / "v1").glob("app=*/day=*/samples.parquet"))
    for number, file in enumerate(files):
        labels = str(file).replace("/samples/v1/", "/series/v1/").replace("samples.", "series.")
        rows = rebuild_day(pl.scan_parquet(file, hive_partitioning=False), pl.scan_parquet(labels))
        rows.collect().write_parquet(out / f"{number}.parquet")
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
