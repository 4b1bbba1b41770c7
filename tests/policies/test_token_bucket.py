"""EDF's token bucket: which tokens come, which go, and what they pay."""

import pytest

from weir_policies.application_manager.edf import (
    Adaptation,
    AdaptationRequest,
    Token,
    TokenRules,
    Tokens,
    grant,
    step_of,
)
from weir_policies.errors import ParameterError

RULES = TokenRules(low=0.125, high=0.225, every=60, size=2)
SLOW, FINE, FAST, UNKNOWN = 0.3, 0.2, 0.1, float("nan")


def pass_minutes(*response_times, rules=RULES):
    tokens = Tokens()
    for minute, response_time in enumerate(response_times):
        tokens = tokens.generate(rules, response_time=response_time, now=60.0 * minute)
    return tokens


@pytest.mark.parametrize(
    ("response_times", "kind", "count"),
    [
        ((FINE,), Token.HIGH, 0),
        ((0.125,), Token.HIGH, 0),
        ((0.225,), Token.HIGH, 0),
        ((SLOW,), Token.HIGH, 1),
        ((FAST,), Token.LOW, 1),
        ((SLOW, SLOW, SLOW), Token.HIGH, 2),
        ((SLOW, SLOW, FAST), Token.LOW, 1),
        ((FAST, SLOW), Token.HIGH, 1),
        ((SLOW, FINE, FINE), Token.HIGH, 1),
        ((SLOW, UNKNOWN), Token.HIGH, 1),
    ],
    ids=[
        "in between none",
        "at the lower bound none",
        "at the upper bound none",
        "slow makes a high one",
        "fast makes a low one",
        "a full bucket holds no more",
        "a low one throws out the high ones",
        "a high one throws out the low ones",
        "tokens do not expire",
        "what was not measured makes none",
    ],
)
def test_the_response_time_makes_tokens(response_times, kind, count):
    tokens = pass_minutes(*response_times)

    assert (tokens.count, tokens.kind) == (count, kind)


def test_there_is_one_token_per_period():
    tokens = pass_minutes(SLOW)

    early = tokens.generate(RULES, response_time=SLOW, now=59.0)

    assert early == tokens


def test_tokens_pay_the_highest_scores_of_their_kind():
    requests = [
        step_of("parse", 1, 0.2),
        step_of("filter", -1, 0.9),
        step_of("rank", 1, 0.8),
        step_of("count", 1, 0.5),
    ]

    granted, left = grant(requests, pass_minutes(SLOW, SLOW))

    assert [request.operator for request in granted] == ["rank", "count"]
    assert left.count == 0


def test_a_high_token_pays_a_migration_where_its_score_is_the_highest():
    away = AdaptationRequest(
        operator="count", kind=Adaptation.MIGRATION, score=0.6, replica="count-1"
    )

    granted, _ = grant([step_of("rank", 1, 0.5), away], pass_minutes(SLOW))

    assert granted == [away]


def test_a_token_that_nothing_asks_for_is_kept():
    granted, left = grant([step_of("rank", 1, 0.8)], pass_minutes(FAST))

    assert granted == []
    assert (left.count, left.kind) == (1, Token.LOW)


def test_a_bucket_of_one_grants_one_request_per_period():
    rules, tokens, granted = TokenRules(low=0.125, high=0.225, every=60), Tokens(), 0
    wish = [step_of(name, 1, 0.5) for name in ("parse", "rank")]

    for second in range(0, 600, 30):
        tokens = tokens.generate(rules, response_time=SLOW, now=float(second))
        paid, tokens = grant(wish, tokens)
        granted += len(paid)

    assert granted == 10


@pytest.mark.parametrize(
    "wrong", [{"low": 0.3}, {"low": -1.0}, {"every": 0.0}, {"size": 0}], ids=str
)
def test_rules_that_make_no_sense_are_refused(wrong):
    with pytest.raises(ParameterError, match="Expected"):
        TokenRules(**{"low": 0.125, "high": 0.225, **wrong})
