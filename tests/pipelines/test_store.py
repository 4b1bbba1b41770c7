"""Partitions are there whole or not at all, and only those that fit their table."""

import datetime
import os
import re
import time

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from weir_pipelines.errors import InputError, StoreError
from weir_pipelines.jobs import Work, read_table, write_table
from weir_pipelines.schemas import ARRIVALS, SAMPLES
from weir_pipelines.settings import ArrivalSettings
from weir_pipelines.store import FORGOTTEN_AFTER, STAGING, Partition, Store, Tables, arrow_schema

MONDAY = Partition("shop/trips", datetime.date(2026, 3, 2))
TUESDAY = Partition("shop/trips", datetime.date(2026, 3, 3))


def some_samples(spark, *days, value=1.0):
    rows = [(1, 1000 * n, value, None, each.app, each.day) for each in days for n in range(3)]
    return spark.createDataFrame(rows, SAMPLES.ddl)


def as_files(root):
    return {path.relative_to(root): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def test_what_is_written_can_be_read_back_with_its_app_and_day(spark, tmp_path):
    store = Store(tmp_path)

    written = write_table(store, SAMPLES, some_samples(spark, MONDAY, TUESDAY))

    assert written == store.partitions(SAMPLES) == (MONDAY, TUESDAY)
    [row] = read_table(spark, store, SAMPLES, [TUESDAY]).where("time_ms = 2000").collect()
    assert (row.app, row.day, row.value, row.received_ms) == ("shop/trips", TUESDAY.day, 1.0, None)


def test_writing_a_day_again_leaves_every_byte_as_it_was(spark, tmp_path):
    store = Store(tmp_path)
    write_table(store, SAMPLES, some_samples(spark, MONDAY, TUESDAY))
    before = as_files(tmp_path)

    write_table(store, SAMPLES, some_samples(spark, TUESDAY))

    assert as_files(tmp_path) == before


def test_other_days_stay_when_one_is_written_again(spark, tmp_path):
    store = Store(tmp_path)
    write_table(store, SAMPLES, some_samples(spark, MONDAY, TUESDAY))

    write_table(store, SAMPLES, some_samples(spark, TUESDAY, value=2.0))

    rows = read_table(spark, store, SAMPLES, [MONDAY, TUESDAY]).collect()
    assert {(row.day, row.value) for row in rows} == {(MONDAY.day, 1.0), (TUESDAY.day, 2.0)}


def test_a_job_that_yields_no_rows_leaves_none_of_an_earlier_run(spark, tmp_path):
    store = Store(tmp_path)
    write_table(store, SAMPLES, some_samples(spark, MONDAY, TUESDAY))
    work = Work(
        session=spark, store=store, partitions=[MONDAY, TUESDAY], settings=ArrivalSettings()
    )

    written = work.write(SAMPLES, some_samples(spark, TUESDAY, value=2.0))

    rows = read_table(spark, store, SAMPLES, [MONDAY, TUESDAY]).collect()
    assert written == (TUESDAY,)
    assert {(row.day, row.value) for row in rows} == {(TUESDAY.day, 2.0)}


def test_a_job_that_ends_half_way_shows_nothing_of_its_day(spark, tmp_path, monkeypatch):
    store = Store(tmp_path)
    write_table(store, SAMPLES, some_samples(spark, MONDAY))

    def fall(table, written, *, may_replace):
        assert list(written.glob("app=*/day=*/*.parquet"))  # all is written, nothing is moved
        raise KeyboardInterrupt

    monkeypatch.setattr(store, "commit", fall)
    with pytest.raises(KeyboardInterrupt):
        write_table(store, SAMPLES, some_samples(spark, MONDAY, TUESDAY, value=2.0))

    assert store.partitions(SAMPLES) == (MONDAY,)
    assert {row.value for row in read_table(spark, store, SAMPLES, [MONDAY]).collect()} == {1.0}


def test_a_partition_in_several_files_is_not_taken(tmp_path):
    store = Store(tmp_path)
    folder = tmp_path / STAGING / "job" / MONDAY.folder
    folder.mkdir(parents=True)
    for name in ("a.parquet", "b.parquet"):
        pq.write_table(arrow_schema(SAMPLES).empty_table(), folder / name)

    with pytest.raises(StoreError, match=r"Expected one file .* got 2"):
        store.commit(SAMPLES, tmp_path / STAGING / "job")


def test_what_a_killed_job_left_is_removed_when_it_is_old(tmp_path):
    Store(tmp_path)
    young, old = tmp_path / STAGING / "young", tmp_path / STAGING / "old"
    young.mkdir()
    old.mkdir()
    long_ago = time.time() - FORGOTTEN_AFTER - 60
    os.utime(old, (long_ago, long_ago))

    Store(tmp_path)

    assert [path.name for path in (tmp_path / STAGING).iterdir()] == ["young"]


@pytest.mark.parametrize(
    ("columns", "sentence"),
    {
        "a column is missing": ({"series": [1]}, "expected column time_ms of samples version 1"),
        "a column has another type": (
            {"series": [1], "time_ms": ["then"], "value": [1.0], "received_ms": [1]},
            "expected column time_ms to be BIGINT, got string",
        ),
    }.values(),
    ids=["a column is missing", "a column has another type"],
)
def test_a_foreign_file_is_refused_with_its_name_and_column(tmp_path, columns, sentence):
    store = Store(tmp_path)
    file = store.path(SAMPLES, MONDAY)
    file.parent.mkdir(parents=True)
    pq.write_table(pa.table(columns), file)

    with pytest.raises(InputError, match=f"{re.escape(str(file))}: {sentence}"):
        store.paths(SAMPLES, [MONDAY])


def test_a_folder_in_the_place_of_a_day_is_refused_by_its_name(tmp_path):
    file = tmp_path / "samples/v1/app=a/day=yesterday/samples.parquet"
    file.parent.mkdir(parents=True)
    file.touch()

    with pytest.raises(InputError, match=r"day=yesterday: expected a folder of a day"):
        Tables(tmp_path).partitions(SAMPLES)


def test_a_file_that_is_no_parquet_is_refused_by_name(tmp_path):
    store = Store(tmp_path)
    file = store.path(ARRIVALS, MONDAY)
    file.parent.mkdir(parents=True)
    file.write_text("operator,minute\n")

    with pytest.raises(InputError, match=f"{re.escape(str(file))}: expected a Parquet file"):
        store.paths(ARRIVALS, [MONDAY])


def test_days_that_are_not_there_are_no_rows(spark, tmp_path):
    rows = read_table(spark, Store(tmp_path), ARRIVALS, [MONDAY])

    assert rows.collect() == []
    assert rows.columns == [*ARRIVALS.names, "app", "day"]
