"""What is near the truth, what is unseen, and which intervals count."""

import math
from dataclasses import replace

import pytest

from benchmarks.flink.response_time import BOUND, COUNTS, INTERVAL, JOBS, Outcome, figures_of, judge
from tests.operator.reporting.builders import a_run, a_tick
from weir_operator.loop.run_record import RecordedRun

BEGIN = 1_000_000


def said(*responses, violated=None):
    """Return a run that said this of its intervals, after some in which it was quiet."""
    told = [0.05] * 3 + list(responses)
    calls = [each > BOUND for each in told] if violated is None else [False] * 3 + violated
    return RecordedRun(
        ticks=tuple(
            a_tick(time=BEGIN + INTERVAL * place, response=response, violated=call)
            for place, (response, call) in enumerate(zip(told, calls, strict=True))
        )
    )


def wrote(*responses):
    """Return the rows of a sink, ten in each interval behind the first."""
    rows: list[list[int]] = []
    for place, response in enumerate([0.05] * 2 + list(responses)):
        for row in range(10):
            at = 1000 * (BEGIN + INTERVAL * place) + 900 * row + 100
            rows.append([len(rows), at - round(1000 * response), at])
    return rows


@pytest.mark.parametrize(
    ("measured", "true", "near"),
    [(0.065, 0.05, 1), (0.08, 0.05, 0), (1.09, 1.0, 1), (1.2, 1.0, 0), (math.nan, 0.05, 0)],
)
def test_a_measurement_is_near_within_a_tenth_or_20_ms(measured, true, near):
    found = judge(said(measured, violated=[True]), [wrote(true)])

    assert (found["settled"], found["near"]) == (1, near)


@pytest.mark.parametrize("verdict", [False, None])
def test_a_violation_that_was_not_called_one_is_unseen_and_the_reverse_is_false(verdict):
    found = judge(said(0.1, 0.3, violated=[verdict, True]), [wrote(0.3, 0.1)])

    assert (found["over"], found["unseen"], found["false"]) == (1, 1, 1)


def test_the_slower_of_two_sinks_is_the_truth():
    found = judge(said(0.3), [wrote(0.1), wrote(0.3)])

    assert (found["near"], found["over"], found["records"]) == (1, 1, 60)


def test_an_interval_that_a_change_touches_is_not_settled_but_its_violation_is_to_be_seen():
    change = replace(a_run().rescales[0], started=BEGIN + 15, finished=BEGIN + 19)
    told = replace(said(0.1, violated=[False]), rescales=(change,))

    found = judge(told, [wrote(0.3)])

    assert (found["settled"], found["over"], found["unseen"]) == (0, 1, 1)


def test_lost_and_doubled_records_are_counted_but_for_the_last():
    rows = [[number, 0, 1] for number in range(1000)]

    lost = judge(said(), [rows[:5] + rows[6:]])
    doubled = judge(said(), [rows + rows[3:4]])
    unfinished = judge(said(), [rows[:990] + rows[995:]])

    assert [each["wrong"] for each in (lost, doubled, unfinished)] == [1, 1, 0]


def test_goals_are_judged_over_all_runs():
    good = Outcome(
        job=next(iter(JOBS)), policy="planner", load=1.0, counts=dict.fromkeys(COUNTS, 0)
    )
    good = replace(good, counts={**good.counts, "settled": 20, "near": 20})
    bad = replace(good, counts={**good.counts, "near": 15, "unseen": 1}, load=9.0)

    share, unseen, *_, load = figures_of([good, bad])

    assert (share.value, share.holds, unseen.holds, load.value) == (87.5, False, False, 9.0)
