"""What helps, what is settled, and when an objective out of reach counts as named."""

import math
from dataclasses import replace

import pytest

from benchmarks.flink import keys_live
from benchmarks.flink.keys_live import HIGH, Outcome, best_fixed, figures_of, judge
from benchmarks.flink.response_time import BOUND, INTERVAL
from tests.operator.reporting.builders import a_run, a_tick, an_operator
from weir_operator.loop.run_record import EventRecord, RecordedRun

BEGIN = 1_000_000
QUICK, SLOW = BOUND / 2, 2 * BOUND


def run_of(*responses, replicas=(2,), rescales=(), claim=None):
    """Return a run of these intervals, and the rows that were written in them."""
    ticks, rows = [], []
    for place, response in enumerate((QUICK, QUICK, QUICK, *responses)):
        time = BEGIN + INTERVAL * place
        size = replicas[min(place, len(replicas) - 1)]
        ticks.append(
            a_tick(time=time, operators=(an_operator(name="work", replicas={"local/1": size}),))
        )
        at = 1000 * time - 10
        rows.append((place, at - round(1000 * response), at))
    events = () if claim is None else (EventRecord(time=BEGIN + claim, message=REASON),)
    return RecordedRun(ticks=tuple(ticks), rescales=tuple(rescales), events=events), rows


REASON = "ObjectiveInfeasible: No number of replicas. One key of work (1a) carries 30%"


def judged(*responses, rises=-math.inf, **run):
    told, rows = run_of(*responses, **run)
    return judge(told, rows, rises=rises, load=1.0)


def change(before, after, *, at):
    """Return a change of the replicas of the work that takes no time."""
    return replace(
        a_run().rescales[0],
        before=before,
        after=after,
        started=BEGIN + at,
        finished=BEGIN + at,
    )


def test_settled_intervals_over_the_bound_are_counted_by_the_rows():
    found = judged(QUICK, SLOW, SLOW)

    assert (found.settled, found.over) == (3, 2)
    assert found.reason == ""


def test_an_interval_in_which_nothing_came_out_is_over():
    told, rows = run_of(QUICK, QUICK)

    assert judge(told, rows[:-1], rises=-math.inf, load=1.0).over == 1


def test_what_a_change_or_the_rise_touches_is_not_settled():
    moved = change({"work": {"a": 1}}, {"work": {"a": 2}}, at=3 * INTERVAL - 1)

    assert judged(SLOW, SLOW, SLOW, rescales=[moved]).settled == 0
    assert judged(SLOW, SLOW, SLOW, rises=BEGIN + 3 * INTERVAL - 1).settled == 0
    assert judged(SLOW, SLOW, SLOW, SLOW, rises=BEGIN + 3 * INTERVAL - 1).settled == 1


@pytest.mark.parametrize(
    ("before", "after", "useless"),
    [
        ({"all": {"a": 1}}, {"orders": {"a": 9}, "work": {"a": 4}}, 0),
        ({"work": {"a": 4}}, {"work": {"a": 3, "b": 2}}, 1),
        ({"all": {"a": 3}}, {"all": {"a": 6}}, 1),
        ({"work": {"a": 6}}, {"work": {"a": 5}}, 0),
    ],
)
def test_a_scale_out_beyond_the_most_useful_parallelism_does_not_help(before, after, useless):
    moved = change(before, after, at=INTERVAL)

    assert judged(QUICK, rescales=[moved]).useless == useless


def test_intervals_over_the_bound_count_until_the_objective_is_said_to_be_out_of_reach():
    found = judged(SLOW, SLOW, SLOW, SLOW, claim=5 * INTERVAL - 1)

    assert (found.over, found.unnamed) == (4, 2)
    assert found.reason == REASON


def test_replicas_are_a_mean_over_time():
    assert judged(QUICK, QUICK, replicas=(1, 1, 1, 1, 6)).replicas == 2


def test_the_best_fixed_deployment_has_room_at_its_fullest_replica():
    assert best_fixed(1.0) == 1
    assert best_fixed(HIGH) == keys_live.most_useful() == 4
    assert best_fixed(1e6) is None


def test_goals_are_judged_over_both_runs():
    good = Outcome(
        useless=0, settled=10, over=0, unnamed=3, reason=REASON, replicas=4.0,
        restarts=2, wrong=0, load=1.0,
    )  # fmt: skip
    goals = [each for each in figures_of(good, good) if each.goal]
    assert [each.holds for each in goals] == [True] * 6

    bad = replace(good, useless=1, over=1, replicas=5.0, reason="", wrong=1)
    goals = [each for each in figures_of(bad, bad) if each.goal]
    assert [each.holds for each in goals] == [False] * 6
    assert goals[2].value == 10.0
