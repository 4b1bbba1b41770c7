"""What response times say of arrivals, of the wire and of who gets the records."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.simulator.fitting.known_job import a_model
from weir_policies.model.queueing import predict_means
from weir_policies.policy import Aggregation
from weir_simulator.fitting.samples import IntervalSample, OperatorSample
from weir_simulator.fitting.waiting import fit_waiting, is_steady


def intervals_of(truth, rates, *, rng, noise=0.05, **fields):
    """Return what would be measured of two replicas if the formula were the truth."""
    intervals = []
    for place, rate in enumerate(rates):
        times, busy = predict_means(
            replace(truth, aggregation=Aggregation.AVERAGE), np.array([[2, 0]]), rate
        )
        sample = OperatorSample(
            deployment={"small/1": 2},
            arrived=rate,
            taken=rate,
            response_time=float(times[0] * rng.lognormal(0.0, noise)),
            utilisation=(float(busy[0]), float(busy[0])),
        )
        intervals.append(
            IntervalSample(
                time=60.0 * (place + 1), seconds=60.0, operators={"op": replace(sample, **fields)}
            )
        )
    return intervals


LOADS = [20.0, 40.0, 60.0, 70.0, 80.0] * 8


@settings(max_examples=20)
@given(
    arrival_scv=st.floats(0.3, 3.0),
    network_time=st.floats(0.0, 0.02),
    seed=st.integers(0, 2**32 - 1),
)
def test_variability_and_network_time_come_back(arrival_scv, network_time, seed):
    truth = a_model(arrival_scv=arrival_scv, network_time=network_time, keyed=False)
    intervals = intervals_of(truth, LOADS, rng=np.random.default_rng(seed))

    found = fit_waiting(intervals, replace(truth, arrival_scv=1.0, network_time=0.0))

    # Irregular arrivals scatter the waits more, and the prior draws towards 1.
    off = max(0.35, 0.17 * arrival_scv)
    assert found.arrival_scv == pytest.approx(arrival_scv, abs=off)
    assert found.network_time == pytest.approx(network_time, abs=0.003)


def test_intervals_of_few_records_are_not_taken_for_an_easier_job():
    truth = a_model(arrival_scv=1.0, network_time=0.0, keyed=False)
    # A mean that chance moves by 40 %: most are below the true one, which a few late ones make up.
    noisy = intervals_of(truth, LOADS * 5, rng=np.random.default_rng(1), noise=0.4)

    found = fit_waiting(noisy, truth)

    observed = np.mean([each.operators["op"].response_time for each in noisy])
    expected = np.mean(
        [
            predict_means(found, np.array([[2, 0]]), each.operators["op"].arrived)[0][0]
            for each in noisy
        ]
    )
    assert expected == pytest.approx(observed, rel=0.1)


def test_outliers_do_not_carry_the_fit_away():
    truth, rng = a_model(), np.random.default_rng(1)
    intervals = intervals_of(truth, LOADS, rng=rng)
    late = [
        replace(
            each,
            operators={
                "op": replace(
                    each.operators["op"], response_time=20 * each.operators["op"].response_time
                )
            },
        )
        for each in intervals[:4]
    ]

    found = fit_waiting([*late, *intervals[4:]], replace(truth, network_time=0.0))

    assert found.network_time == pytest.approx(truth.network_time, abs=0.003)


def test_an_operator_that_was_never_busy_keeps_the_assumed_variability():
    truth = a_model(arrival_scv=3.0)
    intervals = intervals_of(truth, [2.0] * 20, rng=np.random.default_rng(1))

    found = fit_waiting(intervals, replace(truth, arrival_scv=1.0, network_time=0.0))

    assert found.arrival_scv == pytest.approx(1.0, abs=0.3)


@pytest.mark.parametrize(
    "fields",
    [
        {"response_time": math.nan},
        {"utilisation": (0.99, 0.5)},
        {"taken": 100.0},
        {"arrived": 0.0},
    ],
)
def test_intervals_that_are_not_steady_are_not_looked_at(fields):
    truth = a_model()
    intervals = intervals_of(truth, LOADS, rng=np.random.default_rng(1), **fields)

    found = fit_waiting(intervals, truth)

    assert not any(is_steady(each.operators["op"]) for each in intervals)
    assert found == truth
