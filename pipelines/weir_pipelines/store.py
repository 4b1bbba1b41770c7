"""Tables on disk: one Parquet file per application and day, complete or absent.

A job first writes outside the tables and then moves each partition's file into place, in one step.
Readers see the old partition or the new one; a killed job leaves what it had not moved in the
folder `.staging`, where nobody reads. Equal rows make equal files, so a job that runs again changes
nothing. The folder must be one file system that all Spark's processes share.

Before a reader uses a file, its footer is compared with the declared schema, and its rows with what
they can be (`refuse_damaged`): no null where none is possible, no minute of another day, no number
of records that nothing can be divided by. So a foreign file is rejected with its name and its
column, not somewhere inside a job. Values that a reader can do without, such as an unknown rate,
are its own business.

Old samples may be deleted once everything they show is computed. Samples take by far the most
space; the results stay. A day is processed when every table made from samples has it, written since
its samples were. It is deleted only if its neighbours are processed too, because their last or
first minute needs its samples.
"""

from __future__ import annotations

import filecmp
import os
import shutil
import sys
import time
import uuid
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path
from stat import S_ISREG
from urllib.parse import quote, unquote

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from weir_pipelines.errors import InputError, StoreError
from weir_pipelines.schemas import ARRIVALS, SAMPLES, SERIES, TABLES, WORK, ParquetTable
from weir_policies.model.season import HOURS

_EPOCH = date(1970, 1, 1)
_DAY = 86_400
_LARGEST = sys.float_info.max
_COUNT = ("a finite number of at least 0", 0.0, _LARGEST)
_RANGES: Mapping[str, tuple[str, float, float]] = {
    "hour": (f"an hour of the week, 0 to {HOURS - 1}", 0, HOURS - 1),
    "records": ("a finite number above 0", sys.float_info.min, _LARGEST),
    "replicas": _COUNT,
    "seconds": _COUNT,
}
"""By column, whatever the table: what is expected in words, the least and the most."""


def refuse_damaged(file: Path, table: ParquetTable, day: date, rows: pa.Table) -> None:
    """Refuse rows that cannot be of a table's day.

    Raises:
        InputError: A value is missing that must be there, or cannot be; names file and column.
    """
    for column in table.columns:
        if column.name not in rows.column_names or column.nullable:
            continue
        values = rows[column.name]
        if values.null_count:
            raise InputError(
                f"{file}: expected a value in each row of column {column.name}, got "
                f"{values.null_count} without; write the table again"
            )
        if column.name == "minute":
            _refuse_other_days(file, day, values.to_numpy())
        elif column.name in _RANGES:
            expected, minimum, maximum = _RANGES[column.name]
            numbers = values.to_numpy()
            wrong = numbers[~((numbers >= minimum) & (numbers <= maximum))]  # NaN is wrong too
            if wrong.size:
                raise InputError(
                    f"{file}: expected {expected} in each row of column {column.name}, got "
                    f"{wrong[0]:g}; write the table again"
                )


def _refuse_other_days(
    file: Path, day: date, minutes: np.ndarray[tuple[int], np.dtype[np.int64]]
) -> None:
    since = minutes - (day - _EPOCH).days * _DAY
    wrong = minutes[(since < 0) | (since >= _DAY) | (since % 60 != 0)]
    if wrong.size:
        raise InputError(
            f"{file}: expected beginnings of minutes of {day} in column minute, Unix seconds, got "
            f"{wrong[0]}; move the file to its own day, or write the table again"
        )


STAGING = ".staging"
FORGOTTEN_AFTER = 86_400.0
"""Seconds after which what a killed job left behind is removed."""

_ARROW = {
    "BIGINT": pa.int64(),
    "INT": pa.int32(),
    "DOUBLE": pa.float64(),
    "STRING": pa.string(),
    "BOOLEAN": pa.bool_(),
    "ARRAY<STRING>": pa.list_(pa.string()),
}


@dataclass(frozen=True, order=True, slots=True)
class Partition:
    """One application's day."""

    app: str
    day: date

    @property
    def folder(self) -> Path:
        """Its folder in the table, named as Spark names it."""
        return Path(_app_folder(self.app), f"day={self.day.isoformat()}")

    @property
    def neighbours(self) -> tuple[Partition, Partition]:
        """The application's days before and after, whose samples complete this one's minutes."""
        day = timedelta(days=1)
        return Partition(self.app, self.day - day), Partition(self.app, self.day + day)


class Tables:
    """All tables under one folder, to be read: nothing is made there."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def path(self, table: ParquetTable, partition: Partition) -> Path:
        """Return the path of a partition's file, which need not exist."""
        return self.folder(table) / partition.folder / f"{table.name}.parquet"

    def folder(self, table: ParquetTable) -> Path:
        """Return the folder of a table in its present version."""
        return self.root / table.name / f"v{table.version}"

    def partitions(self, table: ParquetTable, app: str | None = None) -> tuple[Partition, ...]:
        """Return the partitions that are there, in order.

        Args:
            table: Of which they are.
            app: The application whose partitions are asked for; `None` asks for all. The folders of
                others are not looked into, which would take long on a network volume.

        Raises:
            InputError: A folder in the place of one names no day, or one may not be read.
        """
        top = self.folder(table)
        apps = _list_folder(top, "app=") if app is None else [top / _app_folder(app)]
        days = [day for folder in apps for day in _list_folder(folder, "day=")]
        files = (day / f"{table.name}.parquet" for day in days)
        return tuple(sorted(_partition_of(file) for file in files if _is_file(file)))

    def paths(self, table: ParquetTable, wanted: Iterable[Partition]) -> tuple[Path, ...]:
        """Return the files of those of the wanted partitions that are there, checked.

        Raises:
            InputError: A file has other columns than the table, or may not be read.
        """
        paths = (self.path(table, each) for each in sorted({*wanted}))
        files = tuple(path for path in paths if _is_file(path))
        for file in files:
            check_file(file, table)
        return files


class Store(Tables):
    """The same, to be written.

    Raises:
        StoreError: The folder cannot be made.
    """

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        try:
            (root / STAGING).mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StoreError(f"Tables at {root} cannot be made: {error.strerror}") from error
        self._sweep()

    @contextmanager
    def staging(self) -> Iterator[Path]:
        """Yield a folder to write into; what is not moved out of it is removed."""
        folder = self.root / STAGING / uuid.uuid4().hex
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def commit(
        self, table: ParquetTable, written: Path, *, may_replace: bool = True
    ) -> tuple[Partition, ...]:
        """Move the partitions in a staging folder into the table; return them.

        Raises:
            InputError: One is there, and may not.
            StoreError: A partition consists of several files, or cannot be moved.
        """
        staged: dict[Partition, Path] = {}
        for folder in sorted(written.glob("app=*/day=*")):
            files = sorted(folder.glob("*.parquet"))
            if len(files) != 1:
                raise StoreError(f"Expected one file in {folder}, got {len(files)}")
            staged[_partition_of(files[0])] = files[0]
        if not may_replace:
            self.refuse_others(table, staged)
        for partition, file in staged.items():
            self.place(table, partition, file)
        return tuple(staged)

    def refuse_others(self, table: ParquetTable, files: Mapping[Partition, Path]) -> None:
        """Refuse files that would replace the rows of another input; equal rows are equal bytes.

        Raises:
            InputError: A partition is there, and is not what its file holds.
        """
        for partition, file in sorted(files.items()):
            present = self.path(table, partition)
            if present.exists() and not filecmp.cmp(present, file, shallow=False):
                raise InputError(
                    f"{partition.app} {partition.day}: expected a day that is not in {table.name} "
                    "yet, got one from other input; name all files of the day in one command, with "
                    "--again to replace it"
                )

    def place(self, table: ParquetTable, partition: Partition, file: Path) -> None:
        """Move one file to where the partition's belongs, in one step.

        Raises:
            StoreError: The file system refuses.
        """
        target = self.path(table, partition)
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            _flush(file)
            os.replace(file, target)
            _flush(target.parent)
        except OSError as error:
            raise StoreError(f"{target} cannot be written: {error.strerror}") from error

    def remove(self, table: ParquetTable, partition: Partition) -> None:
        """Remove a partition from its table in one step, if it exists.

        Raises:
            StoreError: The file system refuses.
        """
        folder = self.path(table, partition).parent
        with self.staging() as removed:
            try:
                os.replace(folder, removed)
            except FileNotFoundError:
                return
            except OSError as error:
                raise StoreError(f"{folder} cannot be removed: {error.strerror}") from error

    def _sweep(self) -> None:
        """Remove what killed jobs left long ago; younger things may be those of a running job."""
        for folder in (self.root / STAGING).iterdir():
            if time.time() - folder.stat().st_mtime > FORGOTTEN_AFTER:
                shutil.rmtree(folder, ignore_errors=True)


def arrow_schema(table: ParquetTable) -> pa.Schema:
    """Return a table's columns as Arrow knows them, without those of the partition."""
    return pa.schema(
        [pa.field(each.name, _ARROW[each.type], nullable=each.nullable) for each in table.columns]
    )


def read_columns(file: Path, columns: Iterable[str]) -> pa.Table:
    """Return some columns of a partition's file, as `Tables.paths` gave it.

    Raises:
        InputError: It cannot be read, or a row cannot be of its table and day.
    """
    try:
        rows = pq.read_table(file, columns=list(columns))
    except (OSError, pa.ArrowException) as error:
        raise InputError(f"{file}: expected a table that can be read, got {error}") from error
    refuse_damaged(file, TABLES[file.stem], _partition_of(file).day, rows)
    return rows


def check_file(file: Path, table: ParquetTable) -> None:
    """Refuse a file that is not of the table.

    Raises:
        InputError: It is no Parquet, or a column is missing or of another type.
    """
    try:
        present = pq.read_schema(file)
    except (OSError, pa.ArrowException) as error:
        raise InputError(f"{file}: expected a Parquet file, got {error}") from error
    for column in table.columns:
        index = present.get_field_index(column.name)
        if index < 0:
            raise InputError(
                f"{file}: expected column {column.name} of {table.name} version {table.version}, "
                "got none; write the table again"
            )
        kind = present.field(index).type
        if not _same(kind, _ARROW[column.type]):
            raise InputError(
                f"{file}: expected column {column.name} to be {column.type}, got {kind}; "
                "write the table again"
            )


def _same(present: pa.DataType, wanted: pa.DataType) -> bool:
    """Compare types; lists by their elements, whose field's name differs from writer to writer."""
    if pa.types.is_list(present) and pa.types.is_list(wanted):
        return bool(present.value_type == wanted.value_type)
    return bool(present == wanted)


def _list_folder(folder: Path, prefix: str) -> list[Path]:
    """Return what in a folder has such names; nothing if the folder does not exist.

    Not `glob`, for which a folder that may not be read is an empty one.
    """
    try:
        return [each for each in folder.iterdir() if each.name.startswith(prefix)]
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise _unreadable(folder, error) from error


def _is_file(path: Path) -> bool:
    try:
        return S_ISREG(path.stat().st_mode)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as error:
        raise _unreadable(path.parent, error) from error


def _unreadable(folder: Path, error: OSError) -> InputError:
    return InputError(
        f"{folder}: expected a readable folder of tables, got: {error.strerror}; "
        "check its volume, and give this user read access to everything in it"
    )


def _app_folder(app: str) -> str:
    return f"app={quote(app, safe='')}"


def _partition_of(file: Path) -> Partition:
    app, day = file.parts[-3].removeprefix("app="), file.parts[-2].removeprefix("day=")
    try:
        return Partition(unquote(app), date.fromisoformat(day))
    except ValueError as error:
        raise InputError(
            f"{file.parent}: expected a folder of a day, such as day=2026-03-02; remove it"
        ) from error


def _flush(path: Path) -> None:
    """Have the disk keep a file, or a folder's entries, through a power failure."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


RESULTS = (ARRIVALS, WORK)
"""What is made of samples; every other table is made of these."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Pruned:
    """What became of days that are old enough to go."""

    removed: tuple[Partition, ...]
    kept: tuple[Partition, ...]
    """Not worked up yet, or the neighbours of such a day."""


def prune_samples(store: Store, *, before: date, apps: Collection[str] | None = None) -> Pruned:
    """Remove the samples of days that are worked up.

    Args:
        store: Where they are.
        before: The first day that is not old.
        apps: Whose samples may go; `None` or none is everybody's.

    Returns:
        What went, and what is old and had to stay.

    Raises:
        StoreError: The file system refuses.
    """
    there = {*store.partitions(SAMPLES), *store.partitions(SERIES)}
    waiting = {each for each in there if not _is_worked_up(store, each)}
    old = [each for each in sorted(there) if each.day < before and (not apps or each.app in apps)]
    kept = tuple(each for each in old if waiting.intersection((each, *each.neighbours)))
    removed = tuple(each for each in old if each not in kept)
    for each in removed:
        store.remove(SAMPLES, each)
        store.remove(SERIES, each)
    return Pruned(removed=removed, kept=kept)


def _is_worked_up(store: Store, partition: Partition) -> bool:
    results = [store.path(table, partition) for table in RESULTS]
    inputs = [store.path(table, partition) for table in (SERIES, SAMPLES)]
    if not all(path.exists() for path in results):
        return False
    written = max(path.stat().st_mtime_ns for path in inputs if path.exists())
    return all(path.stat().st_mtime_ns >= written for path in results)
