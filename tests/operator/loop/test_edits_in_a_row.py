"""What a spec that is edited again costs: no restart that nobody asks for any more."""

import pytest

from tests.operator.loop.job_stage import (
    SUSPENDED,
    TWO,
    Stage,
    a_revision,
    asking_for,
)
from tests.operator.rescale.bench import ONE
from tests.operator.rescale.fakes import ControllerDied, FakeClock
from weir_operator.loop.directives import Directives
from weir_operator.rescale.journal import Step
from weir_operator.rescale.replicas import deployments_of

MUCH = {"match": {"small/250m": 3}}


class InterruptedClock(FakeClock):
    """Lets something happen while somebody waits for so many seconds."""

    def __init__(self):
        super().__init__()
        self.happens = {}

    async def sleep(self, seconds):
        await super().sleep(seconds)
        self.happens.pop(seconds, lambda: None)()


@pytest.fixture
def stage():
    made = Stage()
    made.clock = made.world.clock = InterruptedClock()
    made.directives = asking_for("1")
    return made


def die():
    raise ControllerDied


async def upgrade_and_edit(stage, edit):
    """Ask for revision 2, and let `edit` happen in the moment before the job is stopped for it."""
    lifecycle = await stage.running()
    stage.directives = asking_for("2")
    stage.clock.happens[1.0] = edit
    await lifecycle.heal()
    return lifecycle


async def test_two_edits_within_a_second_are_one_upgrade(stage):
    def edit():
        stage.directives = asking_for("3")

    lifecycle = await upgrade_and_edit(stage, edit)
    await lifecycle.heal()
    await lifecycle.heal()

    [job] = stage.world.running()
    assert stage.world.jobs[job].arguments[:1] == ("3",)
    assert stage.reasons.count("UpgradeDone") == 1
    assert stage.exact()


async def test_an_edit_that_is_taken_back_within_a_second_does_not_touch_the_job(stage):
    def edit():
        stage.directives = asking_for("1")

    lifecycle = await upgrade_and_edit(stage, edit)
    [job] = stage.world.running()
    await lifecycle.heal()

    assert stage.world.running() == [job]
    assert "UpgradeDone" not in stage.reasons


async def test_a_suspension_that_follows_an_edit_does_not_wait_for_an_upgrade(stage):
    def edit():
        stage.directives = SUSPENDED

    lifecycle = await upgrade_and_edit(stage, edit)
    await lifecycle.heal()

    assert stage.store.load().suspended
    assert "UpgradeDone" not in stage.reasons


async def test_a_controller_that_dies_while_it_waits_leaves_the_upgrade_to_the_next(stage):
    with pytest.raises(ControllerDied):
        await upgrade_and_edit(stage, die)
    assert len(stage.world.running()) == 1

    await stage.lifecycle().bring_up()

    assert stage.store.load().revision == a_revision("2")
    assert stage.exact()


async def count_points(stage, change):
    points = 0

    def count():
        nonlocal points
        points += 1

    stage.world.on_deed = stage.store.on_save = count
    await change()
    return points


def interrupt(stage, at, what):
    """Let something happen right after the nth write or deed."""
    points = 0

    def count():
        nonlocal points
        points += 1
        if points == at:
            what()

    stage.world.on_deed = stage.store.on_save = count


def nothing(world):
    """Flink is well."""


def job_manager_recovers(world):
    world.lose_job_manager(recovers=True)


async def begin_upgrade():
    """Return a stage whose job has a checkpoint, and is asked to be upgraded by a look."""
    stage = Stage()
    stage.directives = asking_for("1")
    lifecycle = await stage.running()
    stage.world.checkpoint()
    await lifecycle.heal()
    stage.world.process(20)
    stage.world.end_takes = 5.0
    stage.directives = asking_for("2")
    return stage, lifecycle


@pytest.mark.parametrize("fault", [nothing, job_manager_recovers], ids=lambda each: each.__name__)
async def test_an_upgrade_that_was_edited_before_its_job_ran_goes_to_the_newest_spec_at_once(fault):
    """At each point the controller leaves off, as it does for another spec, and goes on with it."""
    stage, lifecycle = await begin_upgrade()
    points = await count_points(stage, lifecycle.heal)
    upgrades = []

    for at in range(1, points + 1):
        stage, lifecycle = await begin_upgrade()

        def strike(world=stage.world):
            fault(world)
            die()

        interrupt(stage, at, strike)
        with pytest.raises(ControllerDied):
            await lifecycle.heal()
        stage.world.on_deed = stage.store.on_save = lambda: None
        stage.directives = asking_for("3")

        await stage.lifecycle().bring_up()

        await stage.lifecycle().heal()
        stage.world.process(30)
        stage.world.checkpoint()
        [job] = stage.world.running()
        assert stage.world.jobs[job].arguments[:1] == ("3",), at
        assert {each.revision for each in stage.world.alive.values()} == {a_revision("3").id}, at
        assert stage.store.load().revision == a_revision("3"), at
        assert stage.world.committed_wrong() == (0, 0), at
        upgrades.append(stage.reasons.count("UpgradeDone"))

    submitted = upgrades.index(2)
    assert upgrades[:submitted] == [1] * submitted
    assert submitted >= points // 2


def edited(edition):
    return Directives(edition=edition)


async def about_to_rescale(stage, what):
    """Return a lifecycle; `what` happens while TaskManagers of its next rescale start."""
    stage.directives = edited("one")
    lifecycle = await stage.running()
    stage.world.slow_until = stage.clock.now() + 20.0
    stage.clock.happens[0.05] = what
    return lifecycle


@pytest.mark.parametrize("asked", [edited("two"), SUSPENDED], ids=["another spec", "suspended"])
async def test_a_rescale_is_withdrawn_while_it_starts_task_managers(stage, asked):
    def edit():
        stage.directives = asked

    began = stage.clock.now()
    lifecycle = await about_to_rescale(stage, edit)

    end = await lifecycle.change(TWO, "more")

    [_] = stage.world.running()
    assert end.step is Step.ABANDONED
    assert stage.clock.now() - began < 1.0
    assert deployments_of(stage.world.alive.values()) == ONE
    assert stage.reasons[-1] == "ChangeWithdrawn"
    assert stage.store.load().failed == ()
    assert stage.exact()

    stage.directives = edited("two")
    end = await lifecycle.change(TWO, "more")

    assert end.step is Step.DONE
    assert stage.exact()


async def test_a_rescale_that_the_spec_still_asks_for_is_waited_for(stage):
    lifecycle = await about_to_rescale(stage, lambda: None)

    end = await lifecycle.change(TWO, "more")

    assert end.step is Step.DONE


async def test_a_drain_that_was_withdrawn_begins_again_at_the_next_look(stage):
    stage.directives = edited("one")
    lifecycle = await stage.running()
    [leaving] = stage.world.alive
    stage.world.terminating[leaving] = "its node is drained"
    stage.world.slow_until = stage.clock.now() + 20.0

    def edit():
        stage.directives = edited("two")

    stage.clock.happens[0.05] = edit
    await lifecycle.heal()
    assert leaving in stage.world.alive

    await lifecycle.heal()

    assert leaving not in stage.world.alive
    assert stage.exact()


@pytest.mark.parametrize(
    ("asked", "replicas"), [("one", TWO), ("two", ONE)], ids=["the same spec", "another one"]
)
async def test_the_next_controller_goes_on_with_a_rescale_only_if_it_is_asked_for(
    stage, asked, replicas
):
    lifecycle = await about_to_rescale(stage, die)
    with pytest.raises(ControllerDied):
        await lifecycle.change(TWO, "more")
    assert deployments_of(stage.world.alive.values()) == TWO
    stage.directives = edited(asked)

    await stage.lifecycle().bring_up()

    assert deployments_of(stage.world.alive.values()) == replicas
    assert stage.exact()


async def test_a_job_that_is_down_for_want_of_room_is_not_left_down_by_an_edit(stage):
    """It goes on with what there is: to give that up would cost output, not save it."""
    stage.directives = edited("one")
    lifecycle = await stage.running()
    await lifecycle.change(MUCH, "more")
    [job] = stage.world.running()
    stage.world.jobs[job].state = "RESTARTING"
    stage.world.full_pools = {"small": 2}
    stage.world.alive.popitem()

    def edit():
        stage.directives = edited(f"after write {len(stage.store.history)}")

    stage.store.on_save = edit
    for _ in range(20):
        stage.clock.time += 10.0
        await lifecycle.heal()

    assert stage.world.running()
    assert "ChangeWithdrawn" not in stage.reasons
