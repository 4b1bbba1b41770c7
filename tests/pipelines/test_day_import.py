import random
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from weir_pipelines.ingest import DayImport, Scraped, merge_rows
from weir_pipelines.metrics import METRICS, RECORDS_IN
from weir_pipelines.schemas import SAMPLES, SERIES
from weir_pipelines.store import Tables

MIDNIGHT_MS = 1_772_409_600_000
MAX_HELD = 50


def sample(tm, time_ms, value=1.0):
    labels = {"weir_app": "shop_trips", "weir_operator": "match", "tm_id": tm}
    return Scraped(name=METRICS[RECORDS_IN], labels=labels, times_ms=[time_ms], values=[value])


@pytest.fixture
def scraped():
    """Samples of four TaskManagers around midnight, some twice, in no order."""
    drawn = random.Random(7)
    times = [MIDNIGHT_MS + 5000 * step for step in range(-60, 60)] * 2
    found = [sample(f"tm-{n % 4}", time, float(n)) for n, time in enumerate(times)]
    drawn.shuffle(found)
    return found


def files_of(tmp_path, scraped, most_held):
    tables = Tables(tmp_path / f"holding-{most_held}")
    days = DayImport(tmp_path / f"sorting-{most_held}", most_held=most_held)
    taken = days.take(scraped)
    written = days.write(tables)
    assert taken == len(scraped)
    assert len(written) == 2
    return {
        (table.name, each): Path(tables.path(table, each)).read_bytes()
        for table in (SERIES, SAMPLES)
        for each in tables.partitions(table)
    }


@pytest.mark.parametrize("most_held", [1, 7, MAX_HELD])
def test_a_day_is_the_same_to_the_byte_however_little_is_held(tmp_path, scraped, most_held):
    assert files_of(tmp_path, scraped, most_held) == files_of(tmp_path, scraped, 10**6)


def test_no_more_samples_are_held_than_may_be(tmp_path, scraped):
    days = DayImport(tmp_path / "sorting", most_held=MAX_HELD)
    held = []

    def watched():
        for each in scraped:
            yield each
            held.append(days.held)

    taken = days.take(watched())

    assert taken == len(scraped) > 4 * MAX_HELD
    assert max(held) == MAX_HELD - 1  # with one more they are on disk


def test_merging_holds_what_it_yields_and_one_row_of_each_run():
    read = 0

    def run(number):
        nonlocal read
        for time in range(1000):
            read += 1
            yield 1, 10 * time + number, 1.0, None

    runs = [run(number) for number in range(3)]
    max_held, yielded = 0, 0

    for rows in merge_rows(runs, at_once=MAX_HELD):
        max_held = max(max_held, read - yielded)
        yielded += len(rows)

    assert yielded == read == 3000
    assert max_held <= MAX_HELD + len(runs)


def test_rows_are_merged_by_series_and_time_and_equal_ones_by_run():
    first = [(1, 10, 1.0, None), (2, 10, 2.0, None)]
    second = [(1, 5, 3.0, 6), (1, 10, 4.0, None)]

    [merged] = merge_rows([first, second], at_once=10)

    assert [value for _, _, value, _ in merged] == [3.0, 1.0, 4.0, 2.0]


def test_a_day_is_written_in_groups_of_rows_that_readers_can_take_one_by_one(
    tmp_path, scraped, monkeypatch
):
    monkeypatch.setattr("weir_pipelines.ingest.ROW_GROUP", MAX_HELD)
    tables = Tables(tmp_path)

    days = DayImport(tmp_path / "sorting", most_held=MAX_HELD)
    days.take(scraped)
    [_, today] = days.write(tables)

    metadata = pq.ParquetFile(tables.path(SAMPLES, today)).metadata
    groups = [metadata.row_group(n).num_rows for n in range(metadata.num_row_groups)]
    assert sum(groups) == len(scraped) // 2
    assert max(groups) == MAX_HELD
