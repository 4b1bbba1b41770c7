"""Where a job goes on from after it ended, and how people choose otherwise."""

from dataclasses import replace

import pytest

from tests.operator.loop.job_stage import SUSPENDED, TWO, Stage, asking_for
from tests.operator.rescale.bench import ONE
from tests.operator.rescale.fakes import ControllerDied
from weir_operator.errors import JobFailedError, TemporaryError
from weir_operator.loop.directives import Directives
from weir_operator.loop.lifecycle import NOTE_CHECKPOINT_EVERY, Health
from weir_operator.rescale.journal import Step
from weir_operator.rescale.settings import RescaleSettings
from weir_operator.rescale.stopping import StateMissingError


@pytest.fixture
def stage():
    return Stage()


async def with_checkpoint(stage):
    lifecycle = await stage.running()
    stage.world.checkpoint()
    await lifecycle.heal()
    return lifecycle


async def test_a_job_that_flink_recovered_goes_on_from_what_it_was_restored_from(stage):
    lifecycle = await with_checkpoint(stage)
    await lifecycle.change(TWO, "more")
    stage.world.process(50)
    stage.world.checkpoint()
    [job] = stage.world.running()
    stage.world.lose_job_manager(recovers=True)
    stage.world.jobs[job].state = "FAILED"

    await lifecycle.heal()

    assert stage.store.load().restore_path == f"file:/checkpoints/{job}/chk-1"
    assert stage.world.committed_wrong() == (0, 0)


async def test_state_that_is_gone_is_not_replaced_by_older_state(stage):
    lifecycle = await with_checkpoint(stage)
    await lifecycle.change(TWO, "more")
    older = stage.store.load().restore_path
    stage.world.process(50)
    stage.world.checkpoint()
    await lifecycle.heal()
    [job] = stage.world.running()
    stage.world.lose_job_manager(recovers=False)
    stage.world.stored[job].clear()

    sentences = []
    for _ in range(3):
        with pytest.raises(StateMissingError, match=r"spec\.flink\.job\.restoreNonce") as failure:
            await stage.lifecycle().heal()
        sentences.append(str(failure.value))

    assert older is not None
    assert all(older in sentence for sentence in sentences)
    assert stage.world.running() == []
    change = stage.store.load().rescale
    assert change is not None
    assert change.step is Step.FAILED
    assert f"file:/checkpoints/{job}/chk-1" in str(change.failure)


async def test_a_person_may_choose_older_state_by_a_new_nonce(stage):
    lifecycle = await with_checkpoint(stage)
    await lifecycle.change(TWO, "more")
    older = stage.store.load().restore_path
    await lifecycle.heal()
    stage.world.checkpoint()
    await lifecycle.heal()
    [job] = stage.world.running()
    stage.world.lose_job_manager(recovers=False)
    stage.world.stored[job].clear()

    chosen = stage.lifecycle(initial_savepoint=older, restore_nonce=1)
    health = await chosen.heal()
    again = await stage.lifecycle(initial_savepoint=older, restore_nonce=1).heal()

    assert (health, again) == (Health.RUNS, Health.RUNS)
    [started] = stage.world.running()
    assert stage.world.jobs[started].restored == older
    assert stage.store.load().restore_nonce == 1


async def test_a_job_that_runs_is_stopped_with_a_savepoint_before_it_starts_from_older_state(stage):
    await with_checkpoint(stage)
    stage.world.positions["file:/theirs/savepoint-1"] = 0
    [before] = stage.world.running()

    await stage.lifecycle(initial_savepoint="file:/theirs/savepoint-1", restore_nonce=4).heal()

    [after] = stage.world.running()
    assert after != before
    assert stage.world.jobs[before].state == "FINISHED"
    assert stage.world.stored[before] == list(stage.store.load().savepoints)
    assert "RestoreAsked" in stage.reasons


async def test_a_job_that_came_to_its_end_stays_so_when_its_jobmanager_is_lost(stage):
    lifecycle = await with_checkpoint(stage)
    stage.world.finish()
    assert await lifecycle.heal() is Health.FINISHED
    stage.world.lose_job_manager(recovers=True)

    health = await stage.lifecycle().heal()

    assert health is Health.FINISHED
    assert stage.world.running() == []


async def test_a_finished_job_that_is_suspended_and_resumed_does_not_begin_again(stage):
    lifecycle = await with_checkpoint(stage)
    await lifecycle.change(TWO, "more")
    stage.world.process(50)
    stage.world.finish()
    stage.directives = SUSPENDED
    await lifecycle.heal()
    stage.directives = Directives()

    health = await lifecycle.heal()

    assert health is Health.FINISHED
    assert stage.world.running() == []


async def test_a_finished_job_runs_again_by_a_new_nonce(stage):
    lifecycle = await with_checkpoint(stage)
    stage.world.finish()
    await lifecycle.heal()

    health = await stage.lifecycle(restore_nonce=1).heal()

    assert health is Health.RUNS
    assert len(stage.world.running()) == 1
    assert await stage.lifecycle(restore_nonce=1).heal() is Health.RUNS


async def test_a_job_stopped_by_hand_goes_on_from_that_savepoint(stage):
    lifecycle = await stage.running()
    [job] = stage.world.running()
    stage.world.stop_with_savepoint(job, "a-trigger-of-somebody-else")

    health = await lifecycle.heal()

    assert health is Health.RUNS
    assert stage.world.running() != [job]
    assert stage.exact()


async def test_a_storage_that_cannot_be_listed_is_no_empty_storage(stage):
    lifecycle = await with_checkpoint(stage)
    await lifecycle.change(TWO, "more")
    stage.world.process(50)
    stage.world.checkpoint()
    stage.world.lose_job_manager(recovers=False)
    stage.world.storage_away = True

    with pytest.raises(TemporaryError, match="cannot be listed"):
        await lifecycle.heal()
    stage.world.storage_away = False
    await lifecycle.heal()

    assert len(stage.world.running()) == 1
    assert stage.world.committed_wrong() == (0, 0)


async def test_checkpoints_of_the_job_before_are_deleted_once_the_next_has_its_own():
    stage = Stage(RescaleSettings(via="Checkpoint"))
    lifecycle = await stage.running()
    for _ in range(4):
        stage.world.process(5)
        stage.world.checkpoint()
    [before] = stage.world.running()
    left = list(stage.world.stored[before])

    await lifecycle.change(TWO, "more")
    await lifecycle.heal()
    kept_until_then = [path in stage.world.positions for path in left]
    folders_until_then = set(stage.world.folders)
    stage.world.checkpoint()
    stage.clock.time += NOTE_CHECKPOINT_EVERY
    await lifecycle.heal()

    assert len(left) == 3
    assert all(kept_until_then)
    assert stage.world.disposed == left
    assert before in folders_until_then
    assert stage.world.folders == set(stage.world.running())
    assert stage.store.load().restore_path in stage.world.positions
    assert stage.world.committed_wrong() == (0, 0)


async def test_an_upgrade_that_committed_is_not_undone_by_older_state():
    stage = Stage()
    stage.directives = asking_for("--old")
    lifecycle = await stage.running()
    stage.directives = asking_for("--new")
    saves = []

    def die_at_verify():
        change = stage.store.load().rescale
        saves.append(change)
        if change is not None and change.step is Step.VERIFY:
            raise TemporaryError("the API server is away")

    stage.store.on_save = die_at_verify
    with pytest.raises(TemporaryError):
        await lifecycle.heal()
    stage.store.on_save = lambda: None
    stage.world.process(20)
    stage.world.checkpoint()
    [job] = stage.world.running()
    stage.world.jobs[job].state = "FAILED"

    for _ in range(3):
        await stage.lifecycle().heal()
    stage.world.process(20)
    stage.world.checkpoint()

    assert "UpgradeFailed" in stage.reasons
    assert "UpgradeDone" not in stage.reasons
    assert stage.world.committed_wrong() == (0, 0)
    assert stage.store.load().revision == stage.directives.revision
    assert stage.store.load().deployments == ONE


async def test_a_bounded_job_whose_end_a_new_jobmanager_lists_is_not_begun_again(stage):
    lifecycle = await with_checkpoint(stage)
    await lifecycle.change(TWO, "more")
    stage.world.process(50)
    stage.world.finish()
    stage.world.lose_job_manager(recovers=True, keeps_results=True)

    health = await lifecycle.heal()

    assert health is Health.FINISHED
    assert stage.world.running() == []


@pytest.mark.parametrize("keeps_results", [False, True], ids=["forgotten", "listed as finished"])
async def test_a_job_that_a_person_stopped_goes_on_when_its_jobmanager_is_lost_too(
    stage, keeps_results
):
    lifecycle = await with_checkpoint(stage)
    stage.world.process(50)
    [job] = stage.world.running()
    stage.world.stop_with_savepoint(job, "by hand")
    stage.world.lose_job_manager(recovers=True, keeps_results=keeps_results)

    health = await lifecycle.heal()

    assert health is Health.RUNS
    [after] = stage.world.running()
    assert stage.world.jobs[after].restored == stage.world.stored[job][-1]
    assert stage.exact()


@pytest.mark.parametrize("says_nothing", [False, True])
async def test_a_bounded_job_with_a_savepoint_of_a_persons_is_not_begun_again(stage, says_nothing):
    lifecycle = await with_checkpoint(stage)
    stage.world.take_savepoint()
    stage.world.process(50)
    stage.world.finish()
    stage.world.lose_job_manager(recovers=True, keeps_results=True)
    stage.world.savepoints_say_nothing = says_nothing

    health = await lifecycle.heal()

    assert health is Health.FINISHED
    assert stage.world.running() == []


@pytest.mark.parametrize("keeps_results", [False, True], ids=["forgotten", "listed as finished"])
@pytest.mark.parametrize("rescaled_before", [False, True], ids=["first rescale", "second"])
async def test_a_savepoint_that_nobody_was_told_of_is_found_in_the_storage(
    stage, rescaled_before, keeps_results
):
    """It is complete when JobManager and controller are lost, and its path is not written yet."""
    lifecycle = await stage.running()
    if rescaled_before:
        await lifecycle.change(ONE, "less", replace=tuple(stage.world.alive))
    stage.world.process(50)
    [job] = stage.world.running()

    def strike():
        if stage.world.jobs[job].state == "FINISHED":
            stage.world.lose_job_manager(recovers=True, keeps_results=keeps_results)
            raise ControllerDied

    stage.world.on_deed = strike
    with pytest.raises(ControllerDied):
        await lifecycle.change(TWO, "more")
    stage.world.on_deed = lambda: None

    await stage.lifecycle().bring_up()

    [after] = stage.world.running()
    [written] = stage.world.stored[job]
    assert stage.world.jobs[after].restored == written
    assert stage.exact()


async def test_a_slow_savepoint_is_waited_for_where_there_is_no_checkpoint(stage):
    lifecycle = await stage.running()
    stage.world.savepoint_takes = 500.0

    end = await lifecycle.change(TWO, "more")

    assert end.step is Step.DONE
    assert stage.exact()


async def test_an_abandoned_savepoint_is_found_though_another_change_was_given_up_since():
    stage = Stage(RescaleSettings(via="Savepoint", savepoint_limit=20.0))
    lifecycle = await stage.running()
    stage.world.savepoint_takes = 500.0
    await lifecycle.change(TWO, "more")
    stage.world.full_pools = {"small": 1}
    end = await lifecycle.change(TWO, "more")
    stage.world.full_pools = {}
    stage.clock.time += 1000.0
    stage.world.lose_job_manager(recovers=True, keeps_results=True)

    health = await lifecycle.heal()

    assert end.step is Step.ABANDONED
    assert health is Health.RUNS
    assert len(stage.world.running()) == 1
    assert stage.world.committed_wrong() == (0, 0)


async def test_a_restore_that_failed_and_is_taken_back_leaves_the_newest_state(stage):
    await stage.running()
    stage.world.positions["file:/theirs/savepoint-1"] = 0
    stage.world.broken_totals = {1}
    asked = stage.lifecycle(initial_savepoint="file:/theirs/savepoint-1", restore_nonce=1)
    with pytest.raises(JobFailedError):
        await asked.heal()
    stage.world.broken_totals = set()

    await stage.lifecycle().heal()

    [job] = stage.world.running()
    assert stage.world.jobs[job].restored == stage.store.load().savepoints[-1]
    assert stage.exact()


@pytest.mark.parametrize("step", [Step.SUBMIT, Step.VERIFY])
async def test_a_new_job_that_was_lost_after_it_had_run_goes_on_from_its_own_checkpoint(
    stage, step
):
    """Nobody looks while it runs; then JobManager and controller are lost."""
    lifecycle = await stage.running()
    [before] = stage.world.running()

    def strike():
        if stage.store.load().rescale.step is step and stage.world.running():
            stage.world.process(10)
            stage.world.checkpoint()
            stage.world.lose_job_manager(recovers=False)
            raise ControllerDied

    stage.world.on_deed = stage.store.on_save = strike
    with pytest.raises(ControllerDied):
        await lifecycle.change(TWO, "more")
    stage.world.on_deed = stage.store.on_save = lambda: None

    await stage.lifecycle().bring_up()

    status = stage.store.load()
    assert "/chk-" in str(status.restore_path)
    assert list(status.savepoints) == stage.world.stored[before]
    assert stage.exact()


async def test_a_savepoint_that_a_person_gave_is_not_weirs_where_the_job_wrote_none(stage):
    given = "file:/theirs/savepoint-1"
    stage.world.positions[given] = 0
    lifecycle = stage.lifecycle(initial_savepoint=given)
    await lifecycle.bring_up()

    def strike():
        if stage.store.load().rescale.step is Step.STOP:
            stage.world.lose_job_manager(recovers=False)
            stage.store.on_save = lambda: None

    stage.store.on_save = strike
    await lifecycle.change(TWO, "more")

    [job] = stage.world.running()
    assert stage.world.jobs[job].restored == given
    assert stage.store.load().savepoints == ()


def die_at(stage, step, *, also=lambda: None):
    """Let the controller die right after this step was written, and do `also`."""

    def strike():
        change = stage.store.load().rescale
        if change is not None and change.step is step:
            stage.store.on_save = lambda: None
            also()
            raise ControllerDied

    stage.store.on_save = strike


async def test_a_restore_that_ran_is_not_obeyed_a_second_time(stage):
    await stage.running()
    stage.world.positions["file:/theirs/savepoint-1"] = 0

    def asked():
        return stage.lifecycle(initial_savepoint="file:/theirs/savepoint-1", restore_nonce=1)

    die_at(stage, Step.VERIFY)
    with pytest.raises(ControllerDied):
        await asked().heal()
    stage.world.process(30)
    stage.world.checkpoint()
    [ran] = stage.world.running()
    stage.world.lose_job_manager(recovers=False)

    for _ in range(2):
        try:
            await asked().bring_up()
        except JobFailedError:
            continue

    [after] = stage.world.running()
    assert stage.world.jobs[after].restored == f"file:/checkpoints/{ran}/chk-1"
    assert stage.store.load().restore_nonce == 1


@pytest.mark.parametrize("moved_on", [False, True], ids=["as it was", "further"])
async def test_a_job_that_flink_brings_back_after_its_stop_ends_before_the_next_starts(
    stage, moved_on
):
    """Flink writes that a job has ended a moment after its savepoint: lost between, it returns."""
    lifecycle = await with_checkpoint(stage)
    [job] = stage.world.running()
    [checkpoint] = stage.world.stored[job]
    before = replace(stage.world.jobs[job], restored=checkpoint)
    stage.world.process(30)

    def bring_back():
        stage.world.lose_job_manager(recovers=True)
        stage.world.positions[checkpoint] = before.position
        stage.world.stored[job].insert(0, checkpoint)
        stage.world.jobs[job] = before
        if moved_on:
            stage.world.process(70)
            stage.world.checkpoint()

    die_at(stage, Step.REMOVE, also=bring_back)
    with pytest.raises(ControllerDied):
        await lifecycle.change(TWO, "more")
    newest = stage.world.stored[job][-1]

    await stage.lifecycle().bring_up()

    [after] = stage.world.running()
    assert after != job
    assert stage.world.jobs[after].restored == newest


async def test_a_change_that_failed_while_the_storage_was_away_goes_on_from_its_own_state(stage):
    lifecycle = await with_checkpoint(stage)
    die_at(stage, Step.VERIFY)
    with pytest.raises(ControllerDied):
        await lifecycle.change(TWO, "more")
    stage.world.process(30)
    stage.world.checkpoint()
    stage.world.lose_job_manager(recovers=False)
    stage.world.storage_away = True
    for _ in range(8):
        try:
            await stage.lifecycle().heal()
        except (TemporaryError, JobFailedError):
            continue
    stage.world.storage_away = False

    for _ in range(2):
        await stage.lifecycle().heal()

    assert len(stage.world.running()) == 1
    stage.world.process(10)
    stage.world.checkpoint()
    assert stage.world.committed_wrong() == (0, 0)


@pytest.mark.parametrize("listed_within", [0.0, 90.0])
async def test_a_job_that_finished_after_a_stop_without_a_savepoint_waits_for_a_person(
    stage, listed_within
):
    stage.world.listed_within = listed_within
    lifecycle = await stage.running()
    stage.world.checkpoint()
    await lifecycle.heal()
    [job] = stage.world.running()
    status = stage.store.load()
    await stage.store.save(status.model_copy(update={"stop_asked": job}))
    stage.world.jobs[job].state = "FINISHED"
    stage.world.stored[job] = []
    stage.world.lose_job_manager(recovers=False, keeps_results=True)
    began = stage.clock.now()

    with pytest.raises(StateMissingError, match="finished after it was asked to stop"):
        await stage.lifecycle().heal()

    assert (stage.clock.now() - began >= 90.0) == (listed_within == 90.0)
    assert not stage.store.load().finished
    assert "StateMissing" in stage.reasons
    assert stage.world.running() == []
