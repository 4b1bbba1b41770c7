from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weir_operator.metrics.rates import (
    UNKNOWN,
    counted_rise,
    counter_rise,
    is_poisoned,
    settled_rise,
    slope,
)
from weir_operator.metrics.source import Series

NAN = math.nan


def a_series(*values: float) -> Series:
    """Sampled every 2 s."""
    times = tuple(2.0 * i for i in range(len(values)))
    return Series(name="x", labels={}, times=times, values=values)


@pytest.mark.parametrize("series", [None, a_series(), a_series(5), a_series(NAN, 5, NAN)])
def test_fewer_than_two_numbers_tell_no_rise(series):
    assert math.isnan(counter_rise(series).rate)
    assert math.isnan(settled_rise(series).rate)
    assert math.isnan(slope(series))


def test_samples_that_are_no_numbers_are_left_out_of_a_rise():
    rise = counter_rise(a_series(NAN, 10, math.inf, 30))

    assert rise.amount == 20
    assert rise.seconds == 4


def test_busy_time_that_is_set_back_is_no_restart():
    # Idle from the second sample on: Flink counts the idle time at the fourth.
    rise = settled_rise(a_series(1000, 3000, 5000, 1000))

    assert rise.amount == 0


@pytest.mark.parametrize(
    ("values", "poisoned"),
    [
        ((1, 2, 3), False),
        ((NAN, NAN, 3), False),
        ((NAN,), False),
        ((1, NAN, 3), True),
        ((NAN, 1, math.inf), True),
    ],
)
def test_nan_is_poison_only_after_a_number(values, poisoned):
    assert is_poisoned(a_series(*values)) is poisoned


@given(
    start=st.integers(1001, 10**6),
    steps=st.lists(st.integers(0, 1000), min_size=1, max_size=20),
    restart=st.integers(0, 20),
)
def test_a_restart_between_any_two_samples_loses_nothing_that_was_counted(start, steps, restart):
    values = [start]
    for i, step in enumerate(steps):
        values.append(step if i == restart else values[-1] + step)

    rise = counter_rise(a_series(*values))

    assert rise.amount == sum(steps)


def test_what_is_nearly_idle_is_not_taken_for_busy_between_two_counts_of_its_idle_time():
    # Flink counts an idle stretch every five seconds: until then, all of it looks busy.
    times = tuple(map(float, range(44)))
    values = tuple(200 + 1000 * (time % 5) for time in times)
    sawtooth = Series(name="x", labels={}, times=times, values=values)

    rise = counted_rise(sawtooth)

    assert rise.amount == 0
    assert counted_rise(a_series(1000, 2000)) is UNKNOWN


def test_what_is_busy_all_the_time_is_seen_so():
    rise = counted_rise(a_series(*(1000 * place for place in range(45))))

    assert rise.rate == pytest.approx(500)
