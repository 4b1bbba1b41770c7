"""A job between two topics of a real Kafka, which knows nothing of Weir, rescaled by its engine."""

import os
import time

import pytest

from benchmarks.flink.kafka import build_job, count_committed, run_broker
from benchmarks.flink.unmodified_job import Unmodified, UnmodifiedJob
from tests.operator.runtime.waiting import until
from weir_operator.flink.agent import build_agent
from weir_operator.flink.jars import build_programs, flink_home
from weir_operator.loop.gather import layout_of
from weir_operator.metrics.direct import DirectSource
from weir_operator.metrics.measurement import measure
from weir_operator.rescale.journal import Step

pytestmark = [pytest.mark.flink, pytest.mark.timeout(900)]

PARTITIONS = 2
FIRST, MORE = 30_000, 2_000
LIMIT = 240.0


@pytest.fixture(scope="module")
def broker(tmp_path_factory):
    with run_broker(tmp_path_factory.mktemp("kafka")) as broker:
        yield broker


@pytest.fixture(scope="module")
def payments(broker, tmp_path_factory):
    """The job, and a topic for it."""
    if "WEIR_FLINK_HOME" not in os.environ:  # one jar for all versions, made for Weir's own
        build_programs()
    broker.create_topic("payments", partitions=PARTITIONS)
    broker.create_topic("counts", partitions=1)
    return Unmodified(
        name="payments",
        jar=build_job(flink_home()),
        folder=tmp_path_factory.mktemp("payments"),
        arguments=(broker.servers, "payments", "counts", "1"),
        agent=build_agent(),
        config={
            "env.java.opts.all": "-XX:TieredStopAtLevel=1",  # many short-lived JVMs
            # What waits is to wait in Kafka, not in buffers.
            "taskmanager.memory.segment-size": "4kb",
            "execution.checkpointing.interval": "1 s",
        },
    )


async def measure_source(job):
    """Return what Weir measures of the source now."""
    replicas = await job.runtime.replicas()
    job_id = job.store.load().job_id

    async def targets():
        return [replica.metrics_url for replica in replicas]

    source = DirectSource(targets, "default.payments")
    try:
        await source.scrape()
        now = time.time()
        window = await source.window(start=now - 60, end=now)
    finally:
        await source.close()
    layout = layout_of(job_id, await job.jobs.topology(job_id), replicas)
    return measure(window, layout).operators[job.operators[0]]


@pytest.mark.long
async def test_every_record_is_in_kafka_once_over_rescales_with_idle_readers(broker, payments):
    written = 0

    def write(count):
        nonlocal written
        broker.write("payments", range(written, written + count), partitions=PARTITIONS)
        written += count

    write(FIRST)
    async with UnmodifiedJob(payments) as job:
        source, count = job.operators
        await job.start({source: 1, count: 1})

        async def lags():
            return (await measure_source(job)).backlog > 0

        async def knows_its_partitions():
            return (await measure_source(job)).splits == PARTITIONS

        await until(lags, limit=LIMIT)
        ends = []
        # More readers than partitions, as many, and fewer.
        for readers, counters in ((3, 2), (2, 1), (1, 2)):
            ends.append(await job.rescale({source: readers, count: counters}))
            await until(knows_its_partitions, limit=LIMIT)
            write(MORE)

        async def all_committed():
            return len(broker.read_committed("counts")) >= written

        await until(all_committed, limit=LIMIT)

    assert [end.step for end in ends] == [Step.DONE] * 3
    counted = count_committed(broker.read_committed("counts"), written)
    assert (counted.lost, counted.doubled, counted.wrong) == (0, 0, 0)
