"""What comes back of a job whose truth is known, interval by interval, queue by queue."""

from itertools import cycle, islice

import numpy as np
import pytest

from weir_policies.promise import Aggregation
from weir_simulator.fitting.fit import fit
from weir_simulator.fitting.testing import Plan, a_model, a_structure, run_job
from weir_simulator.run import simulate
from weir_simulator.trace_files import write_trace

DEPLOYMENTS = (
    {"small/1": 3},
    {"large/1": 2},
    {"small/1": 2, "large/1": 1},
    {"small/1": 4},
)


def plans_of(*names, intervals=80, rates=(60.0, 80.0, 50.0), factor=1.0, hold=5):
    """Return a plan that holds each deployment for some intervals while the rate changes."""
    held = [deployment for deployment in DEPLOYMENTS for _ in range(hold)]
    return [
        {name: Plan(deployment=deployment, rate=rate, factor=factor) for name in names}
        for deployment, rate in islice(zip(cycle(held), cycle(rates)), intervals)
    ]


@pytest.fixture(scope="module")
def chain():
    """Return two operators, what was measured of them, and their fit."""
    truths = (a_model("match"), a_model("sum", service_mean=0.015, service_scv=1.0, keyed=False))
    samples = run_job(truths, plans_of("match", "sum"), rng=np.random.default_rng(3))
    structure = a_structure(*truths, edges=[("match", "sum")])
    return truths, samples, fit(samples, structure, slot=60.0)


def test_service_times_come_back_within_their_intervals(chain):
    truths, _, fitted = chain

    operators = fitted.calibration.operators

    for truth in truths:
        found = operators[truth.name]
        assert found.service_mean.holds(truth.service_mean)
        assert found.service_mean.high / found.service_mean.low < 1.03
        assert found.service_scv.value == pytest.approx(truth.service_scv, rel=0.05)


def test_a_speed_that_nobody_gave_comes_back_within_its_interval(chain):
    _, _, fitted = chain

    speedup = fitted.calibration.speedups["large/1"]

    assert speedup.holds(1.6)
    assert speedup.high - speedup.low < 0.1
    assert fitted.calibration.speedups["small/1"].is_assumed


def test_network_time_and_arrivals_come_back(chain):
    truths, _, fitted = chain

    operators = fitted.calibration.operators

    for truth in truths:
        found = operators[truth.name]
        assert found.network_time.value == pytest.approx(truth.network_time, abs=0.0015)
        assert found.arrival_scv.value == pytest.approx(1.0, abs=0.25)


def test_held_out_hours_are_predicted_and_the_fit_says_so(chain):
    _, _, fitted = chain

    quality = fitted.quality

    assert quality.good
    assert quality.error < 0.1
    assert quality.hours >= 2
    assert "median error" in quality.sentence


def test_the_fit_is_an_experiment_that_runs(chain, tmp_path):
    _, _, fitted = chain
    write_trace(tmp_path / "rates.txt", fitted.rates)

    experiment = fitted.to_experiment(response_time=0.2, trace=tmp_path / "rates.txt")
    result = simulate(experiment, seed=1, policy="queueing", history=True)

    assert result.slots == fitted.rates.size == 80
    assert [each.name for each in experiment.operators] == ["match", "sum"]
    assert experiment.operators[0].aggregation is Aggregation.AVERAGE
    assert result.resources > 0
