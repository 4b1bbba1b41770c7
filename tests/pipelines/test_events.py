"""Raw logs become rates, and a row without a time is refused by name."""

import datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from weir_pipelines.errors import InputError
from weir_pipelines.events import count_events, read_events
from weir_pipelines.jobs import write_log
from weir_pipelines.schemas import ARRIVALS
from weir_pipelines.store import Partition, Tables
from weir_pipelines.traces import read_arrival_trace

TRIPS = """id,pickup,fare
1,2026-03-02T10:00:05,3.5
2,2026-03-02T10:00:55,4.0
3,2026-03-02T10:02:10,"1,000.0"
"""

MONDAY = 1772409600.0
"""2026-03-02, Unix seconds."""


def a_log(tmp_path, text=TRIPS, name="trips.csv"):
    file = tmp_path / name
    file.write_text(text)
    return file


def test_events_of_a_csv_are_counted_minute_by_minute(spark, tmp_path):
    times = read_events(spark, [a_log(tmp_path)], column="pickup")

    rows = count_events(times, "taxi").orderBy("minute").collect()

    ten = int(datetime.datetime(2026, 3, 2, 10, tzinfo=datetime.UTC).timestamp())
    assert [(row.minute - ten, row.arrived) for row in rows] == [
        (0, 2 / 60),
        (60, 0),
        (120, 1 / 60),
    ]
    assert {(row.app, row.day, row.completeness) for row in rows} == {
        ("taxi", datetime.date(2026, 3, 2), 1.0)
    }


def test_a_day_that_is_there_from_another_file_is_replaced_only_if_asked(spark, tmp_path):
    tables = Tables(tmp_path / "tables")
    first, second = (
        count_events(read_events(spark, [a_log(tmp_path, text, name)], column="pickup"), "taxi")
        for name, text in {"a.csv": TRIPS, "b.csv": "pickup\n2026-03-02T23:59:59\n"}.items()
    )
    write_log(tables, first, may_replace=False)
    file = Path(tables.path(ARRIVALS, Partition("taxi", datetime.date(2026, 3, 2))))
    before = file.read_bytes()

    write_log(tables, first, may_replace=False)
    with pytest.raises(InputError, match=r"taxi 2026-03-02: .* from other input; .* --again"):
        write_log(tables, second, may_replace=False)
    kept = file.read_bytes()
    write_log(tables, second, may_replace=True)

    assert kept == before
    assert pq.read_table(file).num_rows == 1


def test_events_become_a_trace_that_the_simulator_takes(spark, tmp_path):
    tables = Tables(tmp_path / "tables")
    times = read_events(spark, [a_log(tmp_path)], column="pickup")
    write_log(tables, count_events(times, "taxi"), may_replace=False)

    rates, _ = read_arrival_trace(
        tables, [Partition("taxi", datetime.date(2026, 3, 2))], "events", most_filled=0.0
    )

    assert rates == pytest.approx([2 / 60, 0, 1 / 60])


@pytest.mark.parametrize(
    "time",
    [datetime.datetime(2026, 3, 2, 10, 0, 5, tzinfo=datetime.UTC), 1772445605.0, 1772445605],
    ids=["a timestamp", "Unix seconds", "whole Unix seconds"],
)
def test_parquet_may_tell_times_as_timestamps_or_numbers(spark, tmp_path, time):
    file = tmp_path / "log.parquet"
    pq.write_table(pa.table({"at": [time]}), file)

    [row] = read_events(spark, [file], column="at").collect()

    assert row.seconds == 1772445605.0


def test_a_time_may_be_written_as_the_user_says(spark, tmp_path):
    file = a_log(tmp_path, "at\n02/03/2026 10:00\n")

    [row] = read_events(spark, [file], column="at", time_format="dd/MM/yyyy HH:mm").collect()

    assert row.seconds == 1772445600.0


def test_a_row_of_a_csv_without_a_time_is_named(spark, tmp_path):
    file = a_log(tmp_path, TRIPS + "4,yesterday,2\n")

    with pytest.raises(InputError, match=r"trips.csv, row 5, column pickup: .* got 'yesterday'"):
        read_events(spark, [file], column="pickup")


def test_a_row_of_parquet_without_a_time_is_named(spark, tmp_path):
    file = tmp_path / "log.parquet"
    pq.write_table(pa.table({"at": ["2026-03-02", None]}), file)

    with pytest.raises(InputError, match=r"log.parquet, row 2, column at: .* got none"):
        read_events(spark, [file], column="at")


def test_a_column_that_is_not_there_is_answered_with_those_that_are(spark, tmp_path):
    with pytest.raises(InputError, match=r"column when: expected one of id, pickup, fare"):
        read_events(spark, [a_log(tmp_path)], column="when")


def test_each_file_is_read_by_its_own_header(spark, tmp_path):
    files = [
        a_log(tmp_path, "pickup,dropoff\n2026-03-02,2026-03-09\n", "a.csv"),
        a_log(tmp_path, "dropoff,pickup\n2026-03-09,2026-03-03\n", "b.csv"),
    ]

    rows = read_events(spark, files, column="pickup").collect()

    assert sorted(row.seconds for row in rows) == [MONDAY, MONDAY + 86_400]


def test_a_later_file_without_the_column_is_named(spark, tmp_path):
    files = [a_log(tmp_path), a_log(tmp_path, "at\n2026-03-02\n", "b.csv")]

    with pytest.raises(InputError, match=r"b.csv, column pickup: expected one of at"):
        read_events(spark, files, column="pickup")


def test_a_column_may_have_a_dot_and_a_text_several_lines(spark, tmp_path):
    file = a_log(tmp_path, 'trip.pickup,note\n2026-03-02,"two\nlines"\n2026-03-03,one\n')

    rows = read_events(spark, [file], column="trip.pickup").collect()

    assert [row.seconds for row in rows] == [MONDAY, MONDAY + 86_400]


@pytest.mark.parametrize("text", ["10:00:00", "20240101", "1700000000000", "Infinity"])
def test_a_text_that_tells_no_day_is_refused_by_row(spark, tmp_path, text):
    file = a_log(tmp_path, f"\ufeffpickup\n2026-03-02\n{text}\n")

    with pytest.raises(InputError, match=f"row 3, column pickup: .* 2100, got '{text}'"):
        read_events(spark, [file], column="pickup")


def test_a_stray_date_makes_no_years_of_empty_minutes(spark, tmp_path):
    file = a_log(tmp_path, "pickup\n2002-12-31\n2026-03-02\n2026-03-03\n")

    with pytest.raises(InputError, match=r"400 days, got none between 2002-12-31 and 2026-03-02"):
        read_events(spark, [file], column="pickup")


def test_a_file_that_is_not_there_is_named(spark, tmp_path):
    with pytest.raises(InputError, match=r"nowhere.csv: expected a file, got none"):
        read_events(spark, [tmp_path / "nowhere.csv"], column="at")
