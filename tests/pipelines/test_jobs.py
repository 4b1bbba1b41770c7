import os
import signal
from datetime import date
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.pipelines.known_history import KnownSeries, build_history
from weir_pipelines import metrics
from weir_pipelines.arrivals import rebuild_arrivals
from weir_pipelines.errors import InputError, StoreError
from weir_pipelines.jobs import Work, split_runs
from weir_pipelines.samples import EPOCH
from weir_pipelines.schemas import ARRIVALS, SAMPLES, SERIES
from weir_pipelines.settings import DAY_MS
from weir_pipelines.store import Partition, Tables

DAYS = [Partition("app", date(1970, 1, day)) for day in (1, 2, 3)]


@pytest.fixture
def tables(tmp_path):
    """Hold ten minutes around each of two midnights, of a counter that rises by 20 a second."""
    histories = [
        build_history(
            [
                KnownSeries(
                    metric=metrics.RECORDS_IN,
                    operator="match",
                    curve=lambda time: 20 * time,
                    start=86_400.0 * midnight - 303,
                    end=86_400.0 * midnight + 300,
                )
            ]
        )
        for midnight in (1, 2)
    ]
    tables = Tables(tmp_path)
    for partition in DAYS:
        number = partition.day.toordinal() - EPOCH
        own = [row for each in histories for row in each.samples if row[1] // DAY_MS == number]
        columns = [list(column) for column in zip(*own, strict=True)]
        place(tables, SAMPLES, partition, pa.table(columns, schema=SAMPLES.schema))
        labels = pa.Table.from_pylist(histories[0].labels, schema=SERIES.schema)
        place(tables, SERIES, partition, labels)
    return tables


def place(tables, table, partition, rows):
    file = Path(tables.path(table, partition))
    file.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(rows, file)


@pytest.fixture
def work_out(spark, tables):
    """Work days out to arrivals, by another function where one is given."""

    def work_out(days, rebuild=rebuild_arrivals):
        work = Work(session=spark, tables=tables, partitions=days)
        return work.work_out(ARRIVALS, rebuild)

    return work_out


def worked_out(tables):
    return {
        each: Path(tables.path(ARRIVALS, each)).read_bytes() for each in tables.partitions(ARRIVALS)
    }


def test_a_day_comes_out_the_same_alone_or_among_others(work_out, tables):
    work_out(DAYS)
    together = worked_out(tables)

    for day in DAYS:
        work_out([day])

    assert sorted(together) == DAYS
    assert worked_out(tables) == together


def test_minutes_at_midnight_are_completed_by_the_neighbouring_day(work_out, tables):
    work_out(DAYS[1:2])

    every = tables.read(ARRIVALS, DAYS[1]).to_pylist()
    rows = [row for row in every if row["completeness"] > 0]
    assert [row["minute"] for row in rows] == [
        *range(86_400, 86_400 + 300, 60),
        *range(2 * 86_400 - 360, 2 * 86_400, 60),
    ]
    assert [row["arrived"] for row in rows] == pytest.approx([20.0] * 11)
    assert [row["completeness"] for row in rows] == pytest.approx(
        [1.0] * 4 + [57 / 60, 3 / 60] + [1.0] * 5
    )


def test_a_day_of_which_nothing_is_known_any_more_becomes_empty(work_out, tables):
    work_out(DAYS)
    place(tables, SAMPLES, DAYS[0], SAMPLES.schema.empty_table())
    place(tables, SAMPLES, DAYS[1], SAMPLES.schema.empty_table())

    written = work_out(DAYS[:2])

    assert written == ()
    assert tables.partitions(ARRIVALS).keys() == {*DAYS}
    assert tables.read(ARRIVALS, DAYS[0]).num_rows == 0


def test_a_job_that_fails_leaves_each_day_as_it_was_or_as_it_should_be(work_out, tables):
    work_out(DAYS)
    before = worked_out(tables)

    with pytest.raises(Exception, match="of no use"):
        work_out(DAYS, fail_on_the_second)

    assert worked_out(tables)[DAYS[1]] == before[DAYS[1]]
    assert {tables.read(ARRIVALS, day).num_rows for day in DAYS} <= {0, 1440}


def fail_on_the_second(samples, series, day):
    if day == DAYS[1].day:
        raise RuntimeError(f"{day} is of no use")
    return ARRIVALS.schema.empty_table()


def test_a_worker_that_dies_is_replaced_and_its_days_are_worked_out_again(
    work_out, tables, tmp_path
):
    work_out(DAYS)
    before = worked_out(tables)
    for day in DAYS:
        place(tables, ARRIVALS, day, ARRIVALS.schema.empty_table())

    def die_once(samples, series, day):
        seen = tmp_path / "seen"
        if day == DAYS[1].day and not seen.exists():
            seen.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return rebuild_arrivals(samples, series, day)

    written = work_out(DAYS, die_once)

    assert list(written) == DAYS
    assert worked_out(tables) == before


def test_what_a_task_refuses_is_said_in_its_own_words(work_out, tables):
    Path(tables.path(ARRIVALS, DAYS[0])).mkdir(parents=True)

    with pytest.raises(
        StoreError, match=r"^.*/arrivals\.parquet cannot be written: Is a directory$"
    ):
        work_out(DAYS[:1])


def test_a_foreign_file_is_refused_by_its_name_before_any_task_starts(work_out, tables):
    place(tables, SAMPLES, DAYS[2], pa.table({"series": [1]}))

    with pytest.raises(InputError, match=r"day=1970-01-03.*expected column time_ms"):
        work_out(DAYS)


def test_consecutive_days_of_an_application_go_together_up_to_a_number():
    days = [Partition("app", date(2026, 3, day)) for day in (5, 1, 2, 3)]
    other = Partition("other", date(2026, 3, 4))

    assert split_runs([*days, other], most=2) == [
        (days[1], days[2]),
        (days[3],),
        (days[0],),
        (other,),
    ]
