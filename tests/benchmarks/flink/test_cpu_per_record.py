"""The verdict on the CPU that a record takes under Weir."""

import pytest

from benchmarks.flink.cpu_per_record import (
    AGENT,
    PINNED,
    PLAIN,
    WHOLE,
    Load,
    Spent,
    chosen_rate,
    figures_of,
    interval_of,
    manifest,
    result_name,
)
from benchmarks.registry import BenchmarkError
from weir_operator.streamapp.loading import parse_manifest


def a_run(way, cpu):
    return Spent(
        way=way, task_managers=cpu, tasks=cpu, others=0.02, job_manager=0.1, rate=1e5, load=3.0
    )


def a_pair(way, ratio, plain=2.0):
    return a_run(PLAIN, plain), a_run(way, plain * ratio)


def test_the_ratio_is_the_median_of_pairs_beside_its_interval_and_that_of_the_minima():
    pairs = [a_pair(WHOLE, 0.98), a_pair(WHOLE, 1.02), a_pair(WHOLE, 1.4, plain=4.0)]

    found = figures_of(WHOLE, [*pairs, a_pair(PINNED, 2.0)])

    median, number, low, high, smallest, largest, minima = (each.value for each in found[:7])
    assert median == pytest.approx(1.02)
    assert number == 3
    assert (smallest, largest, minima) == pytest.approx((0.98, 1.4, 0.98))
    assert (low, high) == pytest.approx(interval_of([0.98, 1.02, 1.4]))


@pytest.mark.parametrize(
    ("ratios", "holds"),
    [
        ((1.0, 1.01, 1.0, 1.005, 1.0), True),
        ((0.93, 0.91, 1.15), None),  # the median is below, and one pair far above
        ((0.9, 1.0, 1.02), None),
        ((1.04, 1.05, 1.06, 1.05), False),
        ((0.9, 0.9), None),  # too few pairs
    ],
)
def test_a_goal_is_reached_or_missed_only_where_the_interval_lies_on_one_side(ratios, holds):
    found = figures_of(WHOLE, [a_pair(WHOLE, each) for each in ratios])

    assert found[0].holds is holds
    assert found[0].is_open is (holds is None and len(ratios) > 2)
    assert all(each.holds is None for each in found[1:])


def test_the_interval_is_students_on_logarithms():
    assert interval_of([0.5, 2.0]) == pytest.approx((1 / 6682.65, 6682.65), rel=1e-3)
    assert interval_of([1.1, 1.1, 1.1]) == pytest.approx((1.1, 1.1))
    assert interval_of([1.1]) == (None, None)


def test_at_a_fixed_rate_the_goal_is_one_percent_and_the_result_has_a_name_of_its_own(
    monkeypatch, tmp_path
):
    pairs = [a_pair(AGENT, each) for each in (1.02, 1.021, 1.019)]
    monkeypatch.setenv("CPU_RATE", "10000")
    monkeypatch.setenv("CPU_WAYS", "agent")

    arguments = Load(rate=chosen_rate()).arguments(tmp_path)

    assert figures_of(AGENT, pairs)[0].holds is True
    assert figures_of(AGENT, pairs, limit=1.01)[0].holds is False
    assert result_name() == "cpu-of-agent-at-10000"
    assert arguments[:4] == ["--counter", str(tmp_path), "--rate", "10000"]
    monkeypatch.setenv("CPU_RATE", "0")
    with pytest.raises(BenchmarkError, match="CPU_RATE"):
        result_name()


def test_what_a_pin_costs_is_told_and_promised_by_nobody():
    found = figures_of(PINNED, [a_pair(WHOLE, 1.0), a_pair(PINNED, 2.0)])

    assert found[0].value == pytest.approx(2.0)
    assert all(each.holds is None for each in found)


def test_the_agent_alone_is_held_to_three_percent_and_has_a_result_of_its_own(monkeypatch):
    found = figures_of(AGENT, [a_pair(WHOLE, 1.0), *[a_pair(AGENT, 1.04)] * 3])

    assert found[0].holds is False
    monkeypatch.setenv("CPU_WAYS", "agent")
    assert result_name() == "cpu-of-agent"
    monkeypatch.setenv("CPU_WAYS", "whole,agent")
    assert result_name() == "cpu-per-record"
    monkeypatch.setenv("CPU_WAYS", "agents")
    with pytest.raises(BenchmarkError, match="CPU_WAYS"):
        result_name()


@pytest.mark.parametrize("pinned", [True, False])
def test_the_streamapp_is_valid_and_the_job_learns_whether_it_is_pinned(pinned, tmp_path):
    app = parse_manifest(manifest("whole", tmp_path / "job.jar", ["--counter", "x"], pinned=pinned))

    assert len(app.spec.operators) == (2 if pinned else 0)
    assert app.spec.flink.job is not None
    assert ("--pinned" in app.spec.flink.job.args) is pinned
