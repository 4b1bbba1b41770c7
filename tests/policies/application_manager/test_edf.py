"""EDF's Application Manager: the order of requests, their conflicts, tokens, and slow nodes."""

import math
from collections import Counter

import numpy as np
import pytest

from weir_policies.application_manager.edf import (
    Adaptation,
    AdaptationRequest,
    HostedReplica,
    MigrationRules,
    Node,
    Token,
    TokenRules,
    Tokens,
    ask_for_migration,
    drop_conflicts,
    grant,
    prioritise,
    relative_speeds,
    step_of,
)
from weir_policies.errors import ParameterError


def asking(operator, score, kind=Adaptation.SCALE_OUT, **places):
    return AdaptationRequest(operator=operator, kind=kind, score=score, places=places)


def test_of_two_requests_for_one_node_the_one_with_the_higher_score_is_kept():
    low, high = asking("a", 0.3, node1=1), asking("b", 0.7, node1=1)

    assert drop_conflicts([low, high], {"node1": 1}) == [high]


def test_a_migration_and_a_scale_out_conflict_and_a_scale_in_conflicts_with_nobody():
    grow = asking("a", 0.6, node1=1)
    move = asking("b", 0.5, kind=Adaptation.MIGRATION, node1=1)
    shrink = asking("c", 0.1, kind=Adaptation.SCALE_IN)

    assert drop_conflicts([shrink, move, grow], {"node1": 1}) == [grow, shrink]


def test_requests_share_a_place_with_room_for_all_and_need_none_without_limit():
    pair = [asking("a", 0.9, pool=2), asking("b", 0.8, pool=1)]

    assert drop_conflicts(pair, {"pool": 3}) == pair
    assert drop_conflicts(pair, {}) == pair


def test_what_is_dropped_takes_no_room_from_those_behind_it():
    requests = [asking("a", 0.9, pool=3), asking("b", 0.8, pool=1)]

    assert drop_conflicts(requests, {"pool": 2}) == requests[1:]


def test_the_highest_score_comes_first_then_a_scale_out_and_then_the_name_decides():
    requests = [
        asking("c", 0.5, kind=Adaptation.SCALE_IN),
        asking("rank", 0.5, kind=Adaptation.MIGRATION),
        asking("b", 0.5),
        asking("a", 0.5),
        asking("d", 0.9, kind=Adaptation.SCALE_IN),
    ]

    assert [each.operator for each in prioritise(requests)] == ["d", "a", "b", "rank", "c"]


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
def test_token_rules_that_make_no_sense_are_refused(wrong):
    with pytest.raises(ParameterError, match="Expected"):
        TokenRules(**{"low": 0.125, "high": 0.225, **wrong})


MIGRATION = MigrationRules(min_speed=0.5)
HOSTED = tuple(HostedReplica(name=f"rank-{n}", operator="rank") for n in range(3))


def a_node(*, speed=0.25, hosted=HOSTED):
    return Node(name="n1", speed=speed, hosted=hosted)


def ask(node, seed=1):
    return ask_for_migration(node, MIGRATION, np.random.default_rng(seed))


@pytest.mark.parametrize(
    ("speed", "score"),
    [(1.0, 0.0), (0.5, 0.0), (0.25, 0.5), (0.0, 1.0), (math.nan, 0.0)],
    ids=[
        "as fast as the others it may stay",
        "at the least speed it may stay",
        "half the least speed is half of the score",
        "to stand still is the whole score",
        "what was not measured is no reason",
    ],
)
def test_a_node_is_one_to_leave_by_its_distance_from_the_minimum(speed, score):
    assert MIGRATION.score(a_node(speed=speed)) == pytest.approx(score)


def test_a_slow_node_asks_to_move_one_of_its_replicas():
    request = ask(a_node())

    assert request is not None
    assert (request.kind, request.operator) == (Adaptation.MIGRATION, "rank")
    assert request.replica in {each.name for each in HOSTED}
    assert request.score == pytest.approx(0.5)


def test_a_node_that_is_well_or_has_none_to_give_asks_for_nothing():
    assert ask(a_node(speed=0.5)) is None
    assert ask(a_node(hosted=())) is None


def test_every_replica_is_drawn_as_often():
    rng, drawn = np.random.default_rng(3), 6000

    requests = [ask_for_migration(a_node(), MIGRATION, rng) for _ in range(drawn)]

    replicas = Counter(each.replica for each in requests if each is not None)
    # Four standard errors of a share; the seed is fixed, so this holds always or never.
    assert min(replicas.values()) / drawn == pytest.approx(1 / 3, abs=4 * 0.5 / math.sqrt(drawn))


def test_a_node_is_slow_where_its_replicas_take_longer_than_their_equals_elsewhere():
    speeds = relative_speeds(
        [
            ("n1", "count", 0.01),
            ("n2", "count", 0.01),
            ("n3", "count", 0.02),
            ("n3", "rank", 0.3),
            ("n1", "rank", 0.1),
            ("n2", "rank", 0.1),
            ("n4", "rank", 0.1),
        ]
    )

    assert speeds["n4"] == pytest.approx(1.0)
    assert speeds["n3"] == pytest.approx((1 / 2 + 1 / 3) / 2)


def test_a_replica_that_is_alone_or_unmeasured_says_nothing_about_its_node():
    assert relative_speeds([("n1", "sink", 0.5), ("n2", "count", math.nan)]) == {}


def test_work_that_one_node_does_alone_says_nothing_about_it():
    assert relative_speeds([("n1", "rank", 0.1), ("n1", "rank", 0.4)]) == {}


@pytest.mark.parametrize("wrong", [{"min_speed": 1.1}, {"min_speed": -0.1}], ids=str)
def test_migration_rules_that_make_no_sense_are_refused(wrong):
    with pytest.raises(ParameterError, match="Expected"):
        MigrationRules(**wrong)
