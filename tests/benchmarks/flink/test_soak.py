"""The pure parts of the benchmark soak: what counts as flat."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks.flink.soak import (
    MIB,
    QUANTITIES,
    Sample,
    figures_of,
)


def a_sample(**changes: Any) -> Sample:
    before: dict[str, Any] = {
        "time": 0.0,
        "memory": 200 * MIB,
        "descriptors": 40,
        "threads": 9,
        "records": 0,
        "load": 1.0,
    }
    return Sample(**(before | changes))


def growths(samples):
    found = {each.figure: each for each in figures_of(samples, QUANTITIES)}
    return {each.name: found[f"{each.name}: last third, growth"] for each in QUANTITIES}


def test_what_warms_up_and_then_stays_is_flat():
    warm = [a_sample(memory=(100 + number) * MIB) for number in range(100)]
    flat = [a_sample() for _ in range(200)]

    assert all(each.holds for each in growths([*warm, *flat]).values())


@pytest.mark.parametrize(
    ("field", "name", "step"),
    [
        ("memory", "memory", MIB // 10),
        ("descriptors", "open file descriptors", 1),
        ("threads", "threads", 1),
        ("records", "decision records", MIB // 10),
    ],
)
def test_what_grows_with_every_rescale_is_not_flat_and_all_else_is(field, name, step):
    found = growths([a_sample(**{field: number * step}) for number in range(90)])

    assert [name for name, each in found.items() if not each.holds] == [name]


def test_a_run_too_short_to_judge_does_not_pass():
    assert growths([a_sample()] * 3)["memory"].holds is False
