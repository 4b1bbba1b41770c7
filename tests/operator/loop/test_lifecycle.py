"""A job is brought up, looked after, changed and ended; what was lost is replaced."""

import pytest

from tests.operator.loop.job_stage import (
    TWO,
    Stage,
)
from tests.operator.rescale.bench import ONE
from weir_operator.errors import JobFailedError, TemporaryError
from weir_operator.loop.lifecycle import Health
from weir_operator.rescale.journal import Kind, Step, plan
from weir_operator.rescale.replicas import deployments_of
from weir_operator.rescale.settings import RescaleSettings


@pytest.fixture
def stage():
    return Stage()


async def test_a_first_start_that_failed_begins_from_the_savepoint_the_manifest_has_now(
    stage,
):
    stage.world.positions = {"file:/theirs/old": 10, "file:/theirs/new": 20}
    stage.world.broken_totals = {1}
    with pytest.raises(JobFailedError):
        await stage.lifecycle(initial_savepoint="file:/theirs/old").bring_up()

    stage.world.broken_totals = set()
    await stage.lifecycle(initial_savepoint="file:/theirs/new").bring_up()

    [job] = stage.world.running()
    assert stage.world.jobs[job].position == 20


async def test_a_job_that_has_run_does_not_go_back_to_the_savepoint_it_began_from(stage):
    stage.world.positions = {"file:/theirs/old": 10}
    lifecycle = stage.lifecycle(initial_savepoint="file:/theirs/old")
    await lifecycle.bring_up()
    stage.world.process(50)
    await lifecycle.suspend()

    await stage.lifecycle(initial_savepoint="file:/theirs/old").bring_up()

    [job] = stage.world.running()
    assert stage.world.jobs[job].position == 60


async def test_a_controller_that_comes_back_finds_the_job_and_leaves_it_alone(stage):
    await stage.running()
    [job] = stage.world.running()

    await stage.lifecycle().bring_up()

    assert stage.world.running() == [job]
    assert stage.exact()


async def test_a_check_asks_once_for_a_job_that_runs(stage, monkeypatch):
    asked, progress = [], stage.world.progress

    async def count(job_id):
        asked.append(job_id)
        return await progress(job_id)

    monkeypatch.setattr(stage.world, "progress", count)
    lifecycle = await stage.running()
    asked.clear()

    assert await lifecycle.heal() is Health.RUNS
    assert asked == stage.world.running()


async def test_a_change_left_half_done_is_finished_first(stage):
    await stage.running()
    status = stage.store.load()
    journal = plan(
        kind=Kind.RESCALE,
        reason="more",
        now=0.0,
        source=ONE,
        target=TWO,
        old_job=status.job_id,
    )
    await stage.store.save(status.model_copy(update={"rescale": journal}))

    await stage.lifecycle().bring_up()

    assert stage.store.load().deployments == TWO
    assert "ChangeResumed" in stage.reasons
    assert stage.exact()


async def test_a_lost_taskmanager_is_replaced_and_told(stage):
    lifecycle = await stage.running()
    stage.world.alive.clear()

    health = await lifecycle.heal()

    assert health is Health.RESTARTING
    assert deployments_of(stage.world.alive.values()) == ONE
    assert "ReplicaLost" in stage.reasons


async def test_a_taskmanager_that_nothing_claims_is_ended(stage):
    lifecycle = await stage.running()
    await lifecycle.change(TWO, "more")
    await stage.store.save(stage.store.load().model_copy(update={"deployments": ONE}))

    await lifecycle.heal()

    assert deployments_of(stage.world.alive.values()) == ONE


async def test_a_job_that_ended_by_failure_goes_on_from_its_newest_checkpoint(stage):
    lifecycle = await stage.running()
    stage.world.checkpoint()
    [job] = stage.world.running()
    stage.world.jobs[job].state = "FAILED"

    await lifecycle.heal()

    assert stage.store.load().restore_path == f"file:/checkpoints/{job}/chk-1"
    assert "JobLost" in stage.reasons
    assert stage.exact()


async def test_a_job_that_never_comes_to_run_ends_the_start_with_its_cause(stage):
    stage.world.broken_totals = {1}

    with pytest.raises(JobFailedError, match="it broke"):
        await stage.lifecycle().bring_up()


async def test_a_start_that_was_interrupted_with_all_its_processes_is_begun_again(stage):
    journal = plan(kind=Kind.START, reason="run", now=0.0, source={}, target=ONE, old_job=None).at(
        Step.VERIFY, 0.0
    )
    await stage.store.save(stage.store.load().model_copy(update={"rescale": journal}))

    await stage.lifecycle().bring_up()

    assert len(stage.world.running()) == 1
    assert stage.store.load().deployments == ONE
    assert "StartRestarted" in stage.reasons


async def test_a_journal_that_the_disk_did_not_take_is_resumed_by_the_next_look(stage):
    lifecycle = await stage.running()
    save, stage.store.save = stage.store.save, fail_at(stage.store, Step.REMOVE)

    with pytest.raises(TemporaryError):
        await lifecycle.change(TWO, "more")
    stage.store.save = save
    await lifecycle.heal()

    assert stage.store.load().deployments == TWO
    assert len(stage.world.running()) == 1
    assert stage.exact()


def fail_at(store, step):
    """Return a save that a full disk refuses from this step on."""
    save = store.save

    async def refuse(status):
        if status.rescale.step is step:
            raise TemporaryError("the disk is full")
        await save(status)

    return refuse


async def lose_a_node(stage, *, places):
    """End the oldest replica, and let its pool have only so many places from now on."""
    lost = min(stage.world.alive.values(), key=lambda replica: replica.started)
    del stage.world.alive[lost.id]
    stage.world.full_pools = {"small": places}
    for job in stage.world.running():
        stage.world.jobs[job].state = "RESTARTING"


async def test_a_job_whose_lost_replica_finds_no_place_goes_on_with_those_that_stand(stage):
    lifecycle = stage.lifecycle(initial=TWO)
    await lifecycle.bring_up()
    stage.world.process(50)
    stage.world.checkpoint()
    await lose_a_node(stage, places=1)

    waiting = await lifecycle.heal()
    await lifecycle.heal()
    early = stage.store.load().deployments
    stage.clock.time += RescaleSettings().start_deadline
    await lifecycle.heal()

    assert waiting is Health.RESTARTING
    assert early == TWO
    assert stage.store.load().deployments == ONE
    assert len(stage.world.running()) == 1
    assert "PoolFull" in stage.reasons
    assert stage.exact()


async def test_a_job_that_is_down_waits_for_no_new_node_and_may_ask_for_one_soon(stage):
    stage.settings = RescaleSettings(provisioning={"small": 300.0})
    lifecycle = stage.lifecycle(initial=TWO)
    await lifecycle.bring_up()
    stage.world.process(50)
    stage.world.checkpoint()
    await lose_a_node(stage, places=1)

    await lifecycle.heal()
    await lifecycle.heal()
    stage.clock.time += RescaleSettings().start_deadline
    await lifecycle.heal()

    [full] = stage.store.load().full
    assert stage.store.load().deployments == ONE
    assert full.lasts == RescaleSettings().start_deadline
    assert stage.exact()


async def test_a_job_that_has_lost_all_replicas_of_a_full_pool_moves_to_another(stage):
    lifecycle = await stage.running()
    stage.world.checkpoint()
    await lose_a_node(stage, places=0)
    await lifecycle.heal()
    await lifecycle.heal()
    stage.clock.time += RescaleSettings().start_deadline

    await lifecycle.heal()

    assert stage.store.load().deployments == {"match": {"large/1": 1}}
    assert stage.exact()


async def test_a_first_start_in_a_full_pool_goes_on_in_another(stage):
    stage.world.full_pools = {"small": 0}

    await stage.lifecycle().bring_up()

    assert stage.store.load().deployments == {"match": {"large/1": 1}}
    assert "PoolFull" in stage.reasons


async def test_a_recovery_whose_replicas_find_no_place_goes_on_in_another_after_one_deadline(stage):
    lifecycle = await stage.running()
    stage.world.checkpoint()
    [job] = stage.world.running()
    stage.world.jobs[job].state = "FAILED"
    await lose_a_node(stage, places=0)
    began = stage.clock.now()

    await lifecycle.heal()

    assert stage.clock.now() - began < 2 * RescaleSettings().start_deadline
    assert stage.store.load().deployments == {"match": {"large/1": 1}}
    assert stage.exact()


async def test_a_replica_that_came_back_with_another_size_gets_its_own_again_in_place(stage):
    lifecycle = await stage.running()
    [job] = stage.world.running()
    stage.world.give_sizes("500m")

    await lifecycle.heal()

    assert deployments_of(stage.world.alive.values()) == ONE
    assert stage.world.running() == [job]
    assert "ReplicaResized" in stage.reasons


async def test_a_size_that_its_node_refuses_to_give_back_is_had_by_another_replica(stage):
    lifecycle = await stage.running()
    stage.world.give_sizes("500m")
    stage.world.refuse_sizes = True

    await lifecycle.heal()

    assert deployments_of(stage.world.alive.values()) == ONE
    assert "RescaleDone" in stage.reasons
    assert stage.exact()


async def test_a_size_that_the_manifest_has_no_more_is_left_for_one_that_it_has(stage):
    gone = {"match": {"small/100m": 2}}
    await stage.lifecycle(initial=gone).bring_up()
    await stage.store.save(stage.store.load().model_copy(update={"deployments": gone}))
    stage.world.process(50)
    lifecycle = stage.lifecycle()

    before = lifecycle.fits(stage.store.load().deployments)
    await lifecycle.heal()

    assert not before
    assert stage.store.load().deployments == {"match": {"small/500m": 2}}
    assert deployments_of(stage.world.alive.values()) == {"match": {"small/500m": 2}}
    assert stage.exact()
