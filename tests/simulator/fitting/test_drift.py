import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.simulator.fitting.known_job import a_model, a_structure
from weir_policies.model.estimation import ServiceMeasurement
from weir_simulator.fitting.drift import DriftDetector
from weir_simulator.fitting.fit import calibrate
from weir_simulator.fitting.samples import IntervalSample, OperatorSample

NOISE = 0.04
RECORDS = 2000


def intervals_of(factors, *, seed=1, records=RECORDS, disturbed=False):
    """Return one interval per factor of the service time, on one node type."""
    rng = np.random.default_rng(seed)
    intervals = []
    for place, factor in enumerate(factors):
        mean = 0.02 * factor * math.exp(rng.normal(0.0, NOISE))
        service = ServiceMeasurement(
            node_type="small/1", records=records, mean=mean, variance=0.5 * mean**2
        )
        sample = OperatorSample(
            deployment={"small/1": 1}, arrived=30.0, taken=30.0, services=(service,)
        )
        intervals.append(
            IntervalSample(
                time=60.0 * (place + 1),
                seconds=60.0,
                operators={"op": sample},
                disturbed=disturbed,
            )
        )
    return intervals


@pytest.fixture
def detector():
    calibration = calibrate(intervals_of(np.ones(200)), (), a_structure(a_model()))
    return DriftDetector(calibration)


@pytest.mark.parametrize("factor", [1.2, 1 / 1.2, 2.0])
def test_a_fifth_more_or_less_work_is_noticed_within_ten_intervals(detector, factor):
    for interval in intervals_of(np.ones(50), seed=2):
        detector.note(interval)
    later = [
        replace(each, time=each.time + 3000.0) for each in intervals_of(np.full(10, factor), seed=3)
    ]

    drifts = [detector.note(interval) for interval in later][-1]

    assert [(each.operator, each.node_type) for each in drifts] == [("op", "small/1")]
    assert drifts[0].factor == pytest.approx(factor, rel=0.1)
    assert 2700 <= drifts[0].since <= 3180
    assert ("longer" if factor > 1 else "shorter") in drifts[0].sentence


@settings(max_examples=4)
@given(seed=st.integers(0, 2**32 - 1))
def test_a_day_without_a_change_raises_no_alarm(seed):
    calibration = calibrate(intervals_of(np.ones(200), seed=7), (), a_structure(a_model()))
    detector = DriftDetector(calibration)

    alarms = [detector.note(each) for each in intervals_of(np.ones(1440), seed=seed)]

    assert not any(alarms)


def test_a_pause_of_two_intervals_is_no_drift(detector):
    factors = [1.0, 1.0, 3.0, 3.0, 1.0, 1.0]

    alarms = [detector.note(each) for each in intervals_of(factors, seed=4)]

    assert not any(alarms)


def test_intervals_around_a_change_are_not_looked_at(detector):
    disturbed = intervals_of(np.full(50, 2.0), disturbed=True)

    alarms = [detector.note(each) for each in disturbed]

    assert not any(alarms)


def test_garbage_is_passed_over(detector):
    garbage = intervals_of([math.inf, math.nan, -1.0, 0.0] * 10)

    alarms = [detector.note(each) for each in garbage]

    assert not any(alarms)


def test_work_that_comes_back_ends_the_alarm(detector):
    factors = [1.2] * 30 + [1.0] * 30

    alarms = [detector.note(each) for each in intervals_of(factors, seed=5)]

    assert alarms[29]
    assert not alarms[-1]
