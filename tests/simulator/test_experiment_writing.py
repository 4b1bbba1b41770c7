import pytest

from tests.simulator.builders import an_experiment
from weir_policies.model.objective import Statistic
from weir_policies.policy import CostWeights
from weir_simulator.errors import ExperimentError
from weir_simulator.experiment import Believed, Change, Objective, PathBound, World
from weir_simulator.experiment_files import load_experiment, write_experiment

EVERYTHING = an_experiment(
    operators=[
        {"name": "a", "service_rate": 123.456, "scv": 0.5, "max_replicas": 9, "budget": 0.0123},
        {"name": "b", "service_rate": 1e3, "max_replicas": 4, "sharing": "Proportional"},
    ],
    edges=[{"source": "a", "target": "b", "selectivity": 0.25}],
    weights=CostWeights(violation=1 / 3, resources=0.5, reconfiguration=1 / 6),
    world=World(
        downtime=2.5, provisioning_delay=60.0, loss_probability=1e-5,
        changes=(Change(slot=4, rate=1.5, prices={"t1": 2.0}),),
    ),
    believed=Believed(speedups={"t2": 0.6}),
    objective=Objective(
        response_time=0.3, statistic=Statistic.P95, tail=2.5,
        paths=(PathBound(sink="b", response_time=0.1, statistic=Statistic.P99),),
    ),
    policy={"name": "planner", "parameters": {}},
    seeds=(3, 4),
    step="any",
)  # fmt: skip


@pytest.mark.parametrize("experiment", [an_experiment(), EVERYTHING], ids=["short", "long"])
def test_what_was_written_is_read_again(experiment, tmp_path):
    path = tmp_path / "deep" / "experiment.yaml"

    write_experiment(experiment, path)

    assert load_experiment(path) == experiment


def test_traces_are_found_from_the_new_place(tmp_path):
    traces = tmp_path / "traces"
    traces.mkdir()
    (traces / "rates.txt").write_text("10\n20\n30\n")
    experiment = an_experiment(
        trace={"file": traces / "rates.txt", "slots": 2}, training={"file": traces / "rates.txt"}
    )
    path = tmp_path / "out" / "experiment.yaml"

    write_experiment(experiment, path)

    assert "file: ../traces/rates.txt" in path.read_text()
    read = load_experiment(path)
    for source in (read.trace, read.training):
        assert source is not None
        assert source.file is not None
        assert source.file.resolve() == traces / "rates.txt"


def test_remarks_stand_above_as_comments(tmp_path):
    path = tmp_path / "experiment.yaml"

    write_experiment(an_experiment(), path, remarks=("Tuned for 50 ms.", "Try it."))

    assert path.read_text().startswith("# Tuned for 50 ms.\n# Try it.\noperators:")


def test_a_place_that_cannot_be_written_is_one_sentence(tmp_path):
    (tmp_path / "file").touch()

    with pytest.raises(ExperimentError, match="expected to write an experiment, got an error"):
        write_experiment(an_experiment(), tmp_path / "file" / "experiment.yaml")
