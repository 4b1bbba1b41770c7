"""A TaskManager or JobManager that was lost is told of, whoever brings it back."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.operator.loop.job_stage import TWO, Stage
from tests.operator.rescale.bench import ONE


@pytest.fixture
async def steered():
    stage = Stage()
    lifecycle = stage.lifecycle(initial=TWO)
    await lifecycle.bring_up()
    await lifecycle.heal()
    stage.events.clear()
    return stage, lifecycle


def change(stage, name, **fields):
    stage.world.alive[name] = replace(stage.world.alive[name], **fields)


async def test_one_that_somebody_else_replaced_is_told_of_by_its_name_and_node(steered):
    stage, lifecycle = steered
    lost, _ = sorted(stage.world.alive)
    change(stage, lost, node="n1")
    await lifecycle.heal()
    stage.world.alive["tm-new"] = replace(stage.world.alive.pop(lost), id="tm-new", node="n2")

    await lifecycle.heal()
    await lifecycle.heal()

    [event] = stage.events
    assert event.reason == "TaskManagerLost"
    assert all(named in event.message for named in (lost, "match", "small", "n1"))


async def test_one_that_started_again_in_its_place_says_how_it_ended(steered):
    stage, lifecycle = steered
    name = min(stage.world.alive)
    change(stage, name, process="p1")
    await lifecycle.heal()
    change(stage, name, process="p2", ended="OOMKilled, exit code 137")

    await lifecycle.heal()
    await lifecycle.heal()

    [event] = stage.events
    assert "OOMKilled, exit code 137" in event.message


async def test_a_job_manager_that_started_again_is_told_of_once(steered):
    stage, lifecycle = steered
    stage.world.job_manager_process = "jm-2"

    await lifecycle.heal()
    await lifecycle.heal()

    assert stage.reasons == ["JobManagerLost"]


async def test_a_process_that_is_not_known_for_a_while_is_not_lost(steered):
    stage, lifecycle = steered
    stage.world.job_manager_process = ""
    await lifecycle.heal()
    stage.world.job_manager_process = "jm-1"

    await lifecycle.heal()

    assert stage.reasons == []


async def test_what_a_change_ends_and_starts_is_no_loss(steered):
    stage, lifecycle = steered

    await lifecycle.change(ONE, "less arrives")
    await lifecycle.heal()

    assert {"TaskManagerLost", "JobManagerLost"}.isdisjoint(stage.reasons)


async def test_a_job_manager_that_was_lost_while_the_job_was_rescaled_is_told_of(steered):
    stage, lifecycle = steered
    stage.world.job_manager_process = "jm-2"

    await lifecycle.change(ONE, "less arrives")
    await lifecycle.heal()
    await lifecycle.heal()

    assert stage.reasons.count("JobManagerLost") == 1
    assert "TaskManagerLost" not in stage.reasons


async def test_what_weir_ends_because_nothing_claims_it_is_no_loss(steered):
    stage, lifecycle = steered
    more = replace(stage.world.alive[min(stage.world.alive)], id="tm-more", started=9e9)
    stage.world.alive["tm-more"] = more

    await lifecycle.heal()
    await lifecycle.heal()

    assert stage.reasons == ["ReplicaUnclaimed"]


async def test_one_that_weir_itself_replaces_is_told_of_too(steered):
    stage, lifecycle = steered
    lost = min(stage.world.alive)
    del stage.world.alive[lost]

    await lifecycle.heal()

    assert set(stage.reasons) == {"TaskManagerLost", "ReplicaLost"}
