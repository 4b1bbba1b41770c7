"""The jobs: which tables each reads and writes, and the pure functions between them.

A job replaces whole days of applications, one partition each, and reads only tables. So jobs can
run alone, again, or for any days, in any order in which their inputs exist. Only this module
converts between tables and Spark's DataFrames.

Samples are processed day by day: a task of Spark reads files, computes with arrays, and writes one.
Days are independent except for the margins of their neighbours, so no data moves between tasks, and
a task holds the samples of three days of one application. Consecutive days form one task, so that
each file is read about once.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from weir_pipelines.arrivals import rebuild_arrivals
from weir_pipelines.quality import find_problems
from weir_pipelines.samples import DayFunction, Samples, cut_day, read_samples
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
from weir_pipelines.seasonality import WEEKS, average_hours, find_regimes, profile_hours
from weir_pipelines.settings import ArrivalSettings
from weir_pipelines.store import Partition, Store, arrow_schema
from weir_pipelines.work import measure_work


def read_table(
    session: SparkSession, store: Store, table: ParquetTable, partitions: Iterable[Partition]
) -> DataFrame:
    """Return the rows of those of the partitions that are there, with `app` and `day`.

    Raises:
        InputError: A file has other columns than the table.
    """
    paths = [str(path) for path in store.paths(table, partitions)]
    if not paths:
        return session.createDataFrame([], table.ddl)
    reader = session.read.schema(table.ddl).option("basePath", str(store.folder(table)))
    return reader.parquet(*paths)


def write_table(
    store: Store,
    table: ParquetTable,
    rows: DataFrame,
    *,
    replaced: Iterable[Partition] = (),
    may_replace: bool = True,
) -> tuple[Partition, ...]:
    """Replace the partitions that the rows belong to, each at once; return those that have rows.

    Args:
        store: Where the table is.
        table: Which one.
        rows: Its columns, `app` and `day`.
        replaced: Partitions that become empty where no row belongs to them, so that none keeps the
            rows of an earlier run.
        may_replace: Whether a partition may be there with other rows.

    Raises:
        InputError: A partition is there with other rows, and may not.
        StoreError: The file system refuses.
    """
    columns = [F.col(each.name).cast(each.type).alias(each.name) for each in table.columns]
    with store.staging() as folder:
        (
            # One task writes a partition, so that it is one file.
            rows.select(*columns, "app", "day")
            .repartition("app", "day")
            .sortWithinPartitions("app", "day", *table.order)
            .write.partitionBy("app", "day")
            .parquet(str(folder))
        )
        written = store.commit(table, folder, may_replace=may_replace)
        for partition in sorted({*replaced} - {*written}):
            empty = folder / "empty.parquet"
            pq.write_table(arrow_schema(table).empty_table(), empty)
            store.place(table, partition, empty)
    return written


def with_neighbours(partitions: Iterable[Partition]) -> tuple[Partition, ...]:
    """Return the partitions and the days before and after each."""
    return tuple(near for each in partitions for near in (each, *each.neighbours))


def keep_partitions(rows: DataFrame, partitions: Iterable[Partition]) -> DataFrame:
    """Drop the rows of other partitions, such as those of neighbours."""
    wanted = [(each.app, each.day) for each in partitions]
    session = rows.sparkSession
    known = session.createDataFrame(wanted, "app STRING, day DATE").distinct()
    return rows.join(F.broadcast(known), ["app", "day"], "left_semi")


MOST_DAYS = 7
"""Consecutive days that a task works up. With more, two files that are read twice count for less;
with fewer, there is more to share among cores."""
TASKS_PER_CORE = 4
"""Tasks of a core, where there are days enough: with fewer, cores wait long for the last to end."""


@dataclass(frozen=True, kw_only=True, slots=True)
class DayJob:
    """How the days of one table are computed."""

    store: Store
    table: ParquetTable
    rebuild: DayFunction
    settings: ArrivalSettings


def work_out_days(
    session: SparkSession, job: DayJob, partitions: Sequence[Partition]
) -> tuple[Partition, ...]:
    """Replace days of applications, each at once; return those that have rows.

    A day of which there are no rows becomes empty: what was known of it no longer holds.

    Raises:
        InputError: A file has other columns than its table.
        StoreError: The file system refuses.
    """
    around = with_neighbours(partitions)
    for table in (SAMPLES, SERIES):
        job.store.paths(table, around)  # refused here by name, and not inside a task
    context = session.sparkContext
    wanted = TASKS_PER_CORE * context.defaultParallelism
    runs = split_runs(partitions, most=max(1, min(MOST_DAYS, len(partitions) // wanted)))
    # The longest ones first: the others fill the gaps at the end.
    runs.sort(key=lambda run: _size(job.store, run), reverse=True)
    with job.store.staging() as folder:
        work = partial(_work_out_run, job, folder)
        counts = context.parallelize(runs, len(runs)).flatMap(work).collect()
        job.store.commit(job.table, folder)
    return tuple(sorted(partition for partition, rows in counts if rows))


def split_runs(partitions: Sequence[Partition], *, most: int) -> list[tuple[Partition, ...]]:
    """Return runs of consecutive days of one application, of so many days at most."""
    runs: list[list[Partition]] = []
    for each in sorted(set(partitions)):
        before = Partition(each.app, each.day - timedelta(days=1))
        if runs and runs[-1][-1] == before and len(runs[-1]) < most:
            runs[-1].append(each)
        else:
            runs.append([each])
    return [tuple(run) for run in runs]


def _size(store: Store, run: Sequence[Partition]) -> int:
    """Return the bytes of the samples of some days."""
    files = (store.path(SAMPLES, each) for each in run)
    return sum(file.stat().st_size for file in files if file.exists())


def _work_out_run(
    job: DayJob, folder: Path, run: Sequence[Partition]
) -> Iterator[tuple[Partition, int]]:
    """Work out consecutive days into a staging folder; yield how many rows each has."""
    held: dict[date, Samples] = {}
    for partition in run:
        around = with_neighbours([partition])
        files = {
            each.day: job.store.path(SAMPLES, each)
            for each in around
            if job.store.path(SAMPLES, each).exists()
        }
        held = {
            day: held[day] if day in held else read_samples(file, job.settings)
            for day, file in files.items()
        }
        samples = cut_day(list(held.values()), partition.day, job.settings)
        rows = job.rebuild(samples, _read_labels(job.store, around), partition.day, job.settings)
        _write(rows, folder / partition.folder)
        yield partition, rows.num_rows


def _read_labels(store: Store, partitions: Sequence[Partition]) -> pa.Table:
    files = (store.path(SERIES, each) for each in partitions)
    found = [pq.ParquetFile(file).read(list(SERIES.names)) for file in files if file.exists()]
    return pa.concat_tables(found)


def _write(rows: pa.Table, folder: Path) -> None:
    """Write a partition's file in one step: a task that is repeated must not leave two."""
    folder.mkdir(parents=True, exist_ok=True)
    part = folder / f".{uuid.uuid4().hex}"
    pq.write_table(rows, part, compression="zstd")
    os.replace(part, folder / "part.parquet")


@dataclass(frozen=True, kw_only=True, slots=True)
class Work:
    """Everything that a job needs."""

    session: SparkSession
    store: Store
    partitions: Sequence[Partition]
    """Which days of which applications to work out."""
    settings: ArrivalSettings

    def read(self, table: ParquetTable, partitions: Sequence[Partition] | None = None) -> DataFrame:
        """Return the rows of some partitions, by default those that are worked out."""
        wanted = self.partitions if partitions is None else partitions
        return read_table(self.session, self.store, table, wanted)

    def write(self, table: ParquetTable, rows: DataFrame) -> tuple[Partition, ...]:
        """Replace the partitions that are worked out by these rows; drop those of others.

        A day of which there are no rows becomes empty: what was known of it no longer holds.
        """
        own = keep_partitions(rows, self.partitions)
        return write_table(self.store, table, own, replaced=self.partitions)

    def work_out(self, table: ParquetTable, rebuild: DayFunction) -> tuple[Partition, ...]:
        """Replace the partitions that are worked out by what a function makes of the samples."""
        job = DayJob(store=self.store, table=table, rebuild=rebuild, settings=self.settings)
        return work_out_days(self.session, job, self.partitions)


def run_arrivals(work: Work) -> tuple[Partition, ...]:
    """Samples to arrival rates."""
    return work.work_out(ARRIVALS, rebuild_arrivals)


def run_service(work: Work) -> tuple[Partition, ...]:
    """Samples to records served and the time that they took."""
    return work.work_out(WORK, measure_work)


def run_quality(work: Work) -> tuple[Partition, ...]:
    """Arrival rates to what is wrong with them."""
    return work.write(QUALITY, find_problems(work.read(ARRIVALS)))


def run_seasonality(work: Work) -> tuple[Partition, ...]:
    """Arrival rates of weeks to profiles and regime changes."""
    weeks = [
        Partition(each.app, each.day - timedelta(days=age))
        for each in work.partitions
        for age in range(7 * WEEKS)
    ]
    hours = average_hours(work.read(ARRIVALS, weeks))
    as_of = work.session.createDataFrame(
        [(each.app, each.day) for each in work.partitions], "app STRING, day DATE"
    )
    work.write(REGIMES, find_regimes(hours, F.broadcast(as_of)))
    return work.write(PROFILES, profile_hours(hours, F.broadcast(as_of)))


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
