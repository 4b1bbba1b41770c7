"""Works samples up day by day: a task of Spark reads files, computes with arrays, and writes one.

Days are independent but for the margins of their neighbours, so nothing is moved between tasks, and
a task holds the samples of three days of one application. Consecutive days go together, for each
file to be read about once; an application is as many tasks as it has such runs of days.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from weir_pipelines.frames import with_neighbours
from weir_pipelines.samples import DayFunction, Samples, cut_day, read_samples
from weir_pipelines.schemas import SAMPLES, SERIES, Table
from weir_pipelines.settings import ArrivalSettings
from weir_pipelines.store import Partition, Store

MOST_DAYS = 7
"""Consecutive days that a task works up. With more, two files that are read twice count for less;
with fewer, there is more to share among cores."""
TASKS_PER_CORE = 4
"""Tasks of a core, where there are days enough: with fewer, cores wait long for the last to end."""


@dataclass(frozen=True, kw_only=True, slots=True)
class DayJob:
    """How the days of one table come about."""

    store: Store
    table: Table
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
