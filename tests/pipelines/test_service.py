import math

import numpy as np
import pytest

from tests.pipelines.known_history import KnownSeries, build_history, work_out_history
from weir_pipelines import metrics
from weir_pipelines.schemas import WORK
from weir_pipelines.service import estimate_selectivities, estimate_speedups, summarise_service
from weir_pipelines.settings import ArrivalSettings
from weir_pipelines.work import measure_work

COLUMNS = (*WORK.names, "app", "day")
RATE = 10.0
MINUTES = 60


def a_replica(operator, pool, subtask, mean, *, rng, deviation=0.5, helper=True):
    """Return the series of a replica whose minutes' mean service times scatter by 5 %."""
    means = mean * (1 + 0.05 * rng.standard_normal(MINUTES + 1))
    spent = np.concatenate([[0], np.cumsum(60 * RATE * means)])
    squared = np.concatenate([[0], np.cumsum(60 * RATE * means**2 * (1 + deviation**2))])

    def reading(totals):
        return lambda time: float(np.interp(time / 60, np.arange(MINUTES + 2), totals))

    known = {"operator": operator, "pool": pool, "subtask": subtask, "end": 60.0 * MINUTES}
    counted = {"function": "work", **known}
    series = [
        KnownSeries(metric=metrics.RECORDS_IN, curve=lambda time: RATE * time, **known),
        KnownSeries(metric=metrics.RECORDS_OUT, curve=lambda time: 2.5 * RATE * time, **known),
        KnownSeries(metric=metrics.BUSY, curve=lambda t: 1000 * reading(spent)(t), **known),
    ]
    if helper:
        us, us2 = (lambda t: 1e6 * reading(spent)(t)), (lambda t: 1e12 * reading(squared)(t))
        series += [
            KnownSeries(metric=metrics.SERVICE_N, curve=lambda time: RATE * time, **counted),
            KnownSeries(metric=metrics.SERVICE_US, curve=us, **counted),
            KnownSeries(metric=metrics.SERVICE_US2, curve=us2, **counted),
        ]
    return series


@pytest.fixture(scope="module")
def minutes():
    rng = np.random.default_rng(5)
    every = [
        *a_replica("match", "small", 0, 0.040, rng=rng),
        *a_replica("match", "small", 1, 0.040, rng=rng),
        *a_replica("match", "large", 2, 0.025, rng=rng),
        *a_replica("count", "small", 0, 0.020, rng=rng),
        *a_replica("count", "large", 1, 0.0125, rng=rng),
        *a_replica("plain", "small", 0, 0.010, rng=rng, helper=False),
    ]
    return work_out_history(build_history(every), measure_work, ArrivalSettings())


@pytest.fixture(scope="module")
def work(spark, minutes):
    rows = [tuple(getattr(row, name) for name in COLUMNS) for row in minutes]
    return spark.createDataFrame(rows, WORK.ddl)


@pytest.fixture(scope="module")
def service(work):
    return summarise_service(work).persist()


@pytest.fixture(scope="module")
def times(service):
    return {(row.operator, row.pool): row for row in service.collect()}


def test_a_minute_says_who_worked_how_much(minutes):
    [row] = [
        row for row in minutes if (row.operator, row.pool, row.minute) == ("match", "small", 600)
    ]

    assert (row.replicas, row.records) == pytest.approx((2.0, 1200.0))
    assert row.utilisation == pytest.approx(0.4, rel=0.15)
    assert row.source == "helper"


@pytest.mark.parametrize(
    ("operator", "pool", "truth"),
    [("match", "small", 0.040), ("match", "large", 0.025), ("count", "large", 0.0125)],
)
def test_a_service_time_is_told_as_surely_as_minutes_agree(times, operator, pool, truth):
    row = times[operator, pool]

    # Two half-widths: one interval in twenty misses the truth by more than one.
    assert abs(row.mean - truth) < row.high - row.low
    assert row.high - row.low < 0.05 * truth
    assert math.sqrt(row.variance) == pytest.approx(truth * 0.5, rel=0.1)


def test_without_the_helper_busy_time_stands_for_the_service_time(times):
    row = times["plain", "small"]

    assert row.mean == pytest.approx(0.010, rel=0.03)
    assert (row.source, row.variance) == ("busyTime", None)


def test_the_speed_of_a_pool_is_told_by_all_operators_that_ran_on_both(service):
    [row] = estimate_speedups(service).collect()

    assert (row.pool, row.reference, row.operators) == ("large", "small", 2)
    assert row.low < 1.6 < row.high
    assert row.high - row.low < 0.1


def test_a_selectivity_is_records_out_per_record_in(spark):
    columns = (
        "app STRING, day INT, operator STRING, completeness DOUBLE, taken DOUBLE, given DOUBLE"
    )
    rows = [("app", 1, "match", 1.0, 10.0 + n, 25.0 + 2.5 * n + (-1) ** n) for n in range(40)]
    rows.append(("app", 1, "match", 0.5, 10.0, 0.0))  # half a minute is not trusted

    [row] = estimate_selectivities(spark.createDataFrame(rows, columns)).collect()

    assert row.minutes == 40
    assert row.low < 2.5 < row.high
    assert row.high - row.low < 0.05


def test_one_minute_has_no_interval(spark):
    columns = (
        "app STRING, day INT, operator STRING, completeness DOUBLE, taken DOUBLE, given DOUBLE"
    )

    [row] = estimate_selectivities(
        spark.createDataFrame([("app", 1, "match", 1.0, 10.0, 25.0)], columns)
    ).collect()

    assert (row.selectivity, row.low, row.high) == (2.5, None, None)
