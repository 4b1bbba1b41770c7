"""EDF's experiment: the calibrated response times, its settings, and what Table 1 says of a run."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from benchmarks.papers.edf import (
    EXPERIMENT,
    NOTHING_LEFT,
    WARM_UP,
    average,
    describe,
    judge,
    read_published,
    run_once,
)
from weir_policies.model.queueing import predict_means
from weir_simulator.beliefs import true_models
from weir_simulator.experiment_files import load_experiment


@pytest.fixture
def load(tmp_path):
    """Return a load of an hour and a half that rises and falls, records/s."""
    path = tmp_path / "load.txt"
    np.savetxt(path, 300 + 150 * np.sin(np.arange(180) / 12))
    return path


def test_response_times_are_those_that_were_calibrated():
    models = {model.name: model for model in true_models(load_experiment(EXPERIMENT))}
    one = np.array([[1]])

    quick, _ = predict_means(models["parser"], one, 100.0)
    bursty, busy = predict_means(models["partialRank"], one, 160.0)

    assert quick[0] == pytest.approx(0.0005 / 0.95)
    assert bursty[0] == pytest.approx(1 / 395 + 0.00106 * 160 / (1 - 160 / 395), rel=0.01)
    assert busy[0] == pytest.approx(160 / 395)


def test_all_operators_run_one_replica_at_least_as_in_the_paper():
    experiment = load_experiment(EXPERIMENT)

    assert len(experiment.operators) == 8
    scaled = [each for each in experiment.operators if each.max_replicas > 1]
    assert sum(each.budget or 0.0 for each in scaled) == pytest.approx(0.230)


@pytest.mark.parametrize("setting", [setting for setting, bucket in read_published() if bucket])
def test_a_setting_differs_from_another_by_its_name_alone(setting, load):
    free, bound = (describe(setting, bucket=bucket, load=load) for bucket in (False, True))

    assert free.arbitration.token_bucket is None
    assert bound.arbitration.token_bucket is not None
    assert free.policy == bound.policy
    assert free.weights.reconfiguration == (0.4 if "rcf" in setting else 0.2)


def test_the_bucket_spares_downtime_and_the_same_seed_gives_the_same_run(load):
    free, bound, again = (
        run_once(describe("QL perf=res", bucket=bucket, load=load), seed=1)
        for bucket in (False, True, True)
    )

    assert 0 < bound.downtime < free.downtime
    assert bound == again


def test_what_a_reconfiguration_holds_up_is_left_out_of_the_settled_slots(load):
    line = run_once(describe("TH 0.3", bucket=False, load=load), seed=1)

    assert line.downtime > 0
    assert line.settled.p95 < line.unfiltered.p95


def test_a_run_that_never_settles_has_no_settled_slots(tmp_path):
    path = tmp_path / "load.txt"
    np.savetxt(path, [100.0] * (WARM_UP - 1) + [500.0] * 3)

    line = run_once(describe("TH 0.3", bucket=False, load=path), seed=1)
    settled = replace(line, settled=line.unfiltered)

    assert np.isnan(line.settled.mean)
    assert np.isnan(average([line, line]).settled.mean)
    assert average([line, settled]).settled == settled.settled
    assert line.unfiltered.violations > 0


def test_the_papers_own_table_reaches_every_goal():
    figures = judge(read_published())

    assert [figure.figure for figure in figures if figure.holds is False] == []


def test_what_never_settled_or_never_broke_the_bound_is_compared_all_the_same():
    lines = read_published()
    unbroken = lines["TH 0.3", False].settled._replace(violations=0.0)
    lines["TH 0.3", True] = lines["TH 0.3", False] = replace(
        lines["TH 0.3", False], settled=unbroken
    )
    lines["TH 0.7", False] = replace(lines["TH 0.7", False], settled=NOTHING_LEFT)

    figures = {figure.figure: figure for figure in judge(lines)}

    steps = figures["thresholds 0.7 to 0.3: greatest rise of the mean response time at a step"]
    broken = figures["token bucket, threshold 0.3: violations, of those without it; published 0.48"]
    assert steps.value is None
    assert broken.value == 1
