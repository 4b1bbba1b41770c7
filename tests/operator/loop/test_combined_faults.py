"""Faults together, at every point of every change: a transactional sink doubles no record.

Every change is walked once to count its points: each write of the status, and each call that
changed something in Flink or started or ended a TaskManager. Then it is walked again for each
point, with a fault right after it: in Flink, in the controller, or in both at once.
"""

from contextlib import suppress

import pytest
import structlog
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.operator.loop.job_stage import SUSPENDED, TWO, Stage, a_revision, asking_for
from tests.operator.rescale.fakes import ControllerDied
from weir_operator.errors import WeirError
from weir_operator.loop.directives import Directives
from weir_operator.loop.lifecycle import Health
from weir_operator.rescale.journal import Step
from weir_operator.rescale.settings import RescaleSettings

LONG = 4000.0
"""Seconds for which nobody looks: longer than every deadline."""
SAVEPOINT_LIMIT = 360.0
"""A tenth of what it is by default: the engine asks twenty times a second until it is over."""


def nothing(world):
    """Flink is well; only the controller dies."""


def forgets_triggers(world):
    world.forget_triggers()


def job_manager_lost(world):
    world.lose_job_manager(recovers=False)


def job_manager_recovers(world):
    world.lose_job_manager(recovers=True)


def job_manager_keeps_results(world):
    world.lose_job_manager(recovers=True, keeps_results=True)


def answers_garbage(world):
    world.garbage_calls = 2


def does_not_answer(world):
    world.refuse_calls = 40


def storage_away(world):
    world.storage_away = True
    world.lose_job_manager(recovers=False)


def late_then_forgotten(world):
    """The savepoint under way takes its time, and nobody is told of its end."""
    world.clock.time += LONG
    world.process(3)
    world.forget_triggers()


def runs_on_and_is_lost(world):
    """Nobody looks while the job runs and commits; then no JobManager knows it."""
    world.process(5)
    world.checkpoint()
    world.lose_job_manager(recovers=False)


def lists_late(world):
    """The node of JobManager and storage client is lost, and the new one's listings are old."""
    world.lose_job_manager(recovers=False)
    world.lists_late_until = world.clock.now() + 45


def recovers_and_lists_late(world):
    """Flink takes the job back from a checkpoint, while the savepoint is not listed yet."""
    world.lose_job_manager(recovers=True)
    world.lists_late_until = world.clock.now() + 45


def keeps_results_and_lists_late(world):
    world.lose_job_manager(recovers=False, keeps_results=True)
    world.lists_late_until = world.clock.now() + 45


FAULTS = [
    nothing,
    forgets_triggers,
    job_manager_lost,
    job_manager_recovers,
    job_manager_keeps_results,
    answers_garbage,
    does_not_answer,
    storage_away,
    late_then_forgotten,
    runs_on_and_is_lost,
    lists_late,
    recovers_and_lists_late,
    keeps_results_and_lists_late,
]


async def rescale(stage, lifecycle):
    await lifecycle.change(TWO, "more")


async def upgrade(stage, lifecycle):
    stage.directives = asking_for("--new")
    await lifecycle.heal()


async def suspend(stage, lifecycle):
    stage.directives = SUSPENDED
    await lifecycle.heal()


async def recover(stage, lifecycle):
    [job] = stage.world.running()
    stage.world.jobs[job].state = "FAILED"
    await lifecycle.heal()


async def roll_back(stage, lifecycle):
    stage.world.broken_totals = {2}
    await lifecycle.change(TWO, "more")


CHANGES = [rescale, upgrade, suspend, recover, roll_back]


class Point:
    """Calls a fault right after the nth write or deed."""

    def __init__(self, at, fault=None):
        self.count = 0
        self.at = at
        self.fault = fault

    def __call__(self):
        self.count += 1
        if self.count == self.at and self.fault is not None:
            self.fault()


class Played:
    """One change with one fault, and what came of it."""

    def __init__(self, change, *, via, savepoint_takes, end_takes):
        self.stage = Stage(RescaleSettings(via=via, savepoint_limit=SAVEPOINT_LIMIT))
        self.change = change
        self.savepoint_takes = savepoint_takes
        self.end_takes = end_takes
        self.health = None

    async def begin(self):
        stage = self.stage
        if self.change is upgrade:
            stage.directives = asking_for("--old")
        lifecycle = await stage.running()
        stage.world.checkpoint()
        await lifecycle.heal()
        stage.world.process(20)
        stage.world.savepoint_takes = self.savepoint_takes
        stage.world.end_takes = self.end_takes
        stage.world.end_is_written_after = 2.0
        return lifecycle

    async def play(self, point):
        """Walk the change up to the fault; a controller that lives goes on with it."""
        lifecycle = await self.begin()
        self.stage.world.on_deed = self.stage.store.on_save = point
        try:
            await self.change(self.stage, lifecycle)
        except ControllerDied:
            pass
        except WeirError:
            pass  # told to people; the next look mends it
        self.stage.world.on_deed = self.stage.store.on_save = lambda: None

    async def mend(self):
        """Look again and again, as the controller does; resume what was suspended."""
        stage = self.stage
        for _ in range(80):
            stage.world.process(1)
            stage.clock.time += 60.0
            stage.world.storage_away = False
            try:
                self.health = await stage.lifecycle().heal()
            except WeirError:
                continue
            if stage.directives.suspended and self.health is Health.SUSPENDED:
                stage.directives = Directives()
                continue
            if self.health is Health.RUNS and stage.world.running():
                break
        stage.world.process(10)
        stage.world.checkpoint()

    def check(self, where):
        stage = self.stage
        said = [f"{event.reason}: {event.message}" for event in stage.events]
        assert stage.world.committed_wrong() == (0, 0), (where, said)
        assert len(stage.world.running()) == 1, (where, self.health, said)
        assert not stage.store.load().finished, (where, said)


@pytest.fixture(autouse=True)
def quiet():
    """Log nothing: some 10,000 changes are walked, and rendering their steps takes most of it."""
    with structlog.testing.capture_logs():
        yield


async def count_points(change, **timing):
    played, point = Played(change, **timing), Point(None)
    await played.play(point)
    return point.count


@pytest.mark.parametrize("controller", ["dies", "lives"])
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
@pytest.mark.parametrize(
    ("via", "savepoint_takes", "end_takes"),
    [
        ("Auto", 0.0, 5.0),
        ("Auto", 100.0, 0.0),
        ("Savepoint", SAVEPOINT_LIMIT + 40, 0.0),
        ("Checkpoint", 0.0, 0.0),
    ],
)
async def test_no_fault_at_any_point_loses_or_doubles_a_record_or_leaves_the_job_down(
    change, fault, controller, via, savepoint_takes, end_takes
):
    timing = {"via": via, "savepoint_takes": savepoint_takes, "end_takes": end_takes}
    points = await count_points(change, **timing)
    assert points >= 2

    for at in range(1, points + 1):
        played = Played(change, **timing)
        world = played.stage.world

        def strike(world=world):
            fault(world)
            if controller == "dies":
                raise ControllerDied

        await played.play(Point(at, strike))
        await played.mend()

        played.check(f"point {at} of {points}")


class Points:
    """Calls faults one after the other, each right after the write or deed of its number."""

    def __init__(self, strikes):
        self.count = 0
        self.strikes = dict(strikes)

    def __call__(self):
        self.count += 1
        if self.count in self.strikes:
            self.strikes.pop(self.count)()


@given(data=st.data())
@settings(
    max_examples=300,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
async def test_no_two_faults_of_one_change_lose_or_double_a_record_or_leave_the_job_down(data):
    change = data.draw(st.sampled_from(CHANGES), label="change")
    via, savepoint_takes, end_takes = data.draw(
        st.sampled_from(
            [
                ("Auto", 0.0, 5.0),
                ("Auto", 100.0, 0.0),
                ("Auto", 5.0, 20.0),
                ("Checkpoint", 0.0, 0.0),
            ]
        ),
        label="timing",
    )
    at = data.draw(st.lists(st.integers(1, 24), min_size=2, max_size=4, unique=True), label="at")
    looks = data.draw(st.lists(st.sampled_from([1.0, 5.0, 60.0, 700.0]), min_size=60, max_size=60))
    played = Played(change, via=via, savepoint_takes=savepoint_takes, end_takes=end_takes)
    world = played.stage.world

    def make(fault, dies):
        def strike():
            fault(world)
            if dies:
                raise ControllerDied

        return strike

    strikes = {
        point: make(data.draw(st.sampled_from(FAULTS)), data.draw(st.booleans())) for point in at
    }
    points = Points(strikes)

    lifecycle = await played.begin()
    world.on_deed = played.stage.store.on_save = points
    with suppress(ControllerDied, WeirError):
        await change(played.stage, lifecycle)
    for seconds in looks:  # faults go on to strike meanwhile
        world.process(1)
        played.stage.clock.time += seconds
        with suppress(ControllerDied, WeirError):
            await played.stage.lifecycle().heal()
    world.on_deed = played.stage.store.on_save = lambda: None
    await played.mend()

    played.check(f"points {sorted(at)}")


async def test_a_job_resubmitted_on_the_way_back_goes_on_from_its_own_checkpoint():
    # A stop fails, so the job is submitted again from its savepoint; that job commits, and is lost.
    played = Played(rescale, via="Auto", savepoint_takes=0.0, end_takes=5.0)
    world = played.stage.world

    def answer_garbage_and_die():
        world.garbage_calls = 2
        raise ControllerDied

    def run_on_and_die():
        runs_on_and_is_lost(world)
        raise ControllerDied

    lifecycle = await played.begin()
    points = Points({5: answer_garbage_and_die, 14: run_on_and_die})
    world.on_deed = played.stage.store.on_save = points
    with suppress(ControllerDied, WeirError):
        await rescale(played.stage, lifecycle)
    for _ in range(30):
        world.process(1)
        played.stage.clock.time += 5
        with suppress(ControllerDied, WeirError):
            await played.stage.lifecycle().heal()
    world.process(10)
    world.checkpoint()

    assert points.strikes == {}
    assert world.committed_wrong() == (0, 0)


async def test_a_job_that_flink_takes_back_from_before_its_savepoint_is_not_left_running():
    # The change is given up because the savepoint is late; it completes, and stops the job. The
    # JobManager is lost before it wrote that, and takes the job back from its last checkpoint.
    played = Played(rescale, via="Savepoint", savepoint_takes=LONG - 1, end_takes=20.0)
    played.stage = Stage(
        RescaleSettings(via="Savepoint", savepoint_deadline=10, savepoint_limit=60)
    )
    world = played.stage.world
    lifecycle = await played.begin()
    with suppress(WeirError):
        await rescale(played.stage, lifecycle)
    change = played.stage.store.load().rescale
    assert change is not None
    assert change.step is Step.ABANDONED
    world.process(20)
    played.stage.clock.time += LONG - 60
    world.lose_job_manager(recovers=True)

    for _ in range(5):
        world.process(1)
        played.stage.clock.time += 5
        await played.stage.lifecycle().heal()
    world.process(30)
    world.checkpoint()

    played.check("a savepoint later than its deadlines")
    assert "JobTakenBack" in played.stage.reasons


async def test_a_revision_that_does_not_run_does_not_keep_a_lost_job_down():
    stage = Stage()
    stage.directives = asking_for("--old")
    lifecycle = await stage.running()
    stage.world.checkpoint()
    await lifecycle.heal()
    stage.world.process(20)
    stage.directives = asking_for("--new")
    stage.world.broken_revisions = {a_revision("--new").id}
    stage.world.lose_job_manager(recovers=False)

    for _ in range(4):
        stage.clock.time += 300
        with suppress(WeirError):
            await stage.lifecycle().heal()

    assert len(stage.world.running()) == 1
    assert stage.store.load().revision == asking_for("--old").revision
