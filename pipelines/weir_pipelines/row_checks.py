"""Refuses rows that no job writes, before a reader comes upon them somewhere inside its sums.

Types are held against a file's footer (`store.check_file`); this is about values: a null where
none can be, a minute of another day, records that nothing can be divided by. What a reader can do
without stays its own business: a rate that is not known, a latency that nobody noted.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from datetime import date
from pathlib import Path

import numpy as np
import pyarrow as pa

from weir_pipelines.errors import InputError
from weir_pipelines.schemas import Table
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


def refuse_damaged(file: Path, table: Table, day: date, rows: pa.Table) -> None:
    """Refuse rows that cannot be of a table's day.

    Args:
        file: Where they were read.
        table: Whose rows they are.
        day: Of the partition.
        rows: Some of its columns, of the types that are declared.

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
                f"{values.null_count} without; write the table anew"
            )
        if column.name == "minute":
            _refuse_other_days(file, day, values.to_numpy())
        elif column.name in _RANGES:
            expected, least, most = _RANGES[column.name]
            numbers = values.to_numpy()
            wrong = numbers[~((numbers >= least) & (numbers <= most))]  # NaN is wrong too
            if wrong.size:
                raise InputError(
                    f"{file}: expected {expected} in each row of column {column.name}, got "
                    f"{wrong[0]:g}; write the table anew"
                )


def _refuse_other_days(
    file: Path, day: date, minutes: np.ndarray[tuple[int], np.dtype[np.int64]]
) -> None:
    since = minutes - (day - _EPOCH).days * _DAY
    wrong = minutes[(since < 0) | (since >= _DAY) | (since % 60 != 0)]
    if wrong.size:
        raise InputError(
            f"{file}: expected beginnings of minutes of {day} in column minute, Unix seconds, got "
            f"{wrong[0]}; move the file to its own day, or write the table anew"
        )
