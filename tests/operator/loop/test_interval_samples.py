"""What of the loops' intervals and changes is kept for whoever fits a model to the job."""

import math
from dataclasses import replace

import pytest

from tests.cli.recorded import a_tick
from tests.operator.loop.builders import without_samples
from weir_operator.loop.record import (
    MAX_MEASURED,
    MOST_INTERVALS,
    RecordStore,
)
from weir_operator.rescale.journal import Kind, Step, plan
from weir_operator.tuning.samples import changes_of, most_intervals, read_samples
from weir_policies.model.estimation import ServiceMeasurement
from weir_policies.policy import ChangeKind
from weir_simulator.fitting.samples import IntervalSample, OperatorSample, Samples

MANY = {
    str(place): OperatorSample(deployment={"small/1": 1}, arrived=1.0, taken=1.0)
    for place in range(400)
}
"""Operators without service times: a measurement each."""


def a_change(kind=Kind.RESCALE, *, target=2, steps):
    journal = plan(
        kind=kind,
        reason="a test",
        now=100.0,
        source={"match": {"small/1": 1}},
        target={"match": {"small/1": target}},
        old_job="j1",
    )
    for step, time in steps:
        journal = journal.at(step, time)
    return journal


async def test_an_interval_is_kept_with_what_every_operator_did(stage_of):
    stage = await stage_of().started()

    await stage.ticks(3)

    samples = read_samples(stage.folder / "records.sqlite", since=0.0)
    last = samples.intervals[-1]
    assert last.time == stage.clock.now()
    assert last.seconds == 5
    assert last.operators["match"].deployment == {"small/1": 1}
    assert last.operators["match"].arrived == pytest.approx(20, rel=0.05)
    assert last.operators["match"].services[0].mean == pytest.approx(0.02)
    assert last.response_time == pytest.approx(0.1)


async def test_intervals_that_work_off_a_start_are_marked_and_the_later_ones_not(stage_of):
    stage = await stage_of().started()

    await stage.ticks(4)

    marks = [each.disturbed for each in stage.records.intervals()]
    assert marks[0]
    assert not marks[-1]
    assert marks == sorted(marks, reverse=True)


async def test_an_interval_with_bad_metrics_is_not_kept(stage_of):
    stage = await stage_of().started()
    await stage.ticks(2)
    before = stage.records.intervals()
    stage.poison = without_samples

    await stage.ticks(1)

    assert repr(stage.records.intervals()) == repr(before)


def a_large_interval(time):
    """Return one of two operators with three service times each: eight measurements."""
    service = ServiceMeasurement(node_type="small/1", records=10, mean=0.01, variance=0.0001)
    operator = OperatorSample(
        deployment={"small/1": 3}, arrived=10.0, taken=10.0, services=(service,) * 3
    )
    return IntervalSample(time=time, seconds=60.0, operators={"a": operator, "b": operator})


def test_of_a_large_job_fewer_intervals_are_read_the_newest(tmp_path):
    records = RecordStore(tmp_path / "records.sqlite")
    for minute in range(10):
        records.write([a_tick(60.0 * minute, sample=a_large_interval(60.0 * minute))])

    read = records.intervals(measured=3 * 8 + 1)

    assert [each.time for each in read] == [420.0, 480.0, 540.0]
    records.close()


@pytest.mark.parametrize(
    ("interval", "intervals", "most"),
    [
        (60.0, (IntervalSample(time=0.0, seconds=60.0, operators={}),), 8 * 1440),
        (5.0, (IntervalSample(time=0.0, seconds=5.0, operators={}),), MOST_INTERVALS),
        (5.0, tuple(a_large_interval(5.0 * tick) for tick in range(20)), MOST_INTERVALS),
        (5.0, (replace(a_large_interval(0.0), operators=MANY),), MAX_MEASURED // 400),
    ],
    ids=["kept", "small", "large", "huge"],
)
def test_what_such_a_job_is_ever_fitted_to_is_bounded_by_time_count_and_size(
    interval, intervals, most
):
    samples = Samples(intervals=intervals)

    assert most_intervals(samples, interval=interval) == most


def test_a_restart_tells_its_gap_and_how_long_its_replicas_took():
    journal = a_change(
        steps=[(Step.START, 100.0), (Step.STOP, 104.0), (Step.REMOVE, 105.0), (Step.DONE, 106.5)]
    )

    [sample] = changes_of([journal])

    assert sample.kind is ChangeKind.RESCALE
    assert sample.downtime == pytest.approx(1.5)
    assert sample.provisioning == pytest.approx(4.0)


def test_a_restart_that_added_nothing_tells_nothing_of_provisioning():
    journal = a_change(
        target=0, steps=[(Step.START, 100.0), (Step.STOP, 101.0), (Step.DONE, 103.0)]
    )

    [sample] = changes_of([journal])

    assert math.isnan(sample.provisioning)


def test_a_resize_has_no_gap_and_what_was_given_up_is_no_change():
    resize = a_change(Kind.RESIZE, steps=[(Step.DONE, 101.0)])
    given_up = a_change(steps=[(Step.START, 100.0), (Step.ABANDONED, 160.0)])

    samples = list(changes_of([resize, given_up]))

    assert [(each.kind, each.downtime) for each in samples] == [(ChangeKind.RESIZE, 0.0)]


def test_of_more_than_are_read_at_once_the_newest_are_read_in_order(tmp_path):
    records = RecordStore(tmp_path / "records.sqlite")
    for time in (3.0, 1.0, 4.0, 2.0):
        sample = IntervalSample(time=time, seconds=1.0, operators={})
        records.write([a_tick(time, sample=sample)])

    newest = records.intervals(since=1.0, most=2)

    assert [each.time for each in newest] == [3.0, 4.0]
    records.close()


def test_what_was_measured_can_be_forgotten(tmp_path):
    records = RecordStore(tmp_path / "records.sqlite")
    sample = IntervalSample(time=1.0, seconds=60.0, operators={}, response_time=0.1)
    records.write([a_tick(1.0, sample=sample)])

    records.forget_intervals()

    assert records.intervals() == ()
    records.close()
