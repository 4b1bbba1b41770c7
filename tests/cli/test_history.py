"""A copy of what was fitted to a job, edited as its user knows better, is fitted to history."""

import math
import shutil
from datetime import date

import numpy as np
import pytest
import yaml

from tests.pipelines.known_history import KnownJob, write_day
from tests.simulator.builders import an_experiment
from weir_cli.history import fit_to_history
from weir_operator.tuning.requests import begin_with
from weir_pipelines.store import Partition
from weir_simulator.arrivals import arrival_rates
from weir_simulator.experiment_files import load_experiment, write_experiment
from weir_simulator.fitting.refit import with_trace
from weir_simulator.traces import write_trace

APP = "streams/trips"


@pytest.fixture
def copy(tmp_path):
    """A copy of the folder `fitted` of a job that ran on one of the sizes of a pool."""
    experiment = an_experiment(
        operators=[{"name": "match", "service_rate": 180, "scv": 0.5, "max_replicas": 5}],
        node_types=[
            {"name": name, "speedup": speed, "price": speed}
            for name, speed in (("small/500m", 1.0), ("small/250m", 0.5), ("large/1", 2.0))
        ],
    )
    running = {"initial": begin_with({"match": {"small/500m": 2}}, experiment)}
    fitted = tmp_path / "fitted"
    trace = fitted / "trace.txt"
    write_experiment(
        with_trace(experiment, trace=trace).model_copy(update=running), fitted / "experiment.yaml"
    )
    write_trace(trace, np.full(100, 40.0))
    return shutil.copytree(fitted, tmp_path / "copy") / "experiment.yaml"


@pytest.fixture
def tables(tmp_path):
    """A day of the job, on the pool `small`."""
    job = KnownJob(rate=lambda time: 40 + 20 * math.sin(time / 10_000))
    write_day(tmp_path / "tables", Partition(APP, date(2026, 3, 2)), job)
    return tmp_path / "tables"


def test_where_one_size_is_kept_all_of_the_history_is_fitted_to(copy, tables, tmp_path):
    edited = yaml.safe_load(copy.read_text())
    edited["nodeTypes"] = [each for each in edited["nodeTypes"] if each["name"] == "small/500m"]
    copy.write_text(yaml.safe_dump(edited))

    fitted = fit_to_history(
        load_experiment(copy), str(copy), tables=tables, app=APP, out=tmp_path / "out"
    )

    assert fitted.operators[0].service_rate == pytest.approx(50, rel=0.01)
    assert load_experiment(tmp_path / "out" / "fitted.yaml").initial == {"small/500m": 2}


def test_where_the_pool_that_it_ran_on_is_gone_the_traffic_alone_is_taken(copy, tables, tmp_path):
    edited = yaml.safe_load(copy.read_text())
    edited["nodeTypes"] = [each for each in edited["nodeTypes"] if each["name"] == "large/1"]
    del edited["initial"]
    copy.write_text(yaml.safe_dump(edited))

    fitted = fit_to_history(
        load_experiment(copy), str(copy), tables=tables, app=APP, out=tmp_path / "out"
    )

    assert fitted.operators[0].service_rate == 180
    assert arrival_rates(fitted.trace).size == 1440
