"""Rhythms that are no part of a day: their period, and what planning for it saves."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.policies.clairvoyant import least_cost
from weir_policies import registry
from weir_policies.kernels.view import empty_view
from weir_policies.operator_manager.planner.period import find_period, note_interval
from weir_policies.operator_manager.planner.state import LAGS, PlannerMemory
from weir_simulator.experiment import Operator
from weir_simulator.run import simulate
from weir_simulator.state import AT_CHANGE, AT_TIME, RESTART
from weir_simulator.testing import an_experiment

BOUND = 0.05


def a_memory():
    view = empty_view(operators=1, node_types=1, max_replicas=4)
    algorithm = registry.define("planner")
    assert algorithm is not None
    return PlannerMemory(algorithm.prepare(view, 1000)[0])


def period_of(rates, *, measured=None):
    """Return the period found in the rates; of intervals that were not measured nothing is told."""
    own = a_memory()
    for slot, rate in enumerate(rates):
        if measured is None or measured[slot]:
            note_interval(own, np.log(rate), 60.0 * slot, 60.0)
    return find_period(own)


def noise(slots, deviation=0.03, seed=1):
    return np.random.default_rng(seed).lognormal(0, deviation, slots)


def batches(slots, *, period=60.0, lasts=12, times=3.0):
    """Return a rate that is several times as high for the first minutes of each period."""
    rates = np.full(slots, 120.0)
    for begins in np.arange(20, slots, period):
        rates[round(begins) : round(begins) + lasts] *= times
    return rates * noise(slots)


@pytest.mark.parametrize("period", [7.0, 37.4, 60.0, 100.0, 433.0])
def test_the_period_of_batches_is_found_to_a_fraction_of_an_interval(period):
    rates = batches(4000, period=period, lasts=int(period / 5) + 1)

    assert period_of(rates) == pytest.approx(period, abs=0.1)


def test_a_period_is_found_when_it_was_seen_three_times():
    rates = batches(200)

    assert period_of(rates[:170]) == 0
    assert period_of(rates) == pytest.approx(60, abs=1)


def test_what_was_not_measured_does_not_move_the_period():
    rates = batches(3000)
    measured = np.random.default_rng(5).random(3000) > 0.1

    assert period_of(rates, measured=measured) == pytest.approx(60, abs=0.1)


def test_after_a_long_gap_it_begins_anew():
    own = a_memory()
    for slot, rate in enumerate(batches(1000)):
        note_interval(own, np.log(rate), 60.0 * slot, 60.0)

    note_interval(own, 0.0, 60.0 * (1000 + 2 * LAGS), 60.0)

    assert find_period(own) == 0
    assert own.slots == 1


def jumps(slots):
    rng = np.random.default_rng(4)
    levels = np.repeat(rng.choice([60.0, 110.0, 200.0, 300.0], slots), rng.integers(5, 80, slots))
    return levels[:slots] * noise(slots)


@pytest.mark.parametrize(
    "rates",
    [
        100 * noise(5000, 0.3),
        100 * np.exp(np.cumsum(np.random.default_rng(3).normal(0, 0.02, 5000))),
        jumps(5000),
        100 * (1 + 0.6 * np.sin(2 * np.pi * np.arange(5000) / 1440)) * noise(5000),
    ],
    ids=["noise", "a random walk", "jumps", "a day"],
)
def test_what_does_not_repeat_within_half_a_day_has_no_period(rates):
    found = [period_of(rates[:slots]) for slots in (500, 1500, 5000)]

    assert found == [0, 0, 0]


@pytest.fixture
def experiment(tmp_path):
    """Return a function that makes an experiment of rates."""

    def make(rates, **world):
        path = tmp_path / "rates.txt"
        np.savetxt(path, rates)
        operators = (Operator(name="op", service_rate=180, scv=0.5, max_replicas=10),)
        return an_experiment(operators=operators, trace={"file": path}, world=world)

    return make


def test_batches_every_hour_cost_little_more_than_with_the_future_known(experiment):
    made = experiment(batches(8000))

    cost = simulate(made, seed=1, policy="planner").average_cost

    assert cost <= 1.15 * least_cost(made)


def test_it_scales_out_before_each_batch_and_in_after_it(experiment):
    history = simulate(experiment(batches(8000)), seed=1, policy="planner", history=True).history

    last = history[-1200:]  # twenty batches
    assert (last[:, AT_TIME] > BOUND).sum() == 0
    assert (last[:, AT_CHANGE] == RESTART).sum() == pytest.approx(40, abs=2)


def test_replicas_that_take_minutes_are_asked_for_before_a_batch(experiment):
    made = experiment(batches(8000), provisioningDelay="3m", queues=True)

    history = simulate(made, seed=1, policy="planner", history=True).history

    last = history[-1200:]  # twenty batches
    assert (last[:, AT_TIME] > BOUND).sum() <= 2
    assert (last[:, AT_CHANGE] == RESTART).sum() == pytest.approx(40, abs=4)
