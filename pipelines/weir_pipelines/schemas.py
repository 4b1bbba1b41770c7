"""The tables between the jobs: names, versions and columns, declared once for every reader.

Every table is partitioned by `app` (the StreamApp as its series' label `weir_app` has it) and `day`
(UTC). A change that an old reader would misunderstand takes a new version, which is part of the
path; so two versions can stand side by side. Knows no Spark: types are those of Spark's DDL.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class Column:
    """One column of a table."""

    name: str
    type: str
    """In Spark's DDL: BIGINT, INT, DOUBLE, STRING, BOOLEAN, ARRAY<STRING>."""
    meaning: str
    nullable: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Table:
    """One table: `<root>/<name>/v<version>/app=<app>/day=<day>/<name>.parquet`."""

    name: str
    version: int
    meaning: str
    columns: tuple[Column, ...]
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


def _columns(**columns: tuple[str, str]) -> tuple[Column, ...]:
    """Return columns from `name=(type, meaning)`; a type that ends in `?` may be null."""
    return tuple(
        Column(
            name=name,
            type=kind.removesuffix("?"),
            meaning=meaning,
            nullable=kind.endswith("?"),
        )
        for name, (kind, meaning) in columns.items()
    )


SERIES = Table(
    name="series",
    version=1,
    meaning="What each series is: its labels, written once",
    columns=_columns(
        series=("BIGINT", "Hash of all the columns below and the app"),
        metric=("STRING", "Role of the series, see `metrics.py`"),
        operator=("STRING", "Operator; of a job without Weir's labels, its task"),
        pool=("STRING", "Node pool; empty where the job has none"),
        replica=("STRING", "TaskManager's resource id, or its host"),
        job_id=("STRING", "Run of the job: every rescale makes a new one"),
        attempt=("STRING", "Attempt of the task within the run"),
        task=("STRING", "Task, by name; empty at the job's own series"),
        function=("STRING", "Function inside a task; empty at the task's own series"),
        subtask=("STRING", "Index of the parallel task"),
    ),
    order=("series",),
)

SAMPLES = Table(
    name="samples",
    version=1,
    meaning="Samples of the series, as they were scraped",
    columns=_columns(
        series=("BIGINT", "Which series"),
        time_ms=("BIGINT", "Unix milliseconds at which it was scraped"),
        value=("DOUBLE", "What the reporter said; NaN is kept"),
        received_ms=(
            "BIGINT?",
            "Unix milliseconds at which a receiver took it in; null where nobody noted it",
        ),
    ),
    order=("series", "time_ms"),
)

ARRIVALS = Table(
    name="arrivals",
    version=1,
    meaning="Rates of each operator, minute by minute, and how far they can be trusted",
    columns=_columns(
        operator=("STRING", "Operator"),
        minute=("BIGINT", "Unix seconds at which the minute begins"),
        arrived=(
            "DOUBLE?",
            "Records/s that arrived, or would have if nothing had been blocked; null where unknown",
        ),
        taken=("DOUBLE?", "Records/s that it took in"),
        given=("DOUBLE?", "Records/s that it gave out"),
        backlog=("DOUBLE?", "Records pending at the source at the minute's end"),
        blocked=("DOUBLE?", "Share of time that its replicas were back-pressured, mean"),
        utilisation=("DOUBLE?", "Busy share of its replicas, mean"),
        replicas=("DOUBLE", "Replicas that ran, mean over the minute's covered time"),
        completeness=("DOUBLE", "Share of the minute that samples cover, over all replicas"),
        faults=("ARRAY<STRING>", "What was wrong, sorted; see `faults.py`"),
    ),
    order=("operator", "minute"),
)

TABLES: Mapping[str, Table] = {table.name: table for table in (SERIES, SAMPLES, ARRIVALS)}
"""All tables by name."""
