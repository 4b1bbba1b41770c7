"""A job that nobody can pin, because there is no agent, runs and scales as one operator."""

import os

import pytest

from benchmarks.flink.unmodified_job import Unmodified, UnmodifiedJob
from tests.operator.flink.output import committed_lines
from weir_operator.clock import SystemClock, wait_until
from weir_operator.flink.jars import REPOSITORY, build_jar, build_programs
from weir_operator.rescale.journal import Step
from weir_operator.rescale.settings import RescaleSettings
from weir_operator.streamapp.operators import WHOLE_JOB

pytestmark = [pytest.mark.long, pytest.mark.flink, pytest.mark.timeout(900)]

SOURCE = REPOSITORY / "tests/operator/runtime/unmodified/Numbers.java"
RECORDS, SLEEP, KEYS = 20_000, 4, 64
LIMIT = 400.0


@pytest.fixture(scope="module")
def numbers_jar(tmp_path_factory):
    if "WEIR_FLINK_HOME" not in os.environ:  # one jar for all versions, made for Weir's own
        build_programs()
    jar = tmp_path_factory.mktemp("jars") / "numbers.jar"
    return build_jar([SOURCE], jar, entry_class="Numbers")


async def test_a_job_without_the_agent_is_rescaled_as_one_operator_and_exactly(
    tmp_path, numbers_jar
):
    job = Unmodified(
        name="numbers",
        jar=numbers_jar,
        folder=tmp_path,
        arguments=(str(RECORDS), str(SLEEP), str(tmp_path / "out")),
        agent=None,
        config={"env.java.opts.all": "-XX:TieredStopAtLevel=1", "heartbeat.timeout": "120000"},
        rescale=RescaleSettings(via="Savepoint", start_deadline=180.0, submit_deadline=120.0),
    )

    async with UnmodifiedJob(job) as run:
        assert (run.plan.agent, run.operators) == ("absent", (WHOLE_JOB,))
        await run.start({WHOLE_JOB: 1})
        ends, parallelism = [], []
        for replicas in (2, 1, 2):
            ends.append(await run.rescale({WHOLE_JOB: replicas}))
            found = await (await run.jobs.rest()).job(run.store.load().job_id or "")
            assert found is not None
            parallelism.append({vertex.parallelism for vertex in found.vertices})

        async def has_ended():
            progress = await run.jobs.progress(run.store.load().job_id or "")
            return (progress is not None and progress.state == "FINISHED") or None

        assert await wait_until(has_ended, clock=SystemClock(), timeout=LIMIT, period=1.0)

    assert [(end.step, end.by_checkpoint) for end in ends] == [(Step.DONE, False)] * 3
    assert parallelism == [{2}, {1}, {2}]
    lines = [tuple(map(int, line.split())) for line in committed_lines(tmp_path / "out")]
    assert sorted(number for *_, number in lines) == list(range(RECORDS))
    # The state of each key went on from where it was.
    assert sorted((key, before) for key, before, _ in lines) == sorted(
        (key, before) for key in range(KEYS) for before in range(len(range(key, RECORDS, KEYS)))
    )
