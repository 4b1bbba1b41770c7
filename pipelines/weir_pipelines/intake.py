"""From series as others write them to the tables `series` and `samples`, a day at a time.

Whatever the source, a series is known by its role, its StreamApp and its labels; its number is a
hash of them, so that every export of the same series agrees. Series that history is not made of are
left out. A job that Weir does not run has no labels of Weir's: its tasks stand for operators.
"""

from __future__ import annotations

import hashlib
import json
from array import array
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from weir_pipelines.metrics import ROLES
from weir_pipelines.schemas import SAMPLES, SERIES, Table
from weir_pipelines.settings import DAY_MS
from weir_pipelines.store import Partition, Store, arrow_schema

UNKNOWN = -1
"""Receipt of which nobody noted the time."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Scraped:
    """Some samples of one series, as a source gives them."""

    name: str
    labels: Mapping[str, str]
    times_ms: Sequence[int]
    values: Sequence[float]
    received_ms: Sequence[int] = ()
    """As many as samples, or none where nobody noted it; `UNKNOWN` where one was not."""


@dataclass(slots=True)
class _Day:
    """What was taken in of one application's day."""

    series: array[int] = field(default_factory=lambda: array("q"))
    times: array[int] = field(default_factory=lambda: array("q"))
    values: array[float] = field(default_factory=lambda: array("d"))
    received: array[int] = field(default_factory=lambda: array("q"))
    labels: dict[int, tuple[str, ...]] = field(default_factory=dict)


class Intake:
    """Collects samples by application and day, in memory.

    Args:
        app: The application that everything belongs to; `None` goes by the label `weir_app`.
    """

    def __init__(self, app: str | None = None) -> None:
        self._app = app
        self._days: dict[Partition, _Day] = {}
        self.held = 0
        """How many samples are in memory."""

    def take(self, scraped: Iterable[Scraped]) -> int:
        """Take in samples; return how many were of a series that history is made of."""
        taken = 0
        for each in scraped:
            app = self._app or each.labels.get("weir_app", "")
            row = describe(each.name, each.labels)
            if row is None or not app:
                continue
            number = number_of(app, row)
            received = each.received_ms or [UNKNOWN] * len(each.times_ms)
            for time, value, receipt in zip(each.times_ms, each.values, received, strict=True):
                day = self._days.setdefault(Partition(app, day_of(time)), _Day())
                day.series.append(number)
                day.times.append(time)
                day.values.append(value)
                day.received.append(receipt)
                day.labels[number] = row
            taken += len(each.times_ms)
        self.held += taken
        return taken

    @property
    def partitions(self) -> tuple[Partition, ...]:
        """Return the applications' days of which there is something."""
        return tuple(sorted(self._days))

    def tables(self, partition: Partition) -> tuple[pa.Table, pa.Table]:
        """Return a partition's series and samples, sorted as their tables are."""
        day = self._days.get(partition, _Day())
        rows = [(number, *labels) for number, labels in sorted(day.labels.items())]
        series = pa.table(
            [pa.array(column) for column in zip(*rows, strict=True)]
            if rows
            else [pa.array([], field.type) for field in arrow_schema(SERIES)],
            schema=arrow_schema(SERIES),
        )
        received = np.asarray(day.received, np.int64)
        known = pa.array(received, mask=received == UNKNOWN)
        columns = [
            pa.array(day.series, pa.int64()),
            pa.array(day.times, pa.int64()),
            pa.array(day.values, pa.float64()),
            known,
        ]
        samples = pa.table(columns, schema=arrow_schema(SAMPLES))
        return series, samples.sort_by([(name, "ascending") for name in SAMPLES.order])


def write_day(folder: Path, series: pa.Table, samples: Iterable[pa.Table]) -> None:
    """Write a partition of both tables into a folder, which is made."""
    folder.mkdir(parents=True)
    pq.write_table(series, day_file(SERIES, folder), compression="zstd")
    with pq.ParquetWriter(
        day_file(SAMPLES, folder), arrow_schema(SAMPLES), compression="zstd"
    ) as writer:
        for part in samples:
            writer.write_table(part)


def place_day(store: Store, partition: Partition, folder: Path) -> None:
    """Move what `write_day` wrote into its places.

    Labels come first: samples without them could not be read, labels without samples are idle.

    Raises:
        StoreError: The file system refuses.
    """
    for table in (SERIES, SAMPLES):
        store.place(table, partition, day_file(table, folder))


def day_file(table: Table, folder: Path) -> Path:
    """Return where `write_day` puts a table's part of a partition."""
    return folder / f"{table.name}.parquet"


def join_series(parts: Iterable[pa.Table]) -> pa.Table:
    """Return the table `series` of several parts of a day, each series once."""
    rows = {row["series"]: row for part in parts for row in part.to_pylist()}
    return pa.Table.from_pylist([rows[key] for key in sorted(rows)], schema=arrow_schema(SERIES))


def describe(name: str, labels: Mapping[str, str]) -> tuple[str, ...] | None:
    """Return a series' row of the table `series`, without its number; `None` if it is no history's.

    Labels are Flink's and Weir's.
    """
    role = ROLES.get(name)
    if role is None:
        return None
    task = labels.get("task_name") or labels.get("task_id", "")
    return (
        role,
        labels.get("weir_operator") or task,
        labels.get("weir_pool", ""),
        labels.get("tm_id") or labels.get("host", ""),
        labels.get("job_id", ""),
        labels.get("task_attempt_num", ""),
        task,
        labels.get("operator_name") or labels.get("operator_id", ""),
        labels.get("subtask_index", "0"),
    )


def number_of(app: str, row: Sequence[str]) -> int:
    """Return the number of a series, the same for equal labels wherever it is computed."""
    digest = hashlib.blake2b(json.dumps([app, *row]).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big", signed=True)


def day_of(time_ms: int) -> date:
    """Return the UTC day of a time in Unix milliseconds."""
    return datetime.fromtimestamp(time_ms // DAY_MS * 86_400, UTC).date()


def begin_of(day: date) -> float:
    """Return the Unix seconds at which a UTC day begins."""
    return datetime(day.year, day.month, day.day, tzinfo=UTC).timestamp()
