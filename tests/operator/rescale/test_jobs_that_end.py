"""Bounded jobs that come to their own end while a change is under way: nothing starts over."""

from __future__ import annotations

import pytest

from tests.operator.rescale.bench import ONE, Bench
from tests.operator.rescale.fakes import FakeClock, FakeWorld
from weir_operator.rescale.journal import Step

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

    async def submit(self, job_id, program, **more):
        await super().submit(job_id, program, **more)
        if self.is_quick:
            self.end_job()


@pytest.mark.parametrize("via", ["Auto", "Savepoint", "Checkpoint"])
async def test_a_job_that_ends_while_replicas_start_is_not_begun_again(via):
    world = EndingWorld(FakeClock())
    bench = await Bench(world=world, via=via).started()
    world.ends_at = 2

    end = await bench.change(TWO)

    assert end.step is Step.ABANDONED
    assert end.failure is not None
    assert len(world.jobs) == 1
    assert bench.store.load().deployments == ONE
    assert [replica.pool for replica in await world.replicas()] == ["small"]


async def test_a_job_that_ends_before_it_is_looked_at_has_run():
    world = QuickWorld(FakeClock())
    bench = await Bench(world=world).started()
    world.is_quick = True

    end = await bench.change(TWO)

    assert end.step is Step.DONE
    assert len(world.jobs) == 2
    assert bench.store.load().deployments == TWO
