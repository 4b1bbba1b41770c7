"""Bounded jobs that come to their own end while a change is under way: nothing starts over."""

from __future__ import annotations

import pytest

from weir_operator.rescale.engine import Rescaler
from weir_operator.rescale.journal import Kind, Step, plan
from weir_operator.rescale.settings import JobSpec, RescaleSettings
from weir_operator.rescale.testing import FakeClock, FakeWorld, JobsOf, MemoryStatusStore

ONE = {"match": {"small/250m": 1}}
TWO = {"match": {"small/250m": 1, "large/1": 1}}


class EndingWorld(FakeWorld):
    """A world whose job ends once a number of TaskManagers is alive."""

    ends_at = 0

    async def start(self, wanted):
        ids = await super().start(wanted)
        if len(self.alive) == self.ends_at:
            self.end_job()
        return ids

    def end_job(self):
        for job in self.running():
            self.jobs[job].state = "FINISHED"


class QuickWorld(EndingWorld):
    """A world in which a job has ended before anybody looks."""

    is_quick = False

    async def submit(self, job_id, **arguments):
        await super().submit(job_id, **arguments)
        if self.is_quick:
            self.end_job()


async def change(world, store, target, kind=Kind.RESCALE, **settings):
    engine = Rescaler(
        runtime=world,
        jobs=JobsOf(world),
        spec=JobSpec(
            entry_class=None,
            arguments=(),
            parallelism_arguments={"match": "--match"},
            max_parallelism=720,
        ),
        store=store,
        settings=RescaleSettings(**settings),
        clock=world.clock,
    )
    status = store.load()
    return await engine.execute(
        plan(
            kind=kind,
            reason="a test",
            now=world.clock.now(),
            source=status.deployments,
            target=target,
            old_job=status.job_id,
            restore_path=status.restore_path,
        )
    )


@pytest.mark.parametrize("via", ["Auto", "Savepoint", "Checkpoint"])
async def test_a_job_that_ends_while_replicas_start_is_not_begun_anew(via):
    world, store = EndingWorld(FakeClock()), MemoryStatusStore()
    await change(world, store, ONE, Kind.START)
    world.ends_at = 2

    end = await change(world, store, TWO, via=via)

    assert end.step is Step.ABANDONED
    assert end.failure is not None
    assert len(world.jobs) == 1
    assert store.load().deployments == ONE
    assert [replica.pool for replica in await world.replicas()] == ["small"]


async def test_a_job_that_ends_before_it_is_looked_at_has_run():
    world, store = QuickWorld(FakeClock()), MemoryStatusStore()
    await change(world, store, ONE, Kind.START)
    world.is_quick = True

    end = await change(world, store, TWO)

    assert end.step is Step.DONE
    assert len(world.jobs) == 2
    assert store.load().deployments == TWO
