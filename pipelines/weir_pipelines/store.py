"""Tables as files: one of Parquet per application and day, complete or absent.

Tables are in a folder of a file system that all Spark's processes share, or in an object store. A
file is replaced in one step: in a folder, what was written beside it takes its name; in an object
store, one PUT replaces the object. So readers see the old day or the new one, and a job that is
killed leaves each day as it was or as it should be. Equal rows make equal files.

Before rows are used, the file's columns are compared with the declared ones, and its rows with what
they can be (`_refuse_damaged`): no null where none is possible, no minute of another day, no number
of records that nothing can be divided by. So a foreign file is rejected with its name and its
column, not somewhere inside a job. Values that a reader can do without, such as an unknown rate,
are its own business.

Old samples may be deleted once everything they show is computed. Samples take by far the most
space; the results stay. A day is processed when every table made from samples has it, written since
its samples were. It is deleted only if its neighbours are processed too, because their last or
first minute needs its samples.
"""

from __future__ import annotations

import os
import sys
import time
import uuid
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path
from urllib.parse import quote, unquote, urlsplit

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow.fs import FileInfo, FileSelector, FileSystem, FileType, LocalFileSystem

from weir_pipelines.errors import InputError, StoreError
from weir_pipelines.schemas import ARRIVALS, SAMPLES, SERIES, WORK, ParquetTable
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

OBJECT_STORES = ("s3", "gs", "abfs")
"""Schemes of addresses of object stores."""
FORGOTTEN_AFTER = 86_400.0
"""Seconds after which what a killed job wrote beside a file is removed."""


@dataclass(frozen=True, order=True, slots=True)
class Partition:
    """One application's day."""

    app: str
    day: date

    @property
    def folder(self) -> str:
        """Its folder in the table, named as Spark names it."""
        return f"{_app_folder(self.app)}/day={self.day.isoformat()}"

    @property
    def neighbours(self) -> tuple[Partition, Partition]:
        """The application's days before and after, whose samples complete this one's minutes."""
        day = timedelta(days=1)
        return Partition(self.app, self.day - day), Partition(self.app, self.day + day)


class Tables:
    """All tables at one address; nothing is made there before something is written.

    Spark's processes receive the address, and open it with the credentials of their environment.

    Args:
        address: A folder, or `s3://`, `gs://` or `abfs://` and what pyarrow expects behind it.

    Raises:
        InputError: It is of another kind, or there is no such bucket.
    """

    def __init__(self, address: str | Path) -> None:
        self._address = str(address)
        scheme, is_url, _ = self._address.partition("://")
        self._is_local = not is_url
        if self._is_local:
            self.files: FileSystem = LocalFileSystem()
            self.root = self.top = str(Path(address))
            return
        if scheme not in OBJECT_STORES:
            expected = ", ".join(f"{each}://" for each in OBJECT_STORES)
            raise InputError(f"{scheme}://: expected a folder, or one of {expected}")
        parts = urlsplit(self._address)
        # Without what may be secret: a key before the host, and options behind the path.
        self.root = f"{scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}".rstrip("/")
        # A small object by one request, not by the three of an upload in parts.
        option = "" if scheme != "s3" else f"{'&' if parts.query else '?'}allow_delayed_open=true"
        self.top = ""
        with self._reading(""):
            self.files, top = FileSystem.from_uri(f"{self._address}{option}")
            if self.files.get_file_info(top.partition("/")[0]).type is FileType.NotFound:
                raise OSError("no such bucket")  # whose listing would be an empty one
        self.top = top.rstrip("/")

    def __reduce__(self) -> tuple[type[Tables], tuple[str]]:
        """Pickle the address alone."""
        return Tables, (self._address,)

    def path(self, table: ParquetTable, partition: Partition) -> str:
        """Return the path of a partition's file in `files`, which need not exist."""
        return f"{self._folder(table)}/{partition.folder}/{table.name}.parquet"

    def partitions(self, table: ParquetTable, app: str | None = None) -> dict[Partition, FileInfo]:
        """Return the partitions that are there, in order, and what is known of their files.

        Args:
            table: Of which they are.
            app: The application whose partitions are asked for; `None` asks for all. The folders of
                others are not looked into, which would take long on a network volume.

        Raises:
            InputError: A folder in the place of one names no day, or one may not be read.
        """
        folder = self._folder(table)
        if app is not None:
            folder = f"{folder}/{_app_folder(app)}"
        found = {
            _partition_of(info.path): info
            for info in self.list_files(folder)
            if info.path.endswith(f"/{table.name}.parquet")
        }
        return dict(sorted(found.items()))

    def list_files(self, folder: str) -> list[FileInfo]:
        """Return the files under a folder; none if it does not exist."""
        selector = FileSelector(folder, allow_not_found=True, recursive=True)
        with self._reading(folder):
            return [info for info in self.files.get_file_info(selector) if info.is_file]

    def check(self, table: ParquetTable, partitions: Iterable[Partition]) -> None:
        """Refuse those of some partitions that are there with a file that is not of the table.

        Raises:
            InputError: One is no Parquet, or a column is missing or of another type.
        """

        def check_file(partition: Partition) -> None:
            path = self.path(table, partition)
            with suppress(FileNotFoundError), self._open(path) as file:
                _refuse_foreign(self._show(path), table, file.schema_arrow)

        with ThreadPoolExecutor() as threads:  # each waits for its server
            list(threads.map(check_file, partitions))

    def read(
        self, table: ParquetTable, partition: Partition, columns: Sequence[str] | None = None
    ) -> pa.Table:
        """Return some columns of a partition's rows, by default all; no rows where it has no file.

        Raises:
            InputError: The file cannot be read, or a row cannot be of its table and day.
        """
        path = self.path(table, partition)
        names = list(table.schema.names if columns is None else columns)
        try:
            with self._open(path) as file:
                _refuse_foreign(self._show(path), table, file.schema_arrow)
                # One thread: Spark has counted the cores already.
                rows = file.read(names, use_threads=False)
        except FileNotFoundError:
            return table.schema.empty_table().select(names)
        _refuse_damaged(self._show(path), table, partition.day, rows)
        return rows

    def read_file(self, path: str) -> pa.Table:
        """Return all rows of a file that is not a partition's."""
        with self._open(path) as file:
            return file.read()

    def write(self, table: ParquetTable, partition: Partition, parts: Iterable[pa.Table]) -> None:
        """Replace a partition by the rows of some parts, in one step.

        Raises:
            StoreError: The file system refuses.
        """
        self.put(self.path(table, partition), encode(table, parts))

    def put(self, path: str, content: pa.Buffer) -> None:
        """Replace a file in one step.

        Raises:
            StoreError: The file system refuses.
        """
        with self._writing(path, "written"):
            if self._is_local:
                _replace_file(Path(path), content)
                return
            with self.files.open_output_stream(path) as stream:
                # At once: what is closed after a part of it becomes an object, too.
                stream.write(content)

    def refuse_other(self, table: ParquetTable, partition: Partition, content: pa.Buffer) -> None:
        """Refuse a file that would replace the rows of another input; equal rows are equal bytes.

        Raises:
            InputError: The partition is there, and is not what the file holds.
        """
        path = self.path(table, partition)
        try:
            with self._reading(path), self.files.open_input_file(path) as file:
                present = file.read_buffer()
        except FileNotFoundError:
            return
        if not present.equals(content):
            raise InputError(
                f"{partition.app} {partition.day}: expected a day that is not in {table.name} "
                "yet, got one from other input; name all files of the day in one command, with "
                "--again to replace it"
            )

    def remove(self, table: ParquetTable, partition: Partition) -> None:
        """Remove a partition from its table in one step, if it exists.

        Raises:
            StoreError: The file system refuses.
        """
        self.remove_folder(f"{self._folder(table)}/{partition.folder}")

    def remove_folder(self, folder: str) -> None:
        """Remove a folder with all that is in it, if it exists.

        Raises:
            StoreError: The file system refuses.
        """
        with self._writing(folder, "removed"), suppress(FileNotFoundError):
            self.files.delete_dir(folder)

    @contextmanager
    def _reading(self, path: str) -> Iterator[None]:
        """Turn what a file system says of a file or folder into a sentence, unless it is none."""
        try:
            yield
        except FileNotFoundError:
            raise
        except (OSError, pa.ArrowException) as error:
            expected, advice = "a Parquet file that can be read", "write it again"
            if isinstance(error, OSError) and (error.errno or not self._is_local):
                expected = "a readable folder of tables"
                advice = "check the bucket, its region, and the credentials in the environment"
                if self._is_local:
                    advice = "check its volume, and give this user read access to everything in it"
            raise InputError(
                f"{self._show(path)}: expected {expected}, got: {_reason(error)}; {advice}"
            ) from error

    @contextmanager
    def _writing(self, path: str, done: str) -> Iterator[None]:
        try:
            yield
        except (OSError, pa.ArrowException) as error:
            raise StoreError(f"{self._show(path)} cannot be {done}: {_reason(error)}") from error

    @contextmanager
    def _open(self, path: str) -> Iterator[pq.ParquetFile]:
        with self._reading(path), self.files.open_input_file(path) as source:
            yield pq.ParquetFile(source)

    def _folder(self, table: ParquetTable) -> str:
        """Return the folder of a table in its present version."""
        return f"{self.top}/{table.name}/v{table.version}"

    def _show(self, path: str) -> str:
        """Return a path as it is in messages."""
        return path if self._is_local else f"{self.root}{path.removeprefix(self.top)}"


def encode(table: ParquetTable, parts: Iterable[pa.Table]) -> pa.Buffer:
    """Return the file of a partition that has the rows of some parts."""
    sink = pa.BufferOutputStream()
    write_parts(sink, table, parts)
    return sink.getvalue()


def write_parts(
    sink: pa.BufferOutputStream | str, table: ParquetTable, parts: Iterable[pa.Table]
) -> None:
    """Write the same into a stream, or a file of this machine."""
    with pq.ParquetWriter(sink, table.schema, compression="zstd") as writer:
        for part in parts:
            writer.write_table(part)


def _replace_file(path: Path, content: pa.Buffer) -> None:
    """Write beside a file, flush to the disk, and give what was written its name."""
    path.parent.mkdir(parents=True, exist_ok=True)
    for left in path.parent.glob(f".{path.name}.*"):
        if time.time() - left.stat().st_mtime > FORGOTTEN_AFTER:
            left.unlink()
    # Two tasks may write the same day, where Spark takes the first for dead.
    part = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
    try:
        with part.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _reason(error: Exception) -> str:
    """Return what a file system says, in one line."""
    if isinstance(error, OSError) and error.errno:
        return os.strerror(error.errno)
    return str(error).partition("\n")[0]


def _refuse_foreign(file: str, table: ParquetTable, present: pa.Schema) -> None:
    for column in table.schema:
        index = present.get_field_index(column.name)
        if index < 0:
            raise InputError(
                f"{file}: expected column {column.name} of {table.name} version {table.version}, "
                "got none; write the table again"
            )
        kind = present.field(index).type
        if kind != column.type:
            raise InputError(
                f"{file}: expected column {column.name} to be {column.type}, got {kind}; "
                "write the table again"
            )


def _refuse_damaged(file: str, table: ParquetTable, day: date, rows: pa.Table) -> None:
    for column in table.schema:
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
    file: str, day: date, minutes: np.ndarray[tuple[int], np.dtype[np.int64]]
) -> None:
    since = minutes - (day - _EPOCH).days * _DAY
    wrong = minutes[(since < 0) | (since >= _DAY) | (since % 60 != 0)]
    if wrong.size:
        raise InputError(
            f"{file}: expected beginnings of minutes of {day} in column minute, Unix seconds, got "
            f"{wrong[0]}; move the file to its own day, or write the table again"
        )


def _app_folder(app: str) -> str:
    return f"app={quote(app, safe='')}"


def _partition_of(path: str) -> Partition:
    folder = path.rpartition("/")[0]
    app, day = (part.partition("=")[2] for part in folder.split("/")[-2:])
    try:
        return Partition(unquote(app), date.fromisoformat(day))
    except ValueError as error:
        raise InputError(
            f"{folder}: expected a folder of a day, such as day=2026-03-02; remove it"
        ) from error


RESULTS = (ARRIVALS, WORK)
"""What is made of samples; every other table is made of these."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Pruned:
    """What became of days that are old enough to go."""

    removed: tuple[Partition, ...]
    kept: tuple[Partition, ...]
    """Not worked up yet, or the neighbours of such a day."""


def prune_samples(tables: Tables, *, before: date, apps: Collection[str] | None = None) -> Pruned:
    """Remove the samples of days that are worked up.

    Args:
        tables: Where they are.
        before: The first day that is not old.
        apps: Whose samples may go; `None` or none is everybody's.

    Returns:
        What went, and what is old and had to stay.

    Raises:
        StoreError: The file system refuses.
    """
    inputs = [tables.partitions(table) for table in (SAMPLES, SERIES)]
    results = [tables.partitions(table) for table in RESULTS]
    there = {*inputs[0], *inputs[1]}
    waiting = {each for each in there if not _is_worked_up(each, inputs, results)}
    old = [each for each in sorted(there) if each.day < before and (not apps or each.app in apps)]
    kept = tuple(each for each in old if waiting.intersection((each, *each.neighbours)))
    removed = tuple(each for each in old if each not in kept)
    for each in removed:
        tables.remove(SAMPLES, each)
        tables.remove(SERIES, each)
    return Pruned(removed=removed, kept=kept)


def _is_worked_up(
    partition: Partition,
    inputs: Sequence[Mapping[Partition, FileInfo]],
    results: Sequence[Mapping[Partition, FileInfo]],
) -> bool:
    written = max(each[partition].mtime_ns for each in inputs if partition in each)
    return all(partition in each and each[partition].mtime_ns >= written for each in results)
