"""History out of files: OpenMetrics text, and Parquet as a remote-write receiver leaves it.

OpenMetrics is read line by line, as `promtool tsdb dump-openmetrics` writes it: samples may repeat,
come late and go back in time, which is what the jobs are to find, so the order is not checked.

Parquet has a row per sample: `name` (text), `labels` (map of text to text), `time_ms` (Unix
milliseconds, integer), `value` (number), and, if the receiver noted it, `received_ms`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from prometheus_client.parser import text_string_to_metric_families

from weir_pipelines.errors import InputError
from weir_pipelines.intake import UNKNOWN, Scraped

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
        with file.open(encoding="utf-8") as lines:
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
    if not math.isfinite(milliseconds):
        raise InputError(
            f"{file}, line {number}, column timestamp: expected Unix seconds, "
            f"got {sample.timestamp!r}"
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
