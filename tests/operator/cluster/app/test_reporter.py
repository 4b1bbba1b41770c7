"""Which decisions are told in the log, and what the status remembers of them."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from weir_operator.cluster.app.reporter import is_news
from weir_operator.cluster.status.view import first_facts, note_decisions
from weir_operator.loop.record import DecisionRecord
from weir_policies.model.node_types import Deployment
from weir_policies.policy import Candidate, Expectation
from weir_policies.testing import a_decision, an_observation

HERE = an_observation().deployment


def towards(target, *, change=None, candidates=()):
    return DecisionRecord(
        id="1-match",
        time=0.0,
        operator="match",
        policy="planner",
        observation=an_observation(),
        decision=a_decision(target, candidates=candidates),
        verdict="",
        change=change,
    )


@pytest.fixture
def wish():
    first, *others = HERE.counts
    return towards(Deployment((first + 1, *others)))


def test_a_wish_is_told_once_and_not_in_every_interval(wish):
    told = [is_news(wish, None), is_news(replace(wish, id="2-match"), wish)]

    assert told == [True, False]


def test_another_wish_is_told(wish):
    first, *others = HERE.counts
    larger = towards(Deployment((first + 2, *others)))

    assert is_news(larger, wish)


def test_a_wish_that_is_granted_is_told_though_it_is_the_same(wish):
    assert is_news(replace(wish, change="2-match"), wish)


def test_to_stay_is_no_news(wish):
    assert not is_news(towards(HERE), wish)


def test_what_a_decision_weighed_is_not_kept_for_the_status():
    unknown = Expectation(response_time=math.nan, utilisation=math.nan, cost_per_hour=math.nan)
    weighed = Candidate(deployment=HERE, score=1.0, expectation=unknown, verdict="Rejected")

    facts = note_decisions(first_facts(1, None), [towards(HERE, candidates=(weighed,))])

    assert facts.decisions["match"].decision.candidates == ()
    assert facts.decisions["match"].decision.target == HERE
