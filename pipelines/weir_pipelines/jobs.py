"""The jobs: which tables each reads and writes, and the pure functions between them.

A job replaces whole days of applications, one partition each, and reads only tables. So jobs can
run alone, again, or for any days, in any order in which their inputs exist. Only this module
converts between tables and Spark's DataFrames.

All work is a DataFrame of applications and their days, a row per task. A task reads files, and
either gives its rows to Spark or, of samples, computes days with arrays and writes a file each.
Days are independent except for the margins of their neighbours, so no sample moves between tasks,
and a task holds the samples of three days of one application. Consecutive days form one task, so
that each file is read about once.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow.fs import FileInfo
from pyspark.errors import PythonException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from weir_pipelines import errors, quality, seasonality
from weir_pipelines.arrivals import rebuild_arrivals
from weir_pipelines.samples import DayFunction, Samples, as_samples, cut_day
from weir_pipelines.schemas import (
    ARRIVALS,
    PROFILES,
    QUALITY,
    REGIMES,
    SAMPLES,
    SERIES,
    WORK,
    ParquetTable,
)
from weir_pipelines.store import Partition, Tables, encode
from weir_pipelines.work import measure_work

_WRITTEN = "app STRING, day DATE, rows BIGINT"
_WRITTEN_ARROW = pa.schema([("app", pa.string()), ("day", pa.date32()), ("rows", pa.int64())])
"""What tasks say of the partitions that they wrote."""


def read_table(
    session: SparkSession,
    tables: Tables,
    table: ParquetTable,
    partitions: Iterable[Partition],
    columns: Sequence[str],
) -> DataFrame:
    """Return some columns of those of the partitions that are there, with `app` and `day`.

    Raises:
        InputError: A file has other columns than the table.
    """
    wanted = {*partitions}
    files = {each: info for each, info in tables.partitions(table).items() if each in wanted}
    rows = session.createDataFrame([], spark_schema(table)).select(*columns, "app", "day")
    if not files:
        return rows
    tables.check(table, files)

    def read(work: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for partition in (each for run in _runs(work) for each in run):
            found = tables.read(table, partition, columns)
            for name in ("app", "day"):
                value = pa.repeat(getattr(partition, name), found.num_rows)
                found = found.append_column(name, value)
            yield from found.to_batches()

    return _plan_work(session, files).mapInArrow(read, rows.schema)


def spark_schema(table: ParquetTable) -> StructType:
    """Return a table's columns, `app` and `day`, as Spark knows them."""
    key = [pa.field("app", pa.string()), pa.field("day", pa.date32())]
    return from_arrow_schema(pa.schema([*table.schema, *key]))


def write_table(
    tables: Tables, table: ParquetTable, rows: DataFrame, *, replaced: Iterable[Partition] = ()
) -> tuple[Partition, ...]:
    """Replace the partitions that the rows belong to, each at once; return those that have rows.

    Args:
        tables: Where the table is.
        table: Which one.
        rows: Its columns, `app` and `day`.
        replaced: Partitions that become empty where no row belongs to them.

    Raises:
        StoreError: The file system refuses.
    """

    def write(rows: pa.Table) -> pa.Table:
        [partition], [content] = zip(*_encode_days(table, rows), strict=True)
        tables.put(tables.path(table, partition), content)
        return pa.Table.from_batches([_written(partition, rows.num_rows)])

    written = _collect(rows.groupBy("app", "day").applyInArrow(write, _WRITTEN))
    for partition in sorted({*replaced} - {*written}):
        tables.write(table, partition, [])
    return written


def write_log(tables: Tables, rows: DataFrame, *, may_replace: bool) -> tuple[Partition, ...]:
    """Write the arrivals of a log of events, so few rows that one process holds them.

    Raises:
        InputError: A partition is there with other rows, and may not; none was written.
        StoreError: The file system refuses.
    """
    days = dict(_encode_days(ARRIVALS, rows.toArrow()))
    if not may_replace:
        for partition, content in days.items():
            tables.refuse_other(ARRIVALS, partition, content)
    for partition, content in days.items():
        tables.put(tables.path(ARRIVALS, partition), content)
    return tuple(days)


def _encode_days(table: ParquetTable, rows: pa.Table) -> Iterator[tuple[Partition, pa.Buffer]]:
    """Yield the file of each partition that rows belong to, in order."""
    keys = rows.select(["app", "day"]).group_by(["app", "day"]).aggregate([]).to_pylist()
    for partition in sorted(Partition(**key) for key in keys):
        chosen = (pc.field("app") == partition.app) & (pc.field("day") == partition.day)
        own = rows.filter(chosen).select(table.schema.names).cast(table.schema)
        yield partition, encode(table, [own.sort_by([(name, "ascending") for name in table.order])])


def with_neighbours(partitions: Iterable[Partition]) -> tuple[Partition, ...]:
    """Return the partitions and the days before and after each."""
    return tuple(near for each in partitions for near in (each, *each.neighbours))


MOST_DAYS = 7
"""Consecutive days that a task works up. With more, two files that are read twice count for less;
with fewer, there is more to share among cores."""
TASKS_PER_CORE = 4
"""Tasks of a core, where there are days enough: with fewer, cores wait long for the last to end."""


def _plan_work(session: SparkSession, files: Mapping[Partition, FileInfo | None]) -> DataFrame:
    """Return `app` and `days` of each task, the largest first: the others fill the gaps."""
    context = session.sparkContext
    wanted = TASKS_PER_CORE * context.defaultParallelism
    runs = split_runs(files, most=max(1, min(MOST_DAYS, len(files) // wanted)))
    sizes = {each: 0 if info is None else info.size for each, info in files.items()}
    runs.sort(key=lambda run: sum(sizes[each] for each in run), reverse=True)
    rows = [(run[0].app, [each.day for each in run]) for run in runs]
    work = context.parallelize(rows, len(rows))
    return session.createDataFrame(work, "app STRING, days ARRAY<DATE>")


def split_runs(partitions: Iterable[Partition], *, most: int) -> list[tuple[Partition, ...]]:
    """Return runs of consecutive days of one application, of so many days at most."""
    runs: list[list[Partition]] = []
    for each in sorted(set(partitions)):
        before = Partition(each.app, each.day - timedelta(days=1))
        if runs and runs[-1][-1] == before and len(runs[-1]) < most:
            runs[-1].append(each)
        else:
            runs.append([each])
    return [tuple(run) for run in runs]


def _runs(work: Iterator[pa.RecordBatch]) -> Iterator[list[Partition]]:
    """Yield the partitions of each row of work."""
    for batch in work:
        for row in batch.to_pylist():
            yield [Partition(row["app"], day) for day in row["days"]]


def _written(partition: Partition, rows: int) -> pa.RecordBatch:
    row = {"app": partition.app, "day": partition.day, "rows": rows}
    return pa.RecordBatch.from_pylist([row], schema=_WRITTEN_ARROW)


def _collect(written: DataFrame) -> tuple[Partition, ...]:
    """Have partitions written; return those that have rows."""
    try:
        rows = written.where("rows > 0").collect()
    except PythonException as error:
        # What a task refuses is raised as the same error: Spark returns its traceback's text.
        refused = re.search(rf"^{errors.__name__}\.(\w+): (.+)$", str(error), re.MULTILINE)
        if refused is None:
            raise
        raise getattr(errors, refused[1])(refused[2]) from error
    return tuple(sorted(Partition(row["app"], row["day"]) for row in rows))


@dataclass(frozen=True, kw_only=True, slots=True)
class Work:
    """Everything that a job needs."""

    session: SparkSession
    tables: Tables
    partitions: Sequence[Partition]
    """Which days of which applications to work out."""

    def work_out(self, table: ParquetTable, rebuild: DayFunction) -> tuple[Partition, ...]:
        """Replace the partitions that are worked out by what a function makes of the samples.

        A day of which there are no rows becomes empty: what was known of it no longer holds.

        Raises:
            InputError: A file has other columns than its table.
            StoreError: The file system refuses.
        """
        tables = self.tables
        around = {*with_neighbours(self.partitions)}
        for each in (SAMPLES, SERIES):
            tables.check(each, around)  # refused here by name, and not inside a task

        def work_out(work: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for run in _runs(work):
                held: dict[date, Samples] = {}
                for partition in run:
                    near = with_neighbours([partition])
                    held = {
                        each.day: held[each.day]
                        if each.day in held
                        else as_samples(tables.read(SAMPLES, each))
                        for each in near
                    }
                    samples = cut_day(list(held.values()), partition.day)
                    labels = pa.concat_tables(tables.read(SERIES, each) for each in near)
                    rows = rebuild(samples, labels, partition.day)
                    tables.write(table, partition, [rows])
                    yield _written(partition, rows.num_rows)

        files = tables.partitions(SAMPLES)
        planned = _plan_work(self.session, {each: files.get(each) for each in self.partitions})
        return _collect(planned.mapInArrow(work_out, _WRITTEN))


def run_arrivals(work: Work) -> tuple[Partition, ...]:
    """Samples to arrival rates."""
    return work.work_out(ARRIVALS, rebuild_arrivals)


def run_service(work: Work) -> tuple[Partition, ...]:
    """Samples to records served and the time that they took."""
    return work.work_out(WORK, measure_work)


def run_quality(work: Work) -> tuple[Partition, ...]:
    """Arrival rates to what is wrong with them."""
    own = work.partitions
    arrivals = read_table(work.session, work.tables, ARRIVALS, own, quality.NEEDS)
    return write_table(work.tables, QUALITY, quality.find_problems(arrivals), replaced=own)


def run_seasonality(work: Work) -> tuple[Partition, ...]:
    """Arrival rates of weeks to profiles and regime changes."""
    weeks = [
        Partition(each.app, each.day - timedelta(days=age))
        for each in work.partitions
        for age in range(7 * seasonality.WEEKS)
    ]
    arrivals = read_table(work.session, work.tables, ARRIVALS, weeks, seasonality.NEEDS)
    hours = seasonality.average_hours(arrivals)
    days = [(each.app, each.day) for each in work.partitions]
    as_of = F.broadcast(work.session.createDataFrame(days, "app STRING, day DATE"))
    regimes = seasonality.find_regimes(hours, as_of)
    write_table(work.tables, REGIMES, regimes, replaced=work.partitions)
    profiles = seasonality.profile_hours(hours, as_of)
    return write_table(work.tables, PROFILES, profiles, replaced=work.partitions)


@dataclass(frozen=True, kw_only=True, slots=True)
class BatchJob:
    """One job."""

    run: Callable[[Work], tuple[Partition, ...]]
    needs: ParquetTable
    """The table whose days it works out."""


JOBS: Mapping[str, BatchJob] = {
    "arrivals": BatchJob(run=run_arrivals, needs=SAMPLES),
    "service": BatchJob(run=run_service, needs=SAMPLES),
    "quality": BatchJob(run=run_quality, needs=ARRIVALS),
    "seasonality": BatchJob(run=run_seasonality, needs=ARRIVALS),
}
"""The jobs by name, in the order in which a day goes through them."""
