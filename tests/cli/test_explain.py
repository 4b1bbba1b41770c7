"""`weir explain` says what was seen, weighed, expected, and what happened."""

import json
import time

import pytest
from typer.testing import CliRunner

from weir_cli import main
from weir_operator.controller.records import DecisionRecord, RecordStore
from weir_operator.rescale.journal import Kind, Step, plan
from weir_policies.model.node_types import Deployment
from weir_policies.promise import Candidate, Expectation
from weir_policies.testing import a_decision, an_observation

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
    store.write([a_record("first", ago=60, change="c1")], change=change)
    store.write([a_record("second", ago=30, response_time=0.05)])
    store.write([a_record("other", ago=30, operator="aggregate")])
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


def test_a_decision_that_nothing_followed_says_so(state):
    told = explain(state, "--operator", "match").output

    assert "nothing has been seen since" in told


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--operator", "nobody"], "known: match, aggregate"),
        (["--at", "-1h"], "choose a later --at"),
        (["--at", "teatime"], "Expected --at as"),
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


def test_a_namespaced_app_is_found_by_its_full_name(state):
    (state / "default.trips").rename(state / "streams.trips")

    result = CliRunner().invoke(
        main.app, ["explain", "streams/trips", "--state", str(state), "--json"]
    )

    assert result.exit_code == 0
    assert len(json.loads(result.output)) == 2
