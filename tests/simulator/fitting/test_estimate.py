import math

import numpy as np
import pytest

from weir_simulator.fitting.estimate import estimate_mean, estimate_median, estimate_ratio


@pytest.mark.parametrize("count", [6, 15, 60])
def test_the_interval_of_a_median_holds_it_in_nineteen_of_twenty_or_more(count):
    rng = np.random.default_rng(count)

    held = sum(estimate_median(rng.exponential(1.0, count)).holds(math.log(2)) for _ in range(400))

    assert held >= 0.93 * 400


@pytest.mark.parametrize("count", [3, 30])
def test_the_interval_of_a_mean_holds_it_in_nineteen_of_twenty(count):
    rng = np.random.default_rng(count)

    held = sum(estimate_mean(rng.normal(10.0, 1.0, count)).holds(10.0) for _ in range(400))

    assert 0.92 * 400 <= held <= 0.98 * 400


def test_one_value_tells_nothing_of_its_scatter():
    found = estimate_mean([3.0])

    assert (found.value, found.samples) == (3.0, 1)
    assert math.isinf(found.high)


def test_five_values_are_too_few_for_the_interval_of_a_median():
    assert math.isinf(estimate_median([1.0, 2.0, 3.0, 4.0, 5.0]).high)
    assert math.isfinite(estimate_median([1.0, 2.0, 3.0, 4.0, 5.0, 6.0]).high)


def test_a_ratio_weighs_by_its_base():
    assert estimate_ratio([10.0, 0.0], [1.0, 3.0]).value == 2.5
