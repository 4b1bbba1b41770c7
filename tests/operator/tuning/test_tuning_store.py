"""What earlier versions wrote of tunings is read as it was meant."""

import json

import pytest
from pydantic import JsonValue
from structlog.testing import capture_logs

from tests.operator.tuning.fakes import an_answer
from weir_operator.tuning.store import TuningState, TuningStore, Version, read_tunings
from weir_policies.policy import CostWeights, Tuning

FOUND = {
    "weights": {"violations": 0.7, "resources": 0.2, "reconfigurations": 0.1},
    "budgets": {"op": 0.02},
}
"""Weights and budgets as version 1 of the file has them."""


def a_state():
    answer = an_answer({"op": 0.02})
    assert answer.forecast is not None
    version = Version(
        number=1,
        since=1.0,
        former=0,
        point=answer.best,
        budgets={"op": 0.01},
        prediction=answer.prediction,
        former_prediction=answer.incumbent_prediction,
        certainty=answer.certainty,
        forecast=answer.forecast,
        most_rate=9.0,
        resampled=answer.resampled,
    )
    return TuningState(key={"app": "trips"}, current=1, versions=(version,))


def test_weights_and_budgets_of_a_file_are_in_force_after_a_restart(tmp_path):
    path = tmp_path / "tuning.json"
    written = json.loads(a_state().model_dump_json())
    written["versions"][0]["point"] = written["not_taken"] = FOUND
    path.write_text(json.dumps(written))

    state = read_tunings(path)

    weights = CostWeights(violation=0.7, resources=0.2, reconfiguration=0.1)
    assert state is not None
    assert state.tuned == Tuning(weights=weights, budgets={"op": 0.01})
    assert state.not_taken == Tuning(weights=weights, budgets={"op": 0.02})


def test_what_is_saved_names_weights_as_experiment_files_do(tmp_path):
    path = tmp_path / "tuning.json"

    TuningStore(path, key={"app": "trips"}).save(a_state())

    point = json.loads(path.read_text())["versions"][0]["point"]
    assert point["weights"].keys() == FOUND["weights"].keys()
    assert read_tunings(path) == a_state()


@pytest.mark.parametrize("text", ["not json", '{"format": 99}'])
def test_tunings_that_cannot_be_read_are_kept_aside(tmp_path, text):
    path = tmp_path / "tuning.json"
    path.write_text(text)

    store = TuningStore(path, key={"app": "trips"})
    with capture_logs() as logs:
        found = store.load()
    store.save(found)

    aside = tmp_path / "tuning.unreadable"
    assert aside.read_text() == text
    assert read_tunings(path) == store.fresh()
    assert "install that version to use them" in logs[-1]["event"]
    assert logs[-1]["kept"] == str(aside)


@pytest.mark.parametrize(
    ("price", "current"),
    [(None, 1), (0.005, 0)],
    ids=["a new field that is not set", "a new field that is set"],
)
def test_a_tuning_outlives_an_upgrade_that_brings_a_field_until_it_is_set(tmp_path, price, current):
    path = tmp_path / "tuning.json"
    before: dict[str, JsonValue] = {"nodePools": [{"name": "small"}]}
    TuningStore(path, key=before).save(a_state().model_copy(update={"key": before}))

    after = TuningStore(path, key={"nodePools": [{"name": "small", "memoryPrice": price}]})

    assert after.load().current == current
