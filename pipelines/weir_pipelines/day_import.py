"""Days out of more samples than memory holds, in whatever order their files have them.

What was taken in is written out as soon as it is much: for each application's day a *run*, sorted
as the table is. Once all is there, the runs of a day are merged into its files, of each run a few
rows at a time. Both sorts are stable, so a day comes out the same however little is held at once.

Source: external merge sort (Knuth, The Art of Computer Programming 3, section 5.4).
"""

from __future__ import annotations

import heapq
import shutil
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from operator import itemgetter
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from weir_pipelines.intake import (
    Intake,
    Scraped,
    day_file,
    join_series,
    place_day,
    write_day,
)
from weir_pipelines.schemas import SAMPLES, SERIES, SampleRow
from weir_pipelines.store import Partition, Store, arrow_schema

MOST_HELD = 1 << 20
"""Samples that are held before they are written out: some 100 MB while they are sorted."""
ROW_GROUP = 1 << 17
"""Samples that are written at once when runs are merged: some 30 MB as Python has them."""
READ_AT_ONCE = 1 << 13
"""Samples of one run that are held while runs are merged."""


class DayImport:
    """Takes in samples and writes the days that they are of.

    Args:
        folder: A staging folder of the store that the days go to.
        app: The application that everything belongs to; `None` goes by the label `weir_app`.
        most_held: Samples from which on what is held is written out.
    """

    def __init__(self, folder: Path, app: str | None = None, *, most_held: int = MOST_HELD) -> None:
        self._folder = folder
        self._app = app
        self._most_held = most_held
        self._held = Intake(app)
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

    def write(self, store: Store, *, may_replace: bool = True) -> tuple[Partition, ...]:
        """Write the days of which there is something, whole; return them.

        Args:
            store: Where they go.
            may_replace: Whether a day may be there with other samples.

        Raises:
            InputError: One is there, and may not; none was written.
            StoreError: The file system refuses.
        """
        self._write_runs()
        days = {each: self._merge_runs(each) for each in sorted(self._runs)}
        if not may_replace:
            for table in (SERIES, SAMPLES):
                files = {each: day_file(table, folder) for each, folder in days.items()}
                store.refuse_others(table, files)
        for partition, folder in days.items():
            place_day(store, partition, folder)
        return tuple(days)

    def _write_runs(self) -> None:
        for partition in self._held.partitions:
            runs = self._runs.setdefault(partition, [])
            run = self._folder / "runs" / partition.folder / str(len(runs))
            series, samples = self._held.tables(partition)
            write_day(run, series, [samples])
            runs.append(run)
        self._held = Intake(self._app)

    def _merge_runs(self, partition: Partition) -> Path:
        """Return the folder of a day that was made of its runs, which are gone then."""
        runs = self._runs[partition]
        folder = self._folder / "days" / partition.folder
        series = join_series(pq.read_table(day_file(SERIES, run)) for run in runs)
        rows = [_read_rows(day_file(SAMPLES, run)) for run in runs]
        write_day(folder, series, map(_as_table, merge_rows(rows, at_once=ROW_GROUP)))
        for run in runs:
            shutil.rmtree(run)
        return folder


def merge_rows(runs: Sequence[Iterable[SampleRow]], *, at_once: int) -> Iterator[list[SampleRow]]:
    """Yield the rows of sorted runs in the order of the table, so many at once.

    Rows of one series at one time stay in the order of their runs. Of each run, one row that was
    not yielded is held.
    """
    merged = heapq.merge(*runs, key=itemgetter(0, 1))  # series, time
    while rows := list(islice(merged, at_once)):
        yield rows


def _read_rows(file: Path) -> Iterator[SampleRow]:
    with pq.ParquetFile(file) as opened:
        for batch in opened.iter_batches(batch_size=READ_AT_ONCE):
            yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)


def _as_table(rows: Sequence[SampleRow]) -> pa.Table:
    schema = arrow_schema(SAMPLES)
    columns = zip(*rows, strict=True)
    return pa.table(
        [pa.array(column, each.type) for column, each in zip(columns, schema, strict=True)],
        schema=schema,
    )
