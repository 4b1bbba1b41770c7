"""The token bucket before the restart budget: what the response time lets operators ask for."""

from __future__ import annotations

import math

import pytest

from tests.operator.loop.am_setting import TYPES, an_am, rule, wishing
from tests.operator.streamapp.builders import a_stream_app
from weir_operator.loop.restart_limits import TokenGate
from weir_operator.wiring.assembly import application_manager
from weir_policies.application_manager.edf import TokenRules
from weir_policies.application_manager.restart_budget import RestartBudget

RULES = TokenRules(low=0.25, high=0.45, every=10.0)
NEAR, BETWEEN, FAR = 0.48, 0.3, 0.1


@pytest.fixture
def am():
    return an_am(restarts=9, gate=TokenGate(RULES))


def see(am, response_time, now=0.0):
    am.note_output(mean=response_time, quantile=math.nan, now=now)


@pytest.mark.parametrize(
    ("response_time", "replicas", "granted"),
    [
        (NEAR, 3, True),
        (NEAR, 1, False),
        (FAR, 1, True),
        (FAR, 3, False),
        (BETWEEN, 3, False),
        (BETWEEN, 1, False),
        (math.nan, 3, False),
    ],
    ids=[
        "near the bound it may grow",
        "near the bound it may not shrink",
        "far below it may shrink",
        "far below it may not grow",
        "in between it may not grow",
        "in between it may not shrink",
        "what was not measured makes no token",
    ],
)
def test_the_response_time_says_in_which_direction_there_may_be_a_restart(
    am, response_time, replicas, granted
):
    see(am, response_time)

    ruling = rule(am, match=wishing(replicas, urgency=0.7))

    assert ruling.granted == (("match",) if granted else ())


def test_a_denial_says_which_token_is_missing_and_when_one_comes(am):
    see(am, BETWEEN)

    [sentence] = rule(am, match=wishing(3, urgency=0.7)).verdicts.values()

    assert "10 s" in sentence
    assert "450 ms" in sentence


def test_one_token_serves_the_most_urgent_and_is_gone(am):
    see(am, NEAR)

    first = rule(am, match=wishing(3, urgency=0.6), count=wishing(3, urgency=0.8))
    second = rule(am, match=wishing(3, urgency=0.6))

    assert first.granted == ("count",)
    assert second.granted == ()


def test_a_token_is_kept_where_something_else_denies_the_change(am):
    am.restarts = RestartBudget(size=1)
    see(am, NEAR)
    spent = am.restarts.fill(0.0).take(am.restarts, 0.0)
    wishes = {"match": wishing(3, urgency=0.7)}
    denied = rule(am, tokens=spent, **wishes)

    granted = rule(am, **wishes)

    assert denied.granted == ()
    assert granted.granted == ("match",)


def test_a_token_comes_by_the_mean_of_a_period(am):
    see(am, BETWEEN, now=0.0)
    see(am, 0.9, now=5.0)
    see(am, 0.05, now=10.0)

    ruling = rule(am, match=wishing(3, urgency=0.7))

    assert ruling.granted == ("match",)


def test_a_stream_app_without_a_token_bucket_asks_for_no_tokens():
    am = application_manager(a_stream_app())

    ruling = rule(am, match=wishing(3, urgency=0.7))

    assert ruling.granted == ("match",)


@pytest.mark.parametrize(("minutes", "granted"), [((0, 1), 1), ((0, 5), 2), ((0, 5, 10), 2)])
def test_the_manifest_says_how_many_tokens_there_may_be_and_how_often_one_comes(minutes, granted):
    bucket = {"size": 2, "every": "5m"}
    app = a_stream_app(applicationManager={"arbitration": {"tokenBucket": bucket}})
    am = application_manager(app)
    for minute in minutes:
        see(am, 1.0, now=60.0 * minute)

    ruling = rule(
        am,
        match=wishing(3, urgency=0.9),
        count=wishing(3, urgency=0.8),
    )

    assert len(ruling.granted) == granted


def test_the_token_goes_to_what_finds_room_and_not_to_what_is_more_urgent_but_finds_none(am):
    am.pool_limits = dict.fromkeys({each.pool for each in TYPES}, 5)
    see(am, NEAR)

    ruling = rule(am, match=wishing(4, urgency=0.9), count=wishing(3, urgency=0.8))

    assert ruling.granted == ("count",)
    assert "no room" in ruling.verdicts["match"]
