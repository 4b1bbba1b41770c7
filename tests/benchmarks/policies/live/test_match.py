"""The parts of the match that need no Flink: judging, pairing, setting up, quotas."""

from __future__ import annotations

import math
import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.flink.ledger import Arrival
from benchmarks.policies.live.jobs import (
    APPS,
    FASTER,
    INTERVAL,
    describe,
    describe_in_place,
    job_arguments,
)
from benchmarks.policies.live.judging import difference, judge, mean_over_time, ratio
from benchmarks.policies.live.match import (
    AUTOSCALER,
    FORMS,
    IN_PLACE,
    SERIES,
    WEIR,
    MatchOutcome,
    figures_of,
    missing_pairs,
    pairs_of,
    run,
)
from benchmarks.policies.live.processors import ACCOUNTING, account
from benchmarks.policies.live.quotas import (
    CONTROLLERS,
    CORE,
    MIN_QUOTA,
    limit_of,
)
from benchmarks.policies.live.series import MAX_OTHERS, run_on_a_quiet_machine
from benchmarks.registry import BenchmarkError
from weir_operator.streamapp.loading import parse_manifest
from weir_operator.streamapp.managers import ApplicationManager, Fallback
from weir_operator.streamapp.objective import Objective

OURS = MatchOutcome(
    job="trips", trace="taxi", repeat=1, side=WEIR, date="2026-01-02T03:04:05+00:00", commit="a",
    trees={"policies": "b"}, load=1.0, used=0.5, others=0.0,
    late=[True, False, False, False], replicas=[6.0] * 4, restarts=4, doubled=0, missing=0, wrong=0,
)  # fmt: skip
THEIRS = replace(
    OURS, side=AUTOSCALER, late=[True, True, True, False], replicas=[8.0] * 4, doubled=8
)


def judged(*arrivals, intervals=2):
    return judge(
        [Arrival(number, due, time) for number, due, time in arrivals],
        start=100.0,
        interval=5.0,
        intervals=intervals,
        bound=1.0,
    )


def test_a_record_counts_in_the_interval_in_which_it_was_due():
    found = judged((0, 101.0, 101.5), (1, 104.0, 109.0), (2, 106.0, 106.5))

    assert found.late == (True, False)  # the mean of 0.5 and 5.0 s, and 0.5 s


def test_an_interval_of_which_nothing_came_out_is_late():
    found = judged((0, 101.0, 101.5))

    assert found.late == (False, True)


def test_a_record_that_never_came_makes_the_interval_late():
    found = judged((0, 101.0, 101.1), (2, 103.0, 103.1), (3, 106.0, 106.1))

    assert found.missing == 1
    assert found.late == (True, False)


def test_a_record_that_came_again_counts_when_it_came_first():
    found = judged((1, 106.0, 106.1), (0, 101.0, 109.0), (0, 101.0, 101.1))

    assert (found.records, found.doubled) == (2, 1)
    assert found.late == (False, False)


def test_what_was_due_after_the_last_interval_is_not_judged():
    found = judged((0, 101.0, 101.1), (1, 106.0, 106.1), (2, 111.0, 150.0))

    assert found.late == (False, False)


def test_a_value_holds_until_the_next_sample():
    samples = [(90.0, 4.0), (105.0, 8.0), (120.0, 1.0)]

    assert mean_over_time(samples, begin=100.0, end=110.0) == 6.0
    assert mean_over_time(samples, begin=80.0, end=90.0) == 4.0
    assert mean_over_time([(90.0, 0.0)], begin=100.0, end=110.0) == 0.0


def test_a_ratio_is_that_of_the_sums():
    found = ratio([0.1, 0.2], [0.2, 0.4])

    assert found.value == pytest.approx(0.5)
    assert (found.low, found.high) == pytest.approx((0.5, 0.5))
    assert found.is_at_most(0.6) is True
    assert found.is_at_most(0.4) is False


def test_pairs_that_differ_do_not_show_a_limit_between_them():
    found = ratio([0.1, 0.6, 0.1, 0.6], [1.0, 1.0, 1.0, 1.0])

    assert found.is_at_most(0.3) is None


def test_one_pair_shows_nothing():
    found = ratio([0.1], [1.0])

    assert found.value == pytest.approx(0.1)
    assert found.is_at_most(0.5) is None


@pytest.mark.parametrize(("ours", "value"), [([0.0, 0.0], 0.0), ([0.0, 0.1], math.inf)])
def test_the_ratio_to_nothing_is_zero_only_for_nothing(ours, value):
    found = ratio(ours, [0.0, 0.0])

    assert found.value == value
    assert found.is_at_most(0.5) is (True if value == 0 else None)


def test_a_difference_is_that_of_the_means():
    found = difference([3.0, 5.0], [2.0, 4.0])

    assert (found.value, found.low, found.high) == (1.0, 1.0, 1.0)
    assert found.is_at_most(1.0) is True
    assert found.is_at_most(0.5) is False


def test_a_run_without_its_other_side_is_no_pair():
    outcomes = [OURS, THEIRS, replace(OURS, repeat=2), replace(THEIRS, trace="crowd")]

    assert pairs_of(outcomes, WEIR) == [(OURS, THEIRS)]


def test_the_second_half_is_judged_by_itself():
    changed = replace(OURS, replicas=[8.0, 8.0, 4.0, 4.0])

    assert (THEIRS.violations(), THEIRS.violations(later=True)) == (0.75, 0.5)
    assert changed.cost() == pytest.approx(OURS.cost())
    assert changed.cost(later=True) < changed.cost()


def outcomes_with(**fields):
    return [
        replace(each, repeat=repeat)
        for repeat in (1, 2, 3)
        for each in (replace(OURS, **fields), THEIRS)
    ]


def verdicts(outcomes, ours=WEIR):
    return {each.figure: each.holds for each in figures_of(outcomes, ours) if each.goal}


def test_every_goal_holds_of_a_side_that_is_better_throughout():
    assert set(verdicts(outcomes_with()).values()) == {True}


@pytest.mark.parametrize(
    ("fields", "missed"),
    [
        ({"late": [True, True, False, False]}, "intervals over the bound, 3 pairs"),
        (
            {"late": [False, False, True, True]},
            "intervals over the bound in second halves, 3 pairs",
        ),
        ({"replicas": [14.0, 14.0, 4.0, 4.0]}, "cost of what is requested, 3 pairs"),
        (
            {"replicas": [6.0, 6.0, 8.0, 8.0]},
            "cost of what is requested in second halves, 3 pairs",
        ),
        ({"restarts": 5}, "restarts, 3 pairs"),
        ({"wrong": 1}, f"{WEIR}: lost or doubled by its state, 3 runs with a ledger"),
    ],
)
def test_each_goal_is_missed_alone(fields, missed):
    found = verdicts(outcomes_with(**fields))

    assert found.pop(next(name for name in found if name.startswith(missed))) is False
    if "late" not in fields:  # both goals on the bound are about the same intervals
        assert set(found.values()) == {True}


def test_one_pair_leaves_the_goals_open():
    found = verdicts([OURS, THEIRS])

    assert {holds for name, holds in found.items() if "1 pairs" in name} == {None}


def test_the_autoscalers_runs_serve_both_forms():
    ours = replace(OURS, side=IN_PLACE)

    assert pairs_of([OURS, THEIRS, ours], IN_PLACE) == [(ours, THEIRS)]
    assert any(name.startswith(IN_PLACE) for name in verdicts([OURS, THEIRS, ours], IN_PLACE))


def test_every_pair_comes_once_before_any_comes_again_and_the_first_side_changes():
    pairs = list(missing_pairs(SERIES["judged"], WEIR, []))

    assert len(pairs) == 27
    assert {pair[:2] for pair, _ in pairs[:9]} == {pair[:2] for pair, _ in pairs}
    first = [sides[0] for _, sides in pairs[:9]]
    assert {first.count(WEIR), first.count(AUTOSCALER)} == {4, 5}
    for place in range(9):  # and of one pair, from repeat to repeat
        assert pairs[place][1] == pairs[place + 9][1][::-1]


def test_a_number_of_pairs_that_is_none_is_refused(monkeypatch):
    monkeypatch.setenv("LIVE_PAIRS", "few")
    monkeypatch.setenv("LIVE_SERIES", "development")

    with pytest.raises(BenchmarkError, match="LIVE_PAIRS: expected a number of pairs, got 'few'"):
        run()


def test_a_call_goes_on_where_the_last_one_ended():
    pairs = missing_pairs(SERIES["judged"], WEIR, [OURS, THEIRS, replace(OURS, trace="crowd")])

    left = dict(pairs)
    assert ("trips", "taxi", 1) not in left
    assert left["trips", "crowd", 1] == [AUTOSCALER]


def test_pairs_for_developing_share_neither_job_nor_trace_with_those_that_are_judged():
    judged_series, development = SERIES["judged"], SERIES["development"]

    assert len(development.apps) * len(development.traces) >= 6
    assert not judged_series.apps.keys() & development.apps.keys()
    assert not set(judged_series.traces) & set(development.traces)
    assert "build" in development.folder.parts


def test_what_ran_on_a_busy_machine_is_run_again():
    others = iter([2 * MAX_OTHERS, MAX_OTHERS])

    kept = run_on_a_quiet_machine(lambda: replace(OURS, others=next(others)))

    assert kept.others == MAX_OTHERS


def test_a_machine_that_stays_busy_is_named():
    with pytest.raises(
        BenchmarkError, match=r"at most 2% .* got 4\.0%, 4\.0%, 4\.0% in 3 attempts"
    ):
        run_on_a_quiet_machine(lambda: replace(OURS, others=2 * MAX_OTHERS))


def burn(seconds):
    code = f"import time\nwhile time.process_time() < {seconds}: pass"
    return [sys.executable, "-c", code]


def test_what_a_run_starts_is_told_apart_from_other_processes():
    if not (CONTROLLERS / ACCOUNTING).is_dir():
        pytest.skip("needs the accounting controller of cgroups version 1")
    with subprocess.Popen(burn(1.0)), account() as use:
        began = time.monotonic()
        subprocess.run(burn(0.3), check=True)
        found, seconds = use(), (time.monotonic() - began) * (os.cpu_count() or 1)

    assert found.run * seconds == pytest.approx(0.3, abs=0.15)
    assert found.others * seconds > 0.1


def a_streamapp(job, form):
    if form == "in-place":
        return parse_manifest(describe_in_place(APPS[job], ["source", *APPS[job].work, "sink"]))
    arguments = job_arguments(APPS[job], trace=Path("/trace.txt"), out=Path("/out"), seed=1)
    return parse_manifest(describe(APPS[job], arguments=arguments))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("job", list(APPS))
def test_weir_has_its_default_policy_and_only_shorter_periods(job, form):
    spec = a_streamapp(job, form).spec

    assert (spec.operator_manager.policy.name, spec.operator_manager.policy.settings) == (
        "planner",
        {},
    )
    assert spec.operator_manager.interval.seconds == INTERVAL
    usual = ApplicationManager()
    for ours, default in (
        (spec.application_manager.interval, usual.interval),
        (spec.application_manager.restart_budget.refill_every, usual.restart_budget.refill_every),
        (spec.objective.catch_up, Objective.model_fields["catch_up"].default),
        (spec.fallback.after, Fallback().after),
    ):
        assert ours.seconds == pytest.approx(default.seconds / FASTER, rel=1e-3)


@pytest.mark.parametrize("speed", [0.5, 1.0, 1.6, 3.2])
def test_a_replicas_quota_is_its_speeds_share_of_a_small_core(speed):
    quota, period = limit_of(speed)

    assert quota / period == pytest.approx(speed * CORE)
    assert quota >= MIN_QUOTA
