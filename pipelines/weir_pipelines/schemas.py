"""The tables between the jobs: names, versions and columns, declared once for every reader.

Every table is partitioned by `app` (the StreamApp as its series' label `weir_app` has it) and `day`
(UTC). A change that an old reader would misunderstand takes a new version, which is part of the
path; so two versions can stand side by side. Knows no Spark: types are Arrow's.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class ParquetTable:
    """One table: `<root>/<name>/v<version>/app=<app>/day=<day>/<name>.parquet`."""

    name: str
    schema: pa.Schema
    """The columns, without those of the partition."""
    order: tuple[str, ...]
    """Columns that rows of a partition are sorted by, so that equal rows make equal files."""
    version: int = 1


def _columns(**columns: str) -> pa.Schema:
    """Return columns from `name=type` in Arrow's words; a type that ends in `?` may be null."""
    words = {"words": pa.list_(pa.string())}
    return pa.schema(
        pa.field(name, words.get(kind) or pa.type_for_alias(kind.rstrip("?")), kind.endswith("?"))
        for name, kind in columns.items()
    )


# What each series is: its labels, written once.
SERIES = ParquetTable(
    name="series",
    schema=_columns(
        series="int64",  # Hash of all the columns below and the app
        metric="string",  # Role of the series, see `metrics.py`
        operator="string",  # Operator; of a job without Weir's labels, its task
        pool="string",  # Node pool; empty where the job has none
        replica="string",  # TaskManager's resource id, or its host
        job_id="string",  # Run of the job: every rescale makes a new one
        attempt="string",  # Attempt of the task within the run
        task="string",  # Task, by name; empty at the job's own series
        function="string",  # Function inside a task; empty at the task's own series
        subtask="string",  # Index of the parallel task
    ),
    order=("series",),
)

# Samples of the series, as they were scraped.
SAMPLES = ParquetTable(
    name="samples",
    schema=_columns(
        series="int64",  # Which series
        time_ms="int64",  # Unix milliseconds at which it was scraped
        value="double",  # What the reporter said; NaN is kept
        received_ms="int64?",  # Unix milliseconds of its receipt; null where nobody noted it
    ),
    order=("series", "time_ms"),
)

SampleRow = tuple[int, int, float, int | None]
"""A row of `samples`: series, Unix milliseconds, value, Unix milliseconds of the receipt."""

# Rates of each operator, minute by minute, and how far they can be trusted.
ARRIVALS = ParquetTable(
    name="arrivals",
    schema=_columns(
        operator="string",  # Operator
        minute="int64",  # Unix seconds at which the minute begins
        arrived="double?",  # Records/s that arrived or would have, if nothing had been blocked
        taken="double?",  # Records/s that it took in
        given="double?",  # Records/s that it gave out
        backlog="double?",  # Records pending at the source at the minute's end
        blocked="double?",  # Share of time that its replicas were back-pressured, mean
        utilisation="double?",  # Busy share of its replicas, mean
        replicas="double",  # Replicas that ran, mean over the minute's covered time
        completeness="double",  # Share of the minute that samples cover, over all replicas
        faults="words",  # What was wrong, sorted; see `faults.py`
    ),
    order=("operator", "minute"),
)

# What each operator's replicas in a pool did, minute by minute.
WORK = ParquetTable(
    name="work",
    schema=_columns(
        operator="string",  # Operator
        pool="string",  # Node pool
        minute="int64",  # Unix seconds at which the minute begins
        replicas="double",  # Replicas that were sampled
        records="double",  # Records that were served
        seconds="double",  # Seconds that they took together
        squares="double?",  # Sum of their squares, s^2; null where only busy time is known
        utilisation="double?",  # Busy share of the busiest replica
        source="string",  # helper, or busyTime
        sink_records="double?",  # Records whose latency was noted here; null where none is
        sink_seconds="double?",  # Their latencies together, s
    ),
    order=("operator", "pool", "minute"),
)

# What is wrong with an operator's day.
QUALITY = ParquetTable(
    name="quality",
    schema=_columns(
        operator="string",  # Operator
        problem="string",  # A fault of the minutes, or what cannot be; see `quality.py`
        minutes="int64",  # How many minutes
        first="int64",  # Unix seconds of the first
        last="int64",  # Unix seconds of the last
    ),
    order=("operator", "problem"),
)

# What usually arrives at an hour of the week, as of the days up to this one.
PROFILES = ParquetTable(
    name="profiles",
    schema=_columns(
        operator="string",  # Operator
        hour="int32",  # Hour of the week, UTC: 0 is Monday from 0 to 1 o'clock
        days="int64",  # How many days it is made of
        low="double",  # Tenth percentile of the hours' means, records/s
        usual="double",  # Median
        high="double",  # Ninetieth percentile
    ),
    order=("operator", "hour"),
)

# How a day's level compares with what was usual before it.
REGIMES = ParquetTable(
    name="regimes",
    schema=_columns(
        operator="string",  # Operator
        hours="int64",  # Hours that could be compared
        factor="double",  # Median ratio of an hour's rate to the usual one
        low="double",  # Lower end of its 95 % interval
        high="double",  # Upper end
        changed="bool",  # Whether that is surely another level
    ),
    order=("operator",),
)

TABLES: Mapping[str, ParquetTable] = {
    table.name: table for table in (SERIES, SAMPLES, ARRIVALS, WORK, QUALITY, PROFILES, REGIMES)
}
"""All tables by name."""
