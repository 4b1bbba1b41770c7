"""EDF's Node Manager: which node wants to be rid of a replica."""

import math
from collections import Counter

import numpy as np
import pytest

from weir_policies.application_manager.edf import (
    Adaptation,
    HostedReplica,
    MigrationRules,
    Node,
    ask_for_migration,
    relative_speeds,
)
from weir_policies.errors import ParameterError

RULES = MigrationRules(min_speed=0.5)
HOSTED = tuple(HostedReplica(name=f"rank-{n}", operator="rank") for n in range(3))


def a_node(*, speed=0.25, hosted=HOSTED):
    return Node(name="n1", speed=speed, hosted=hosted)


def ask(node, seed=1):
    return ask_for_migration(node, RULES, np.random.default_rng(seed))


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
    assert RULES.score(a_node(speed=speed)) == pytest.approx(score)


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

    requests = [ask_for_migration(a_node(), RULES, rng) for _ in range(drawn)]

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


def test_one_of_two_nodes_that_takes_twice_as_long_has_half_the_speed_of_the_other():
    assert relative_speeds([("n1", "rank", 0.1), ("n2", "rank", 0.2)])["n2"] == pytest.approx(0.5)


def test_a_replica_that_is_alone_or_unmeasured_says_nothing_about_its_node():
    assert relative_speeds([("n1", "sink", 0.5), ("n2", "count", math.nan)]) == {}


def test_work_that_one_node_does_alone_says_nothing_about_it():
    assert relative_speeds([("n1", "rank", 0.1), ("n1", "rank", 0.4)]) == {}


@pytest.mark.parametrize("wrong", [{"min_speed": 1.1}, {"min_speed": -0.1}], ids=str)
def test_rules_that_make_no_sense_are_refused(wrong):
    with pytest.raises(ParameterError, match="Expected"):
        MigrationRules(**wrong)
