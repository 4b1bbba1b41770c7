"""A restart is done when records pass, not when tasks run."""

import math

import pytest

from tests.operator.rescale.bench import ONE, Bench
from weir_operator.errors import PermanentError
from weir_operator.loop.planned_changes import describe_end
from weir_operator.rescale.engine import FLOW_POLL, FLOW_RECENT
from weir_operator.rescale.flow import Flow, Reading, explain_standstill, judge_flow
from weir_operator.rescale.journal import Kind, Step
from weir_operator.rescale.settings import RescaleSettings

TWO = {"match": {"small/250m": 1, "large/1": 1}}
SETTINGS = RescaleSettings()


def a_reading(records=0.0, pending=math.nan, *, ended=False):
    return Reading(records=records, pending=pending, ended=ended)


@pytest.mark.parametrize(
    ("reading", "waited", "expected"),
    [
        pytest.param(a_reading(1.0), 0.0, Flow.FLOWS, id="a record has passed"),
        pytest.param(a_reading(1.0, ended=True), 0.0, Flow.FLOWS, id="a short stream has passed"),
        pytest.param(a_reading(0.0, 0.0), 0.0, Flow.IDLE, id="the sources say that none waits"),
        pytest.param(a_reading(0.0, 9.0), 29.0, None, id="records wait: the time limit tells"),
        pytest.param(a_reading(0.0), 4.0, None, id="a silent source may be about to read"),
        pytest.param(a_reading(0.0), 5.0, Flow.IDLE, id="a silent source has had its time"),
        pytest.param(a_reading(math.nan), 29.0, None, id="nothing is counted yet"),
        pytest.param(a_reading(0.0, ended=True), 29.0, None, id="the job's end is to be seen"),
    ],
)
def test_records_pass_or_nothing_waits(reading, waited, expected):
    assert judge_flow(reading, waited, flowed=False) is expected


@pytest.mark.parametrize(
    ("reading", "waited", "expected"),
    [
        pytest.param(a_reading(0.0), 29.0, None, id="a silent source is waited for"),
        pytest.param(a_reading(0.0, 0.0), 0.0, Flow.IDLE, id="the sources say that none waits"),
        pytest.param(a_reading(1.0), 0.0, Flow.FLOWS, id="a record has passed"),
    ],
)
def test_a_job_that_had_records_before_its_restart_is_not_idle_because_it_is_silent(
    reading, waited, expected
):
    assert judge_flow(reading, waited, flowed=True) is expected


@pytest.mark.parametrize(
    ("reading", "expected"),
    [
        pytest.param(a_reading(0.0, 7.0), True, id="records wait and none is read"),
        pytest.param(a_reading(0.0, 0.0), False, id="none waits"),
        pytest.param(a_reading(0.0), False, id="nobody says whether any waits"),
        pytest.param(a_reading(1.0, 7.0), False, id="one was read"),
        pytest.param(a_reading(math.nan, 7.0), False, id="none is counted yet"),
        pytest.param(a_reading(0.0, 7.0, ended=True), False, id="the sources have ended"),
    ],
)
def test_a_standstill_is_explained_only_where_records_wait(reading, expected):
    assert (explain_standstill(reading, 30.0) is not None) is expected


@pytest.mark.parametrize(
    ("now", "earlier", "expected"),
    [(12.0, 10.0, 2.0), (10.0, 10.0, 0.0), (3.0, 10.0, 3.0), (3.0, math.nan, 3.0)],
)
def test_a_count_that_falls_is_one_since_a_restart(now, earlier, expected):
    assert a_reading(now).since(a_reading(earlier)).records == expected


async def test_a_job_that_reads_none_of_what_waits_is_rolled_back():
    bench = await Bench().started()
    bench.world.readings[2] = a_reading(0.0, 7.0)

    end = await bench.change(TWO)

    assert end.step is Step.ROLLED_BACK
    assert "7 records wait, and none was read within 30 s" in (end.failure or "")
    assert bench.store.load().failed[-1].deployment == TWO
    assert bench.exact()


@pytest.mark.parametrize("reading", [a_reading(0.0, 0.0), a_reading(0.0), a_reading(math.nan)])
async def test_a_stream_without_input_is_no_failure(reading):
    bench = await Bench().started()
    bench.world.readings[2] = reading

    end = await bench.change(TWO)

    assert end.step is Step.DONE
    assert bench.exact()


async def test_a_job_that_lost_its_records_with_the_restart_is_left_running_and_reported():
    bench = await Bench().started()
    bench.world.rate = 100.0
    ask, old = bench.world.reading, bench.store.load().job_id

    async def read_nothing_after_it(job_id):
        return await ask(job_id) if job_id == old else a_reading(0.0)

    bench.world.reading = read_nothing_after_it

    end = await bench.change(TWO)

    assert end.step is Step.DONE
    assert end.no_record_seen
    assert [reason for reason, _ in describe_end(end)] == ["RescaleDone", "NoRecordSeen"]
    verified = end.times[str(Step.DONE)] - end.times[str(Step.VERIFY)]
    assert verified >= SETTINGS.flow_deadline - 1e-6  # the clock adds up fractions
    assert bench.exact()


async def test_records_that_pass_before_and_after_a_restart_are_no_news():
    bench = await Bench().started()
    bench.world.rate = 100.0

    end = await bench.change(TWO)

    assert end.flowed
    assert [reason for reason, _ in describe_end(end)] == ["RescaleDone"]


async def test_a_controller_that_cannot_ask_what_the_job_has_read_changes_it_all_the_same():
    bench = await Bench().started()
    ask, old = bench.world.reading, bench.store.load().job_id

    async def refuse(job_id):
        if job_id == old:
            raise PermanentError("Expected an answer of Flink 2.x, got '<html>'")
        return await ask(job_id)

    bench.world.reading = refuse

    end = await bench.change(TWO)

    assert (end.step, end.flowed) == (Step.DONE, False)


@pytest.mark.parametrize("reading", [a_reading(0.0, 7.0), a_reading(0.0, ended=True)])
async def test_a_start_that_nothing_follows_is_left_running(reading):
    bench = Bench()
    bench.world.readings[1] = reading

    end = await bench.change(ONE, Kind.START)

    assert end.step is Step.DONE
    assert len(bench.world.running()) == 1


async def test_a_job_that_stands_still_on_the_way_back_is_left_running():
    bench = await Bench().started()
    bench.world.readings[2] = a_reading(0.0, 7.0)
    bench.world.readings[3] = a_reading(0.0, ended=True)

    end = await bench.change(TWO)

    assert end.step is Step.ROLLED_BACK
    assert len(bench.world.jobs) == 3
    assert bench.exact()


async def test_a_job_that_had_read_all_before_its_savepoint_ends_once_and_says_so():
    bench = await Bench().started()
    # At the end of the input, a window chained to the sink fires: no count of records shows it.
    bench.world.dry_totals = {2}

    end = await bench.change(TWO)

    assert end.step is Step.DONE
    assert end.ended_unread
    assert len(bench.world.jobs) == 2, "begun again, the window would fire twice"
    assert bench.store.load().restore_path == end.restore_path
    reason, sentence = describe_end(end)[-1]
    assert reason == "EndedUnread"
    assert f"initialSavepoint to {end.restore_path}" in sentence


@pytest.mark.parametrize("reading", [a_reading(0.0, ended=True), a_reading(0.0, 7.0, ended=True)])
async def test_sources_that_have_ended_are_judged_alike_while_the_job_still_runs(reading):
    bench = await Bench().started()
    bench.world.readings[2] = reading

    end = await bench.change(TWO)

    assert end.step is Step.DONE
    assert len(bench.world.jobs) == 2


async def test_a_job_that_ends_at_once_on_the_way_back_stays_ended():
    bench = await Bench().started()
    bench.world.broken_totals = {2}
    bench.world.dry_totals = {1}

    end = await bench.change(TWO)

    assert end.step is Step.ROLLED_BACK
    assert bench.world.running() == []
    assert len(bench.world.jobs) == 3
    assert [reason for reason, _ in describe_end(end)] == ["RolledBack", "EndedUnread"]


async def test_a_first_start_may_have_nothing_to_read():
    bench = Bench()
    bench.world.dry_totals = {1}

    end = await bench.change(ONE, Kind.START)

    assert end.step is Step.DONE
    assert not end.ended_unread


async def test_a_job_that_has_just_begun_is_watched_until_flink_counts_it():
    bench = await Bench().started()
    bench.world.rate = 100.0
    ask, old, uncounted = bench.world.reading, bench.store.load().job_id, iter(range(3))

    async def count_late(job_id):
        late = job_id == old and next(uncounted, None) is not None
        return a_reading(math.nan) if late else await ask(job_id)

    bench.world.reading = count_late

    end = await bench.change(TWO)

    assert end.flowed
    assert next(uncounted, None) is None


async def test_a_count_from_long_before_the_stop_is_taken_again():
    bench = await Bench().started()
    bench.world.rate = 100.0
    bench.world.slow_until = bench.world.clock.now() + FLOW_RECENT + 1.0

    end = await bench.change(TWO)

    assert end.flowed
    assert end.times[str(Step.REMOVE)] - end.times[str(Step.STOP)] >= FLOW_POLL


async def test_records_are_counted_while_taskmanagers_start_so_that_the_stop_waits_for_none():
    bench = await Bench().started()
    bench.world.rate = 100.0
    bench.world.slow_until = bench.world.clock.now() + 3.0

    end = await bench.change(TWO)

    assert end.flowed
    assert end.times[str(Step.REMOVE)] - end.times[str(Step.STOP)] < FLOW_POLL
