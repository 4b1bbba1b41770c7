"""`weir explain` says what was seen, weighed, expected, and what happened."""

import json
import time
from dataclasses import replace

import pytest
from typer.testing import CliRunner

from tests.cli.recorded import a_tick
from tests.operator.tuning.fakes import a_prediction
from weir_cli import main
from weir_operator.loop.record import DecisionRecord, RecordStore
from weir_operator.rescale.journal import Kind, Step, plan
from weir_operator.tuning.store import Standing, TuningState, TuningStore, Version
from weir_operator.tuning.trial import TuningTrial
from weir_policies.model.node_types import Deployment
from weir_policies.policy import Candidate, CostWeights, Expectation, Tuning
from weir_policies.testing import a_decision, an_observation
from weir_simulator.tuning.order import Forecast

EXPECTED = Expectation(response_time=0.02, utilisation=0.6, cost_per_hour=0.12)
MORE = a_decision(
    Deployment((0, 3, 0)),
    reason="More is needed",
    expectation=EXPECTED,
    candidates=(
        Candidate(
            deployment=Deployment((0, 3, 0)), score=0.12, expectation=EXPECTED, verdict="cheapest"
        ),
        Candidate(
            deployment=Deployment((0, 2, 0)), score=9.0, expectation=EXPECTED, verdict="too slow"
        ),
    ),
)


def a_record(key, *, ago, operator="match", change=None, response_time=0.02):
    return DecisionRecord(
        id=key,
        time=time.time() - ago,
        operator=operator,
        policy="queueing",
        observation=an_observation(response_time=response_time),
        decision=MORE,
        verdict="Granted: it is the first",
        change=change,
    )


def a_version(number, *, ago, weights=(0.6, 0.2, 0.2), **fields):
    violations, resources, reconfigurations = weights
    return Version(
        number=number,
        since=time.time() - ago,
        former=number - 1,
        point=Tuning(
            weights=CostWeights(
                violation=violations, resources=resources, reconfiguration=reconfigurations
            ),
            budgets={"match": 0.3},
        ),
        budgets={"match": 0.3},
        prediction=a_prediction(1.0),
        former_prediction=a_prediction(2.0),
        certainty=0.99,
        forecast=Forecast(intervals=60, violations=0.1, money=1.5),
        most_rate=200.0,
        **fields,
    )


@pytest.fixture
def state(tmp_path):
    folder = tmp_path / "default.trips"
    folder.mkdir()
    store = RecordStore(folder / "records.sqlite")
    change = plan(
        kind=Kind.RESCALE,
        reason="More is needed",
        now=time.time() - 60,
        source={"match": {"small/1": 2}},
        target={"match": {"small/1": 3}},
        old_job="a" * 32,
        change_id="c1",
    ).at(Step.DONE, time.time() - 58)
    first = a_record("first", ago=60, change="c1")
    store.write([a_tick(first.time, first), change])
    second = a_record("second", ago=30, response_time=0.05)
    other = a_record("other", ago=30, operator="aggregate")
    store.write([a_tick(second.time, second, replace(other, time=second.time))])
    store.close()
    return tmp_path


def explain(state, *arguments):
    return CliRunner().invoke(
        main.app,
        ["explain", "trips", "--state", str(state), *arguments],
        env={"COLUMNS": "160"},
    )


def test_a_decision_is_told_from_what_was_seen_to_what_happened(state):
    told = explain(state, "--at", "-45s", "--operator", "match").output

    assert "100 records/s arrive" in told
    assert "> 3 x small/1" in told
    assert "too slow" in told
    assert "More is needed" in told
    assert "c1 Done" in told
    assert "response time 50 ms, expected 20 ms, 2.50 times the expectation" in told


def test_without_a_time_the_newest_decision_of_every_operator_is_told(state):
    told = explain(state, "--json")

    found = json.loads(told.output)
    assert [each["record"]["id"] for each in found] == ["second", "other"]
    assert [each["following"] for each in found] == [None, None]


def test_a_tuning_is_told_with_what_it_set_and_why_it_was_kept_or_taken_back(state):
    kept = a_version(1, ago=90, standing=Standing.KEPT, reason="0 of 60 intervals were late")
    gone = a_version(
        2, ago=50, weights=(0.8, 0.1, 0.1), standing=Standing.ROLLED_BACK, reason="9 were late"
    )
    tunings = TuningState(key={}, current=1, versions=(kept, gone))
    TuningStore(state / "default.trips" / "tuning.json", key={}).save(tunings)

    told = explain(state, "--operator", "match").output

    words = " ".join(told.replace("│", " ").split())
    assert "violations 0.60, resources 0.20, restarts 0.20" in words
    assert "violations 0.80, resources 0.10, restarts 0.10" in words
    assert "match 300 ms" in words
    assert "kept: 0 of 60 intervals were late" in words
    assert "rolled back: 9 were late" in words
    assert "tuned version 1: Forecast for the scaled operators: cost of 1 per hour" in words


def test_the_intervals_of_a_trial_that_do_not_count_are_counted(state):
    trial = TuningTrial(intervals=3, late=1, beyond=10)
    version = a_version(1, ago=90, standing=Standing.ON_TRIAL, trial=trial)
    TuningStore(state / "default.trips" / "tuning.json", key={}).save(
        TuningState(key={}, current=1, versions=(version,))
    )

    words = " ".join(explain(state).output.replace("│", " ").split())

    assert "interval 3 of 60, 1 of them over the bound; 10 more do not count" in words


def test_a_tuning_that_came_later_is_not_told_of_the_time_before(state):
    later = TuningState(key={}, current=1, versions=(a_version(1, ago=20),))
    TuningStore(state / "default.trips" / "tuning.json", key={}).save(later)

    told = explain(state, "--at", "-45s", "--operator", "match").output

    assert "tunings" not in told
    assert "version 1" not in told


def test_a_decision_that_nothing_followed_says_so(state):
    told = explain(state, "--operator", "match").output

    assert "there is no later measurement" in told


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--operator", "nobody"], "known: match, aggregate"),
        (["--at", "-1h"], "choose a later --at"),
        (["--at", "teatime"], "got 'teatime'"),
    ],
)
def test_what_cannot_be_explained_is_answered_in_one_sentence(state, arguments, said):
    result = explain(state, *arguments)

    assert result.exit_code == 1
    assert said in result.output
    assert "Traceback" not in result.output


def test_an_app_without_records_is_answered_with_where_they_were_looked_for(tmp_path):
    result = explain(tmp_path)

    assert result.exit_code == 1
    assert "name the StreamApp as NAMESPACE/NAME" in result.output


def test_an_app_with_a_typing_mistake_is_answered_with_those_that_there_are(state):
    (state / "default.trips").rename(state / "streams.trips")

    result = CliRunner().invoke(main.app, ["explain", "trisp", "--state", str(state)])

    assert result.exit_code == 1
    assert "there are those of streams/trips" in result.output


def test_a_namespaced_app_is_found_by_its_full_name(state):
    (state / "default.trips").rename(state / "streams.trips")

    result = CliRunner().invoke(
        main.app, ["explain", "streams/trips", "--state", str(state), "--json"]
    )

    assert result.exit_code == 0
    assert len(json.loads(result.output)) == 2
