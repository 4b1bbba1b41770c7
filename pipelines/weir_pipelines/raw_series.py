"""Series as they were scraped, from files: remote-write Parquet, or the tables of `pipelines`.

Parquet has a row per sample, as `ingest` describes it. Rows may be in any order, so the samples of
a file are in memory at once, 16 bytes each, of the metrics that are wanted.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from weir_pipelines.errors import InputError
from weir_pipelines.metrics import METRICS
from weir_pipelines.schemas import SAMPLES, SERIES
from weir_pipelines.store import Tables
from weir_policies.model.arrays import Floats

COLUMNS = ("name", "labels", "time_ms", "value")
BATCH = 65_536
"""Rows that are read at once."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class RawSeries:
    """One series, in order of time."""

    name: str
    labels: Mapping[str, str]
    times: Floats
    """Unix seconds, shape `(n,)`."""
    values: Floats
    """Shape `(n,)`."""


_Key = tuple[str, tuple[tuple[str, str], ...]]


def read_parquet(
    path: Path, *, is_wanted: Callable[[str], bool], on_read: Callable[[float], None]
) -> list[RawSeries]:
    """Return the series of a file of a remote-write receiver.

    Args:
        path: The file.
        is_wanted: Whether a series of this name is kept.
        on_read: Told after each batch which part has been read.

    Raises:
        InputError: The file cannot be read, or is something else.
    """
    kept: dict[_Key, tuple[array[float], array[float]]] = {}
    try:
        file = pq.ParquetFile(path)
        missing = [each for each in COLUMNS if each not in file.schema_arrow.names]
        if missing:
            raise InputError(
                f"{path}: expected the columns {', '.join(COLUMNS)}, got no "
                f"{', '.join(missing)}; write what `weir pipelines import` reads"
            )
        done = 0
        for batch in file.iter_batches(BATCH, columns=list(COLUMNS)):
            rows = pa.Table.from_batches([batch])
            wanted = {
                each: each is not None and is_wanted(each)
                for each in rows["name"].unique().to_pylist()
            }
            rows = rows.filter(pa.array([wanted[each] for each in rows["name"].to_pylist()]))
            columns = [rows[each].to_pylist() for each in COLUMNS]
            for name, labels, time, value in zip(*columns, strict=True):
                if labels is None or time is None or value is None:
                    continue
                pairs = labels.items() if isinstance(labels, dict) else labels
                key = name, tuple(sorted(pairs))
                times, values = kept.setdefault(key, (array("d"), array("d")))
                times.append(time / 1000)
                values.append(value)
            done += batch.num_rows
            on_read(done / max(file.metadata.num_rows, 1))
    except (OSError, pa.ArrowInvalid, TypeError) as error:
        raise InputError(f"{path}: expected Parquet of samples, got {error}") from error
    return [_in_order(name, dict(pairs), *kept[name, pairs]) for name, pairs in kept]


def read_tables(address: str, app: str, *, on_read: Callable[[float], None]) -> Iterator[RawSeries]:
    """Yield the series that the tables of the pipelines have of an application, day by day.

    Raises:
        InputError: There is nothing of it, or a table cannot be read.
    """
    tables = Tables(address)
    days = list(tables.partitions(SAMPLES, app))
    if not days:
        known = ", ".join(sorted({each.app for each in tables.partitions(SAMPLES)})) or "none"
        raise InputError(
            f"{tables.root}: expected samples of {app!r}, got none; there are those of {known}: "
            "name one with --job, or run weir pipelines export"
        )
    for number, day in enumerate(days):
        labels = {row["series"]: row for row in tables.read(SERIES, day).to_pylist()}
        rows = tables.read(SAMPLES, day)
        series = rows["series"].to_numpy()
        times, values = rows["time_ms"].to_numpy() / 1000, rows["value"].to_numpy()
        order = np.lexsort((times, series))
        series, times, values = series[order], times[order], values[order]
        starts = np.flatnonzero(np.append(series.size > 0, np.diff(series) != 0))
        for start, end in zip(starts, [*starts[1:], series.size], strict=True):
            row = labels[int(series[start])]
            yield RawSeries(
                name=METRICS[row["metric"]],
                labels={
                    "job_name": app,
                    "job_id": row["job_id"],
                    "task_name": row["task"] or row["operator"],
                    "task_attempt_num": row["attempt"],
                    "operator_id": row["function"],
                    "subtask_index": row["subtask"],
                    "tm_id": row["replica"],
                },
                times=times[start:end],
                values=values[start:end],
            )
        on_read((number + 1) / len(days))


def _in_order(
    name: str, labels: Mapping[str, str], times: array[float], values: array[float]
) -> RawSeries:
    when = np.frombuffer(times, dtype=np.float64)
    order = np.argsort(when, kind="stable")
    return RawSeries(
        name=name,
        labels=labels,
        times=when[order],
        values=np.frombuffer(values, dtype=np.float64)[order],
    )
