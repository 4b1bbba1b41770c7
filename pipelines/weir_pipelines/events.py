"""Turns a raw event log, such as taxi trips with a time each, into arrival traces.

A log is complete by definition: a minute inside it without an event is a minute without arrivals.
Each row must have a time; a row with no time or an impossible one is rejected with file, row and
column.
"""

from __future__ import annotations

import csv
import itertools
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from functools import reduce
from pathlib import Path

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import NumericType, StringType, TimestampNTZType, TimestampType

from weir_pipelines.errors import InputError

OPERATOR = "events"
"""The operator that events are said to arrive at."""
FIRST, LAST = datetime(2000, 1, 1, tzinfo=UTC), datetime(2100, 1, 1, tzinfo=UTC)
"""Times of events: beyond them a number is no Unix seconds but a date or milliseconds."""
LONGEST_HOLE = timedelta(days=400)
"""More than a year, as long as a log of something yearly may have nothing."""
_DATE = r"^\s*\d{4}-\d{1,2}-\d{1,2}"


def count_events(times: DataFrame, app: str) -> DataFrame:
    """Return how many events there were, minute by minute, from the first to the last.

    Args:
        times: Column `seconds`, Unix seconds of each event.
        app: What the log is called.

    Returns:
        As the table `arrivals`, with `app` and `day`.
    """
    minute = (F.floor(F.col("seconds") / 60) * 60).alias("minute")
    counted = times.select(minute).groupBy("minute").agg(F.count("*").alias("events"))
    span = counted.agg(F.min("minute").alias("low"), F.max("minute").alias("high"))
    all_minutes = span.where(F.col("low").isNotNull()).select(
        F.explode(F.sequence("low", "high", F.lit(60))).alias("minute")
    )
    rate = F.coalesce(F.col("events"), F.lit(0)) / 60
    unknown = F.lit(None).cast("double")
    return all_minutes.join(counted, "minute", "left").select(
        F.lit(OPERATOR).alias("operator"),
        "minute",
        rate.alias("arrived"),
        rate.alias("taken"),
        unknown.alias("given"),
        unknown.alias("backlog"),
        unknown.alias("blocked"),
        unknown.alias("utilisation"),
        F.lit(1.0).alias("replicas"),
        F.lit(1.0).alias("completeness"),
        F.array().cast("array<string>").alias("faults"),
        F.lit(app).alias("app"),
        F.to_date(F.timestamp_seconds("minute")).alias("day"),
    )


def read_events(
    session: SparkSession, files: Sequence[Path], *, column: str, time_format: str | None = None
) -> DataFrame:
    """Return the times of all events of some files, column `seconds`.

    Args:
        session: Spark.
        files: CSV with a header each, or Parquet; all of one kind.
        column: Where the time stands: text, a timestamp, or Unix seconds as a number.
        time_format: How a text is read, in Spark's letters; `None` takes ISO 8601. A time without
            a zone is UTC.

    Raises:
        InputError: A file cannot be read, has no such column, or a row no time; or there is nothing
            for longer than a log may have nothing.
    """
    if len({file.suffix == ".parquet" for file in files}) != 1:
        raise InputError(
            "Expected files that are all .parquet or all CSV, got both; import one kind at a time"
        )
    for file in files:
        if not file.is_file():
            raise InputError(f"{file}: expected a file, got none")
    # One by one: Spark takes the columns of several CSV for those of the first, by their position.
    read = [_read_file(session, file, column, time_format) for file in files]
    times = reduce(DataFrame.union, read)
    _refuse_wrong(times, column)
    _refuse_holes(times)
    return times.select("seconds")


def _read_file(
    session: SparkSession, file: Path, column: str, time_format: str | None
) -> DataFrame:
    """Return `seconds`, and to name a wrong row its `text`, `file`, `place` and `row`.

    `place` is the column's position, `row` counts from 0 and is null if Spark does not report it.
    """
    if file.suffix == ".parquet":
        rows = session.read.parquet(str(file))
        row = F.col("_metadata.row_index")
    else:
        # As text: what Spark would guess of a column depends on the rows that it looks at. A quoted
        # text may have several lines.
        reader = session.read.option("header", True).option("escape", '"').option("multiLine", True)
        rows = reader.csv(str(file))
        row = F.lit(None)
    if column not in rows.columns:
        raise InputError(f"{file}, column {column}: expected one of {', '.join(rows.columns)}")
    return rows.select(
        _seconds(rows, column, time_format).alias("seconds"),
        _column(column).cast("string").alias("text"),
        F.lit(str(file)).alias("file"),
        F.lit(rows.columns.index(column)).alias("place"),
        row.cast("bigint").alias("row"),
    )


def _column(name: str) -> Column:
    """Return the column of this very name, which may have dots."""
    quoted = name.replace("`", "``")
    return F.col(f"`{quoted}`")


def _seconds(rows: DataFrame, column: str, time_format: str | None) -> Column:
    kind = rows.schema[column].dataType
    value = _column(column)
    if isinstance(kind, TimestampType | TimestampNTZType):
        return value.cast("timestamp").cast("double")
    if isinstance(kind, NumericType):
        return value.cast("double")
    if not isinstance(kind, StringType):
        raise InputError(f"Column {column}: expected a time, text or number, got {kind.typeName()}")
    if time_format is not None:
        return F.try_to_timestamp(value, F.lit(time_format)).cast("double")
    # Spark takes a time of day for today's.
    dated = F.when(value.rlike(_DATE), F.try_to_timestamp(value))
    return F.coalesce(value.try_cast("double"), dated.cast("double"))


def _refuse_wrong(times: DataFrame, column: str) -> None:
    """Look for a row without a time, or with one that can be none."""
    seconds = F.col("seconds")
    sound = (seconds >= FIRST.timestamp()) & (seconds < LAST.timestamp())
    wrong = times.where(~F.coalesce(sound, F.lit(False))).limit(1).collect()
    if not wrong:
        return
    [found] = wrong
    file = Path(found["file"])
    # Parquet's rows are counted from 0; for a CSV, Spark does not report the row.
    row = _row_of(file, found["place"], found["text"]) if found["row"] is None else found["row"] + 1
    got = "none" if found["text"] is None else repr(found["text"][:40])
    raise InputError(
        f"{file}, row {row}, column {column}: expected a time with its date, or "
        f"Unix seconds, from {FIRST.year} up to {LAST.year}, got {got}; correct "
        "or remove the row, or set its format with --format"
    )


def _row_of(file: Path, place: int, text: str | None) -> int:
    """Return the first row of a CSV file, its header being row 1, that holds this text."""
    # Spark skips the mark that some programs put before a text.
    with file.open(encoding="utf-8-sig", newline="") as lines:
        records = csv.reader(lines)
        next(records)
        for number, record in enumerate(records, start=2):
            if record and "".join(record[place : place + 1]) == (text or ""):
                return number
    raise InputError(f"{file} has changed while it was read; try again")


def _refuse_holes(times: DataFrame) -> None:
    """Look for a stray time, which would make years of minutes without arrivals."""
    days = times.select(F.to_date(F.timestamp_seconds("seconds")).alias("day")).distinct()
    found = sorted(row.day for row in days.collect())
    for before, after in itertools.pairwise(found):
        if after - before > LONGEST_HOLE:
            raise InputError(
                f"Expected events without gaps of more than {LONGEST_HOLE.days} days, got "
                f"none between {before} and {after}; remove the rows whose time is wrong, "
                "or import the files before and after separately"
            )
