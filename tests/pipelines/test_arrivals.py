"""What is rebuilt of histories that are known, and of such that are spoilt in known ways.

All stories run through Spark together, each as an application of its own: a run costs seconds
whatever it holds.
"""

import math

import pytest

from tests.pipelines.known_history import KnownHistory, KnownSeries, build_history
from weir_pipelines import metrics


def a_job(app, *, rate=20.0, pending=None, blocked=0.0, offset=0, start=0.0, end=600.0, **labels):
    """Return a source that feeds one operator of two parallel tasks."""
    known = {"app": app, "start": start, "end": end, **labels}

    def share(of):
        return lambda time: of * 1000 * (time - start)

    def counted(per_second):
        return lambda time: per_second * (time - start)

    series = [
        KnownSeries(metric=metrics.RECORDS_IN, operator="read", curve=lambda time: 0.0, **known),
        KnownSeries(metric=metrics.RECORDS_OUT, operator="read", curve=counted(rate), **known),
        KnownSeries(metric=metrics.BLOCKED, operator="read", curve=share(blocked), **known),
        KnownSeries(metric=metrics.BUSY, operator="read", curve=share(0.25), **known),
        KnownSeries(metric=metrics.IDLE, operator="read", curve=share(0.75 - blocked), **known),
    ]
    if pending is not None:
        series.append(
            KnownSeries(
                metric=metrics.PENDING, operator="read", curve=pending, function="source", **known
            )
        )
    for subtask in (0, 1):
        match = {"operator": "match", "subtask": subtask, **known}
        series += [
            KnownSeries(metric=metrics.RECORDS_IN, curve=counted(rate / 2), **match),
            KnownSeries(metric=metrics.RECORDS_OUT, curve=counted(rate / 4), **match),
            KnownSeries(metric=metrics.BUSY, curve=share(0.5), **match),
            KnownSeries(metric=metrics.IDLE, curve=share(0.5), **match),
            KnownSeries(metric=metrics.BLOCKED, curve=share(0.0), **match),
        ]
    return build_history(series, first=offset + 1)


def without(low, high):
    """Return what takes away the samples of (low, high), Unix seconds."""
    return lambda row: [] if 1000 * low < row[1] < 1000 * high else [row]


def shifted(since, seconds):
    """Return what sets the clock of the samples from a moment on."""

    def spoil(row):
        number, time, value, received = row
        return [(number, time + 1000 * seconds, value, received) if time >= 1000 * since else row]

    return spoil


def from_zero(since):
    """Return what restarts every counter at a moment."""

    def spoil(row):
        number, time, value, received = row
        return [(number, time, value - 20.0 * since * (time >= 1000 * since), received)]

    return spoil


def a_rescaled_run(app):
    """Return an operator that goes from four tasks to two at 300 s, in one run of its job."""

    def counted(per_second, since):
        return lambda time: per_second * (time - since)

    return build_history(
        KnownSeries(
            app=app,
            metric=metrics.RECORDS_IN,
            operator="match",
            subtask=subtask,
            attempt=attempt,
            start=start,
            end=start + 297.5,
            every=2.5,
            curve=counted(20.0 / parallel, start),
        )
        for attempt, parallel, start in (("0", 4, 0.0), ("1", 2, 302.5))
        for subtask in range(parallel)
    )


def stories():
    plain = a_job("plain")
    restarted = a_job("restarted", end=200.0) + a_job(
        "restarted", start=215.0, job_id="job-2", offset=100
    )
    silent = a_job("one silent")
    second = next(
        each["series"]
        for each in silent.labels
        if each["metric"] == metrics.RECORDS_IN and each["subtask"] == "1"
    )
    return {
        "plain": plain,
        "catching up": a_job("catching up", pending=lambda time: 5 * time, blocked=0.5),
        "blocked": a_job("blocked", blocked=0.5),
        "gap": a_job("gap").spoilt(without(130.0, 150.0)),
        "twice": a_job("twice").spoilt(lambda row: [row, row] if row[1] == 200_000 else [row]),
        "late": a_job("late").spoilt(
            lambda row: [(*row[:3], row[1] + (300_000 if row[1] == 200_000 else 100))]
        ),
        "set forward": a_job("set forward").spoilt(shifted(200.0, 180)),
        # A server that is set back refuses samples until its time has come again.
        "set back": a_job("set back").spoilt(
            lambda row: shifted(200.0, -60)(row) if not 200_000 <= row[1] <= 260_000 else []
        ),
        "rescaled": a_rescaled_run("rescaled"),
        "scraped less": a_job("scraped less").spoilt(
            lambda row: [] if row[1] > 420_000 and row[1] % 15_000 else [row]
        ),
        "reset": build_history(
            [
                KnownSeries(
                    app="reset", metric=metrics.RECORDS_IN, operator="match", curve=lambda t: 20 * t
                )
            ]
        ).spoilt(from_zero(200.0)),
        "restarted": restarted,
        "no number": a_job("no number").spoilt(
            lambda row: [(row[0], row[1], math.nan, None) if row[1] == 200_000 else row]
        ),
        "one silent": silent.spoilt(
            lambda row: [] if row[0] == second and 120_000 < row[1] <= 240_000 else [row]
        ),
    }


@pytest.fixture(scope="module")
def rebuilt(rates):
    together = KnownHistory()
    for place, story in enumerate(stories().values()):
        for labels in story.labels:
            together.labels.append({**labels, "series": int(labels["series"]) + 1000 * place})
        together.samples.extend((row[0] + 1000 * place, *row[1:]) for row in story.samples)
    return rates(together)


def test_a_steady_rate_comes_back_whole_minute_by_minute(rebuilt):
    rows = [rebuilt["plain", operator, 60 * n] for operator in ("read", "match") for n in range(10)]

    assert [row.arrived for row in rows] == pytest.approx([20.0] * 20)
    assert [row.completeness for row in rows] == pytest.approx([1.0] * 20)
    assert {tuple(row.faults) for row in rows} == {()}


def test_what_an_operator_gives_out_and_how_busy_it_is_stand_beside_its_arrivals(rebuilt):
    row = rebuilt["plain", "match", 120]

    assert (row.given, row.utilisation, row.replicas) == pytest.approx((10.0, 0.5, 2.0))


def test_a_blocked_source_counts_what_piles_up_before_it(rebuilt):
    source, inside = rebuilt["catching up", "read", 120], rebuilt["catching up", "match", 120]

    assert (source.taken, source.arrived) == pytest.approx((20.0, 25.0))
    assert source.backlog == pytest.approx(5 * 180)
    assert inside.arrived == pytest.approx(25.0)
    assert source.faults == ["backlog"]


def test_a_blocked_source_without_a_backlog_leaves_arrivals_unknown_everywhere(rebuilt):
    for operator in ("read", "match"):
        row = rebuilt["blocked", operator, 120]

        assert row.arrived is None
        assert row.taken == pytest.approx(20.0)
        assert row.faults == ["blocked"]


@pytest.mark.parametrize(
    ("history", "minute", "completeness", "fault"),
    [
        pytest.param("gap", 2, 2 / 3, "gap", id="missing samples uncover their time"),
        pytest.param("twice", 3, 1.0, "duplicate", id="a sample that is there twice counts once"),
        pytest.param("late", 3, 1.0, "late", id="a late sample counts at its place"),
        # The fall is in the step that ends at 200 s.
        pytest.param("reset", 3, 55 / 60, "reset", id="a counter that falls is no negative rate"),
        pytest.param("restarted", 3, 45 / 60, "restart", id="a new run covers what it ran"),
    ],
)
def test_a_fault_is_told_and_does_not_bend_the_rate(rebuilt, history, minute, completeness, fault):
    row = rebuilt[history, "match", 60 * minute]

    assert row.arrived == pytest.approx(20.0)
    assert row.completeness == pytest.approx(completeness)
    assert row.faults == [fault]


def test_the_minute_after_a_restart_has_no_fault(rebuilt):
    assert rebuilt["restarted", "match", 240].faults == []


def test_a_clock_that_is_set_forward_is_no_pause(rebuilt):
    row = rebuilt["set forward", "match", 360]

    assert row.faults == ["clock", "gap"]
    assert row.arrived is None
    assert row.completeness == 0


def test_a_clock_that_is_set_back_is_no_burst(rebuilt):
    row = rebuilt["set back", "match", 180]

    assert "clock" in row.faults
    assert row.arrived is None
    assert rebuilt["set back", "match", 300].arrived == pytest.approx(20.0)


def test_a_run_that_is_rescaled_in_place_has_as_many_tasks_as_are_alive(rebuilt):
    rows = [rebuilt["rescaled", "match", 60 * n] for n in (2, 4, 5, 7)]

    assert [row.replicas for row in rows] == [4, 4, 2, 2]
    assert [row.arrived for row in rows] == pytest.approx([20.0] * 4)
    assert [row.completeness for row in rows] == pytest.approx([1, 57.5 / 60, 57.5 / 60, 1])
    assert [row.faults for row in rows] == [[], ["restart"], ["restart"], []]


def test_a_scrape_interval_that_changes_within_the_day_is_no_gap(rebuilt):
    rows = [rebuilt["scraped less", "match", 60 * n] for n in (5, 7, 8)]

    assert [row.arrived for row in rows] == pytest.approx([20.0] * 3)
    assert [row.completeness for row in rows] == pytest.approx([1.0] * 3)
    assert {tuple(row.faults) for row in rows} == {()}


def test_what_is_no_number_is_left_out_and_told(rebuilt):
    row = rebuilt["no number", "match", 180]

    assert row.arrived == pytest.approx(20.0)
    assert "notANumber" in row.faults


def test_a_silent_replica_is_taken_for_as_busy_as_the_others(rebuilt):
    row = rebuilt["one silent", "match", 180]

    assert row.arrived == pytest.approx(20.0)
    assert row.completeness == pytest.approx(0.5)


def at(rate):
    return lambda time: rate * time
