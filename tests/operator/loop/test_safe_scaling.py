"""Nothing is scaled in while a backlog drains, nor against what replicas were measured to do."""

import math
from dataclasses import replace

import pytest

from tests.operator.loop.am_setting import TYPES, a_deployment, an_am, rule
from tests.operator.metrics.builders import Load, a_layout, a_window
from weir_operator.loop.bounds import (
    ScalingDirection,
    direction_of,
    find_backlog,
    refuse_move,
    refuse_target,
)
from weir_operator.loop.directives import Directives
from weir_operator.loop.proposals import Proposal
from weir_operator.metrics.measurement import measure
from weir_operator.metrics.quality import ProblemKind
from weir_operator.streamapp.managers import Allowed
from weir_policies.model.node_types import Deployment
from weir_policies.policy import Sharing
from weir_policies.testing import a_decision, a_model, an_observation

TEN = {"small/1": 10}
OPERATORS = [
    {"name": "gen", "fixed": {"small/1": 1}},
    {"name": "match", "maxReplicas": 12, "initial": TEN},
    {"name": "count", "maxReplicas": 12, "initial": TEN},
    {"name": "out", "fixed": {"small/1": 1}},
]


def draining(*, pending=200_000.0, growth=-800.0, busy=0.9):
    """900 records/s pass, 100/s arrive: the rest is worked off a backlog at the source."""
    return {
        "gen": Load(rate=900, busy=0.1, pending=pending, pending_growth=growth),
        "match": Load(rate=900, busy=busy, service_mean=0.01, age=0.05),
        "count": Load(rate=900, busy=busy, service_mean=0.01, age=0.1),
        "out": Load(rate=900, busy=0.1, service_mean=0.0001, age=0.15, latency=0.2),
    }


def drained(**loads):
    layout = a_layout()
    return measure(a_window(layout, draining(**loads)), layout)


def busy_at(share, *, replicas=10, **changes):
    """So many replicas of the small node type, all busy for a share of the time."""
    fields = {
        "deployment": a_deployment(replicas),
        "utilisation": (share,) * replicas,
        "rate": 10.0,
    }
    return an_observation(**fields | changes)


@pytest.mark.parametrize("policy", ["queueing", "ds2", "flink-autoscaler"])
async def test_no_policy_scales_in_while_a_backlog_is_worked_off(stage_of, policy):
    stage = await stage_of(
        operators=OPERATORS,
        operatorManager={"interval": "5s", "policy": {"name": policy}},
    ).started()
    stage.loads = draining()

    await stage.ticks(8)

    for name in ("match", "count"):
        types = stage.managers[name].model.node_types
        end = Deployment.from_named(stage.store.load().deployments[name], types)
        assert (
            direction_of(Deployment.from_named(TEN, types), end, types) is not ScalingDirection.IN
        )


async def test_the_operators_behind_the_first_are_shown_what_passes_while_a_backlog_drains(
    stage_of,
):
    stage = await stage_of(operators=OPERATORS).started()
    stage.loads = draining()

    [tick] = await stage.ticks(1)

    assert tick.proposals["match"].observation.rate == pytest.approx(100)
    assert tick.proposals["match"].observation.backlog > 190_000
    assert tick.proposals["count"].observation.rate == pytest.approx(900)


async def test_a_backlog_that_is_worked_off_teaches_no_wait_on_the_wire(stage_of):
    stage = await stage_of(operators=OPERATORS).started()
    stage.loads = draining()

    await stage.ticks(3)

    assert stage.managers["count"].model.network_time == 0


@pytest.mark.parametrize(("busy", "learns"), [(0.1, True), (1.0, False)])
async def test_a_wait_before_replicas_that_are_always_busy_is_none_on_the_wire(
    stage_of, busy, learns
):
    stage = await stage_of(operators=OPERATORS).started()
    await stage.ticks(1)  # what waits after a start teaches nothing either
    assert stage.managers["count"].model.network_time == 0
    stage.loads = {
        "gen": Load(rate=100, busy=0.1),
        "match": Load(rate=100, busy=busy, service_mean=0.01, age=0.05),
        "count": Load(rate=100, busy=busy, service_mean=0.01, age=2.0),
        "out": Load(rate=100, busy=0.1, service_mean=0.0001, age=2.1, latency=2.2),
    }

    await stage.ticks(4)

    assert (stage.managers["count"].model.network_time > 1.0) is learns


async def test_a_backlog_that_vanishes_holds_every_decision_and_teaches_nothing(stage_of):
    stage = await stage_of(
        operators=OPERATORS, operatorManager={"interval": "5s", "policy": {"name": "queueing"}}
    ).started()
    await stage.ticks(1)
    taught = {name: manager.state_dict() for name, manager in stage.managers.items()}
    before = stage.store.load().deployments
    stage.loads = draining(growth=-1500)  # the topic's retention, at 900 records/s

    ticks = await stage.ticks(4)

    assert all(tick.held for tick in ticks)
    assert {(each.kind, each.operator) for tick in ticks for each in tick.snapshot.problems} == {
        (ProblemKind.IMPOSSIBLE, "gen")
    }
    assert {name: manager.state_dict() for name, manager in stage.managers.items()} == taught
    assert stage.store.load().deployments == before


def test_a_backlog_of_more_than_an_interval_that_falls_allows_scaling_out_only():
    [guard] = find_backlog(Directives(), 0.0, drained())

    assert guard.allows is Allowed.SCALE_OUT


@pytest.mark.parametrize(
    "loads",
    [
        {"pending": 60_000.0},  # gone within the next interval
        {"growth": 0.0},  # it stands
        {"growth": 800.0},  # it grows
        {"growth": -50.0},  # samples scatter
        {"pending": None},  # the source reports none
    ],
    ids=str,
)
def test_a_backlog_that_is_small_or_does_not_fall_forbids_nothing(loads):
    assert list(find_backlog(Directives(), 0.0, drained(**loads))) == []


@pytest.mark.parametrize(
    ("share", "target", "why"),
    [
        (0.15, 2, "it fits"),
        (0.9, 10, "nothing changes"),
        (1.0, 11, "it scales out"),
        (math.nan, 2, "nothing was measured"),
    ],
)
def test_other_changes_are_left_to_the_policy(share, target, why):
    assert refuse_target(busy_at(share), a_deployment(target), ()) is None, why


def test_what_one_replica_was_not_measured_to_do_does_not_hide_the_work_of_the_others():
    seen = replace(busy_at(0.9), utilisation=(math.nan, *(0.9,) * 9))

    assert refuse_target(seen, a_deployment(2), ()) is not None


def test_records_that_are_shared_equally_fill_the_slowest_replica_of_the_target():
    # Two cores' work: 2.1 times the speed of one small core, but half the records go to each.
    model = a_model(sharing=Sharing.EQUAL)
    seen = an_observation(
        model=model, deployment=Deployment((0, 4, 0)), utilisation=(0.5,) * 4, rate=10.0
    )

    assert refuse_target(seen, Deployment((1, 0, 1)), ()) is not None
    by_load = replace(seen, model=replace(model, sharing=Sharing.BY_LOAD))
    assert refuse_target(by_load, Deployment((1, 0, 1)), ()) is None


def test_a_policy_whose_model_is_contradicted_is_overruled_with_the_reason():
    am = an_am(restarts=3)
    wish = Proposal(
        observation=busy_at(0.9), decision=a_decision(target=a_deployment(2), urgency=0.3)
    )

    ruling = rule(am, match=wish)

    assert ruling.granted == ()
    assert "90 %" in ruling.verdicts["match"]
    assert "450 %" in ruling.verdicts["match"]


def test_a_change_that_did_worse_is_not_taken_back_to_less_than_the_measured_work():
    seen = busy_at(0.9)
    ten, two = ({"match": a_deployment(count).named(TYPES)} for count in (10, 2))

    blind = refuse_move(ten, two, {"match": seen.model}, ())
    measured = refuse_move(ten, two, {"match": seen.model}, (), {"match": seen})

    assert blind is None
    assert measured is not None
