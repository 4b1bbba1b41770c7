"""The job of `examples/routes` in EDF's experiment: its measured work, and what becomes of it."""

from __future__ import annotations

import math

import pytest

from benchmarks.papers.edf import EXPERIMENT
from benchmarks.papers.edf_routes import (
    NAMES,
    Work,
    burst_of,
    busiest,
    factor_of,
    put_in,
    read_work,
)
from benchmarks.registry import BenchmarkError
from weir_operator.reporting.testing import a_tick, an_operator
from weir_simulator.beliefs import true_models
from weir_simulator.experiment import RateLevels
from weir_simulator.experiment_files import load_experiment
from weir_simulator.fitting.estimate import Estimate

SERVICE = dict.fromkeys(NAMES, 2e-5)
"""Seconds per record."""


@pytest.fixture
def experiment():
    return load_experiment(EXPERIMENT)


def an_interval(rate, *, service=SERVICE, passed=1.0, **fields):
    """Return a tick in which `count` passed on so many records per record."""
    rates = {name: rate * (passed if "rank" in name else 1.0) for name in NAMES}
    operators = tuple(
        an_operator(name=name, rate=rates[name], utilisation=rates[name] * service[name])
        for name in NAMES
    )
    return a_tick(operators=operators, **fields)


def works_of(service, *, counts_passed=1.0):
    """Return works by EDF's names."""
    return {
        edf: Work(
            operator=name,
            rate=100.0,
            busy=100.0 * service[edf],
            service=Estimate(value=service[edf]),
            response=2 * service[edf],
            passed=None
            if name == "global-rank"
            else Estimate(value=counts_passed if name == "count" else 1.0),
        )
        for name, edf in NAMES.items()
    }


def test_work_is_busy_time_and_records_passed_on_per_record():
    works = read_work([an_interval(100, passed=1.5), an_interval(500, passed=0.5)])

    passed = works["countByWindow"].passed
    assert passed is not None
    assert passed.value == pytest.approx(400 / 600)
    assert works["partialRank"].service.value == pytest.approx(2e-5)
    assert works["parser"].busy == pytest.approx(300 * 2e-5)
    assert works["globalRank"].passed is None


def test_intervals_that_are_not_to_be_trusted_are_left_out():
    wrong = SERVICE | {"filter": 1.0}

    works = read_work(
        [
            an_interval(100),
            an_interval(100, service=wrong, healthy=False),
            an_interval(100, service=SERVICE | {"parse": math.nan}),
        ]
    )

    assert works["filterByCoordinates"].service.value == pytest.approx(2e-5)
    with pytest.raises(BenchmarkError):
        read_work([an_interval(100, healthy=False)])


def test_the_experiment_with_its_own_service_times_has_its_own_load_and_bursts(experiment):
    own = {each.name: 1 / each.service_rate for each in experiment.operators}

    same = put_in(experiment, works_of(own), profiled_at=300)

    assert factor_of(same) == pytest.approx(1)
    for ours, theirs in zip(same.operators, experiment.operators, strict=True):
        assert ours.service_rate == pytest.approx(theirs.service_rate)
        assert ours.scv == pytest.approx(theirs.scv)


def test_at_the_peak_the_busiest_operator_is_as_busy_as_in_the_experiment(experiment):
    works = works_of(dict.fromkeys(NAMES.values(), 2e-5), counts_passed=3.0)

    measured = put_in(experiment, works, profiled_at=300)

    scale = factor_of(measured)
    assert busiest(measured, works, rate=500) == pytest.approx(500 / 395 / 2)
    # Of three records for each, two replicas of partialRank have half, the one globalRank all.
    assert busiest(measured, ["globalRank"], rate=500) == pytest.approx(500 / 395 / 2)
    assert busiest(measured, ["source"], rate=500) == pytest.approx(500 / 10000)
    assert measured.objective.profiled_at == pytest.approx(300 * scale)


def test_a_burst_takes_as_long_as_in_the_experiment(experiment):
    works = works_of(dict.fromkeys(NAMES.values(), 2e-5))

    measured = put_in(experiment, works, profiled_at=300)

    assert burst_of(measured) == pytest.approx(burst_of(experiment))


def test_levels_are_parts_of_what_an_operator_processes_at_most(experiment):
    works = works_of(dict.fromkeys(NAMES.values(), 2e-5))

    measured = put_in(experiment, works, profiled_at=300)

    # Levels of 50 records/s, up to six replicas that process 395 each.
    assert measured.rate == RateLevels(levels=47, max=None)


def test_budgets_are_profiled_for_what_was_measured(experiment):
    works = works_of(dict.fromkeys(NAMES.values(), 4e-3))

    measured = put_in(experiment, works, profiled_at=300)

    budgets = measured.share_bound("full-backup", true_models(measured))
    assert budgets["parser"] > 4e-3
    assert sum(budgets.values()) == pytest.approx(0.25, rel=0.01)
