"""A job is suspended and goes on; another revision of it is an upgrade by savepoint."""

import contextlib
import itertools
from typing import cast

import pytest

from tests.operator.loop.job_stage import (
    SUSPENDED,
    TWO,
    Stage,
    a_revision,
    asking_for,
)
from tests.operator.rescale.bench import ONE
from tests.operator.rescale.fakes import ControllerDied, JobsOf
from weir_operator.errors import PermanentError, WeirError
from weir_operator.loop.directives import Directives
from weir_operator.loop.lifecycle import PROGRAM_REFUSED_FOR, Health
from weir_operator.rescale.flink import FlinkJobs
from weir_operator.rescale.journal import Step
from weir_operator.rescale.replicas import deployments_of
from weir_operator.rescale.settings import RescaleSettings
from weir_operator.rescale.stopping import StateFinder
from weir_operator.runtime.revision import Revision


@pytest.fixture
def stage():
    return Stage()


async def test_a_job_that_is_to_be_suspended_stops_with_a_savepoint_and_frees_its_replicas(stage):
    lifecycle = await stage.running()
    stage.directives = SUSPENDED

    health = await lifecycle.heal()
    await lifecycle.heal()

    status = stage.store.load()
    assert health is Health.SUSPENDED
    assert status.suspended
    assert status.deployments == ONE
    assert stage.world.running() == []
    assert stage.world.alive == {}
    assert stage.reasons.count("Suspended") == 1


async def test_a_controller_that_has_just_begun_finds_the_job_manager_before_it_stops_the_job(
    stage,
):
    await stage.running()
    stage.world.is_found = False

    end = await stage.lifecycle().suspend()

    assert end.step is Step.DONE
    assert stage.store.load().suspended


async def test_a_suspended_job_that_is_to_run_goes_on_from_its_savepoint(stage):
    lifecycle = await stage.running()
    stage.directives = SUSPENDED
    await lifecycle.heal()
    stage.directives = Directives()

    await lifecycle.heal()

    assert not stage.store.load().suspended
    assert deployments_of(stage.world.alive.values()) == ONE
    assert stage.exact()


async def test_a_controller_that_starts_leaves_a_suspended_job_suspended(stage):
    await stage.running()
    stage.directives = SUSPENDED
    await stage.lifecycle().bring_up()

    await stage.lifecycle().bring_up()

    assert stage.world.running() == []
    assert stage.world.alive == {}


async def test_a_job_that_is_suspended_from_the_beginning_is_not_started(stage):
    stage.directives = SUSPENDED
    lifecycle = stage.lifecycle()
    await lifecycle.bring_up()

    assert stage.store.load().job_id is None
    assert stage.store.load().suspended  # else the status would say that it runs

    stage.directives = Directives()
    await lifecycle.heal()

    assert len(stage.world.running()) == 1
    assert not stage.store.load().suspended


async def test_a_job_that_had_ended_is_suspended_at_its_newest_checkpoint(stage):
    lifecycle = await stage.running()
    [job] = stage.world.running()
    stage.world.checkpoint()
    stage.world.jobs[job].state = "FAILED"
    stage.directives = SUSPENDED

    await lifecycle.heal()

    assert stage.store.load().suspended
    assert stage.store.load().restore_path == f"file:/checkpoints/{job}/chk-1"


async def test_another_revision_is_an_upgrade_by_savepoint(stage):
    stage.directives = asking_for("--window", "5m")
    lifecycle = await stage.running()
    stage.directives = asking_for("--window", "9m")

    await lifecycle.heal()
    await lifecycle.heal()

    [job] = stage.world.running()
    assert stage.world.jobs[job].arguments[:2] == ("--window", "9m")
    assert stage.reasons.count("UpgradeDone") == 1
    assert stage.exact()


async def test_a_revision_that_failed_is_not_tried_again_until_another_one_comes(stage):
    stage.directives = asking_for("1")
    lifecycle = await stage.running()
    stage.directives = asking_for("2")
    stage.world.broken_revisions = {a_revision("2").id}
    await lifecycle.heal()
    stage.clock.time += 3600
    await lifecycle.heal()
    stage.directives = asking_for("3")
    stage.clock.time += 3600

    await lifecycle.heal()

    [job] = stage.world.running()
    assert stage.reasons.count("RolledBack") == 1
    assert stage.world.jobs[job].arguments[:1] == ("3",)


async def test_a_job_of_before_revisions_were_kept_is_not_restarted(stage):
    lifecycle = await stage.running()
    [job] = stage.world.running()
    stage.directives = asking_for("1")

    await lifecycle.heal()

    assert stage.world.running() == [job]
    assert stage.store.load().revision == stage.directives.revision


async def test_a_job_that_is_down_is_recovered_with_the_revision_that_is_asked_for(stage):
    stage.directives = asking_for("1")
    lifecycle = await stage.running()
    [job] = stage.world.running()
    stage.world.jobs[job].state = "FAILED"
    stage.directives = asking_for("2")

    await lifecycle.heal()

    [job] = stage.world.running()
    assert stage.world.jobs[job].arguments[:1] == ("2",)
    assert stage.store.load().revision == stage.directives.revision


async def test_an_operator_that_an_upgrade_adds_starts_at_its_initial_deployment(stage):
    stage.directives = asking_for("1")
    await stage.running()
    names = {"match": "--weir.parallelism.match", "count": "--weir.parallelism.count"}
    stage.directives = Directives(revision=Revision(parallelism_arguments=names))
    lifecycle = stage.lifecycle(initial=ONE | {"count": {"large/1": 2}})

    await lifecycle.heal()

    assert stage.store.load().deployments == ONE | {"count": {"large/1": 2}}


async def test_an_upgrade_that_no_node_would_take_leaves_the_job_running_and_comes_once_one_does(
    stage,
):
    stage.directives = asking_for("--version", "1")
    lifecycle = await stage.running()
    [job] = stage.world.running()
    stage.world.misfit = "No node has the labels disk=fast, as the JobManager asks for"
    stage.directives = asking_for("--version", "2")

    health = await lifecycle.heal()

    status = stage.store.load()
    assert health is Health.RUNS
    assert stage.world.running() == [job]
    assert status.rescale.step is Step.ABANDONED
    assert "disk=fast" in status.rescale.failure
    assert "disk=fast" in stage.events[-1].message

    stage.world.misfit = ""
    stage.clock.time += 60.0
    await lifecycle.heal()

    assert stage.store.load().revision == a_revision("--version", "2")
    assert stage.exact()


async def test_a_refused_program_is_tried_again_only_after_a_while_or_of_another_revision(stage):
    asked = []

    class Refusing:
        async def check(self, status, wanted):
            pass

        async def check_upgrade(self, journal, rest_url, jar):
            asked.append(journal.revision.arguments)
            raise PermanentError("It builds no job")

    stage.checks, stage.world.tries = Refusing(), True
    stage.directives = asking_for("--version", "1")
    lifecycle = await stage.running()
    stage.directives = asking_for("--version", "2")

    async def heal_after(seconds):
        stage.clock.time += seconds
        await lifecycle.heal()
        assert stage.store.load().rescale.failure == "It builds no job"

    await heal_after(0.0)
    await heal_after(120.0)
    assert asked == [("--version", "2")]
    await heal_after(PROGRAM_REFUSED_FOR)
    assert asked == [("--version", "2")] * 2
    stage.directives = asking_for("--version", "3")
    await heal_after(120.0)
    assert asked[2:] == [("--version", "3")]


async def test_a_node_that_is_drained_need_not_wait_for_an_upgrade_that_no_node_would_take(stage):
    stage.directives = asking_for("--version", "1")
    lifecycle = await stage.running()
    stage.world.misfit = "disk=fast"
    stage.directives = asking_for("--version", "2")
    await lifecycle.heal()
    [leaving] = stage.world.alive
    stage.world.terminating[leaving] = "its node is drained"

    await lifecycle.heal()

    assert leaving not in stage.world.alive
    assert stage.exact()


async def to_two(stage, lifecycle):
    await lifecycle.change(TWO, "more")


async def to_another_program(stage, lifecycle):
    stage.directives = asking_for("--new")
    await lifecycle.heal()


async def to_one_that_fails(stage, lifecycle):
    stage.world.broken_totals = {2}
    await lifecycle.change(TWO, "more")


async def to_another_program_that_fails(stage, lifecycle):
    stage.world.broken_totals = {1}
    stage.directives = asking_for("--new")
    await lifecycle.heal()


@pytest.mark.parametrize(
    "change", [to_two, to_another_program, to_one_that_fails, to_another_program_that_fails]
)
async def test_a_deletion_in_the_middle_of_a_change_takes_as_long_as_its_savepoint(change):
    settings = RescaleSettings(provisioning={"small": 1800.0})
    at = 0
    while True:
        at += 1
        stage = Stage(settings)
        stage.directives = asking_for("--old")
        lifecycle = await stage.running()
        stage.world.checkpoint()
        await lifecycle.heal()
        deeds = itertools.count(1)

        def die(deeds=deeds, at=at):
            if next(deeds) == at:
                raise ControllerDied

        stage.world.on_deed = stage.store.on_save = die
        with contextlib.suppress(ControllerDied, WeirError):
            await change(stage, lifecycle)
        stage.world.on_deed = stage.store.on_save = lambda: None
        if next(deeds) <= at:
            break
        stage.world.full_pools = {"small": 0}  # until 1,800 s are over
        began = stage.clock.time
        with contextlib.suppress(WeirError):
            await stage.lifecycle().suspend()
        took = stage.clock.time - began

        status = stage.store.load()
        assert status.job_id is not None
        jobs = cast(FlinkJobs, JobsOf(stage.world))
        states = StateFinder(jobs=jobs, runtime=stage.world, clock=stage.clock)
        state = await states.find_restore_point(status.job_id, status, stop_asked=True)
        assert took < 100, (at, took)
        assert stage.world.running() == [], at
        assert "StartRestarted" not in stage.reasons, at
        assert state is not None
        assert stage.world.positions[state] >= max(to for _, _, to in stage.world.committed), at
    assert at > 5
