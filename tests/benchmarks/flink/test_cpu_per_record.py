"""The verdict on the CPU that a record takes under Weir."""

import pytest

from benchmarks.flink.cpu_per_record import (
    AGENT,
    PINNED,
    PLAIN,
    WHOLE,
    Spent,
    figures_of,
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


def test_the_ratio_is_the_median_of_pairs_and_is_held_to_three_percent():
    pairs = [a_pair(WHOLE, 0.98), a_pair(WHOLE, 1.02), a_pair(WHOLE, 1.4, plain=4.0)]

    found = figures_of(WHOLE, [*pairs, a_pair(PINNED, 2.0)])

    assert [each.value for each in found[:4]] == pytest.approx([1.02, 3, 0.98, 1.4])
    assert [each.holds for each in found[:4]] == [True, None, None, None]


def test_fewer_than_three_pairs_are_no_verdict():
    found = figures_of(WHOLE, [a_pair(WHOLE, 0.9), a_pair(WHOLE, 0.9)])

    assert all(each.holds is None for each in found)


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
