"""Imports series from Prometheus and files into the tables `series` and `samples`, day by day.

A series is identified by its role, its StreamApp and its labels; its number is a hash of them, so
that every export of the same series agrees. Series that no job uses are left out. A job that Weir
does not run has none of Weir's labels; its tasks count as operators.

OpenMetrics text is read line by line, as `promtool tsdb dump-openmetrics` writes it. Samples may
repeat, come late and go back in time, which the jobs must find, so the order is not checked.

Parquet from a remote-write receiver has a row per sample: `name` (text), `labels` (map of text to
text), `time_ms` (Unix milliseconds, integer), `value` (number), and, if the receiver noted it,
`received_ms`.

Days may have more samples than memory, in any order. So sorted *runs* are written for each
application's day whenever memory is full; in the end, the runs of a day are merged into its files,
a few rows of each at a time. Both sorts are stable, so the result does not depend on the memory
used.

Source: external merge sort (Knuth, The Art of Computer Programming 3, section 5.4).
"""

from __future__ import annotations

import hashlib
import heapq
import json
import shutil
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from itertools import islice
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from prometheus_client.parser import text_string_to_metric_families

from weir_pipelines.errors import InputError
from weir_pipelines.metrics import ROLES
from weir_pipelines.schemas import SAMPLES, SERIES, ParquetTable, SampleRow
from weir_pipelines.settings import DAY_MS
from weir_pipelines.store import Partition, Tables, write_parts

UNKNOWN = -1
"""Time of receipt if nobody noted it."""


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


class Ingester:
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
        """Return the applications' days with samples."""
        return tuple(sorted(self._days))

    def tables(self, partition: Partition) -> tuple[pa.Table, pa.Table]:
        """Return a partition's series and samples, sorted as their tables are."""
        day = self._days.get(partition, _Day())
        rows = [(number, *labels) for number, labels in sorted(day.labels.items())]
        series = pa.table(
            [pa.array(column) for column in zip(*rows, strict=True)]
            if rows
            else [pa.array([], field.type) for field in SERIES.schema],
            schema=SERIES.schema,
        )
        received = np.asarray(day.received, np.int64)
        known = pa.array(received, mask=received == UNKNOWN)
        columns = [
            pa.array(day.series, pa.int64()),
            pa.array(day.times, pa.int64()),
            pa.array(day.values, pa.float64()),
            known,
        ]
        samples = pa.table(columns, schema=SAMPLES.schema)
        return series, samples.sort_by([(name, "ascending") for name in SAMPLES.order])


def write_day(
    tables: Tables, partition: Partition, series: pa.Table, samples: Iterable[pa.Table]
) -> None:
    """Write a partition of both tables.

    Labels come first: samples without them could not be read, labels without samples are idle.

    Raises:
        StoreError: The file system refuses.
    """
    tables.write(SERIES, partition, [series])
    tables.write(SAMPLES, partition, samples)


def join_series(parts: Iterable[pa.Table]) -> pa.Table:
    """Return the table `series` of several parts of a day, each series once."""
    rows = {row["series"]: row for part in parts for row in part.to_pylist()}
    return pa.Table.from_pylist([rows[key] for key in sorted(rows)], schema=SERIES.schema)


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
    """Return the number of a series, the same for equal labels everywhere."""
    digest = hashlib.blake2b(json.dumps([app, *row]).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big", signed=True)


def day_of(time_ms: int) -> date:
    """Return the UTC day of a time in Unix milliseconds."""
    return datetime.fromtimestamp(time_ms // DAY_MS * 86_400, UTC).date()


def begin_of(day: date) -> float:
    """Return the Unix seconds at which a UTC day begins."""
    return datetime(day.year, day.month, day.day, tzinfo=UTC).timestamp()


_LATEST_MS = 253_402_300_799_000
"""The end of the year 9999, the last that a date has; milliseconds taken for seconds lie beyond."""
_LABELS = pa.map_(pa.string(), pa.string())
_COLUMNS = {
    "name": pa.string(),
    "labels": _LABELS,
    "time_ms": pa.int64(),
    "value": pa.float64(),
}


def read_openmetrics(file: Path) -> Iterator[Scraped]:
    """Yield the samples of a text file, one by one, in its order.

    Raises:
        InputError: The file cannot be read, or a line holds no sample with a time.
    """
    try:
        with file.open(encoding="utf-8-sig") as lines:  # editors put marks
            for number, line in enumerate(lines, start=1):
                if line.strip() and not line.startswith("#"):
                    yield _sample(file, number, line)
    except OSError as error:
        raise InputError(f"{file} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{file} is not text; give OpenMetrics or a .parquet file") from error


def _sample(file: Path, number: int, line: str) -> Scraped:
    try:
        [family] = text_string_to_metric_families(line)
        [sample] = family.samples
    except (ValueError, IndexError) as error:
        raise InputError(
            f'{file}, line {number}: expected a sample such as name{{label="x"}} 1 1700000000.5, '
            f"got {line.strip()[:60]!r}"
        ) from error
    if sample.timestamp is None:
        raise InputError(
            f"{file}, line {number}, column timestamp: expected Unix seconds, got none; write the "
            "file with its times, as promtool tsdb dump-openmetrics does"
        )
    # The parser is that of the older format, whose times are milliseconds, and has divided.
    milliseconds = float(sample.timestamp) * 1000 * 1000
    if not 0 <= milliseconds <= _LATEST_MS:  # nor is infinity, nor NaN
        raise InputError(
            f"{file}, line {number}, column timestamp: expected Unix seconds, "
            f"got {milliseconds / 1000:.15g}; divide milliseconds by 1000, which Prometheus' older "
            "text format has"
        )
    return Scraped(
        name=sample.name,
        labels=sample.labels,
        times_ms=[round(milliseconds)],
        values=[sample.value],
    )


def read_written_parquet(file: Path) -> Iterator[Scraped]:
    """Yield the samples of a Parquet file, one by one, in its order.

    Raises:
        InputError: The file cannot be read, or a column or a value is missing or of another type.
    """
    try:
        opened = pq.ParquetFile(file)
    except (OSError, pa.ArrowException) as error:
        raise InputError(f"{file}: expected a Parquet file, got {error}") from error
    with opened:
        present = opened.schema_arrow
        wanted = dict(_COLUMNS)
        if present.get_field_index("received_ms") >= 0:
            wanted["received_ms"] = pa.int64()
        for name, kind in wanted.items():
            index = present.get_field_index(name)
            if index < 0:
                raise InputError(f"{file}, column {name}: expected {kind}, got no such column")
            if present.field(index).type != kind:
                raise InputError(
                    f"{file}, column {name}: expected {kind}, got {present.field(index).type}"
                )
        row = 0
        for batch in opened.iter_batches(columns=list(wanted)):
            for record in batch.to_pylist():
                row += 1
                yield _record(file, row, record)


def _record(file: Path, row: int, record: dict[str, Any]) -> Scraped:  # Any: by column
    for name in _COLUMNS:
        if record[name] is None:
            raise InputError(f"{file}, row {row}, column {name}: expected a value, got none")
    received = record.get("received_ms")
    return Scraped(
        name=record["name"],
        labels=dict(record["labels"]),
        times_ms=[record["time_ms"]],
        values=[record["value"]],
        received_ms=[UNKNOWN if received is None else received],
    )


MAX_HELD = 1 << 20
"""Samples that are held before they are written out: some 100 MB while they are sorted."""
ROW_GROUP = 1 << 17
"""Samples that are written at once when runs are merged: some 30 MB as Python has them."""
READ_AT_ONCE = 1 << 13
"""Samples of one run that are held while runs are merged."""


class DayImport:
    """Takes in samples and writes the days that they are of.

    Args:
        folder: Where it sorts on disk; who made it removes it.
        app: The application that everything belongs to; `None` goes by the label `weir_app`.
        most_held: Samples from which on what is held is written out.
    """

    def __init__(self, folder: Path, app: str | None = None, *, most_held: int = MAX_HELD) -> None:
        self._folder = folder
        self._app = app
        self._most_held = most_held
        self._held = Ingester(app)
        self._runs: dict[Partition, list[Path]] = {}

    @property
    def held(self) -> int:
        """Return how many samples are in memory."""
        return self._held.held

    def take(self, scraped: Iterable[Scraped]) -> int:
        """Take in samples; return how many were of a series that history is made of."""
        taken = 0
        for each in scraped:
            taken += self._held.take([each])
            if self._held.held >= self._most_held:
                self._write_runs()
        return taken

    def write(self, tables: Tables, *, may_replace: bool = True) -> tuple[Partition, ...]:
        """Write the days with samples, complete; return them.

        Args:
            tables: Where they go.
            may_replace: Whether a day may be there with other samples.

        Raises:
            InputError: One is there, and may not; none was written.
            StoreError: The file system refuses.
        """
        self._write_runs()
        days = {each: self._merge_runs(each) for each in sorted(self._runs)}
        files = [
            (table, partition, pa.memory_map(_file_of(table, folder)).read_buffer())
            for partition, folder in days.items()
            for table in (SERIES, SAMPLES)  # as `write_day` does
        ]
        if not may_replace:
            for table, partition, content in files:
                tables.refuse_other(table, partition, content)
        for table, partition, content in files:
            tables.put(tables.path(table, partition), content)
        return tuple(days)

    def _write_runs(self) -> None:
        for partition in self._held.partitions:
            runs = self._runs.setdefault(partition, [])
            run = self._folder / partition.folder / str(len(runs))
            series, samples = self._held.tables(partition)
            _write_files(run, series, [samples])
            runs.append(run)
        self._held = Ingester(self._app)

    def _merge_runs(self, partition: Partition) -> Path:
        """Merge the runs of a day, delete them, and return the day's folder."""
        runs = self._runs[partition]
        folder = self._folder / partition.folder / "day"
        series = join_series(pq.read_table(_file_of(SERIES, run)) for run in runs)
        rows = [_read_rows(_file_of(SAMPLES, run)) for run in runs]
        _write_files(folder, series, map(_as_table, merge_rows(rows, at_once=ROW_GROUP)))
        for run in runs:
            shutil.rmtree(run)
        return folder


def _write_files(folder: Path, series: pa.Table, samples: Iterable[pa.Table]) -> None:
    folder.mkdir(parents=True)
    write_parts(_file_of(SERIES, folder), SERIES, [series])
    write_parts(_file_of(SAMPLES, folder), SAMPLES, samples)


def _file_of(table: ParquetTable, folder: Path) -> str:
    return str(folder / f"{table.name}.parquet")


def merge_rows(runs: Sequence[Iterable[SampleRow]], *, at_once: int) -> Iterator[list[SampleRow]]:
    """Yield the rows of sorted runs in the order of the table, so many at once.

    Rows of one series at one time stay in the order of their runs. Of each run, one row that was
    not yielded is held.
    """
    merged = heapq.merge(*runs, key=itemgetter(0, 1))  # series, time
    while rows := list(islice(merged, at_once)):
        yield rows


def _read_rows(file: str) -> Iterator[SampleRow]:
    with pq.ParquetFile(file) as opened:
        for batch in opened.iter_batches(batch_size=READ_AT_ONCE):
            yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)


def _as_table(rows: Sequence[SampleRow]) -> pa.Table:
    schema = SAMPLES.schema
    columns = zip(*rows, strict=True)
    return pa.table(
        [pa.array(column, each.type) for column, each in zip(columns, schema, strict=True)],
        schema=schema,
    )
