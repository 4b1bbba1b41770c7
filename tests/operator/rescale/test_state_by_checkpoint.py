"""What carries the state where checkpoints are preferred to savepoints."""

import pytest

from tests.operator.rescale.bench import ONE, Bench
from weir_operator.rescale.journal import Kind, Step

TWO = {"match": {"small/250m": 2}}


async def test_a_rescale_goes_on_from_the_newest_checkpoint():
    bench = await Bench(via="Checkpoint").started()
    bench.world.checkpoint()

    end = await bench.change(TWO)

    assert end.step is Step.DONE
    assert end.by_checkpoint
    assert "/chk-" in str(end.restore_path)


@pytest.mark.parametrize(
    ("kind", "target"), [(Kind.SUSPEND, {}), (Kind.UPGRADE, ONE)], ids=["suspended", "upgraded"]
)
async def test_a_job_that_is_suspended_or_upgraded_has_a_savepoint_all_the_same(kind, target):
    bench = await Bench(via="Checkpoint").started()
    bench.world.checkpoint()

    end = await bench.change(target, kind)

    assert end.step is Step.DONE
    assert not end.by_checkpoint
    assert "/savepoints/" in str(end.restore_path)


async def test_a_job_without_a_checkpoint_is_not_begun_again():
    bench = await Bench(via="Checkpoint").started()

    await bench.change(TWO)
    bench.world.process(10)

    assert bench.world.lost_and_doubled() == (0, 0)
