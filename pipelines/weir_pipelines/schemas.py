"""The tables between the jobs: names, versions and columns, declared once for every reader.

Every table is partitioned by `app` (the StreamApp as its series' label `weir_app` has it) and `day`
(UTC). A change that an old reader would misunderstand takes a new version, which is part of the
path; so two versions can stand side by side. Knows no Spark: types are those of Spark's DDL.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class ParquetColumn:
    """One column of a table."""

    name: str
    type: str
    """In Spark's DDL: BIGINT, INT, DOUBLE, STRING, BOOLEAN, ARRAY<STRING>."""
    nullable: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class ParquetTable:
    """One table: `<root>/<name>/v<version>/app=<app>/day=<day>/<name>.parquet`."""

    name: str
    version: int
    columns: tuple[ParquetColumn, ...]
    order: tuple[str, ...]
    """Columns that rows of a partition are sorted by, so that equal rows make equal files."""

    @property
    def names(self) -> tuple[str, ...]:
        """Column names in order, without those of the partition."""
        return tuple(column.name for column in self.columns)

    @property
    def ddl(self) -> str:
        """The columns and those of the partition, as Spark's DDL."""
        columns = [f"{column.name} {column.type}" for column in self.columns]
        return ", ".join([*columns, "app STRING", "day DATE"])


def _columns(**columns: str) -> tuple[ParquetColumn, ...]:
    """Return columns from `name=type`; a type that ends in `?` may be null."""
    return tuple(
        ParquetColumn(name=name, type=kind.removesuffix("?"), nullable=kind.endswith("?"))
        for name, kind in columns.items()
    )


# What each series is: its labels, written once.
SERIES = ParquetTable(
    name="series",
    version=1,
    columns=_columns(
        series="BIGINT",  # Hash of all the columns below and the app
        metric="STRING",  # Role of the series, see `metrics.py`
        operator="STRING",  # Operator; of a job without Weir's labels, its task
        pool="STRING",  # Node pool; empty where the job has none
        replica="STRING",  # TaskManager's resource id, or its host
        job_id="STRING",  # Run of the job: every rescale makes a new one
        attempt="STRING",  # Attempt of the task within the run
        task="STRING",  # Task, by name; empty at the job's own series
        function="STRING",  # Function inside a task; empty at the task's own series
        subtask="STRING",  # Index of the parallel task
    ),
    order=("series",),
)

# Samples of the series, as they were scraped.
SAMPLES = ParquetTable(
    name="samples",
    version=1,
    columns=_columns(
        series="BIGINT",  # Which series
        time_ms="BIGINT",  # Unix milliseconds at which it was scraped
        value="DOUBLE",  # What the reporter said; NaN is kept
        received_ms="BIGINT?",  # Unix milliseconds of its receipt; null where nobody noted it
    ),
    order=("series", "time_ms"),
)

SampleRow = tuple[int, int, float, int | None]
"""A row of `samples`: series, Unix milliseconds, value, Unix milliseconds of the receipt."""

# Rates of each operator, minute by minute, and how far they can be trusted.
ARRIVALS = ParquetTable(
    name="arrivals",
    version=1,
    columns=_columns(
        operator="STRING",  # Operator
        minute="BIGINT",  # Unix seconds at which the minute begins
        arrived="DOUBLE?",  # Records/s that arrived or would have, if nothing had been blocked
        taken="DOUBLE?",  # Records/s that it took in
        given="DOUBLE?",  # Records/s that it gave out
        backlog="DOUBLE?",  # Records pending at the source at the minute's end
        blocked="DOUBLE?",  # Share of time that its replicas were back-pressured, mean
        utilisation="DOUBLE?",  # Busy share of its replicas, mean
        replicas="DOUBLE",  # Replicas that ran, mean over the minute's covered time
        completeness="DOUBLE",  # Share of the minute that samples cover, over all replicas
        faults="ARRAY<STRING>",  # What was wrong, sorted; see `faults.py`
    ),
    order=("operator", "minute"),
)

# What each operator's replicas in a pool did, minute by minute.
WORK = ParquetTable(
    name="work",
    version=1,
    columns=_columns(
        operator="STRING",  # Operator
        pool="STRING",  # Node pool
        minute="BIGINT",  # Unix seconds at which the minute begins
        replicas="DOUBLE",  # Replicas that were sampled
        records="DOUBLE",  # Records that were served
        seconds="DOUBLE",  # Seconds that they took together
        squares="DOUBLE?",  # Sum of their squares, s^2; null where only busy time is known
        utilisation="DOUBLE?",  # Busy share of the busiest replica
        source="STRING",  # helper, or busyTime
        sink_records="DOUBLE?",  # Records whose latency was noted here; null where none is
        sink_seconds="DOUBLE?",  # Their latencies together, s
    ),
    order=("operator", "pool", "minute"),
)

# What is wrong with an operator's day.
QUALITY = ParquetTable(
    name="quality",
    version=1,
    columns=_columns(
        operator="STRING",  # Operator
        problem="STRING",  # A fault of the minutes, or what cannot be; see `quality.py`
        minutes="BIGINT",  # How many minutes
        first="BIGINT",  # Unix seconds of the first
        last="BIGINT",  # Unix seconds of the last
    ),
    order=("operator", "problem"),
)

# What usually arrives at an hour of the week, as of the days up to this one.
PROFILES = ParquetTable(
    name="profiles",
    version=1,
    columns=_columns(
        operator="STRING",  # Operator
        hour="INT",  # Hour of the week, UTC: 0 is Monday from 0 to 1 o'clock
        days="BIGINT",  # How many days it is made of
        low="DOUBLE",  # Tenth percentile of the hours' means, records/s
        usual="DOUBLE",  # Median
        high="DOUBLE",  # Ninetieth percentile
    ),
    order=("operator", "hour"),
)

# How a day's level compares with what was usual before it.
REGIMES = ParquetTable(
    name="regimes",
    version=1,
    columns=_columns(
        operator="STRING",  # Operator
        hours="BIGINT",  # Hours that could be compared
        factor="DOUBLE",  # Median ratio of an hour's rate to the usual one
        low="DOUBLE",  # Lower end of its 95 % interval
        high="DOUBLE",  # Upper end
        changed="BOOLEAN",  # Whether that is surely another level
    ),
    order=("operator",),
)

TABLES: Mapping[str, ParquetTable] = {
    table.name: table for table in (SERIES, SAMPLES, ARRIVALS, WORK, QUALITY, PROFILES, REGIMES)
}
"""All tables by name."""
