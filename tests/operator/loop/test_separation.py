"""A vertex that has become busy leaves the operator that it shares."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from weir_operator.loop.directives import Pause
from weir_operator.loop.separation import (
    SharedOperators,
    at_risk,
    costs_less,
    count_replicas,
    describe_busy,
    describe_waiting,
    measured_over,
)
from weir_operator.runtime.revision import Revision
from weir_operator.streamapp.managers import Allowed
from weir_operator.streamapp.models import Mode
from weir_policies.model.node_types import Deployment, NodeType
from weir_policies.testing import a_model, an_observation

LONG_ENOUGH = 8
"""Intervals of 5 s after which vertices are measured, and the first of them."""


def separate(deployments, work, names):
    target = {
        name: counts
        for operator, counts in deployments.items()
        for name in ([*names, "rest"] if operator == "match" else [operator])
    }
    return target, {name: ("side",) if name == "rest" else (name,) for name in target}


SHARED = SharedOperators(
    vertices={"match": {"v-match": "parse", "v-idle": "side"}}, separate=separate, max_operators=9
)


async def a_job_that_shares(stage_of, *, busy=0.5, limits=None, separate=separate, initial=None):
    operators = [
        {
            "name": name,
            "initial": (initial or {"small/1": 1}) if name == "match" else {"small/1": 1},
        }
        for name in ("gen", "match", "count", "out")
    ]
    stage = stage_of(
        operatorManager={"interval": "5s", "policy": {"name": "hold"}}, operators=operators
    )
    stage.shared_operators = replace(SHARED, pool_limits=limits or {}, separate=separate)
    stage.world.by_agent = True
    stage.put_under(20, busy=busy)
    await stage.started()
    running = stage.store.load().model_copy(update={"revision": Revision()})
    await stage.store.save(running)
    return stage


async def test_a_busy_vertex_gets_an_operator_of_its_own_in_one_journalled_restart(stage_of):
    stage = await a_job_that_shares(stage_of)

    await stage.ticks(LONG_ENOUGH)

    [change] = stage.ends("Rescale")
    assert set(change.target) == {"gen", "parse", "rest", "count", "out"}
    assert change.reason.startswith("parse 50% was busy")
    status = stage.store.load()
    assert status.deployments == change.target
    assert set(status.revision.vertices) == set(change.target)
    assert [each.verdict for each in stage.records.decisions() if each.change == change.id] == [
        f"Granted: {change.reason}"
    ]


async def test_a_job_far_within_its_bound_is_not_restarted_for_a_vertex_that_is_a_little_busy(
    stage_of,
):
    stage = await a_job_that_shares(stage_of, busy=0.2)

    await stage.ticks(LONG_ENOUGH)

    assert stage.ends("Rescale") == []
    assert "VerticesBusy" not in stage.reasons


async def test_nothing_is_scaled_before_its_vertices_are_measured(stage_of):
    stage = await a_job_that_shares(stage_of)

    ticks = await stage.ticks(2)

    assert "measures first" in ticks[-1].verdicts["match"]
    assert stage.ends("Rescale") == []


async def test_vertices_that_are_nearly_idle_keep_sharing(stage_of):
    stage = await a_job_that_shares(stage_of, busy=0.05)

    ticks = await stage.ticks(LONG_ENOUGH)

    assert stage.ends("Rescale") == []
    assert "measures first" not in ticks[-1].verdicts.get("match", "")


async def test_advice_names_what_would_be_separated_and_a_pause_holds_it_back(stage_of):
    stage = await a_job_that_shares(stage_of)
    stage.ask(mode=Mode.ADVISE)

    await stage.ticks(LONG_ENOUGH)

    [told] = [each.message for each in stage.events if each.reason == "VerticesBusy"]
    assert "parse 50%" in told
    assert "spec.mode is Advise" in told
    assert stage.ends("Rescale") == []


async def test_a_separation_that_failed_is_not_tried_again_at_once(stage_of):
    stage = await a_job_that_shares(stage_of)
    stage.world.broken_totals.add(5)

    await stage.ticks(LONG_ENOUGH + 6)

    [change] = stage.ends("Rescale")
    assert change.step == "RolledBack"
    assert set(stage.store.load().deployments) == {"gen", "match", "count", "out"}


async def test_a_separation_with_fewer_replicas_of_a_vertex_waits_while_scaling_in_is_not_allowed(
    stage_of,
):
    def separate_with_fewer(deployments, work, names):
        return separate({**deployments, "match": {"small/1": 1}}, work, names)

    stage = await a_job_that_shares(stage_of, separate=separate_with_fewer, initial={"small/1": 2})
    stage.ask(pauses=(Pause(source="weir.dev/pause", allows=Allowed.SCALE_OUT, until=None),))

    await stage.ticks(LONG_ENOUGH)

    assert stage.ends("Rescale") == []
    assert "weir.dev/pause" in next(
        each.message for each in stage.events if each.reason == "VerticesBusy"
    )


async def test_a_vertex_without_room_in_the_pools_keeps_sharing_and_an_event_says_so(stage_of):
    stage = await a_job_that_shares(stage_of, limits={"small": 4})

    await stage.ticks(LONG_ENOUGH)

    assert stage.ends("Rescale") == []
    [told] = [each.message for each in stage.events if each.reason == "VerticesBusy"]
    assert "maxReplicas (small 4): parse 50%" in told


@pytest.mark.parametrize(
    ("work", "had", "replicas"),
    [(0.1, 8, 1), (0.7, 8, 1), (0.71, 8, 2), (20.0, 8, 8), (0.0, 8, 1), (math.nan, 8, 8)],
)
def test_replicas_follow_from_the_work_and_are_no_more_than_before(work, had, replicas):
    assert count_replicas(work, had) == replicas


def test_the_reason_names_each_vertex_with_its_work_and_the_time_it_was_measured():
    said = describe_busy({"parse": 0.5, "count": 2.0}, 5.0)

    assert said == (
        "parse 50%, count 200% were busy, over 30 s. From 10% on, Weir gives each TaskManagers of "
        "its own, so that it can be scaled alone"
    )
    assert measured_over(5.0) == 30.0
    assert measured_over(60.0) == 120.0


def test_what_waits_for_room_is_named_with_the_limits_and_nothing_without():
    assert "(any 8): count 20%" in describe_waiting({"count": 0.2}, {"any": 8}, 9)
    assert describe_waiting({}, {"any": 8}, 9) == ""


@pytest.mark.parametrize("max_operators", [1, 2, 7, 500, 999, 5000])
def test_of_many_busy_vertices_as_many_leave_as_there_is_room_for_after_a_few_tries(max_operators):
    tries = []

    def counted(deployments, work, names):
        tries.append(len(names))
        target = {name: {"small/1": 1} for name in (*names, "match")}
        return target, {name: (name,) for name in target}

    names = {f"v{n}": f"n{n}" for n in range(1000)}
    shared = SharedOperators(
        vertices={"match": names | {"v-match": "match"}},
        separate=counted,
        max_operators=max_operators,
    )

    found = shared.find_separation({"match": {"small/1": 1}}, dict.fromkeys(names, 0.5))

    assert found is not None
    assert len(found.busy) == min(max_operators - 1, 1000)  # the rest is an operator, too
    assert len(found.busy) + len(found.waiting) == 1000
    assert len(tries) <= 10


MATCH = a_model(name="match", node_types=(NodeType(name="any/1", pool="any", speedup=1, price=1),))
ONE = Deployment((1,))


@pytest.mark.parametrize(
    ("busy", "response", "risky"),
    [
        ((0.1, 0.2), 0.01, False),
        ((0.1, 0.6), 0.01, True),
        ((math.nan, 0.6), math.nan, True),
        ((math.nan,), 0.01, False),
        ((0.1,), 0.06, True),
        ((), math.nan, True),
    ],
)
def test_an_operator_is_at_risk_from_half_of_its_time_or_budget_on(busy, response, risky):
    seen = an_observation(
        model=MATCH, deployment=ONE, utilisation=busy, response_time=response, budget=0.1
    )

    assert at_risk(seen) is risky


def test_a_separation_pays_where_its_replicas_cost_less():
    seen = {"match": an_observation(model=MATCH, deployment=ONE)}

    assert costs_less({"a": {"any/1": 1}, "b": {"any/1": 2}}, {"match": {"any/1": 4}}, seen)
    assert not costs_less({"a": {"any/1": 1}, "b": {"any/1": 1}}, {"match": {"any/1": 1}}, seen)
