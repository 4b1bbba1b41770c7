"""What users saw is counted over every run of the job, and nothing falls between two windows."""

import math

import pytest

from weir_operator.metrics import names
from weir_operator.metrics.measurement import measure_output
from weir_operator.metrics.source import Series, Window


def counters(job, *, times, records, seconds):
    """Return a sink's counters: how many records arrived, and the sum of their latencies."""
    labels = {"job_id": job, "tm_id": "tm_sink"}
    sums = tuple(1e6 * value for value in seconds)
    return (
        Series(name=names.LATENCY_N, labels=labels, times=times, values=records),
        Series(name=names.LATENCY_US, labels=labels, times=times, values=sums),
    )


def window(start, end, *series):
    return Window(start=start, end=end, series=series)


def test_the_first_throughput_counts_the_time_before_and_after_a_run():
    up = Series(name=names.UP, labels={}, times=(0, 30, 60), values=(1, 1, 1))
    run = counters("a", times=(20, 50), records=(0, 300), seconds=(0, 30))

    output, _ = measure_output(window(0, 60, up, *run))

    assert output.throughput == pytest.approx(300 / 60)


def test_the_next_throughput_is_that_of_the_whole_window():
    first = window(0, 60, *counters("a", times=(45, 60), records=(500, 650), seconds=(50, 65)))
    _, counted = measure_output(first)

    output, _ = measure_output(
        window(60, 120, *counters("a", times=(110, 120), records=(1150, 1250), seconds=(1, 2))),
        counted,
    )

    assert output.throughput == pytest.approx((1250 - 650) / 60)


def test_what_came_between_two_windows_belongs_to_the_later_one():
    first = window(0, 10, *counters("a", times=(1, 9), records=(0, 80), seconds=(0, 8)))
    second = window(10, 20, *counters("a", times=(11, 19), records=(120, 130), seconds=(48, 49)))
    _, counted = measure_output(first)

    output, _ = measure_output(second, counted)

    assert output.mean == pytest.approx((49 - 8) / (130 - 80))


def test_the_latecomers_of_a_restart_are_counted_from_the_new_runs_first_record():
    before = window(0, 10, *counters("a", times=(1, 9), records=(0, 80), seconds=(0, 8)))
    _, counted = measure_output(before)
    across = window(
        10,
        20,
        *counters("a", times=(11, 12), records=(90, 100), seconds=(9, 10)),
        *counters("b", times=(18, 19), records=(60, 70), seconds=(90, 91)),
    )

    output, _ = measure_output(across, counted)

    assert output.mean == pytest.approx(((10 - 8) + 91) / ((100 - 80) + 70))


def test_a_counter_that_was_silent_for_a_while_is_not_counted_again():
    _, counted = measure_output(
        window(0, 10, *counters("a", times=(1, 9), records=(0, 80), seconds=(0, 8)))
    )
    silent, counted = measure_output(window(10, 20), counted)

    output, _ = measure_output(
        window(20, 30, *counters("a", times=(21, 29), records=(200, 280), seconds=(20, 28))),
        counted,
    )

    assert math.isnan(silent.mean)
    assert output.throughput == pytest.approx(200 / 10)


def test_counters_of_a_job_that_another_follows_are_forgotten_after_minutes():
    _, counted = measure_output(
        window(0, 10, *counters("old", times=(1, 9), records=(0, 80), seconds=(0, 8)))
    )

    for start in range(10, 400, 10):
        new = counters("new", times=(start + 1, start + 9), records=(1, 2), seconds=(0, 0))
        _, counted = measure_output(window(start, start + 10, *new), counted)

    assert {job for job, _ in counted} == {"new"}


def test_counters_of_a_job_that_is_silent_for_minutes_are_kept():
    _, counted = measure_output(
        window(0, 10, *counters("a", times=(1, 9), records=(0, 80), seconds=(0, 8)))
    )

    for start in range(10, 400, 10):
        _, counted = measure_output(window(start, start + 10), counted)

    assert {job for job, _ in counted} == {"a"}
