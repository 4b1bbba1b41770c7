import pytest
from pydantic import ValidationError

from tests.simulator.builders import an_experiment
from weir_policies.policy import CostWeights, Tuning
from weir_simulator.errors import TuningError
from weir_simulator.tuning.order import (
    TuningRequest,
    apply_tuning,
    read_order,
    read_result,
    share_of_restarts,
    write_document,
)


def test_an_order_survives_its_file(tmp_path):
    point = Tuning(weights=CostWeights(violation=0.123456789), budgets={"op": 0.1 / 3})
    order = TuningRequest(
        experiment=apply_tuning(an_experiment(), point),
        incumbent=point,
        warm_starts=(point,),
        deadline=90.0,
    )
    path = tmp_path / "order.json"
    path.write_text(write_document(order))

    again = read_order(path)

    assert again == order


def test_a_point_gives_the_experiment_its_weights_and_budgets():
    point = Tuning(weights=CostWeights(violation=0.5), budgets={"op": 0.02})

    tuned = apply_tuning(an_experiment(), point)

    assert tuned.weights.violation == 0.5
    assert tuned.operators[0].budget == 0.02


def test_a_point_without_a_budget_for_each_operator_is_refused():
    point = Tuning(weights=CostWeights(), budgets={"other": 0.02})

    with pytest.raises(ValidationError, match="a budget for each of \\['op'\\]"):
        TuningRequest(experiment=an_experiment(), incumbent=point)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("{", "a mistake in the file"),
        ('{"version": 2}', "a mistake in version"),
    ],
)
def test_a_file_that_holds_no_order_is_refused_in_one_sentence(tmp_path, text, sentence):
    path = tmp_path / "order.json"
    path.write_text(text)

    with pytest.raises(TuningError, match=sentence) as caught:
        read_order(path)
    assert "\n" not in str(caught.value)


def test_a_result_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(TuningError, match="correct the path"):
        read_result(tmp_path / "missing.json")


def test_twelve_restarts_a_day_are_every_hundred_and_twentieth_minute():
    assert share_of_restarts(12, 60.0) == pytest.approx(1 / 120)


def test_more_restarts_than_slots_are_no_limit():
    assert share_of_restarts(10_000, 60.0) == 1.0
