import numpy as np
import pytest

from tests.simulator.fitting.known_job import a_model, a_structure
from weir_policies.model.estimation import ServiceMeasurement
from weir_simulator.fitting.drift import DriftDetector, SelectivityDrift
from weir_simulator.fitting.fit import calibrate
from weir_simulator.fitting.samples import IntervalSample, OperatorSample

DAY = 1440


def intervals_of(passed, *, rates=80.0, begin=0, seed=1):
    """Return minutes of `a` and `b`.

    Args:
        passed: Records to `b` per record to `a`, one per minute.
        rates: Records/s that reach `a`, one or one per minute.
        begin: Minutes before the first.
        seed: Decides how many records these turn out to be.
    """
    rng = np.random.default_rng(seed)
    taken = rng.poisson(np.broadcast_to(rates, len(passed)) * 60.0)
    onward = rng.poisson(taken * np.asarray(passed))
    return [
        IntervalSample(
            time=60.0 * (begin + place),
            seconds=60.0,
            operators={"a": sample(records), "b": sample(reached)},
        )
        for place, (records, reached) in enumerate(zip(taken, onward, strict=True), start=1)
    ]


def sample(records):
    """Return an operator that took so many records in a minute."""
    service = ServiceMeasurement(node_type="small/1", records=2000, mean=0.02, variance=0.0002)
    rate = records / 60.0
    return OperatorSample(deployment={"small/1": 4}, arrived=rate, taken=rate, services=(service,))


def a_detector(intervals):
    structure = a_structure(a_model("a"), a_model("b"), edges=[("a", "b")])
    return DriftDetector(calibrate(intervals, (), structure))


def in_turn(values, count):
    return np.resize(values, count)


@pytest.mark.parametrize("now", [1.5, 1.2, 1 / 1.2, 0.0])
def test_more_or_fewer_records_on_an_edge_are_noticed_within_ten_intervals(now):
    detector = a_detector(intervals_of(np.ones(2000)))
    for interval in intervals_of(np.ones(50), begin=2000, seed=2):
        assert not detector.note(interval)

    later = intervals_of(np.full(10, now), begin=2050, seed=3)
    [drift] = [detector.note(interval) for interval in later][-1]

    assert isinstance(drift, SelectivityDrift)
    assert (drift.source, drift.target) == ("a", "b")
    assert drift.selectivity == pytest.approx(now, abs=0.05)
    assert drift.fitted == pytest.approx(1.0, abs=0.01)
    assert 60.0 * 2045 <= drift.since <= 60.0 * 2051
    assert drift.sentence.startswith(
        f"'a' has passed {drift.selectivity:.3g} records to 'b' for each"
    )


def test_an_edge_that_carried_nothing_and_now_does_has_drifted():
    detector = a_detector(intervals_of(np.zeros(DAY)))

    alarms = [detector.note(each) for each in intervals_of(np.full(5, 0.5), begin=DAY)]

    assert alarms[-1]


@pytest.mark.parametrize("rate", [80.0, 0.05], ids=["many records", "three a minute"])
@pytest.mark.parametrize("seed", [5, 6])
def test_two_days_without_a_change_raise_no_alarm(rate, seed):
    detector = a_detector(intervals_of(np.full(DAY, 0.3), rates=rate))

    days = intervals_of(np.full(2 * DAY, 0.3), rates=rate, begin=DAY, seed=seed)

    assert not any(detector.note(each) for each in days)


def test_an_operator_that_gives_out_every_five_minutes_has_not_drifted():
    bursts = [0.0, 0.0, 0.0, 0.0, 2.0]
    detector = a_detector(intervals_of(in_turn(bursts, DAY)))

    day = intervals_of(in_turn(bursts, DAY), begin=DAY, seed=2)

    assert not any(detector.note(each) for each in day)


@pytest.mark.parametrize("of_load", [True, False], ids=["with the load", "without it"])
def test_records_that_come_to_more_every_night_are_no_drift(of_load):
    hours = np.sin(2 * np.pi * np.arange(3 * DAY) / DAY)
    passed = 0.5 - 0.3 * hours
    intervals = intervals_of(passed, rates=80.0 + 60.0 * hours * of_load)
    detector = a_detector(intervals[: 2 * DAY])

    assert not any(detector.note(each) for each in intervals[2 * DAY :])


def test_before_a_day_is_known_its_hours_are_no_drift():
    detector = a_detector(intervals_of(np.ones(DAY - 1)))

    alarms = [detector.note(each) for each in intervals_of(np.full(60, 1.5), begin=DAY)]

    assert not any(alarms)
