"""The parts of the match that need no Flink: judging, pairing, setting up, quotas."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.flink.ledger import Arrival
from benchmarks.policies.live.jobs import (
    APPS,
    FASTER,
    INTERVAL,
    describe,
    job_arguments,
)
from benchmarks.policies.live.judging import compare, judge, mean_over_time
from benchmarks.policies.live.match import (
    AUTOSCALER,
    WEIR,
    MatchOutcome,
    figures_of,
    pairs_by_job,
)
from benchmarks.policies.live.quotas import (
    CORE,
    MIN_QUOTA,
    limit_of,
)
from weir_operator.streamapp.loading import parse_manifest
from weir_operator.streamapp.managers import ApplicationManager, Fallback
from weir_operator.streamapp.objective import Objective

OURS = MatchOutcome(
    job="trips", trace="taxi", repeat=1, side=WEIR, violations=0.1,
    replicas=6.0, cost=0.3, restarts=4, doubled=0, missing=0, wrong=0, load=1.0,
    commit="a",
)  # fmt: skip
THEIRS = replace(OURS, side=AUTOSCALER, violations=0.3, cost=0.4, doubled=8)


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
    found = compare([0.1, 0.2], [0.2, 0.4])

    assert found.value == pytest.approx(0.5)
    assert (found.low, found.high) == pytest.approx((0.5, 0.5))
    assert found.is_at_most(0.6) is True
    assert found.is_at_most(0.4) is False


def test_pairs_that_differ_do_not_show_a_limit_between_them():
    found = compare([0.1, 0.6, 0.1, 0.6], [1.0, 1.0, 1.0, 1.0])

    assert found.is_at_most(0.3) is None


def test_one_pair_shows_nothing():
    found = compare([0.1], [1.0])

    assert found.value == pytest.approx(0.1)
    assert found.is_at_most(0.5) is None


@pytest.mark.parametrize(("ours", "value"), [([0.0, 0.0], 0.0), ([0.0, 0.1], math.inf)])
def test_the_ratio_to_nothing_is_zero_only_for_nothing(ours, value):
    found = compare(ours, [0.0, 0.0])

    assert found.value == value
    assert found.is_at_most(0.5) is (True if value == 0 else None)


def test_a_run_without_its_other_side_is_no_pair():
    outcomes = [OURS, THEIRS, replace(OURS, repeat=2), replace(THEIRS, trace="crowd")]

    assert pairs_by_job(outcomes) == {"trips": [(OURS, THEIRS)]}


def outcomes_of(job, *, violations=0.1, cost=0.3, doubled=0):
    return [
        replace(each, job=job, repeat=repeat)
        for repeat in (1, 2, 3)
        for each in (replace(OURS, violations=violations, cost=cost, doubled=doubled), THEIRS)
    ]


def verdicts(outcomes):
    return {each.figure: each.holds for each in figures_of(outcomes)}


def test_both_goals_must_be_shown_in_most_jobs():
    good, dear = outcomes_of("trips"), outcomes_of("hotitems", cost=0.5)
    name = "jobs in which both goals are shown with 95 % confidence"

    assert verdicts([*good, *outcomes_of("calls")])[name] is True
    assert verdicts([*good, *outcomes_of("calls"), *dear])[name] is True
    assert verdicts([*good, *dear])[name] is False
    assert verdicts([OURS, THEIRS])[name] is None


def test_violations_are_held_to_half_and_cost_to_all_of_the_autoscalers():
    found = verdicts(outcomes_of("trips", violations=0.2, cost=0.4))

    assert found["trips: intervals over the bound, Weir's of the autoscaler's, 3 pairs"] is False
    assert found["trips: cost of what is requested, Weir's of the autoscaler's, 3 pairs"] is True


def test_weir_may_double_nothing_and_the_autoscaler_is_reported():
    found = verdicts(outcomes_of("trips", doubled=1))

    assert found[f"trips, {WEIR}: doubled at a plain sink"] is False
    assert found[f"trips, {AUTOSCALER}: doubled at a plain sink"] is None


def a_streamapp(job):
    arguments = job_arguments(APPS[job], trace=Path("/trace.txt"), out=Path("/out"), seed=1)
    return parse_manifest(describe(APPS[job], arguments=arguments))


@pytest.mark.parametrize("job", list(APPS))
def test_weir_has_its_default_policy_and_only_shorter_periods(job):
    spec = a_streamapp(job).spec

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
