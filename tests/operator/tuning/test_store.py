"""What earlier versions wrote of tunings is read as it was meant."""

import json

import pytest
from pydantic import JsonValue
from structlog.testing import capture_logs

from tests.operator.tuning.fakes import a_prediction, an_answer
from weir_operator.tuning.store import (
    TUNINGS,
    Standing,
    TuningState,
    TuningStore,
    Version,
    read_tunings,
)
from weir_policies.policy import CostWeights, Tuning
from weir_simulator.tuning.order import Forecast

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


KEY: dict[str, JsonValue] = {
    "policy": "planner",
    "parameters": {},
    "objective": {"responseTime": "200ms"},
}


@pytest.fixture
def tuned(tmp_path):
    """Return a function that leaves a StreamApp's tuning on disk."""

    def leave(name, *, since=1.0, standing=Standing.KEPT, **key):
        point = Tuning(weights=CostWeights(violation=since), budgets={"op": 0.1})
        version = Version(
            number=1,
            since=since,
            former=0,
            point=point,
            budgets=dict(point.budgets),
            prediction=a_prediction(1.0),
            former_prediction=a_prediction(2.0),
            certainty=0.99,
            forecast=Forecast(intervals=4, violations=0.1, money=1.0),
            most_rate=100.0,
            standing=standing,
        )
        state = TuningState(key=KEY | key, current=1, versions=(version,))
        TuningStore(tmp_path / name / TUNINGS, key=state.key).save(state)
        return point

    return leave


def find_similar(folder):
    """Return what the StreamApp `mine` finds."""
    return TuningStore(folder / "streams.mine" / TUNINGS, key=KEY).find_similar()


def test_what_the_same_policy_came_to_elsewhere_is_found_the_newest_first(tuned, tmp_path):
    older = tuned("streams.old", since=1.0)
    newer = tuned("streams.new", since=2.0, objective={"responseTime": "1s"})

    assert find_similar(tmp_path) == [
        newer,
        older,
    ]


def test_a_streamapp_is_not_similar_to_itself(tuned, tmp_path):
    tuned("streams.mine")

    assert find_similar(tmp_path) == []


@pytest.mark.parametrize("other", [{"policy": "queueing"}, {"parameters": {"horizon": 3}}])
def test_another_policy_or_other_parameters_are_not_similar(tuned, tmp_path, other):
    tuned("streams.other", **other)

    assert find_similar(tmp_path) == []


@pytest.mark.parametrize("standing", [Standing.ON_TRIAL, Standing.OVERGROWN])
def test_what_reality_has_not_borne_out_yet_is_left_alone(tuned, tmp_path, standing):
    tuned("streams.other", standing=standing)

    assert find_similar(tmp_path) == []


def test_a_file_that_cannot_be_read_hides_no_other(tuned, tmp_path):
    found = tuned("streams.other")
    broken = tmp_path / "streams.broken" / TUNINGS
    broken.parent.mkdir()
    broken.write_text("{")

    assert find_similar(tmp_path) == [found]
