"""Which StreamApps of an installation a tuning can learn from."""

import pytest
from pydantic import JsonValue

from tests.operator.tuning.fakes import a_prediction
from weir_operator.tuning.store import (
    TUNINGS,
    Standing,
    TuningState,
    TuningStore,
    Version,
)
from weir_policies.policy import CostWeights, Tuning
from weir_simulator.tuning.order import Forecast

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
