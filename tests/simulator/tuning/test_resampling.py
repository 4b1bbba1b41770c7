import numpy as np
import pytest

from weir_simulator.tuning.resampling import resample


def steps_of(rates):
    return np.diff(np.log(rates))


def many(rates, count=200):
    rng = np.random.default_rng(7)
    return [resample(rates, rng) for _ in range(count)]


@pytest.fixture
def noisy():
    """Return two hours of a rate that rises, stays and falls, with noise."""
    rng = np.random.default_rng(3)
    course = np.concatenate(
        [np.linspace(20, 100, 40), np.full(40, 100.0), np.linspace(100, 20, 40)]
    )
    return course * np.exp(0.05 * rng.standard_normal(course.size))


def test_it_is_as_long_and_within_what_was_measured(noisy):
    for made in many(noisy):
        assert made.shape == noisy.shape
        assert noisy.min() <= made.min()
        assert made.max() <= noisy.max()


def test_it_changes_as_the_trace_did(noisy):
    made = np.concatenate([steps_of(each) for each in many(noisy)])

    assert made.std() == pytest.approx(steps_of(noisy).std(), rel=0.1)


def test_ramps_stay_whole():
    rates = np.exp(np.concatenate([np.linspace(0, 3, 60), np.linspace(3, 0, 60)]))

    alike = [
        np.mean(np.sign(steps[1:]) == np.sign(steps[:-1])) for steps in map(steps_of, many(rates))
    ]

    assert np.mean(alike) > 0.85  # neighbours drawn one by one would be alike in half of the cases


def test_each_is_another_one(noisy):
    means = [each.mean() for each in many(noisy)]

    assert np.std(means) > 0.1 * noisy.mean()


def test_it_begins_where_the_trace_ends(noisy):
    largest = np.abs(steps_of(noisy)).max()

    for made in many(noisy):
        assert abs(np.log(made[0] / noisy[-1])) <= largest + 0.05


@pytest.mark.parametrize("rate", [0.0, 5.0])
def test_a_constant_rate_stays(rate):
    for made in many(np.full(30, rate), count=5):
        assert made == pytest.approx(np.full(30, rate))


def test_slots_without_traffic_are_part_of_it():
    rates = np.tile([0.0, 0.0, 10.0, 12.0], 20)

    assert min(each.min() for each in many(rates)) == pytest.approx(0.0, abs=0.2)
    assert max(each.max() for each in many(rates)) == pytest.approx(12.0)
