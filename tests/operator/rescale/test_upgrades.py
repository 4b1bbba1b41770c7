"""The engine takes a job to another revision, and back where that does not run."""

import pytest

from weir_operator.rescale.engine import Rescaler
from weir_operator.rescale.journal import Kind, Step, plan
from weir_operator.rescale.settings import JobSpec, RescaleSettings
from weir_operator.rescale.testing import (
    ControllerDied,
    FakeClock,
    FakeWorld,
    JobsOf,
    MemoryStatusStore,
)
from weir_operator.runtime.revision import Revision

ONE = {"match": {"small/250m": 1}}
NAMES = {"match": "--weir.parallelism.match"}
OLD = Revision(arguments=("--window", "5m"), parallelism_arguments=NAMES)
NEW = Revision(arguments=("--window", "9m"), parallelism_arguments=NAMES)


class Bench:
    """A job of the old revision, and an engine that knows only the new manifest."""

    def __init__(self):
        self.clock = FakeClock()
        self.world = FakeWorld(self.clock)
        self.store = MemoryStatusStore()

    def engine(self):
        return Rescaler(
            runtime=self.world,
            jobs=JobsOf(self.world),
            spec=JobSpec(
                entry_class=None,
                arguments=NEW.arguments,
                parallelism_arguments=NAMES,
                max_parallelism=720,
            ),
            store=self.store,
            settings=RescaleSettings(),
            clock=self.clock,
        )

    async def change(self, kind, revision, *, target=ONE):
        status = self.store.load()
        journal = plan(
            kind=kind,
            reason="a test",
            now=self.clock.now(),
            source=status.deployments,
            target=target,
            old_job=status.job_id,
            restore_path=None,
            revision=revision,
        )
        return await self.engine().execute(journal)

    async def started(self):
        await self.change(Kind.START, OLD)
        self.world.process(100)
        return self

    @property
    def runs_with(self):
        [job] = self.world.running()
        return self.world.jobs[job].arguments[:2]

    def exact(self):
        self.world.process(10)
        return self.world.lost_and_doubled() == (0, 0)

    def revisions(self):
        return {replica.revision for replica in self.world.alive.values()}


async def test_an_upgrade_goes_on_from_a_savepoint_with_processes_of_the_new_revision():
    bench = await Bench().started()

    end = await bench.change(Kind.UPGRADE, NEW)

    assert end.step is Step.DONE
    assert bench.runs_with == NEW.arguments
    assert bench.revisions() == {NEW.id}
    assert bench.store.load().revision == NEW
    assert bench.exact()


async def test_a_first_start_and_every_rescale_run_the_revision_that_the_status_names():
    bench = await Bench().started()

    await bench.change(Kind.RESCALE, None, target={"match": {"small/250m": 2}})

    assert bench.runs_with == OLD.arguments
    assert bench.revisions() == {OLD.id}
    assert bench.store.load().revision == OLD
    assert bench.exact()


async def test_a_revision_that_does_not_run_is_rolled_back_from_the_same_savepoint():
    bench = await Bench().started()
    bench.world.broken_revisions = {NEW.id}

    end = await bench.change(Kind.UPGRADE, NEW)

    status = bench.store.load()
    assert end.step is Step.ROLLED_BACK
    assert bench.runs_with == OLD.arguments
    assert bench.revisions() == {OLD.id}
    assert (status.revision, status.refused_revision) == (OLD, NEW.id)
    assert status.failed == ()
    assert bench.exact()


async def test_a_revision_whose_job_manager_does_not_start_is_rolled_back_too():
    bench = await Bench().started()
    bench.world.deaf_revisions = {NEW.id}

    end = await bench.change(Kind.UPGRADE, NEW)

    assert end.step is Step.ROLLED_BACK
    assert "its image cannot be pulled" in str(end.failure)
    assert bench.runs_with == OLD.arguments
    assert bench.exact()


async def test_an_upgrade_whose_savepoint_fails_leaves_the_job_as_it_is():
    bench = await Bench().started()
    [job] = bench.world.running()
    bench.world.savepoints_hang = True

    end = await bench.change(Kind.UPGRADE, NEW)

    assert end.step is Step.ABANDONED
    assert bench.world.running() == [job]
    assert bench.store.load().revision == OLD
    assert bench.store.load().refused_revision is None


@pytest.mark.parametrize("broken", [False, True])
@pytest.mark.parametrize("step", range(1, 12))
async def test_an_upgrade_resumed_after_a_crash_at_any_step_ends_as_if_there_was_none(step, broken):
    bench = await Bench().started()
    bench.world.broken_revisions = {NEW.id} if broken else set()
    bench.store.die_after = len(bench.store.history) + step

    try:
        await bench.change(Kind.UPGRADE, NEW)
    except ControllerDied:
        bench.store.die_after = None
        journal = bench.store.load().rescale
        assert journal is not None
        await bench.engine().execute(journal)

    assert bench.runs_with == (OLD if broken else NEW).arguments
    assert bench.revisions() == {(OLD if broken else NEW).id}
    assert bench.exact()


async def test_only_one_revision_is_kept_in_the_status_between_upgrades():
    bench = await Bench().started()

    await bench.change(Kind.UPGRADE, NEW)

    journal = bench.store.load().rescale
    assert journal is not None
    assert journal.revision is None


def test_equal_revisions_have_the_same_name_and_others_another():
    again = Revision.model_validate_json(OLD.model_dump_json())

    assert again.id == OLD.id
    assert NEW.id != OLD.id
