"""Series as they were scraped, out of the pipelines' tables and out of Parquet."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from weir_pipelines.errors import InputError
from weir_pipelines.ingest import Ingester, Scraped, begin_of, day_of, write_day
from weir_pipelines.metrics import BUSY, METRICS, RECORDS_OUT
from weir_pipelines.raw_series import read_parquet, read_tables
from weir_pipelines.store import Tables

APP = "streams/trips"
DAY = day_of(1_772_409_600_000)
BEGIN = begin_of(DAY)


@pytest.fixture
def tables(tmp_path):
    """Two series of one subtask, an hour each."""
    ingester = Ingester()
    labels = {
        "weir_app": APP, "weir_operator": "match", "task_name": "match -> sink", "job_id": "a1",
        "tm_id": "tm", "subtask_index": "3", "task_attempt_num": "1",
    }  # fmt: skip
    times = [round(1000 * (BEGIN + 30 * each)) for each in range(120)]
    ingester.take(
        Scraped(name=METRICS[role], labels=labels, times_ms=times, values=list(range(120)))
        for role in (RECORDS_OUT, BUSY)
    )
    tables = Tables(tmp_path / "tables")
    for partition in ingester.partitions:
        series, samples = ingester.tables(partition)
        write_day(tables, partition, series, [samples])
    return str(tmp_path / "tables")


def test_tables_give_back_what_was_scraped(tables):
    read: list[float] = []

    series = list(read_tables(tables, APP, on_read=read.append))

    assert {each.name for each in series} == {METRICS[RECORDS_OUT], METRICS[BUSY]}
    one = series[0]
    assert one.labels["task_name"] == "match -> sink"
    assert (one.labels["subtask_index"], one.labels["job_name"]) == ("3", APP)
    assert one.times == pytest.approx(BEGIN + 30 * np.arange(120))
    assert one.values == pytest.approx(np.arange(120))
    assert read == [1.0]


def test_an_application_that_is_not_there_is_refused_with_those_that_are(tables):
    with pytest.raises(InputError, match="there are those of streams/trips: name one with --job"):
        list(read_tables(tables, "other/job", on_read=lambda part: None))


def test_rows_in_any_order_become_series_in_order_of_time(tmp_path):
    path = tmp_path / "a.parquet"
    rows = {
        "name": ["a", "b", "a", None],
        "labels": pa.array([[("x", "1")], [], [("x", "1")], []], pa.map_(pa.string(), pa.string())),
        "time_ms": [2000, 1000, 1000, 1000],
        "value": [2.0, 5.0, 1.0, 7.0],
    }
    pq.write_table(pa.table(rows), path)

    series = read_parquet(path, is_wanted=lambda name: name == "a", on_read=lambda part: None)

    [one] = series
    assert (one.name, one.labels) == ("a", {"x": "1"})
    assert one.times.tolist() == [1.0, 2.0]
    assert one.values.tolist() == [1.0, 2.0]


def test_another_table_is_refused_with_what_it_lacks(tmp_path):
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"name": ["a"], "value": [1.0]}), path)

    with pytest.raises(InputError, match="got no labels, time_ms"):
        read_parquet(path, is_wanted=lambda name: True, on_read=lambda part: None)
