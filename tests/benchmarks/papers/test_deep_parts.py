"""Parts of a long benchmark: kept whole, found again, and run again when asked for otherwise."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchmarks.papers import deep_parts
from benchmarks.papers.deep_parts import Part, read_part, run_part, run_parts, write_part
from weir_simulator.experiment import Experiment


@pytest.fixture(scope="module")
def part():
    experiment = Experiment.model_validate(
        {
            "operators": [{"name": "op", "serviceRate": 180, "scv": 0.5, "maxReplicas": 3}],
            "nodeTypes": [{"name": "t1", "speedup": 1.0, "price": 1.0}],
            "objective": {"responseTime": "50ms"},
            "rate": {"levels": 5, "max": 650},
            "trace": {"kind": "taxi", "slots": 60},
        },
        strict=False,
    )
    return Part(
        name="small",
        policy="dqn-pds",
        parameters={"published": 1},
        experiment=experiment,
        seeds=(4, 9),
    )


@pytest.fixture(scope="module")
def outcome(part):
    return run_part(part)


def test_a_part_has_a_run_per_seed(outcome):
    first, second = outcome.runs

    assert (first.seed, second.seed) == (4, 9)
    assert first.curve[-1] == pytest.approx(first.average_cost)
    assert outcome.average_cost == (first.average_cost + second.average_cost) / 2


def test_a_kept_part_is_found_again_as_it_was(part, outcome, tmp_path):
    write_part(outcome, tmp_path)

    assert read_part(part, tmp_path) == outcome
    assert [file.name for file in tmp_path.iterdir()] == ["small.json"]


def test_what_is_kept_is_not_run_again(part, outcome, tmp_path, monkeypatch):
    def refuse(*_arguments, **_options):
        raise AssertionError("a kept part was run again")

    write_part(outcome, tmp_path)
    monkeypatch.setattr(deep_parts, "ProcessPoolExecutor", refuse)

    assert list(run_parts([part], tmp_path)) == [outcome]


@pytest.mark.parametrize(
    "changes", [{"seeds": (4,)}, {"policy": "dqn"}, {"parameters": {"published": 0}}]
)
def test_a_part_with_other_settings_is_not_the_one_that_is_kept(part, outcome, tmp_path, changes):
    write_part(outcome, tmp_path)

    assert read_part(replace(part, **changes), tmp_path) is None
