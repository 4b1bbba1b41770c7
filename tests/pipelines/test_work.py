import numpy as np
import pytest

from tests.pipelines.known_history import KnownSeries, build_history, work_out_history
from weir_pipelines import metrics
from weir_pipelines.work import measure_work

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
    return work_out_history(build_history(every), measure_work)


def test_a_minute_says_who_worked_how_much(minutes):
    [row] = [
        row for row in minutes if (row.operator, row.pool, row.minute) == ("match", "small", 600)
    ]

    assert (row.replicas, row.records) == pytest.approx((2.0, 1200.0))
    assert row.utilisation == pytest.approx(0.4, rel=0.15)
    assert row.source == "helper"
