"""Weir's own metrics: what is documented is served, and what is served is documented."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from prometheus_client.parser import text_string_to_metric_families

from weir_operator.api.objects import Key
from weir_operator.cluster.status.telemetry import Telemetry
from weir_operator.loop.record import DecisionRecord
from weir_operator.metrics.keys import KeyReport
from weir_operator.rescale.journal import Kind, RescaleJournal, Step, plan
from weir_operator.streamapp.status import Condition, StreamAppStatus
from weir_policies.kernels.staying import stay
from weir_policies.model.node_types import Deployment
from weir_policies.policy import Candidate, Decision, Expectation
from weir_policies.testing import an_observation
from weir_simulator.experiment import Objective

DOCUMENT = Path(__file__).parents[4] / "docs/metrics.md"
KEY = Key("streams", "trips")
READY = Condition(
    type="Ready",
    status="True",
    reason="JobRunning",
    message="",
    last_transition_time="2026-01-31T08:00:00Z",
)


@pytest.fixture
def telemetry():
    return Telemetry()


def families(telemetry):
    page = telemetry.render().decode()
    return {family.name: family for family in text_string_to_metric_families(page)}


def samples(telemetry, name):
    """Return the values by the labels' values, in the order of the labels' names."""
    return {
        tuple(value for _, value in sorted(sample.labels.items())): sample.value
        for family in families(telemetry).values()
        for sample in family.samples
        if sample.name == name
    }


def documented():
    rows = re.findall(r"^\| `(weir_\w+)` \| (\w+) \|", DOCUMENT.read_text(), re.MULTILINE)
    return dict(rows)


def test_every_metric_is_documented_with_its_type(telemetry):
    telemetry.show_ages(lambda: {KEY: 1.0})
    served = {
        f"{name}_total" if family.type == "counter" else name: family.type
        for name, family in families(telemetry).items()
    }

    assert served == documented()


def a_change(*, started, ended, gap, step=Step.DONE):
    journal: RescaleJournal = plan(
        kind=Kind.RESCALE, reason="", now=started, source={}, target={}, old_job="j"
    )
    journal = journal.at(Step.STOP, ended - gap - 1.0).at(Step.REMOVE, ended - gap)
    return journal.at(step, ended)


def test_a_change_that_has_ended_is_counted_with_duration_and_gap(telemetry):
    telemetry.note_change(KEY, a_change(started=100.0, ended=110.0, gap=0.75))

    assert samples(telemetry, "weir_rescales_total") == {
        ("trips", "Rescale", "streams", "Done"): 1.0
    }
    assert samples(telemetry, "weir_rescale_duration_seconds_sum") == {
        ("trips", "Rescale", "streams"): 10.0
    }
    assert samples(telemetry, "weir_rescale_gap_seconds_sum") == {("trips", "streams"): 0.75}


def test_the_end_of_a_change_is_shown_as_a_time(telemetry):
    for ended in (110.0, 210.0):
        telemetry.note_change(KEY, a_change(started=100.0, ended=ended, gap=0.75))

    assert samples(telemetry, "weir_last_change_timestamp_seconds") == {
        ("trips", "Rescale", "streams", "Done"): 210.0
    }


def test_the_first_rescale_is_an_increase(telemetry):
    telemetry.note_status(KEY, StreamAppStatus(conditions=(READY,)))
    before = samples(telemetry, "weir_rescales_total")

    telemetry.note_change(KEY, a_change(started=1.0, ended=5.0, gap=1.0))

    done = ("trips", "Rescale", "streams", "Done")
    assert (before[done], samples(telemetry, "weir_rescales_total")[done]) == (0.0, 1.0)


def test_a_decision_shows_what_it_expects_and_how_it_stands_beside_its_rivals(telemetry):
    seen = an_observation()
    here, there = seen.deployment, Deployment((0, 3, 0))
    expected = Expectation(response_time=0.02, utilisation=0.4, cost_per_hour=0.1)
    decision = Decision(
        target=there,
        reason="more arrive",
        candidates=(
            Candidate(deployment=there, score=0.2, expectation=expected, verdict="best"),
            Candidate(deployment=here, score=0.5, expectation=expected, verdict="too slow"),
        ),
        expectation=expected,
        urgency=0.8,
    )

    telemetry.note_decision(KEY, a_record(seen, decision))

    assert samples(telemetry, "weir_decision_score") == {
        ("trips", "chosen", "streams", "match"): 0.2,
        ("trips", "stay", "streams", "match"): 0.5,
        ("trips", "rival", "streams", "match"): 0.5,
    }
    of_match = ("trips", "streams", "match")
    assert samples(telemetry, "weir_predicted_response_time_seconds") == {of_match: 0.02}
    assert samples(telemetry, "weir_predicted_utilisation_ratio") == {of_match: 0.4}
    assert samples(telemetry, "weir_decision_urgency_ratio") == {of_match: 0.8}


def test_what_a_policy_does_not_predict_is_no_series(telemetry):
    seen = an_observation()
    silent = Expectation(response_time=math.nan, utilisation=math.nan, cost_per_hour=math.nan)
    decision = replace(stay(seen, "nothing is known"), expectation=silent, candidates=())

    telemetry.note_decision(KEY, a_record(seen, decision))

    assert samples(telemetry, "weir_predicted_response_time_seconds") == {}
    assert samples(telemetry, "weir_decision_score") == {}


def a_record(observation, decision):
    return DecisionRecord(
        id="tick-match",
        time=60.0,
        operator="match",
        policy="planner",
        observation=observation,
        decision=decision,
        verdict="",
        change=None,
    )


def test_a_change_under_way_is_not_counted_yet(telemetry):
    telemetry.note_change(KEY, a_change(started=1.0, ended=5.0, gap=1.0, step=Step.VERIFY))

    assert samples(telemetry, "weir_rescales_total") == {}


def test_the_series_of_an_app_that_is_gone_go_with_it(telemetry):
    for key in (KEY, Key("streams", "other")):
        telemetry.note_change(key, a_change(started=1.0, ended=5.0, gap=1.0))
        telemetry.note_status(key, StreamAppStatus(conditions=(READY,)))
        telemetry.note_decision(key, a_record(an_observation(), stay(an_observation(), "calm")))

    telemetry.forget(KEY)

    assert samples(telemetry, "weir_condition") == {("other", "streams", "Ready"): 1.0}
    assert {app for app, *_ in samples(telemetry, "weir_rescales_total")} == {"other"}
    assert samples(telemetry, "weir_decision_urgency_ratio") == {("other", "streams", "match"): 0.0}


def test_ages_are_those_of_the_moment_they_are_asked_for(telemetry):
    age = 5.0
    telemetry.show_ages(lambda: {KEY: age})
    first = samples(telemetry, "weir_reconcile_age_seconds")
    age = 35.0

    assert (first, samples(telemetry, "weir_reconcile_age_seconds")) == (
        {("trips", "streams"): 5.0},
        {("trips", "streams"): 35.0},
    )


def test_an_operator_that_the_job_has_no_more_has_no_series(telemetry):
    settings = SimpleNamespace(objective=Objective(response_time=1.0), max_violations=0.1)
    nothing = SimpleNamespace(
        app=None, problems=(), healthy=True, response=lambda statistic: math.nan
    )
    seen = an_observation()
    keys = KeyReport(replicas=(0.3, 0.7), heaviest=94, heaviest_share=0.6, heavy=(), counted=5000.0)

    for number in range(20):
        name = f"renamed-{number}"
        telemetry.note_decision(KEY, replace(a_record(seen, stay(seen, "calm")), operator=name))
        tick = SimpleNamespace(
            deployments={name: {"small/1": 1}}, budgets={name: 1.0}, snapshot=nothing,
            violated=None, restarts_left=math.nan, keys={name: keys},
        )  # fmt: skip
        telemetry.note_tick(KEY, tick, settings, cost=1.0)

    page = telemetry.render().decode()
    assert set(re.findall(r'operator="([^"]+)"', page)) == {"renamed-19"}
    [share] = samples(telemetry, "weir_operator_fullest_share_ratio").values()
    assert share == 0.7
    [group] = samples(telemetry, "weir_operator_heaviest_key_group").values()
    assert group == 94
    [part] = samples(telemetry, "weir_operator_heaviest_key_group_ratio").values()
    assert part == 0.6
