from datetime import date

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.pipelines.known_history import KnownSeries, build_history
from weir_pipelines import metrics
from weir_pipelines.arrivals import rebuild_arrivals
from weir_pipelines.errors import InputError
from weir_pipelines.jobs import DayJob, split_runs, work_out_days
from weir_pipelines.samples import EPOCH
from weir_pipelines.schemas import ARRIVALS, SAMPLES, SERIES
from weir_pipelines.settings import DAY_MS, ArrivalSettings
from weir_pipelines.store import Partition, Store, arrow_schema

DAYS = [Partition("app", date(1970, 1, day)) for day in (1, 2, 3)]


@pytest.fixture
def store(tmp_path):
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
    store = Store(tmp_path)
    for partition in DAYS:
        number = partition.day.toordinal() - EPOCH
        own = [row for each in histories for row in each.samples if row[1] // DAY_MS == number]
        columns = [list(column) for column in zip(*own, strict=True)]
        place(store, SAMPLES, partition, pa.table(columns, schema=arrow_schema(SAMPLES)))
        labels = pa.Table.from_pylist(histories[0].labels, schema=arrow_schema(SERIES))
        place(store, SERIES, partition, labels)
    return store


def place(store, table, partition, rows):
    file = store.path(table, partition)
    file.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(rows, file)


def a_job(store, rebuild=rebuild_arrivals):
    return DayJob(store=store, table=ARRIVALS, rebuild=rebuild, settings=ArrivalSettings())


def worked_out(store):
    return {each: store.path(ARRIVALS, each).read_bytes() for each in store.partitions(ARRIVALS)}


def test_a_day_comes_out_the_same_alone_or_among_others(spark, store):
    work_out_days(spark, a_job(store), DAYS)
    together = worked_out(store)

    for day in DAYS:
        work_out_days(spark, a_job(store), [day])

    assert sorted(together) == DAYS
    assert worked_out(store) == together


def test_minutes_at_midnight_are_completed_by_the_neighbouring_day(spark, store):
    work_out_days(spark, a_job(store), DAYS[1:2])

    every = pq.ParquetFile(store.path(ARRIVALS, DAYS[1])).read().to_pylist()
    rows = [row for row in every if row["completeness"] > 0]
    assert [row["minute"] for row in rows] == [
        *range(86_400, 86_400 + 300, 60),
        *range(2 * 86_400 - 360, 2 * 86_400, 60),
    ]
    assert [row["arrived"] for row in rows] == pytest.approx([20.0] * 11)
    assert [row["completeness"] for row in rows] == pytest.approx(
        [1.0] * 4 + [57 / 60, 3 / 60] + [1.0] * 5
    )


def test_a_day_of_which_nothing_is_known_any_more_becomes_empty(spark, store):
    work_out_days(spark, a_job(store), DAYS)
    place(store, SAMPLES, DAYS[0], arrow_schema(SAMPLES).empty_table())
    place(store, SAMPLES, DAYS[1], arrow_schema(SAMPLES).empty_table())

    written = work_out_days(spark, a_job(store), DAYS[:2])

    assert written == ()
    assert pq.read_metadata(store.path(ARRIVALS, DAYS[0])).num_rows == 0


def test_a_task_that_fails_leaves_every_day_as_it_was(spark, store):
    work_out_days(spark, a_job(store), DAYS)
    before = worked_out(store)

    with pytest.raises(Exception, match="of no use"):
        work_out_days(spark, a_job(store, fail), DAYS)

    assert worked_out(store) == before


def fail(samples, series, day, settings):
    raise RuntimeError(f"{day} is of no use")


def test_a_foreign_file_is_refused_by_its_name_before_any_task_starts(spark, store):
    place(store, SAMPLES, DAYS[2], pa.table({"series": [1]}))

    with pytest.raises(InputError, match=r"day=1970-01-03.*expected column time_ms"):
        work_out_days(spark, a_job(store), DAYS)


def test_consecutive_days_of_an_application_go_together_up_to_a_number():
    days = [Partition("app", date(2026, 3, day)) for day in (5, 1, 2, 3)]
    other = Partition("other", date(2026, 3, 4))

    assert split_runs([*days, other], most=2) == [
        (days[1], days[2]),
        (days[3],),
        (days[0],),
        (other,),
    ]
