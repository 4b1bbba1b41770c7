"""What the benchmark of the fit tells it beforehand, and what it must not."""

import numpy as np

from benchmarks.flink.trips_cluster import Trips, deployments
from benchmarks.model.fit import (
    ARGUMENTS,
    FITTED,
    GIVEN,
    JUDGED,
    describe,
    predict_points,
)
from tests.simulator.fitting.known_job import OperatorInterval, a_model, a_structure, observe
from weir_simulator.fitting.fit import calibrate
from weir_simulator.fitting.samples import IntervalSample


def test_the_fit_is_told_one_speed_and_takes_a_core_for_a_core(tmp_path):
    job = Trips(
        name="fit",
        rates=[75.0],
        initial=deployments(*FITTED[0]),
        arguments=ARGUMENTS,
        root=tmp_path,
    )

    structure = describe(job)

    speeds = {each.name: each.speedup for each in structure.node_types}
    assert speeds == {"small/250m": 0.25, "small/500m": 0.5, "large/1": 1.0, "large/2": 2.0}
    assert structure.given == {GIVEN}
    assert all(np.isnan(model.service_mean) for model in structure.operators)


def test_no_judged_deployment_was_fitted():
    for place in (0, 1):
        fitted = [counts[place] for counts in FITTED]
        assert not [counts[place] for counts in JUDGED if counts[place] in fitted]


def test_a_point_compares_what_was_measured_with_what_the_fit_says():
    truth, rng = a_model(), np.random.default_rng(1)
    plan = OperatorInterval(deployment={"small/1": 3}, rate=60.0)
    intervals = [
        IntervalSample(
            time=40.0 * (place + 1),
            seconds=40.0,
            operators={"op": observe(truth, plan, rng=rng, seconds=40.0)},
        )
        for place in range(8)
    ]
    calibration = calibrate(intervals[:-1], (), a_structure(truth))

    [point] = predict_points(calibration, intervals[-1])

    assert point.measured == intervals[-1].operators["op"].response_time
    assert point.error < 0.2
