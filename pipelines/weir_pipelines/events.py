"""Raw event logs to arrival traces: a file of events with a time each, such as taxi trips.

What a log holds is complete by definition: a minute inside it without an event is a minute without
arrivals. Each row must have a time; one that has none is refused with file, row and column.
"""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import unquote, urlsplit

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import NumericType, StringType, TimestampNTZType, TimestampType

from weir_pipelines.errors import InputError

OPERATOR = "events"
"""The operator that events are said to arrive at."""


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
        files: CSV with a header, or Parquet; all of one kind.
        column: Where the time stands: text, a timestamp, or Unix seconds as a number.
        time_format: How a text is read, in Spark's letters; `None` takes ISO 8601. A time without
            a zone is UTC.

    Raises:
        InputError: A file cannot be read, has no such column, or a row no time.
    """
    is_parquet = {file.suffix == ".parquet" for file in files}
    if len(is_parquet) != 1:
        raise InputError("Expected files that are all .parquet or all CSV, got both; do one kind")
    for file in files:
        if not file.is_file():
            raise InputError(f"{file}: expected a file, got none")
    paths = [str(file) for file in files]
    if is_parquet == {True}:
        rows = session.read.parquet(*paths)
    else:
        # As text: what Spark would guess of a column depends on the rows that it looks at.
        rows = session.read.option("header", True).option("escape", '"').csv(paths)
    if column not in rows.columns:
        raise InputError(f"{files[0]}, column {column}: expected one of {', '.join(rows.columns)}")
    times = rows.select(
        _seconds(rows, column, time_format).alias("seconds"),
        F.col(column).cast("string").alias("text"),
        F.col("_metadata.file_path").alias("file"),
        *([F.col("_metadata.row_index").alias("row")] if is_parquet == {True} else []),
    )
    _refuse_wrong(times, column)
    return times.select("seconds")


def _seconds(rows: DataFrame, column: str, time_format: str | None) -> Column:
    kind = rows.schema[column].dataType
    value = F.col(column)
    if isinstance(kind, TimestampType | TimestampNTZType):
        return value.cast("timestamp").cast("double")
    if isinstance(kind, NumericType):
        return value.cast("double")
    if not isinstance(kind, StringType):
        raise InputError(f"Column {column}: expected a time, text or number, got {kind.typeName()}")
    if time_format is not None:
        return F.try_to_timestamp(value, F.lit(time_format)).cast("double")
    number = F.expr(f"try_cast(`{column}` AS DOUBLE)")
    return F.coalesce(number, F.try_to_timestamp(value).cast("double"))


def _refuse_wrong(times: DataFrame, column: str) -> None:
    """Look for a row without a time.

    Raises:
        InputError: There is one; it names the first of its file.
    """
    wrong = times.where(F.col("seconds").isNull() | F.isnan("seconds")).limit(1).collect()
    if not wrong:
        return
    [found] = wrong
    file = Path(unquote(urlsplit(found["file"]).path))
    # Parquet's rows are counted from 0; of a CSV Spark does not tell the row.
    row = found["row"] + 1 if "row" in found else _row_of(file, column, found["text"])
    got = "none" if found["text"] is None else repr(found["text"][:40])
    raise InputError(
        f"{file}, row {row}, column {column}: expected a time, got {got}; mend or remove the row, "
        "or say with --format how it is written"
    )


def _row_of(file: Path, column: str, text: str | None) -> int:
    """Return the first row of a CSV file, its header being row 1, that holds this text."""
    with file.open(encoding="utf-8", newline="") as lines:
        for number, record in enumerate(csv.DictReader(lines), start=2):
            if (record[column] or None) == text:
                return number
    raise InputError(f"{file} has changed while it was read; try again")
