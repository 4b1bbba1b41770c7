"""A policy for all operators, put together from a StreamApp."""

from __future__ import annotations

from weir_operator.streamapp.testing import a_stream_app
from weir_operator.wiring.assembly import operator_managers, policy_settings

OPERATORS = [
    {"name": "source", "fixed": {"small/1": 1}},
    {"name": "tokenize", "maxReplicas": 4},
    {"name": "count", "maxReplicas": 4},
]


def an_app(**objective):
    return a_stream_app(
        nodePools=[{"name": "small", "sizes": ["1"]}],
        operators=OPERATORS,
        objective={"responseTime": "200ms"} | objective,
    )


def test_operators_that_are_scaled_share_one_mind():
    managers = operator_managers(an_app(), policy="autrascale")

    first, second = managers["tokenize"].state_dict(), managers["count"].state_dict()
    assert "application" in first["policy"]
    assert second["policy"] == {"seat": 1}


def test_the_objectives_age_and_catch_up_time_reach_the_policy():
    settings = policy_settings(an_app(eventTime="5s", catchUp="2m"), policy="autrascale")

    assert settings == {"event_time": 5.0, "catch_up": 120.0}


def test_without_a_bound_on_the_age_none_is_passed():
    assert policy_settings(an_app(), policy="autrascale") == {"catch_up": 300.0}
