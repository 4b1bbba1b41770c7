"""Replicas that are about to go are replaced before they are lost, as soon as there is room."""

import itertools

import pytest

from tests.operator.loop.job_stage import TWO, TYPES, Stage, asking_for
from tests.operator.rescale.bench import ONE
from weir_operator.rescale.journal import Kind, Step
from weir_operator.rescale.replicas import deployments_of, stale_replicas
from weir_operator.runtime.protocol import Replica, ReplicaSpec


@pytest.fixture
def stage():
    return Stage()


async def test_a_replica_about_to_go_is_replaced_before_it_is_lost(stage):
    lifecycle = await stage.running()
    [terminating] = stage.world.alive
    stage.world.terminating = {terminating: "its node is drained"}

    await lifecycle.heal()

    assert terminating not in stage.world.alive
    assert deployments_of(stage.world.alive.values()) == ONE
    [end] = [each for each in stage.changes if each.kind is Kind.RESCALE and each.step.is_end]
    assert f"{terminating} (its node is drained)" in end.reason
    assert stage.exact()


async def test_an_evicted_replica_is_moved_to_the_one_that_replaced_it(stage):
    lifecycle = await stage.running()
    [evicted] = stage.world.alive
    gone = stage.world.alive[evicted]
    stage.world.terminating, stage.world.evicted = {evicted: "EvictionByEvictionAPI"}, {evicted}
    [replacement] = await stage.world.start(
        [ReplicaSpec(operator=gone.operator, pool=gone.pool, size=gone.size)]
    )

    await lifecycle.heal()

    assert set(stage.world.alive) == {replacement}
    [end] = [each for each in stage.changes if each.kind is Kind.RESCALE and each.step.is_end]
    assert end.step is Step.DONE
    assert {"ReplicaUnclaimed", "ReplicaLost"}.isdisjoint(stage.reasons)
    assert stage.exact()


def test_any_change_takes_an_evicted_replica_with_it():
    kept, evicted = [
        Replica(
            id=name,
            operator="match",
            pool="small",
            size="250m",
            started=0.0,
            metrics_url="",
            evicted=name == "b",
        )
        for name in "ab"
    ]

    assert stale_replicas([kept, evicted], None, replaced=()) == ("b",)


@pytest.fixture
def stage_of_one_pool():
    return Stage(node_types=tuple(each for each in TYPES if each.pool == "small"))


async def drain_without_room(stage):
    """Evict the one replica of a running job, where its pool has no room for another."""
    lifecycle = await stage.running()
    [terminating] = stage.world.alive
    stage.world.terminating = {terminating: "its node is drained"}
    stage.world.full_pools = {"small": 1}
    await lifecycle.heal()
    return lifecycle, terminating


async def test_a_replacement_without_a_place_is_tried_again_soon(stage_of_one_pool):
    stage = stage_of_one_pool
    lifecycle, terminating = await drain_without_room(stage)

    await lifecycle.heal()

    assert stage.reasons.count("ChangeAbandoned") == 1

    stage.world.full_pools = {}
    stage.clock.time += 5
    await lifecycle.heal()

    assert terminating not in stage.world.alive


async def seconds_until_tried(stage, lifecycle):
    """Look every second until a change was abandoned once more; return how long nobody tried."""
    before = stage.reasons.count("ChangeAbandoned")
    for second in itertools.count(1):
        stage.clock.time += 1
        await lifecycle.heal()
        if stage.reasons.count("ChangeAbandoned") > before:
            return second


async def test_a_replacement_that_finds_no_place_for_long_is_tried_every_minute(stage_of_one_pool):
    stage = stage_of_one_pool
    lifecycle, _ = await drain_without_room(stage)

    pauses = [await seconds_until_tried(stage, lifecycle) for _ in range(7)]

    assert pauses == [5, 10, 20, 40, 60, 60, 60]


async def test_a_second_node_that_is_drained_does_not_wait_for_the_first(stage):
    lifecycle = stage.lifecycle(initial=TWO)
    await lifecycle.bring_up()
    first, second = stage.world.alive
    stage.world.terminating = {first: "its node is drained"}
    stage.world.full_pools = {"small": 2}
    await lifecycle.heal()

    stage.world.full_pools = {}
    stage.world.terminating |= {second: "its node is drained"}
    await lifecycle.heal()

    assert not {first, second} & set(stage.world.alive)


async def test_a_drain_does_not_wait_for_an_upgrade_that_came_to_nothing(stage):
    stage.directives = asking_for("--old")
    lifecycle = await stage.running()
    stage.directives = asking_for("--new")
    stage.world.savepoints_hang = True
    await lifecycle.heal()
    abandoned = stage.reasons.count("ChangeAbandoned")

    stage.world.savepoints_hang = False
    [terminating] = stage.world.alive
    stage.world.terminating = {terminating: "its node is drained"}
    await lifecycle.heal()

    assert abandoned == 1
    assert terminating not in stage.world.alive
    assert stage.changes[-1].kind is Kind.RESCALE


async def test_a_replica_whose_pool_stays_full_leaves_for_another_pool(stage):
    lifecycle, terminating = await drain_without_room(stage)

    await lifecycle.heal()

    assert terminating not in stage.world.alive
    [operator] = deployments_of(stage.world.alive.values()).values()
    assert {name.split("/")[0] for name in operator} == {"large"}
    assert stage.exact()
