"""Rows that no job writes are refused by file and column, whoever reads them."""

import math
import os
from datetime import date

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.pipelines.known_history import KnownJob, write_day, write_rows
from weir_pipelines.errors import InputError
from weir_pipelines.history import read_history, read_seasons
from weir_pipelines.schemas import ARRIVALS, PROFILES, QUALITY, REGIMES, TABLES, WORK
from weir_pipelines.store import Partition, Tables
from weir_pipelines.traces import read_arrival_trace

MONDAY, TUESDAY = (Partition("streams/trips", date(2026, 3, number)) for number in (2, 3))
PROFILE = {"operator": "match", "days": 4, "low": 1.0, "usual": 20.0, "high": 90.0}
REGIME = {"operator": "match", "hours": 24, "factor": 2.0, "low": 1.5, "high": 2.5, "changed": True}
PROBLEM = {"operator": "match", "problem": "gap", "minutes": 1, "first": 0, "last": 0}


@pytest.fixture
def tables(tmp_path):
    """Sound tables of one day."""
    tables = Tables(tmp_path)
    write_day(tmp_path, MONDAY, KnownJob(rate=lambda _: 20.0))
    write_rows(tables, QUALITY, MONDAY, [PROBLEM])
    write_rows(tables, PROFILES, MONDAY, [{**PROFILE, "hour": hour} for hour in range(168)])
    write_rows(tables, REGIMES, MONDAY, [REGIME])
    return tables


def damage(tables, table, column, value, *, type_of=None):
    """Put a value into the last row's column, whatever the schema says of it."""
    file = tables.path(table, MONDAY)
    rows = pq.read_table(file)
    place = rows.column_names.index(column)
    kind = rows.schema.field(column).type
    values = pa.array([*rows[column].to_pylist()[:-1], value], type_of or kind)
    pq.write_table(rows.set_column(place, column, values), file)


def read_everything(tables):
    read_history(tables.root, MONDAY.app, operators=["match"], node_types=["small/1"])
    read_seasons(tables, MONDAY.app)


READ = {
    "arrivals": ("operator", "minute", "completeness", "faults"),
    "work": ("operator", "pool", "minute", "replicas", "records", "seconds"),
    "quality": ("operator", "problem", "minutes"),
    "profiles": ("operator", "hour", "days", "usual"),
    "regimes": ("operator", "factor", "changed"),
}


@pytest.mark.parametrize(
    ("table", "column"), [(name, column) for name, columns in READ.items() for column in columns]
)
def test_a_value_that_must_be_there_is_missed_by_file_and_column(tables, table, column):
    damage(tables, TABLES[table], column, None)

    with pytest.raises(
        InputError, match=rf"{table}\.parquet: expected a value in .* {column}, got 1"
    ):
        read_everything(tables)


@pytest.mark.parametrize(
    ("table", "column", "value", "expected"),
    [
        (WORK, "records", 0.0, "a finite number above 0"),
        (WORK, "records", math.nan, "a finite number above 0"),
        (WORK, "seconds", -1.0, "a finite number of at least 0"),
        (WORK, "replicas", math.inf, "a finite number of at least 0"),
        (PROFILES, "hour", 168, "an hour of the week, 0 to 167"),
    ],
)
def test_a_number_that_cannot_be_is_refused_by_file_and_column(
    tables, table, column, value, expected
):
    damage(tables, table, column, value)

    with pytest.raises(
        InputError,
        match=rf"{table.name}\.parquet: expected {expected} in .* {column}, got {value:g};",
    ):
        read_everything(tables)


@pytest.mark.parametrize("table", [ARRIVALS, WORK])
def test_the_file_of_another_day_is_refused_by_its_minutes(tables, table):
    write_day(tables.root, TUESDAY, KnownJob(rate=lambda _: 20.0))
    os.replace(tables.path(table, MONDAY), tables.path(table, TUESDAY))

    with pytest.raises(
        InputError,
        match=rf"day=2026-03-03/{table.name}\.parquet: expected beginnings of minutes of "
        "2026-03-03 in column minute, Unix seconds, got 1772409600; move the file to its own day",
    ):
        read_everything(tables)


def test_a_minute_that_begins_within_another_is_refused(tables):
    damage(tables, ARRIVALS, "minute", 1_772_409_601)

    with pytest.raises(InputError, match=r"arrivals\.parquet: .* got 1772409601"):
        read_arrival_trace(Tables(tables.root), [MONDAY], "match")


@pytest.mark.parametrize("column", ["sink_records", "sink_seconds"])
def test_of_latencies_without_their_count_or_sum_the_response_time_is_not_known(tables, column):
    file = tables.path(WORK, MONDAY)
    rows = pq.read_table(file)
    unknown = pa.nulls(rows.num_rows, pa.float64())
    pq.write_table(rows.set_column(rows.column_names.index(column), column, unknown), file)

    history = read_history(tables.root, MONDAY.app, operators=["match"], node_types=["small/1"])

    assert len(history.samples.intervals) == 288
    assert all(math.isnan(each.response_time) for each in history.samples.intervals)
