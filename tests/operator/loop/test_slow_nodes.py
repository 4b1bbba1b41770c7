"""Which node is to be left, by what its replicas measure beside their equals elsewhere."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace

import numpy as np
import pytest

from tests.operator.metrics.builders import a_layout_of
from weir_operator.loop.slow_nodes import (
    IN_A_ROW,
    IN_VAIN_FOR,
    SPEAKS_OF_ONE_NODE_FOR,
    NodeWatch,
)
from weir_operator.metrics.measurement import measure
from weir_operator.metrics.source import Window
from weir_operator.rescale.journal import Kind, RescaleJournal, Step, plan
from weir_operator.runtime.protocol import Replica
from weir_policies.application_manager.edf import MigrationRules

START, INTERVAL, RECORDS = 10_000.0, 60.0, 1000.0
USUAL = 0.01


def a_replica(node, *, operator="match", size="500m", started=0.0):
    return Replica(
        id=f"{operator}-{size}-on-{node}",
        operator=operator,
        pool="small",
        size=size,
        started=started,
        metrics_url="",
        node=node,
    )


THREE = [a_replica(node) for node in ("n1", "n2", "n3")]


def app_of(replicas: Iterable[Replica], seconds, *, records=RECORDS, job="job1"):
    """Return what was measured of replicas that take so many seconds a record, by id."""
    empty = measure(Window(start=0.0, end=1.0, series=()), a_layout_of(*replicas, job_id=job))
    return replace(
        empty,
        operators={
            name: replace(
                operator,
                replicas=tuple(
                    replace(
                        each,
                        served=records,
                        service_mean=seconds.get(each.tm_id, USUAL),
                        service_variance=math.nan,
                    )
                    for each in operator.replicas
                ),
            )
            for name, operator in empty.operators.items()
        },
    )


class Watched:
    """A watch, and the intervals that it is shown."""

    def __init__(self, seed=1):
        self.watch = NodeWatch(MigrationRules(), np.random.default_rng(seed))
        self.now = START
        self.last: RescaleJournal | None = None

    def note(self, replicas, seconds=None, *, intervals=IN_A_ROW, **more):
        """Show equal intervals; return what the last one led to."""
        move = None
        for _ in range(intervals):
            self.now += INTERVAL
            app = app_of(replicas, seconds or {}, **more)
            move = self.watch.look(app, replicas, last=self.last, now=self.now)
        return move

    def see_and_leave(self, step):
        """Show replicas of which one leaves its node, and how that ended."""
        move = self.note(THREE, SLOW)
        assert move is not None
        self.watch.note(move)
        self.last = a_leave(move.node, now=self.now, step=step, replica=move.replica)


SLOW = {"match-500m-on-n2": 2 * USUAL}


def test_a_node_that_is_slow_in_five_intervals_is_to_be_left_by_its_replica():
    watched = Watched()

    early = watched.note(THREE, SLOW, intervals=IN_A_ROW - 1)
    move = watched.note(THREE, SLOW, intervals=1)

    assert early is None
    assert move is not None
    assert (move.replica, move.node) == ("match-500m-on-n2", "n2")
    assert all(named in move.reason for named in ("match-500m-on-n2", "n2", "0.50", "small"))
    assert move.request.score == pytest.approx(0.2 / 0.7)


@pytest.mark.parametrize(
    ("replicas", "seconds", "more"),
    [
        (THREE, {"match-500m-on-n2": 1.3 * USUAL}, {}),
        (THREE[:1], {"match-500m-on-n1": 9.0}, {}),
        (THREE, SLOW, {"records": 99}),
        (
            [a_replica("n1"), a_replica("n2", size="250m"), a_replica("n3")],
            {"match-250m-on-n2": 2 * USUAL},
            {},
        ),
        ([replace(each, node="") for each in THREE], SLOW, {}),
        ([THREE[0], a_replica("n2", started=START)], SLOW, {}),
        ([THREE[0], replace(THREE[1], terminating="its node is drained")], SLOW, {}),
    ],
    ids=[
        "a little slower is not slow",
        "one replica alone says nothing",
        "too few records say nothing",
        "a smaller size is no slow node",
        "without nodes there is none to leave",
        "a JVM that still compiles says nothing",
        "who goes anyway is not asked to",
    ],
)
def test_nothing_is_to_leave_where_no_node_is_known_to_be_slow(replicas, seconds, more):
    assert Watched().note(replicas, seconds, **more) is None


def test_an_interval_in_which_the_node_was_not_slow_begins_the_count_again():
    watched = Watched()
    watched.note(THREE, SLOW, intervals=IN_A_ROW - 1)
    watched.note(THREE, intervals=1)

    assert watched.note(THREE, SLOW, intervals=IN_A_ROW - 1) is None


def test_a_restart_of_the_job_begins_the_count_again():
    watched = Watched()
    watched.note(THREE, SLOW, intervals=IN_A_ROW - 1)

    assert watched.note(THREE, SLOW, intervals=1, job="job2") is None


def test_chance_moves_nobody():
    # Exponential times, and no more records than it takes: some 20 intervals seem slow.
    rng, replicas = np.random.default_rng(2), THREE[:2]
    watched, moves = Watched(), 0

    for _ in range(2000):
        seconds = {each.id: USUAL * rng.gamma(100, 1 / 100) for each in replicas}
        moves += watched.note(replicas, seconds, intervals=1, records=100) is not None

    assert moves == 0


def test_the_slower_of_two_slow_nodes_is_left_first():
    replicas = [a_replica(f"n{n}") for n in range(1, 6)]
    seconds = SLOW | {"match-500m-on-n4": 4 * USUAL}

    move = Watched().note(replicas, seconds)

    assert move is not None
    assert move.node == "n4"


def test_an_operator_that_left_a_node_leaves_no_other_one_for_a_day():
    watched = Watched()
    watched.see_and_leave(Step.DONE)
    moved = [a_replica("n1"), a_replica("n3"), a_replica("n4")]
    still_slow = {"match-500m-on-n4": 2 * USUAL}

    soon = watched.note(moved, still_slow)
    again = watched.note(THREE, SLOW)
    watched.now += SPEAKS_OF_ONE_NODE_FOR
    late = watched.note(moved, still_slow)

    assert soon is None
    assert again is not None
    assert late is not None
    assert (again.node, late.node) == ("n2", "n4")


def a_leave(node, *, now, step, replica="any"):
    return plan(
        kind=Kind.RESCALE, reason="a test", now=now, source={}, target={}, old_job="job1",
        replace=(replica,), avoid=(node,),
    ).at(step, now)  # fmt: skip


def test_a_node_that_could_not_be_left_is_not_asked_to_be_for_half_an_hour():
    watched = Watched()
    watched.last = a_leave("n2", now=START, step=Step.ABANDONED)

    soon = watched.note(THREE, SLOW)
    watched.now = START + IN_VAIN_FOR
    late = watched.note(THREE, SLOW, intervals=1)

    assert soon is None
    assert late is not None


def test_another_change_in_between_makes_no_difference_to_that():
    watched = Watched()
    watched.last = a_leave("n2", now=START, step=Step.ABANDONED)
    watched.note(THREE, SLOW, intervals=1)
    watched.last = None

    assert watched.note(THREE, SLOW) is None


def test_an_operator_that_could_not_leave_one_node_may_leave_another():
    watched = Watched()
    watched.see_and_leave(Step.ABANDONED)

    other = watched.note(THREE, {"match-500m-on-n3": 2 * USUAL})

    assert other is not None
    assert other.node == "n3"


def test_a_node_that_was_left_before_may_be_left_again():
    watched = Watched()
    watched.last = a_leave("n2", now=START, step=Step.DONE)

    assert watched.note(THREE, SLOW) is not None
