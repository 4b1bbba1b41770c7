"""A status that names no job, or not the one that runs: no second one is submitted beside it."""

import pytest

from tests.operator.loop.job_stage import SUSPENDED, TWO, Stage
from tests.operator.rescale.bench import ONE
from tests.operator.rescale.fakes import FakeJob
from weir_operator.errors import UnexpectedJobError
from weir_operator.loop.lifecycle import Health
from weir_operator.rescale.journal import Kind, Step, plan
from weir_operator.rescale.status import AppStatus

WRONG = "f" * 32


@pytest.fixture
def stage():
    return Stage()


def forget(stage):
    """Lose the status, as by `kubectl edit --subresource=status`."""
    stage.store.status = AppStatus()


def damage(stage, **fields):
    stage.store.status = stage.store.load().model_copy(update=fields)


def run_another_job(stage, job=WRONG):
    stage.world.jobs[job] = FakeJob(state="RUNNING", position=0, arguments=())


@pytest.mark.parametrize("job", [WRONG, None])
async def test_the_job_that_runs_is_taken_over_where_the_status_names_another(stage, job):
    await stage.running()
    [running] = stage.world.running()
    damage(stage, job_id=job)

    lifecycle = stage.lifecycle()
    await lifecycle.bring_up()

    assert await lifecycle.heal() is Health.RUNS
    assert stage.world.running() == [running]
    assert stage.store.load().job_id == running
    assert "JobAdopted" in stage.reasons
    assert stage.exact()


async def test_a_status_that_names_a_job_of_before_takes_nothing_for_finished(stage):
    lifecycle = await stage.running()
    [before] = stage.world.running()
    await lifecycle.change(TWO, "more")
    [running] = stage.world.running()
    damage(stage, job_id=before)

    assert await lifecycle.heal() is Health.RUNS
    assert stage.store.load().job_id == running


async def test_a_lost_status_is_made_again_from_what_runs(stage):
    lifecycle = await stage.running()
    await lifecycle.change(TWO, "more")
    alive, [running] = set(stage.world.alive), stage.world.running()
    forget(stage)

    await stage.lifecycle(initial=ONE).bring_up()

    status = stage.store.load()
    assert (status.job_id, status.deployments) == (running, TWO)
    assert set(stage.world.alive) == alive
    assert stage.exact()


async def test_a_job_that_is_to_stand_still_is_stopped_with_a_savepoint_though_no_status_names_it(
    stage,
):
    await stage.running()
    forget(stage)
    stage.directives = SUSPENDED

    await stage.lifecycle().bring_up()

    assert stage.world.running() == []
    assert stage.world.positions[stage.store.load().restore_path] == 50


@pytest.mark.parametrize("job", [WRONG, None])
async def test_the_last_savepoint_is_that_of_the_job_that_runs(stage, job):
    lifecycle = await stage.running()
    damage(stage, job_id=job)

    await lifecycle.suspend()

    assert stage.world.running() == []
    assert stage.world.positions[stage.store.load().restore_path] == 50


async def test_of_two_jobs_that_run_neither_is_touched_and_a_person_is_asked(stage):
    lifecycle = await stage.running()
    [running] = stage.world.running()
    run_another_job(stage)

    with pytest.raises(UnexpectedJobError, match=running):
        await lifecycle.heal()

    assert set(stage.world.running()) == {running, WRONG}
    assert stage.store.load().job_id == running


async def test_a_submission_that_came_late_is_taken_over_with_what_it_was_submitted_for(stage):
    """As where Flink answered neither the submission nor the cancellation of a change."""
    await stage.running()
    status = stage.store.load()
    end = plan(
        kind=Kind.RESCALE, reason="more", now=0.0, source=ONE, target=TWO, old_job=status.job_id
    ).at(Step.FAILED, 0.0)
    damage(stage, rescale=end)
    stage.world.jobs[status.job_id].state = "CANCELED"
    run_another_job(stage, end.new_job)

    await stage.lifecycle().heal()

    assert stage.store.load().job_id == end.new_job
    assert stage.store.load().deployments == TWO


@pytest.mark.parametrize("kind", [Kind.START, Kind.RECOVER, Kind.RESCALE])
async def test_a_change_left_at_its_submission_does_not_submit_beside_a_job_it_does_not_know(
    stage, kind
):
    await stage.running()
    [running] = stage.world.running()
    journal = plan(kind=kind, reason="a test", now=0.0, source=ONE, target=ONE, old_job=WRONG).at(
        Step.SUBMIT, 0.0
    )
    damage(stage, rescale=journal)

    with pytest.raises(UnexpectedJobError, match=f"{running}.*status.rescale"):
        await stage.lifecycle().bring_up()

    assert stage.world.running() == [running]
    assert stage.store.load().rescale.step is Step.SUBMIT

    damage(stage, rescale=None, job_id=None)  # as the sentence says
    await stage.lifecycle().bring_up()

    assert stage.store.load().job_id == running
    assert stage.exact()


async def test_a_submission_waits_until_the_job_of_before_has_ended(stage):
    await stage.running()
    [before] = stage.world.running()
    stage.world.checkpoint()
    path = f"file:/checkpoints/{before}/chk-1"
    stage.world.cancel_takes = 5
    stage.world.jobs[before].state = "CANCELLING"
    journal = plan(
        kind=Kind.RECOVER,
        reason="a test",
        now=0.0,
        source=ONE,
        target=ONE,
        old_job=before,
        restore_path=path,
    ).at(Step.SUBMIT, 0.0)
    damage(stage, rescale=journal)
    asked = stage.world.live

    async def live():
        await stage.world.progress(before)  # each question brings its end nearer
        return await asked()

    stage.world.live = live
    await stage.lifecycle().bring_up()

    assert stage.store.load().job_id == journal.new_job
    assert stage.world.running() == [journal.new_job]
    assert stage.exact()


async def test_a_lost_status_does_not_restore_the_job_that_runs_once_more(stage):
    """`restoreNonce` was obeyed long ago, which only the status knew."""
    stage.world.positions["file:/theirs/old"] = 10
    await stage.running()
    [running] = stage.world.running()
    forget(stage)

    lifecycle = stage.lifecycle(initial_savepoint="file:/theirs/old", restore_nonce=3)
    await lifecycle.bring_up()
    await lifecycle.heal()

    assert stage.world.running() == [running]
    assert stage.store.load().restore_nonce == 3
