"""What comes back of a job whose truth is known, interval by interval, queue by queue."""

import math
from dataclasses import replace
from itertools import cycle, islice

import numpy as np
import pytest

from tests.simulator.fitting.known_job import OperatorInterval, a_model, a_structure, run_job
from weir_policies.model.keys import KeyShares, fullest_shares, replica_shares, shares_of_groups
from weir_policies.model.node_types import Deployment
from weir_policies.model.sharing import predict_utilisation
from weir_policies.policy import Aggregation, ChangeKind, CostWeights, Sharing
from weir_simulator.beliefs import true_models
from weir_simulator.experiment import Objective
from weir_simulator.fitting.fit import BadFitError, TooFewSamplesError, calibrate, fit
from weir_simulator.fitting.samples import ChangeSample, Samples
from weir_simulator.run import simulate
from weir_simulator.state import AT_TIME
from weir_simulator.traces import write_trace

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
        {name: OperatorInterval(deployment=deployment, rate=rate, factor=factor) for name in names}
        for deployment, rate in islice(zip(cycle(held), cycle(rates), strict=False), intervals)
    ]


def simple_samples(intervals=40, seed=1):
    truth = a_model()
    return run_job([truth], plans_of("op", intervals=intervals), rng=np.random.default_rng(seed))


@pytest.fixture(scope="module")
def chain():
    """Return two operators, what was measured of them, and their fit."""
    truths = (a_model("match"), a_model("sum", service_mean=0.015, service_scv=1.0, keyed=False))
    samples = run_job(truths, plans_of("match", "sum"), rng=np.random.default_rng(3))
    structure = a_structure(*truths, edges=[("match", "sum")])
    return truths, samples, fit(samples, structure, slot=60.0)


def test_service_times_come_back(chain):
    truths, _, fitted = chain

    models = fitted.calibration.models

    for truth in truths:
        found = models[truth.name]
        assert found.service_mean == pytest.approx(truth.service_mean, rel=0.015)
        assert found.service_scv == pytest.approx(truth.service_scv, rel=0.05)


def test_held_out_hours_are_predicted_and_the_fit_says_so(chain):
    _, _, fitted = chain

    quality = fitted.quality

    assert quality.good
    assert quality.error < 0.1
    assert "median error" in quality.sentence


def test_the_fit_is_an_experiment_that_runs(chain, tmp_path):
    _, _, fitted = chain
    write_trace(tmp_path / "rates.txt", fitted.rates)

    experiment = fitted.to_experiment(
        objective=Objective(response_time=0.2),
        trace=tmp_path / "rates.txt",
        weights=CostWeights(violation=0.5),
    )
    result = simulate(experiment, seed=1, policy="queueing")

    assert result.slots == fitted.rates.size == 80
    assert [each.name for each in experiment.operators] == ["match", "sum"]
    assert experiment.operators[0].aggregation is Aggregation.AVERAGE
    assert experiment.weights.violation == 0.5
    assert result.violations < 20


def test_operators_in_unlike_pools_are_fitted_and_simulated_where_they_run(tmp_path):
    small, large = a_model().node_types
    truths = (a_model("match", node_types=(large,)), a_model("sum", node_types=(small,)))
    plans = [
        {
            "match": OperatorInterval(deployment={"large/1": 2 + hour % 2}, rate=rate),
            "sum": OperatorInterval(deployment={"small/1": 3 + hour % 2}, rate=rate),
        }
        for hour in range(16)
        for rate in (60.0, 80.0, 50.0, 70.0, 55.0)
    ]
    samples = run_job(truths, plans, rng=np.random.default_rng(3))
    fitted = fit(samples, a_structure(*truths, edges=[("match", "sum")]), slot=60.0)
    write_trace(tmp_path / "rates.txt", fitted.rates)

    experiment = fitted.to_experiment(
        objective=Objective(response_time=0.2), trace=tmp_path / "rates.txt"
    )
    result = simulate(experiment, seed=1, policy="queueing")

    assert [each.pools for each in experiment.operators] == [("large",), ("small",)]
    # At most what each may have, and what it needs at the least: 70/s of 12.5 and of 20 ms.
    assert 1 <= result.replicas["large/1"] <= 10
    assert 2 <= result.replicas["small/1"] <= 10
    assert result.violations < 20


def test_a_simulation_of_a_skewed_job_has_its_fullest_replica(tmp_path):
    by_group = shares_of_groups(np.array([0.25, *[0.75 / 999] * 999]), 720)
    truth = a_model(key_groups=720)
    plans = [
        {
            "op": OperatorInterval(
                deployment={"small/1": size},
                rate=rate,
                shares=tuple(replica_shares(by_group, size)),
            )
        }
        for size in (4, 6)
        for rate in (60.0, 75.0, 50.0, 70.0, 55.0) * 8
    ]
    samples = run_job([truth], plans, rng=np.random.default_rng(3))
    counted = fullest_shares(KeyShares(by_group=by_group, counted=1e6), truth.max_replicas)
    structure = a_structure(replace(truth, fullest=counted))

    fitted = fit(samples, structure, slot=60.0)

    write_trace(tmp_path / "rates.txt", fitted.rates)
    experiment = fitted.to_experiment(
        objective=Objective(response_time=0.2), trace=tmp_path / "rates.txt"
    ).model_copy(update={"initial": {"small/1": 4}})
    [model] = true_models(experiment)
    measured = [each.operators["op"] for each in samples.intervals]
    for sample in measured:
        counts = Deployment.from_named(sample.deployment, model.node_types).counts
        busiest = predict_utilisation(model, np.array([counts]), sample.arrived)
        assert busiest == pytest.approx(sample.busiest, rel=0.1)
    times = simulate(experiment, seed=1, policy="hold", history=True).history[:, AT_TIME]
    of_four = [sample.response_time for sample in measured[:40]]
    assert times[:40].mean() == pytest.approx(np.mean(of_four), rel=0.1)


def test_restarts_and_new_replicas_take_in_the_experiment_what_they_took_in_reality(tmp_path):
    changes = (
        ChangeSample(time=1, kind=ChangeKind.RESCALE, downtime=0.8, provisioning=20.0),
        ChangeSample(time=2, kind=ChangeKind.RESCALE, downtime=1.0, provisioning=math.nan),
        ChangeSample(time=3, kind=ChangeKind.RESIZE, downtime=0.0),
    )
    samples = replace(simple_samples(), changes=changes)

    fitted = fit(samples, a_structure(a_model()), slot=60.0)
    world = fitted.to_experiment(
        objective=Objective(response_time=0.2), trace=tmp_path / "rates.txt"
    ).world

    assert world.downtime == pytest.approx(0.9)
    assert world.provisioning_delay == 20.0
    assert world.queues


def test_what_was_never_measured_stays_as_specified():
    truth = a_model()
    plans = [{"op": OperatorInterval(deployment={"small/1": 3}, rate=60.0)} for _ in range(20)]
    samples = run_job([truth], plans, rng=np.random.default_rng(1))

    calibration = calibrate(samples.intervals, (), a_structure(truth))

    assert calibration.speedups["large/1"] == 1.0
    assert (calibration.downtime, calibration.provisioning) == (2.0, 5.0)
    assert calibration.models["op"].sharing is Sharing.EQUAL


def test_records_that_follow_speed_are_told_from_those_dealt_equally():
    truth = a_model(sharing=Sharing.PROPORTIONAL)
    mixed = {"small/1": 2, "large/1": 1}
    plans = [{"op": OperatorInterval(deployment=mixed, rate=80.0)} for _ in range(10)]
    samples = run_job([truth], plans, rng=np.random.default_rng(2))

    calibration = calibrate(samples.intervals, (), a_structure(truth))

    assert calibration.models["op"].sharing is Sharing.PROPORTIONAL


def test_too_few_intervals_are_refused_in_a_sentence():
    samples = simple_samples(intervals=12)

    with pytest.raises(TooFewSamplesError, match=r"at least 30 undisturbed intervals .* got \d+;"):
        fit(samples, a_structure(a_model()), slot=60.0)


def test_an_operator_that_never_served_is_named():
    silent = tuple(
        replace(each, operators={"op": replace(each.operators["op"], services=())})
        for each in simple_samples().intervals
    )

    with pytest.raises(TooFewSamplesError, match="service time of 'op'"):
        fit(Samples(intervals=silent), a_structure(a_model()), slot=60.0)


def test_a_job_that_the_model_does_not_know_is_a_bad_fit_and_no_experiment(tmp_path):
    rng = np.random.default_rng(5)
    erratic = tuple(
        replace(
            each,
            operators={
                "op": replace(
                    each.operators["op"],
                    response_time=each.operators["op"].response_time * rng.lognormal(0.0, 1.5),
                )
            },
        )
        for each in simple_samples().intervals
    )

    fitted = fit(Samples(intervals=erratic), a_structure(a_model()), slot=60.0)

    assert not fitted.quality.good
    assert "to be predicted within 15%" in fitted.quality.sentence
    assert "'op'" in fitted.quality.sentence
    with pytest.raises(BadFitError, match="Expected held-out stretches of 5 min to be predicted"):
        fitted.to_experiment(objective=Objective(response_time=0.2), trace=tmp_path / "rates.txt")


def test_without_a_response_time_the_fit_does_not_call_itself_good():
    unknown = tuple(
        replace(each, operators={"op": replace(each.operators["op"], response_time=math.nan)})
        for each in simple_samples().intervals
    )

    fitted = fit(Samples(intervals=unknown), a_structure(a_model()), slot=60.0)

    assert not fitted.quality.good
    assert "had no steady interval with a measured response time" in fitted.quality.sentence


def test_a_change_of_work_between_fitted_and_held_out_hours_is_a_bad_fit():
    before = run_job([a_model()], plans_of("op", intervals=30), rng=np.random.default_rng(1))
    after = run_job(
        [a_model()], plans_of("op", intervals=10, factor=1.6), rng=np.random.default_rng(2)
    )
    late = [replace(each, time=each.time + 1800) for each in after.intervals]
    # Of eight blocks the fourth and the last are held out, one of the old work and one of the new.
    samples = Samples(intervals=(*before.intervals, *late))

    quality = fit(samples, a_structure(a_model()), slot=60.0).quality

    assert not quality.good


def test_samples_since_a_drift_leave_out_what_was_before():
    samples = simple_samples(intervals=10)

    assert len(samples.since(300.0).intervals) == 5
