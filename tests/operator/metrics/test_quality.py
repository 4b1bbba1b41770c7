from __future__ import annotations

import math
from dataclasses import replace

import pytest

from tests.operator.metrics.builders import Load, a_layout, a_window, changed, is_of
from weir_operator.metrics import names
from weir_operator.metrics.measurement import measure
from weir_operator.metrics.quality import ProblemKind, judge

NOW = 1061.0
"""A second after the last sample of `a_window`."""

STEADY = {
    "gen": Load(rate=100, busy=0.1, pending=500),
    "match": Load(rate=100, busy=0.8),
    "count": Load(rate=100, busy=0.3),
    "out": Load(rate=100, busy=0.1, latency=0.09),
}
IDLE = {name: replace(load, rate=0.0, busy=0.0) for name, load in STEADY.items()}


def judged(layout, window, *, previous=None, now=NOW):
    measurement = measure(window, layout)
    return judge(measurement, previous, layout, now, stale_after=10.0)


def kinds(problems):
    return [(problem.operator, problem.kind) for problem in problems]


def with_zeros(window, *series_names):
    """Let counters of `match` stand still."""
    return changed(
        window,
        lambda each: replace(each, values=(1000.0,) * len(each.values)),
        where=lambda each: is_of("match")(each) and each.name in series_names,
    )


@pytest.mark.parametrize(
    "loads",
    [
        pytest.param(STEADY, id="steady"),
        pytest.param(IDLE, id="idle"),
        pytest.param(
            {name: Load(rate=100, helper=False) for name in STEADY},
            id="neither helper nor pending records",
        ),
        pytest.param(
            STEADY | {"gen": replace(STEADY["gen"], pending=50_000, pending_growth=-109)},
            id="a backlog that falls a little faster than it is read",
        ),
        pytest.param(
            STEADY | {"gen": replace(STEADY["gen"], pending_growth=40, back_pressure=0.8)},
            id="a source that falls behind because it is blocked",
        ),
    ],
)
def test_what_can_be_is_no_problem(loads):
    layout = a_layout(replicas={"match": 2})

    assert judged(layout, a_window(layout, loads)) == ()


@pytest.mark.parametrize(
    ("operator", "load", "said"),
    [
        pytest.param(
            "match", Load(rate=100, busy=1.5), "150% busy", id="more than all of the time"
        ),
        pytest.param("gen", Load(rate=100, pending=-7), "", id="a negative backlog"),
        pytest.param(
            "gen",
            replace(STEADY["gen"], pending=20_000, pending_growth=-150),
            "150 records/s",
            id="a backlog that falls faster than it is read",
        ),
    ],
)
def test_what_cannot_be_measured_is_impossible_and_holds(operator, load, said):
    layout = a_layout()

    problems = judged(layout, a_window(layout, STEADY | {operator: load}))

    assert kinds(problems) == [(operator, ProblemKind.IMPOSSIBLE)]
    assert problems[0].kind.holds
    assert said in problems[0].sentence


def test_a_backlog_that_falls_while_nothing_is_read_is_impossible():
    layout = a_layout()
    loads = IDLE | {"gen": replace(IDLE["gen"], pending=20_000, pending_growth=-150)}

    problems = judged(layout, a_window(layout, loads))

    assert kinds(problems) == [("gen", ProblemKind.IMPOSSIBLE)]
    assert "150 records/s" in problems[0].sentence


@pytest.mark.parametrize(
    ("operator", "found"), [("match", [("match", ProblemKind.NOT_A_NUMBER)]), ("gen", [])]
)
def test_busy_time_that_never_was_a_number_is_a_problem_but_for_a_source(operator, found):
    layout = a_layout()
    window = changed(
        a_window(layout, STEADY),
        lambda each: replace(each, values=(math.nan,) * len(each.values)),
        where=is_of(operator, names.BUSY_MS),
    )

    assert kinds(judged(layout, window)) == found


def test_old_samples_are_stale():
    layout = a_layout()

    problems = judged(layout, a_window(layout, STEADY), now=NOW + 60)

    assert kinds(problems) == [(None, ProblemKind.STALE)]
    assert "61.0 s" in problems[0].sentence


def test_no_samples_at_all_are_stale():
    window = a_window(a_layout("job1"), STEADY)

    problems = judged(a_layout("job2"), window)

    assert kinds(problems) == [(None, ProblemKind.STALE)]


def test_a_measurement_of_another_run_is_stale():
    measurement = measure(a_window(a_layout("job1"), STEADY), a_layout("job1"))

    problems = judge(measurement, None, a_layout("job2"), NOW, stale_after=10.0)

    assert kinds(problems) == [(None, ProblemKind.STALE)]
    assert "job2" in problems[0].sentence


def test_a_replica_that_never_reported_is_named():
    window = a_window(a_layout(), STEADY)

    problems = judged(a_layout(replicas={"match": 2}), window)

    assert kinds(problems) == [("match", ProblemKind.PARTIAL)]
    assert "app-match-small-1" in problems[0].sentence


def test_a_replica_that_fell_silent_is_named():
    layout = a_layout(replicas={"match": 2})
    window = changed(
        a_window(layout, STEADY),
        lambda each: (
            replace(each, times=each.times[:8], values=each.values[:8])
            if each.labels["tm_id"].endswith("_1")
            else each
        ),
        where=is_of("match"),
    )

    problems = judged(layout, window)

    assert kinds(problems) == [("match", ProblemKind.PARTIAL)]


@pytest.mark.parametrize("poison", [math.nan, math.inf])
@pytest.mark.parametrize("name", names.REQUIRED)
def test_a_required_value_that_is_no_number_is_a_problem(name, poison):
    layout = a_layout()
    window = changed(
        a_window(layout, STEADY),
        lambda each: replace(each, values=(*each.values[:-1], poison)),
        where=is_of("match", name),
    )

    problems = judged(layout, window)

    assert kinds(problems) == [("match", ProblemKind.NOT_A_NUMBER)]
    assert name in problems[0].sentence


def test_records_out_of_an_operator_that_received_none_are_impossible():
    layout = a_layout()
    window = with_zeros(a_window(layout, STEADY), names.RECORDS_IN, names.BUSY_MS)

    problems = judged(layout, window)

    assert kinds(problems) == [("match", ProblemKind.IMPOSSIBLE)]
    assert "100 records/s" in problems[0].sentence


def test_zero_input_while_busy_is_impossible():
    layout = a_layout()
    window = with_zeros(a_window(layout, STEADY), names.RECORDS_IN, names.RECORDS_OUT)

    problems = judged(layout, window)

    assert ("match", ProblemKind.IMPOSSIBLE) in kinds(problems)
    assert "80% busy" in problems[0].sentence


def test_in_a_short_window_idle_time_that_flink_has_not_counted_yet_is_no_work():
    layout = a_layout()
    idle = {name: replace(load, rate=0.0, busy=0.9) for name, load in STEADY.items()}

    short = judged(layout, a_window(layout, idle, start=1055))
    long = judged(layout, a_window(layout, idle))

    assert short == ()
    assert ("match", ProblemKind.IMPOSSIBLE) in kinds(long)


def test_in_a_short_window_zero_input_is_impossible_where_the_feeder_gave_records_out():
    layout = a_layout()
    window = with_zeros(
        a_window(layout, STEADY, start=1055), names.RECORDS_IN, names.RECORDS_OUT, names.SERVICE_N
    )

    problems = judged(layout, window)

    assert ("match", ProblemKind.IMPOSSIBLE) in kinds(problems)


def test_samples_from_the_future_mean_that_a_clock_jumped():
    layout = a_layout()

    problems = judged(layout, a_window(layout, STEADY), now=NOW - 30)

    assert kinds(problems) == [(None, ProblemKind.CLOCK_JUMP)]


def test_a_window_that_ends_before_the_last_one_means_that_the_clock_jumped_back():
    layout = a_layout()
    previous = measure(a_window(layout, STEADY, start=2000, end=2060), layout)

    problems = judged(layout, a_window(layout, STEADY), previous=previous)

    assert kinds(problems) == [(None, ProblemKind.CLOCK_JUMP)]


def test_garbage_collection_holds_and_asks_for_memory():
    layout = a_layout()
    window = changed(
        a_window(layout, STEADY),
        lambda each: replace(each, values=tuple(400.0 * (time - 1000) for time in each.times)),
        where=is_of("match", names.GC_MS),
    )

    problems = judged(layout, window)

    assert kinds(problems) == [("match", ProblemKind.GARBAGE_COLLECTION)]
    assert problems[0].kind.holds
    assert "40%" in problems[0].sentence
    assert "more memory" in problems[0].sentence


def test_a_source_that_falls_behind_while_idle_is_distrusted_but_does_not_hold():
    layout = a_layout()
    loads = STEADY | {"gen": Load(rate=100, busy=0.1, pending=500, pending_growth=40)}

    problems = judged(layout, a_window(layout, loads))

    assert kinds(problems) == [("gen", ProblemKind.SOURCE_BUSY_TIME)]
    assert not problems[0].kind.holds


def test_a_few_records_more_that_wait_at_an_idle_source_are_no_problem():
    layout = a_layout()
    loads = STEADY | {"gen": Load(rate=10, busy=0.01, pending=0, pending_growth=0.25)}

    assert judged(layout, a_window(layout, loads, end=1010.0), now=1010.0) == ()


def test_every_kind_but_the_distrusted_source_holds():
    assert [kind for kind in ProblemKind if not kind.holds] == [ProblemKind.SOURCE_BUSY_TIME]
