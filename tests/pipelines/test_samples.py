"""What the tables hold can be fitted."""

import datetime
import math
import tracemalloc

import pytest

from tests.pipelines.known_history import (
    KnownJob,
    KnownOperator,
    arrivals_of,
    work_of,
    write_day,
    write_rows,
)
from weir_pipelines.history import read_fitting_samples
from weir_pipelines.schemas import ARRIVALS, WORK
from weir_pipelines.store import Partition, Tables

DAY = Partition("app", datetime.date(1970, 1, 1))


def some_tables(tmp_path, arrivals, work):
    tables = Tables(tmp_path)
    write_rows(tables, ARRIVALS, DAY, arrivals)
    write_rows(tables, WORK, DAY, work)
    return tables


def test_minutes_become_intervals_with_service_times_by_node_type(tmp_path):
    minutes = range(0, 300, 60)
    tables = some_tables(
        tmp_path,
        [arrivals_of(minute) for minute in minutes],
        [work_of(minute, "small", replicas=2.0) for minute in minutes]
        + [work_of(minute, "large", seconds=12.0) for minute in minutes],
    )

    samples, _ = read_fitting_samples(tables, [DAY], ["small/500m", "large/1"])

    [interval] = samples.intervals
    operator = interval.operators["match"]
    services = {each.node_type: each for each in operator.services}
    assert (interval.time, interval.seconds, interval.disturbed) == (300.0, 300, False)
    assert operator.deployment == {"small/500m": 2, "large/1": 1}
    assert (operator.arrived, operator.taken, operator.given) == (25.0, 20.0, 10.0)
    assert services["small/500m"].mean == pytest.approx(0.040)
    assert services["small/500m"].variance == pytest.approx(1.2 / 600 - 0.040**2)
    assert services["large/1"].mean == pytest.approx(0.020)
    assert interval.response_time == pytest.approx(0.05)


def test_what_was_not_measured_is_not_known_and_a_restart_disturbs_two_intervals(tmp_path):
    minutes = range(0, 1200, 60)
    faults = {420: ["restart"]}
    tables = some_tables(
        tmp_path,
        [arrivals_of(minute, faults=faults.get(minute, [])) for minute in minutes]
        + [arrivals_of(0, operator="count", completeness=0.5)],
        [work_of(minute, "small", squares=None, sink_records=None) for minute in minutes]
        + [work_of(0, "small", operator="count", sink_records=None)],
    )

    samples, _ = read_fitting_samples(tables, [DAY], ["small/1"])

    disturbed = [(each.time, each.disturbed) for each in samples.intervals]
    assert disturbed == [(300.0, False), (600.0, True), (900.0, True), (1200.0, False)]
    assert [change.time for change in samples.changes] == [480]
    for interval in samples.intervals:
        [service] = interval.operators["match"].services  # `count` was hardly covered
        assert math.isnan(service.variance)
        assert math.isnan(interval.response_time)
        assert interval.operators.keys() == {"match"}


def test_what_ran_on_a_pool_that_the_job_no_longer_has_is_no_sample_and_the_pool_named(tmp_path):
    tables = some_tables(tmp_path, [arrivals_of(0)], [work_of(0, "small")])

    samples, untold = read_fitting_samples(tables, [DAY], ["large/1"])

    assert samples.intervals == ()
    assert untold == ("small",)


def test_an_operator_is_left_out_while_it_runs_on_a_pool_of_several_sizes(tmp_path):
    tables = some_tables(
        tmp_path,
        [arrivals_of(0), arrivals_of(300), arrivals_of(0, operator="count"), arrivals_of(600)],
        [
            work_of(0, "small"),
            work_of(0, "large"),
            work_of(300, "large"),
            work_of(0, "large", operator="count"),
            work_of(600, "small"),
        ],
    )

    samples, untold = read_fitting_samples(tables, [DAY], ["small/250m", "small/500m", "large/1"])

    seen = [(each.time, set(each.operators)) for each in samples.intervals]
    assert seen == [(300.0, {"count"}), (600.0, {"match"})]
    assert untold == ("small",)


def test_reading_a_day_takes_little_more_memory_than_what_is_kept_of_it(tmp_path):
    operators = tuple(KnownOperator(name=f"operator-{number}") for number in range(10))
    write_day(tmp_path, DAY, KnownJob(rate=lambda _: 20.0, operators=operators))
    tables = Tables(tmp_path)
    read_fitting_samples(tables, [DAY], ["small/1"])  # loads what pyarrow loads when first asked

    tracemalloc.start()
    try:
        samples, _ = read_fitting_samples(tables, [DAY], ["small/1"])
        kept, maximum = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert len(samples.intervals) == 288
    assert maximum < 3 * kept  # a row of Python for each of the day's would make it twenty times
