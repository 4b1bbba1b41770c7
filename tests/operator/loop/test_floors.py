"""Which floor holds at a time, and that whatever is decided keeps it."""

from dataclasses import replace
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from weir_operator.loop.bounds import (
    Cause,
    Guard,
    append_limits,
    describe_missed,
    floors_at,
    guards_at,
    insist,
    keep_all_bounds,
    refuse_below_floors,
)
from weir_operator.loop.directives import Directives
from weir_operator.loop.proposals import Proposal, cut_all
from weir_operator.streamapp.managers import Allowed, Window
from weir_operator.streamapp.operators import Operator
from weir_operator.streamapp.quantities import Duration
from weir_policies.kernels.staying import hold
from weir_policies.model.node_types import Deployment, NodeType
from weir_policies.policy import NEEDED, Neighbourhood
from weir_policies.testing import a_model, an_observation

TYPES = (
    NodeType(name="small/1", pool="small", speedup=1.0, price=0.04),
    NodeType(name="large/1", pool="large", speedup=2.0, price=0.07),
)
BERLIN = ZoneInfo("Europe/Berlin")
DRAINING = Guard(
    cause=Cause.REFUSED, name="backlog", allows=Allowed.SCALE_OUT, reason="a backlog is worked off"
)


def at(text, zone=BERLIN):
    return datetime.fromisoformat(text).replace(tzinfo=zone).timestamp()


def a_window(**changes):
    fields: dict[str, Any] = {
        "name": "peak",
        "schedule": "0 17 * * 1-5",
        "time_zone": "Europe/Berlin",
        "duration": Duration("2h"),
        "min_replicas": {"match": 4},
    }
    return Window(**fields | changes)


def seeing(*counts, floor=1, types=TYPES, **changes):
    model = a_model(node_types=types)
    return an_observation(model=model, deployment=Deployment(counts), min_replicas=floor, **changes)


def a_proposal(observation, *target):
    stays = hold(observation, "it is enough")
    goes = replace(stays, target=Deployment(target), urgency=0.1)
    return Proposal(observation=observation, decision=goes if target else stays)


@pytest.mark.parametrize(
    ("now", "replicas"),
    [
        ("2026-01-05 16:49:59", 1),
        ("2026-01-05 16:50:00", 4),  # so that they are there at 17:00
        ("2026-01-05 18:59:59", 4),
        ("2026-01-05 19:00:00", 1),
        ("2026-07-06 17:30:00", 4),  # in summer, too, on the clocks of Berlin
        ("2026-01-10 17:30:00", 1),  # a Saturday
    ],
)
def test_the_floor_of_a_window_holds_from_before_its_beginning_to_its_end(now, replicas):
    found = floors_at(Directives(windows=(a_window(),)), at(now), ahead=600.0)

    assert found["match"].replicas == replicas if replicas > 1 else found == {}


def test_the_larger_of_two_floors_counts_and_says_who_asks_for_it():
    operators = Operator(name="match", min_replicas=2), Operator(name="sink")
    directives = Directives(windows=(a_window(),), operators=operators)

    before = floors_at(directives, at("2026-01-05 12:00:00"), ahead=60.0)
    within = floors_at(directives, at("2026-01-05 17:30:00"), ahead=60.0)

    assert before["match"].reason == "a floor of 2 by its minReplicas"
    assert within["match"].reason == "a floor of 4 by the window peak until 19:00 Europe/Berlin"
    assert "sink" not in within


def test_a_floor_ahead_says_when_it_begins():
    [found] = floors_at(
        Directives(windows=(a_window(),)), at("2026-01-05 16:59:00"), ahead=300.0
    ).values()

    assert "from 17:00 Europe/Berlin until 19:00 Europe/Berlin" in found.reason


def test_a_window_that_is_open_comes_before_its_next_period():
    windows = (a_window(schedule="* * * * *", duration=Duration("1h")),)

    found = floors_at(Directives(windows=windows), at("2026-01-05 12:00:50"), ahead=60.0)

    assert found["match"].reason == ("a floor of 4 by the window peak until 13:00 Europe/Berlin")


def test_a_window_that_only_sets_floors_blocks_nothing():
    now = at("2026-01-05 17:30:00")

    assert guards_at(Directives(windows=(a_window(),)), now) == ()
    [guard] = guards_at(Directives(windows=(a_window(allow=Allowed.SCALE_OUT),)), now)
    assert guard.allows is Allowed.SCALE_OUT
    assert "19:00 Europe/Berlin" in guard.reason


def test_a_policy_that_stays_below_a_floor_is_raised_to_it_and_is_urgent():
    seen = seeing(2, 0, floor=4)

    raised = cut_all({"match": a_proposal(seen)}, {"match": seen}, {})["match"].decision

    assert raised.target == Deployment((4, 0))
    assert raised.urgency >= NEEDED
    assert "to keep at least 4 replicas" in raised.reason


def test_a_policy_may_not_leave_a_floor():
    seen = seeing(4, 0, floor=4)

    kept = cut_all({"match": a_proposal(seen, 1, 0)}, {"match": seen}, {})["match"].decision

    assert kept.target == Deployment((4, 0))


def test_replicas_without_room_go_to_another_pool():
    limited = (
        NodeType(name="small/1", pool="small", speedup=1.0, price=0.04, pool_limit=3),
        TYPES[1],
    )
    seen = seeing(2, 0, floor=4, types=limited)

    raised = cut_all({"match": a_proposal(seen)}, {"match": seen}, {})["match"].decision

    assert raised.target == Deployment((3, 1))


def test_a_floor_without_room_is_kept_as_far_as_there_is_and_says_what_is_missing():
    limited = (NodeType(name="small/1", pool="small", speedup=1.0, price=0.04, pool_limit=3),)
    seen = seeing(2, floor=4, types=limited)
    floors = floors_at(Directives(windows=(a_window(),)), at("2026-01-05 17:30:00"), ahead=0.0)

    raised = cut_all({"match": a_proposal(seen)}, {"match": seen}, {})
    verdicts = append_limits(
        {},
        raised,
        neighbourhoods={"match": Neighbourhood.ANY},
        splits={},
        floors=floors,
        skewed={},
    )

    assert raised["match"].decision.target == Deployment((3,))
    assert "a floor of 4 by the window peak" in verdicts["match"]
    assert "of which 3 find room" in verdicts["match"]


def test_what_a_guard_denies_on_the_way_to_a_floor_only_adds_replicas():
    seen = seeing(0, 3, floor=4)
    slower = a_proposal(seen, 4, 0)

    kept = insist({"match": slower}, (DRAINING,))["match"].decision

    assert kept.target == Deployment((0, 4))


def test_deployments_that_no_policy_chose_are_raised_within_the_room_of_all():
    models = {"match": a_model(node_types=TYPES), "sink": a_model(node_types=TYPES, name="sink")}
    floors = floors_at(
        Directives(operators=(Operator(name="match", min_replicas=3),)), 0.0, ahead=0.0
    )
    current = {"match": {"small/1": 1}, "sink": {"small/1": 1}}

    raised = keep_all_bounds(current, models, floors, {"small": 3}, {})

    assert raised == {"match": {"small/1": 2, "large/1": 1}, "sink": {"small/1": 1}}


def test_a_way_back_below_a_floor_is_refused():
    floors = floors_at(
        Directives(operators=(Operator(name="match", min_replicas=3),)), 0.0, ahead=0.0
    )

    assert refuse_below_floors({"match": {"small/1": 3}}, floors) is None
    assert "match has a floor of 3" in str(refuse_below_floors({"match": {"small/1": 2}}, floors))


def test_a_floor_is_missed_only_once_it_has_begun():
    directives = Directives(windows=(a_window(),))
    few = {"match": {"small/1": 1}}

    ahead, within = at("2026-01-05 16:59:00"), at("2026-01-05 17:00:00")

    assert describe_missed(few, floors_at(directives, ahead, ahead=300.0), ahead) == ""
    assert "match has 1 replica, and a floor of 4" in describe_missed(
        few, floors_at(directives, within, ahead=300.0), within
    )
