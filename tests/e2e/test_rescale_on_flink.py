"""The example job on a real Flink: no change, and no controller that dies, loses a record."""

import signal
from collections import Counter
from pathlib import Path

import pytest

from benchmarks.flink.dying_controller import TARGET, run_and_die, the_job
from benchmarks.flink.ledger import read_arrivals
from benchmarks.flink.trips_cluster import Trips, TripsCluster, deployments
from weir_operator.clock import wait_until
from weir_operator.flink.jars import build_all
from weir_operator.flink.stored_state import HEAD_BYTES, snapshot_number
from weir_operator.rescale.journal import Direction, Step
from weir_operator.runtime.processes import processes

pytestmark = pytest.mark.flink

LIMIT = 30.0
EXACT = (0, 0, 0)


@pytest.fixture(scope="module", autouse=True)
def jars():
    """Compile the example jobs unless they are fresh."""
    build_all()


def wrong(ledger):
    return (ledger.lost, ledger.doubled, ledger.sequence_errors)


async def has_output(cluster):
    """Wait for a record at the sink that came after this call."""
    asked = cluster.clock.now()

    async def newest():
        arrivals = read_arrivals(cluster.trips.out)
        return True if arrivals and arrivals[-1].time > asked else None

    return await wait_until(newest, clock=cluster.clock, timeout=LIMIT)


async def test_a_rescale_over_two_pools_loses_and_doubles_nothing(tmp_path):
    initial = deployments({"small/500m": 1}, {"small/500m": 1})
    target = deployments({"small/500m": 1, "large/1": 1}, {"large/1": 1})
    trips = Trips(name="two-pools", rates=[20.0], initial=initial, root=tmp_path)

    async with TripsCluster(trips) as cluster:
        await cluster.lifecycle.bring_up()
        before = await has_output(cluster)
        end = await cluster.change(target)
        replicas = Counter((r.operator, r.pool) for r in await cluster.runtime.replicas())
        after = await has_output(cluster)
        ledger = await cluster.finish()
    heads = [file.read_bytes()[:HEAD_BYTES] for file in tmp_path.rglob("_metadata")]

    assert end.step is Step.DONE
    assert before
    assert after
    assert heads
    assert all(1 <= snapshot_number(head) < 10_000 for head in heads)
    assert replicas == {
        ("source", "small"): 1,
        ("sink", "small"): 1,
        ("match", "small"): 1,
        ("match", "large"): 1,
        ("aggregate", "large"): 1,
    }
    assert wrong(ledger) == EXACT


@pytest.mark.long
async def test_a_warm_up_opens_no_rocksdb_where_there_is_no_state(tmp_path):
    initial = deployments({"small/500m": 1}, {"small/500m": 1})
    target = deployments({"small/500m": 1, "large/1": 1}, {"small/500m": 1, "large/1": 1})
    config = {"state.backend.type": "rocksdb", "taskmanager.memory.managed.size": "0m"}
    trips = Trips(name="rocksdb", rates=[20.0], initial=initial, config=config, root=tmp_path)

    async with TripsCluster(trips) as cluster:
        await cluster.lifecycle.bring_up()
        await has_output(cluster)
        end = await cluster.change(target)
        loaded = {
            replica.operator: "rocksdbjni" in Path(f"/proc/{pid}/maps").read_text()
            for replica in await cluster.runtime.replicas()
            if replica.pool == "large" and (pid := pid_of(cluster, replica.id))
        }

    assert end.step is Step.DONE
    assert loaded == {"match": False, "aggregate": True}


async def test_a_change_whose_controller_is_killed_is_finished_by_the_next_one(tmp_path):
    job = the_job(broken=False, root=tmp_path)
    async with TripsCluster(job) as cluster:
        await cluster.lifecycle.bring_up()
        before = await has_output(cluster)
        cluster.detach()

    died = await run_and_die(tmp_path, Step.REMOVE, Direction.FORWARD, broken=False)
    async with TripsCluster(job) as cluster:
        found = cluster.store.load().rescale
        await cluster.lifecycle.bring_up()
        status = cluster.store.load()
        after = await has_output(cluster)
        ledger = await cluster.finish()

    assert died == -signal.SIGKILL
    assert before
    assert after
    assert status.deployments == TARGET
    assert found is not None
    assert found.step is Step.REMOVE
    assert found.restore_path in status.savepoints
    assert status.rescale is not None
    assert (status.rescale.id, status.rescale.step) == (found.id, Step.DONE)
    assert wrong(ledger) == EXACT


def pid_of(cluster, id_):
    folder = cluster.runtime.folder / "tm" / id_ / "conf"
    return processes.find_under(cluster.runtime.folder)[folder].pid
