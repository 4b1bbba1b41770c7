"""What a further day takes, from runs over several numbers of days."""

from __future__ import annotations

import pytest

from benchmarks.pipelines.pipelines_volume import compare_further_days, further_day


def test_a_further_day_leaves_out_what_each_run_takes_to_start():
    assert further_day({1: 12.0, 5: 20.0, 15: 40.0}) == pytest.approx(2.0)


def test_late_days_are_compared_with_early_ones():
    figure = compare_further_days("Spark", {1: 12.0, 5: 20.0, 15: 50.0})

    assert figure.figure == "Spark: a day from 5 to 15 days beside one from 1 to 5"
    assert figure.value == pytest.approx(1.5)
    assert figure.holds is False


def test_early_days_that_take_no_time_are_compared_with_none():
    assert compare_further_days("Spark", {1: 12.0, 5: 12.1, 15: 50.0}).value is None
