"""EDF's experiment: the calibrated response times, its settings, and what Table 1 says of a run."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.papers.edf import (
    EXPERIMENT,
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


def test_the_papers_own_table_reaches_every_goal():
    figures = judge(read_published())

    assert [figure.figure for figure in figures if figure.holds is False] == []
