"""Partitions are there whole or not at all, and only those that fit their table."""

import datetime
import os
import re
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from weir_pipelines.errors import InputError, StoreError
from weir_pipelines.jobs import read_table, spark_schema, write_table
from weir_pipelines.schemas import ARRIVALS, SAMPLES
from weir_pipelines.store import FORGOTTEN_AFTER, Partition, Tables

MONDAY = Partition("shop/trips", datetime.date(2026, 3, 2))
TUESDAY = Partition("shop/trips", datetime.date(2026, 3, 3))


@pytest.fixture
def tables(tmp_path):
    return Tables(tmp_path)


def some_samples(spark, *days, value=1.0):
    rows = [(1, 1000 * n, value, None, each.app, each.day) for each in days for n in range(3)]
    return spark.createDataFrame(rows, spark_schema(SAMPLES))


def as_files(root):
    return {path.relative_to(root): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def values_of(tables, partition):
    return set(tables.read(SAMPLES, partition)["value"].to_pylist())


def test_what_is_written_can_be_read_back_with_its_app_and_day(spark, tables):
    written = write_table(tables, SAMPLES, some_samples(spark, MONDAY, TUESDAY))

    assert written == tuple(tables.partitions(SAMPLES)) == (MONDAY, TUESDAY)
    [row] = (
        read_table(spark, tables, SAMPLES, [TUESDAY], SAMPLES.schema.names)
        .where("time_ms = 2000")
        .collect()
    )
    assert (row.app, row.day, row.value, row.received_ms) == ("shop/trips", TUESDAY.day, 1.0, None)


def test_writing_a_day_again_leaves_every_byte_as_it_was(spark, tables, tmp_path):
    write_table(tables, SAMPLES, some_samples(spark, MONDAY, TUESDAY))
    before = as_files(tmp_path)

    write_table(tables, SAMPLES, some_samples(spark, TUESDAY))

    assert as_files(tmp_path) == before


def test_other_days_stay_when_one_is_written_again(spark, tables):
    write_table(tables, SAMPLES, some_samples(spark, MONDAY, TUESDAY))

    write_table(tables, SAMPLES, some_samples(spark, TUESDAY, value=2.0))

    assert (values_of(tables, MONDAY), values_of(tables, TUESDAY)) == ({1.0}, {2.0})


def test_a_job_that_yields_no_rows_leaves_none_of_an_earlier_run(spark, tables):
    write_table(tables, SAMPLES, some_samples(spark, MONDAY, TUESDAY))

    written = write_table(
        tables, SAMPLES, some_samples(spark, TUESDAY, value=2.0), replaced=[MONDAY, TUESDAY]
    )

    assert written == (TUESDAY,)
    assert (values_of(tables, MONDAY), values_of(tables, TUESDAY)) == (set(), {2.0})


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_a_writer_that_dies_half_way_leaves_the_old_day_to_readers(tables, monkeypatch, step):
    tables.write(ARRIVALS, MONDAY, [])
    file = Path(tables.path(ARRIVALS, MONDAY))
    before = file.read_bytes()

    def die(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(os, step, die)
    with pytest.raises(KeyboardInterrupt):
        tables.put(str(file), pa.py_buffer(b"other"))

    assert list(tables.partitions(ARRIVALS)) == [MONDAY]
    assert file.read_bytes() == before


def test_a_reader_of_the_old_day_keeps_it_while_it_is_replaced(tables):
    path = tables.path(ARRIVALS, MONDAY)
    tables.put(path, pa.py_buffer(b"old"))

    with open(path, "rb") as reader:
        tables.put(path, pa.py_buffer(b"new"))
        seen = reader.read()

    assert (seen, Path(path).read_bytes()) == (b"old", b"new")


def test_what_a_killed_writer_left_is_no_partition_and_goes_with_the_next_when_it_is_old(tables):
    tables.write(ARRIVALS, MONDAY, [])
    folder = Path(tables.path(ARRIVALS, MONDAY)).parent
    young, old = (folder / f".arrivals.parquet.{name}" for name in ("young", "old"))
    for left in (young, old):
        left.touch()
    long_ago = time.time() - FORGOTTEN_AFTER - 60
    os.utime(old, (long_ago, long_ago))
    there = list(tables.partitions(ARRIVALS))

    tables.write(ARRIVALS, MONDAY, [])

    assert there == [MONDAY]
    assert {path.name for path in folder.iterdir()} == {young.name, "arrivals.parquet"}


def test_a_folder_that_cannot_be_made_is_named(tmp_path):
    (tmp_path / "file").touch()
    tables = Tables(tmp_path / "file")

    with pytest.raises(StoreError, match=r"file/arrivals/.* cannot be written: Not a directory"):
        tables.write(ARRIVALS, MONDAY, [])


@pytest.mark.parametrize(
    ("columns", "sentence"),
    {
        "a column is missing": ({"series": [1]}, "expected column time_ms of samples version 1"),
        "a column has another type": (
            {"series": [1], "time_ms": ["then"], "value": [1.0], "received_ms": [1]},
            "expected column time_ms to be int64, got string",
        ),
    }.values(),
    ids=["a column is missing", "a column has another type"],
)
def test_a_foreign_file_is_refused_with_its_name_and_column(tables, columns, sentence):
    file = place(tables, SAMPLES, MONDAY)
    pq.write_table(pa.table(columns), file)

    for use in (lambda: tables.check(SAMPLES, [MONDAY]), lambda: tables.read(SAMPLES, MONDAY)):
        with pytest.raises(InputError, match=f"{re.escape(str(file))}: {sentence}"):
            use()


def place(tables, table, partition):
    file = Path(tables.path(table, partition))
    file.parent.mkdir(parents=True)
    return file


def test_a_folder_in_the_place_of_a_day_is_refused_by_its_name(tables, tmp_path):
    file = tmp_path / "samples/v1/app=a/day=yesterday/samples.parquet"
    file.parent.mkdir(parents=True)
    file.touch()

    with pytest.raises(InputError, match=r"day=yesterday: expected a folder of a day"):
        tables.partitions(SAMPLES)


def test_a_file_that_is_no_parquet_is_refused_by_name(tables):
    file = place(tables, ARRIVALS, MONDAY)
    file.write_text("operator,minute\n")

    with pytest.raises(InputError, match=f"{re.escape(str(file))}: expected a Parquet file"):
        tables.check(ARRIVALS, [MONDAY])


def test_days_that_are_not_there_are_no_rows(spark, tables):
    rows = read_table(spark, tables, ARRIVALS, [MONDAY], ["minute"])

    assert rows.collect() == []
    assert rows.columns == ["minute", "app", "day"]


def test_an_address_of_another_kind_is_refused():
    with pytest.raises(
        InputError, match=r"hdfs://: expected a folder, or one of s3://, gs://, abfs://"
    ):
        Tables("hdfs://name/tables")
