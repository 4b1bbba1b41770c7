"""What is better than what, and how sure that is."""

from __future__ import annotations

import numpy as np
import pytest

from weir_policies.application_manager.search.promise import Limits
from weir_simulator.tuning.evaluation import Measured
from weir_simulator.tuning.judging import Judged, certainty_of_less, is_better, standard_error

LIMITS = Limits(violations=0.05, reconfigurations=0.1)


def judged(money, violations, *, reconfigurations=0.01, spread=0.1, seed=0):
    """Return a point of the given means, with traffic that all points meet alike."""
    traffic = np.sin(np.arange(20.0))
    noise = spread * np.random.default_rng(seed).standard_normal(20)
    stretches = np.column_stack(
        [
            money + traffic + noise - noise.mean(),
            np.full(20, violations) * (1 + 0.1 * traffic),
            np.full(20, reconfigurations),
        ]
    )
    return Judged([Measured(slots=2000, stretches=stretches, lengths=np.full(20, 100.0))])


def better(ours, theirs):
    return is_better(ours, theirs, LIMITS, confidence=0.95)


def test_a_small_saving_is_sure_because_both_met_the_same_traffic():
    ours, theirs = judged(9.8, 0.01, seed=1), judged(10.0, 0.01, seed=2)

    assert ours.prediction.money.standard_error > 0.1
    assert better(ours, theirs)
    assert not better(theirs, ours)


def test_a_saving_that_may_be_luck_is_none():
    ours, theirs = judged(9.95, 0.01, spread=1, seed=1), judged(10.0, 0.01, spread=1, seed=2)

    assert not better(ours, theirs)


def test_nothing_is_better_than_itself():
    point = judged(10.0, 0.01)

    assert not better(point, point)
    assert certainty_of_less(point.stretches[:, 0], point.stretches[:, 0]) == 0.5


def test_what_breaks_a_limit_is_not_better_however_cheap():
    assert not better(judged(1.0, 0.2), judged(10.0, 0.01))


def test_what_keeps_the_limits_is_better_than_what_does_not_however_dear():
    assert better(judged(20.0, 0.01), judged(10.0, 0.2))


def test_where_both_break_a_limit_less_is_better():
    assert better(judged(10.0, 0.1), judged(10.0, 0.2))
    assert not better(judged(5.0, 0.2), judged(10.0, 0.1))


def test_too_many_reconfigurations_count_as_well():
    assert better(judged(10.0, 0.01), judged(10.0, 0.01, reconfigurations=0.3))


def test_the_mean_over_seeds_is_judged():
    runs = [
        Measured(slots=10, stretches=np.full((2, 3), value), lengths=np.array([5.0, 5.0]))
        for value in (0.1, 0.3)
    ]

    assert Judged(runs).outcome.money == pytest.approx(0.2)


def test_one_stretch_has_no_standard_error():
    assert standard_error(np.array([3.0])) == 0.0


def test_without_any_variation_the_sign_says_it():
    assert certainty_of_less(np.array([1.0, 1.0]), np.array([2.0, 2.0])) == 1.0
