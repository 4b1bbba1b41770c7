"""Files of others: what is in them, and what is wrong with them, by file, row and column."""

import math
import re

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from weir_pipelines.errors import InputError
from weir_pipelines.ingest import UNKNOWN, Ingester, read_openmetrics, read_written_parquet
from weir_pipelines.metrics import METRICS, RECORDS_IN

NAME = METRICS[RECORDS_IN]
LINE = f'{NAME}{{weir_app="shop_trips",weir_operator="match",tm_id="a"}} 12 1772445605.25'


def text(tmp_path, *lines):
    file = tmp_path / "dump.txt"
    file.write_text("\n".join(lines) + "\n# EOF\n")
    return file


def test_openmetrics_lines_become_samples_in_their_order(tmp_path):
    back = LINE.replace("1772445605.25", "1772445600")
    file = text(tmp_path, f"# TYPE {NAME} unknown", LINE, back, LINE.replace(" 12 ", " NaN "))

    read = list(read_openmetrics(file))

    assert [each.times_ms for each in read] == [[1772445605250], [1772445600000], [1772445605250]]
    assert [each.values[0] for each in read[:2]] == [12.0, 12.0]
    assert math.isnan(read[2].values[0])
    assert read[0].labels["weir_operator"] == "match"


def test_a_mark_that_an_editor_put_before_a_file_hides_no_sample(tmp_path):
    file = text(tmp_path, LINE)
    file.write_text(f"\ufeff{file.read_text()}")

    assert [each.name for each in read_openmetrics(file)] == [NAME]


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    {
        "no value": (f'{NAME}{{a="b"}}', "line 2: expected a sample"),
        "milliseconds": (
            f'{NAME}{{a="b"}} 12 1764547200000',
            "line 2, column timestamp: expected Unix seconds, got 1764547200000",
        ),
        "before 1970": (
            f'{NAME}{{a="b"}} 12 -5',
            "line 2, column timestamp: expected Unix seconds, got -5",
        ),
        "no time": (f'{NAME}{{a="b"}} 12', "line 2, column timestamp: expected Unix seconds"),
        "no number": (f'{NAME}{{a="b"}} twelve 1', "line 2: expected a sample"),
    }.values(),
    ids=["no value", "milliseconds", "before 1970", "no time", "no number"],
)
def test_a_line_without_a_sample_is_named(tmp_path, wrong, sentence):
    file = text(tmp_path, LINE, wrong)

    with pytest.raises(InputError, match=re.escape(f"{file}, {sentence}")):
        list(read_openmetrics(file))


def parquet(tmp_path, **columns):
    file = tmp_path / "written.parquet"
    labels = pa.array([[("weir_app", "a")]] * 2, pa.map_(pa.string(), pa.string()))
    whole = {"name": [NAME, NAME], "labels": labels, "time_ms": [1000, 2000], "value": [1.0, 2.0]}
    pq.write_table(pa.table({**whole, **columns}), file)
    return file


def test_written_parquet_becomes_samples_with_their_receipt(tmp_path):
    read = list(read_written_parquet(parquet(tmp_path, received_ms=[1010, None])))

    assert [(each.times_ms, each.values, each.received_ms) for each in read] == [
        ([1000], [1.0], [1010]),
        ([2000], [2.0], [UNKNOWN]),
    ]
    assert read[0].labels == {"weir_app": "a"}


@pytest.mark.parametrize(
    ("columns", "sentence"),
    {
        "a value is missing": ({"value": [1.0, None]}, "row 2, column value: expected a value"),
        "a column is text": ({"value": ["1", "2"]}, "column value: expected double, got string"),
        "times are seconds": (
            {"time_ms": [1.0, 2.0]}, "column time_ms: expected int64, got double"
        ),
    }.values(),
    ids=["a value is missing", "a column is text", "times are seconds"],
)  # fmt: skip
def test_parquet_that_is_not_as_agreed_is_refused_by_row_and_column(tmp_path, columns, sentence):
    file = parquet(tmp_path, **columns)

    with pytest.raises(InputError, match=re.escape(f"{file}, {sentence}")):
        list(read_written_parquet(file))


def test_only_the_series_of_the_history_are_taken_in(tmp_path):
    other = LINE.replace(NAME, "flink_taskmanager_Status_JVM_Threads_Count")
    intake = Ingester()

    taken = intake.take(read_openmetrics(text(tmp_path, LINE, other)))

    assert taken == 1
    assert [each.app for each in intake.partitions] == ["shop_trips"]


def test_samples_of_a_job_without_weirs_labels_go_by_task_and_the_name_given(tmp_path):
    line = f'{NAME}{{task_name="Map",host="h",subtask_index="3"}} 12 1772445605'
    intake = Ingester("legacy")

    intake.take(read_openmetrics(text(tmp_path, line)))

    [partition] = intake.partitions
    [row] = intake.tables(partition)[0].to_pylist()
    assert (partition.app, row["operator"], row["task"], row["replica"], row["subtask"]) == (
        "legacy",
        "Map",
        "Map",
        "h",
        "3",
    )
