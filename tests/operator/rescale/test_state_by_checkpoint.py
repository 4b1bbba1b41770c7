"""What carries the state where checkpoints are preferred to savepoints."""

import pytest

from weir_operator.rescale.engine import Rescaler
from weir_operator.rescale.journal import Kind, Step, plan
from weir_operator.rescale.settings import JobSpec, RescaleSettings
from weir_operator.rescale.testing import FakeClock, FakeWorld, JobsOf, MemoryStatusStore

ONE = {"match": {"small/250m": 1}}
TWO = {"match": {"small/250m": 2}}


class Bench:
    """A job that has emitted a hundred records, under `via: Checkpoint`."""

    def __init__(self):
        self.clock = FakeClock()
        self.world = FakeWorld(self.clock)
        self.store = MemoryStatusStore()

    async def change(self, kind, target):
        status = self.store.load()
        engine = Rescaler(
            runtime=self.world,
            jobs=JobsOf(self.world),
            spec=JobSpec(
                entry_class=None,
                arguments=(),
                parallelism_arguments={"match": "--weir.parallelism.match"},
                max_parallelism=720,
            ),
            store=self.store,
            settings=RescaleSettings(via="Checkpoint"),
            clock=self.clock,
        )
        journal = plan(
            kind=kind,
            reason="a test",
            now=self.clock.now(),
            source=status.deployments,
            target=target,
            old_job=status.job_id,
        )
        return await engine.execute(journal)

    async def started(self):
        await self.change(Kind.START, ONE)
        self.world.process(100)
        return self


async def test_a_rescale_goes_on_from_the_newest_checkpoint():
    bench = await Bench().started()
    bench.world.checkpoint()

    end = await bench.change(Kind.RESCALE, TWO)

    assert end.step is Step.DONE
    assert end.by_checkpoint
    assert "/chk-" in str(end.restore_path)


@pytest.mark.parametrize(
    ("kind", "target"), [(Kind.SUSPEND, {}), (Kind.UPGRADE, ONE)], ids=["suspended", "upgraded"]
)
async def test_a_job_that_is_suspended_or_upgraded_has_a_savepoint_all_the_same(kind, target):
    bench = await Bench().started()
    bench.world.checkpoint()

    end = await bench.change(kind, target)

    assert end.step is Step.DONE
    assert not end.by_checkpoint
    assert "/savepoints/" in str(end.restore_path)


async def test_a_job_without_a_checkpoint_is_not_begun_anew():
    bench = await Bench().started()

    await bench.change(Kind.RESCALE, TWO)
    bench.world.process(10)

    assert bench.world.lost_and_doubled() == (0, 0)
