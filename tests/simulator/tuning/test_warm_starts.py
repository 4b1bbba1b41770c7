import pytest

from tests.simulator.builders import a_tuning, an_experiment
from weir_policies.errors import WeirPolicyError
from weir_policies.policy import CostWeights, Tuning
from weir_simulator.errors import SimulatorError, TuningError
from weir_simulator.experiment import Objective, Operator
from weir_simulator.experiment_files import write_experiment
from weir_simulator.tuning.order import apply_tuning
from weir_simulator.tuning.study import Study, read_best
from weir_simulator.tuning.warm_starts import adapt_tuning, read_warm_start

FOUND = Tuning(weights=CostWeights(violation=0.2), budgets={"op": 0.05})


@pytest.fixture
def study(tmp_path):
    order, result = a_tuning()
    study = Study(tmp_path / "study", order, {})
    for evaluation in result.evaluations:
        study.keep(evaluation)
    return study


def test_a_study_begins_another_with_its_result(study, tmp_path):
    order, result = a_tuning()
    study.finish(result)

    start = read_warm_start(tmp_path / "study", order.experiment)

    assert start.weights == result.best.weights


def test_a_study_that_has_not_ended_gives_the_best_in_full_so_far(study, tmp_path):
    _, result = a_tuning()
    cheapest_in_full = result.evaluations[2]

    _, best = read_best(tmp_path / "study")

    assert best == cheapest_in_full.point


def test_a_study_without_a_simulation_in_full_is_refused(tmp_path):
    order, _ = a_tuning()
    Study(tmp_path / "study", order, {})

    with pytest.raises(TuningError, match="a full simulation, got none"):
        read_warm_start(tmp_path / "study", order.experiment)


def test_the_experiment_that_a_tuning_leaves_is_a_warm_start(tmp_path):
    experiment = an_experiment()
    write_experiment(apply_tuning(experiment, FOUND), tmp_path / "tuned.yaml", remarks=())

    assert read_warm_start(tmp_path / "tuned.yaml", experiment) == FOUND


def test_a_result_of_another_policy_is_refused(tmp_path):
    other = an_experiment(policy={"name": "queueing", "parameters": {}})
    write_experiment(apply_tuning(other, FOUND), tmp_path / "tuned.yaml", remarks=())

    with pytest.raises(TuningError, match="for the policy planner, got one for queueing"):
        read_warm_start(tmp_path / "tuned.yaml", an_experiment())


def test_what_is_not_there_is_refused(tmp_path):
    with pytest.raises((SimulatorError, WeirPolicyError), match=r"nothing\.yaml"):
        read_warm_start(tmp_path / "nothing.yaml", an_experiment())


def test_budgets_are_parts_of_the_bound():
    tighter = an_experiment(objective=Objective(response_time=0.02))

    assert adapt_tuning(FOUND, tighter).budgets == pytest.approx({"op": 0.02})


def test_operators_of_other_names_share_the_bound_equally_under_the_weights_found():
    others = an_experiment(
        operators=(
            Operator(name="first", service_rate=2000, max_replicas=4),
            Operator(name="second", service_rate=200, max_replicas=8),
        ),
        edges=(["first", "second"],),
    )

    adapted = adapt_tuning(FOUND, others)

    assert adapted.weights == FOUND.weights
    assert adapted.budgets == pytest.approx({"first": 0.025, "second": 0.025})
