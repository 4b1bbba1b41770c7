"""A job that fails again and again is told of, with the reason."""

import pytest

from tests.operator.loop.job_stage import TWO, Stage
from weir_operator.flink.answers import JobFailure, SavepointProgress
from weir_operator.loop.lifecycle import describe_failures
from weir_operator.rescale.journal import Step

CAUSE = "IllegalStateException: customer {} has no address (in Map)"


def failures(*times):
    return [JobFailure(time=time, cause=CAUSE.format(4710 + n)) for n, time in enumerate(times)]


@pytest.mark.parametrize(
    ("times", "sentence"),
    [
        ((), ""),
        ((1990.0,), ""),
        ((1000.0, 1990.0), ""),
        (
            (1880.0, 1940.0, 1990.0),
            "The job has failed 3 times in 120 s, and Flink restarts it: "
            "IllegalStateException: customer 4712 has no address (in Map)",
        ),
    ],
)
def test_several_failures_within_ten_minutes_are_a_failing_job(times, sentence):
    assert describe_failures(failures(*times)[::-1], now=2000.0) == sentence


async def test_a_failing_job_is_told_of_once_for_each_cause_and_is_over_after_a_while():
    stage = Stage()
    lifecycle = await stage.running()
    [job] = stage.world.jobs.values()
    for state in ("RESTARTING", "RUNNING") * 4:
        job.state = state
        if state == "RESTARTING":
            stage.world.failed += [JobFailure(time=stage.clock.now(), cause=CAUSE.format(4711))]
        await lifecycle.heal()
        stage.clock.time += 15.0

    assert stage.reasons.count("JobFailing") == 1
    assert lifecycle.failing.startswith("The job has failed 4 times in ")

    stage.clock.time += 700.0
    await lifecycle.heal()

    assert lifecycle.failing == ""


async def test_a_job_that_runs_again_before_anybody_looks_is_told_of_as_well():
    stage = Stage()
    lifecycle = await stage.running()
    [job] = stage.world.jobs.values()
    for _ in range(3):
        await lifecycle.heal()
        stage.clock.time += 15.0
        stage.world.failed += [JobFailure(time=stage.clock.now(), cause=CAUSE.format(4711))]
        job.runs_since = stage.clock.now()
    await lifecycle.heal()

    assert stage.reasons.count("JobFailing") == 1


@pytest.mark.parametrize(
    ("cause", "is_remembered"),
    [(CAUSE.format(4711), False), ("IOException: Failed to create savepoint directory", True)],
)
async def test_a_target_is_not_to_blame_where_the_job_failed_by_itself(
    cause, is_remembered, monkeypatch
):
    stage = Stage()
    lifecycle = await stage.running()

    def fail(job, trigger):
        stage.world.failed = [JobFailure(time=stage.clock.now(), cause=cause)]
        stage.world.jobs[job].savepoints[trigger] = SavepointProgress(
            failure="Not all required tasks are currently running"
        )

    monkeypatch.setattr(stage.world, "stop_with_savepoint", fail)

    end = await lifecycle.change(TWO, "more load")

    assert end.step is Step.ABANDONED
    assert end.disturbed is not is_remembered
    assert bool(stage.store.load().failed) is is_remembered


async def test_a_restart_that_the_job_itself_prevented_is_not_paid(stage_of):
    stage = await stage_of().started()
    stage.put_under(90, busy=1.0, latency=2.0)

    def fail(job, trigger):
        stage.world.failed = [JobFailure(time=stage.clock.now(), cause=CAUSE.format(4711))]
        stage.world.jobs[job].savepoints[trigger] = SavepointProgress(failure="Not all tasks run")

    stage.world.stop_with_savepoint = fail

    await stage.ticks(2)

    assert stage.ends("Rescale")[0].disturbed
    assert stage.store.load().restart_tokens.get("restarts", []) == []
