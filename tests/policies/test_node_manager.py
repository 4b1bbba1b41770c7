"""EDF's Node Manager: which node wants to be rid of a replica, and where it would send it."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest

from weir_policies.application_manager.adaptation import Adaptation
from weir_policies.application_manager.node_manager import (
    HostedReplica,
    MigrationRules,
    Node,
    ask_for_migration,
    relative_speeds,
)
from weir_policies.errors import ParameterError

RULES = MigrationRules(most_busy=0.8, least_speed=0.5)
HOSTED = tuple(HostedReplica(name=f"rank-{n}", operator="rank") for n in range(3))


def a_node(name="n1", *, utilisation=0.9, speed=1.0, room=0, pool="small"):
    return Node(
        name=name, pool=pool, utilisation=utilisation, speed=speed, room=room, hosted=HOSTED
    )


def free(name, **changes):
    return a_node(name, **{"utilisation": 0.2, "room": 1, **changes})


def ask(node, *neighbours, seed=1):
    return ask_for_migration(node, neighbours, RULES, np.random.default_rng(seed))


@pytest.mark.parametrize(
    ("changes", "score"),
    [
        ({"utilisation": 0.8}, 0.0),
        ({"utilisation": 0.9}, 0.5),
        ({"utilisation": 1.0}, 1.0),
        ({"utilisation": 0.2, "speed": 0.5}, 0.0),
        ({"utilisation": 0.2, "speed": 0.25}, 0.5),
        ({"utilisation": 0.84, "speed": 0.25}, 0.5),
        ({"utilisation": math.nan, "speed": math.nan}, 0.0),
        ({"utilisation": math.nan, "speed": 0.25}, 0.5),
    ],
    ids=[
        "at the threshold it may stay",
        "half of what is left is half of the score",
        "no CPU left is the whole score",
        "at the least speed it may stay",
        "half the least speed is half of the score",
        "the worse of both counts",
        "what was not measured is no reason",
        "slow is slow whatever the unknown load",
    ],
)
def test_a_node_is_one_to_leave_by_its_distance_from_the_threshold(changes, score):
    assert RULES.score(a_node(**changes)) == pytest.approx(score)


def test_an_overloaded_node_asks_to_move_one_of_its_replicas():
    request = ask(a_node(), free("n2"))

    assert request is not None
    assert (request.kind, request.operator, request.node) == (Adaptation.MIGRATION, "rank", "n2")
    assert request.replica in {each.name for each in HOSTED}
    assert request.score == pytest.approx(0.5)


@pytest.mark.parametrize(
    "neighbour",
    [
        free("n2", room=0),
        free("n2", utilisation=0.81),
        free("n2", utilisation=math.nan),
        free("n2", speed=0.4),
        free("n2", pool="large"),
        free("n1"),
    ],
    ids=["full", "overloaded", "not measured", "slow", "of another pool", "itself"],
)
def test_there_is_no_request_where_no_node_could_take_the_replica(neighbour):
    assert ask(a_node(), neighbour) is None


def test_a_node_that_is_well_or_empty_asks_for_nothing():
    empty = Node(name="n1", pool="small", utilisation=0.9)

    assert ask(a_node(utilisation=0.5), free("n2")) is None
    assert ask(empty, free("n2")) is None


def test_the_nearer_node_is_drawn_more_often_by_rank_and_every_replica_as_often():
    rng, drawn = np.random.default_rng(3), 6000
    neighbours = [free("near"), free("middle"), free("far")]

    requests = [ask_for_migration(a_node(), neighbours, RULES, rng) for _ in range(drawn)]

    nodes = Counter(each.node for each in requests if each is not None)
    replicas = Counter(each.replica for each in requests if each is not None)
    # Four standard errors of a share; the seed is fixed, so this holds always or never.
    assert nodes["near"] / drawn == pytest.approx(3 / 6, abs=4 * 0.5 / math.sqrt(drawn))
    assert nodes["far"] / drawn == pytest.approx(1 / 6, abs=4 * 0.4 / math.sqrt(drawn))
    assert min(replicas.values()) / drawn == pytest.approx(1 / 3, abs=4 * 0.5 / math.sqrt(drawn))


def test_the_same_draws_give_the_same_request():
    assert ask(a_node(), free("n2"), free("n3"), seed=5) == ask(
        a_node(), free("n2"), free("n3"), seed=5
    )


def test_a_node_is_slow_where_its_replicas_take_longer_than_their_equals_elsewhere():
    speeds = relative_speeds(
        [
            ("n1", "count", 0.01),
            ("n2", "count", 0.01),
            ("n3", "count", 0.02),
            ("n3", "rank", 0.3),
            ("n1", "rank", 0.1),
            ("n2", "rank", 0.1),
        ]
    )

    assert speeds["n1"] == pytest.approx(1.0)
    assert speeds["n3"] == pytest.approx((1 / 2 + 1 / 3) / 2)


def test_a_replica_that_is_alone_or_unmeasured_says_nothing_about_its_node():
    assert relative_speeds([("n1", "sink", 0.5), ("n2", "count", math.nan)]) == {}


@pytest.mark.parametrize(
    "wrong", [{"most_busy": 1.0}, {"most_busy": -0.1}, {"least_speed": 1.1}], ids=str
)
def test_rules_that_make_no_sense_are_refused(wrong):
    with pytest.raises(ParameterError, match="Expected"):
        MigrationRules(**wrong)
