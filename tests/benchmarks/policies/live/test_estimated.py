"""An estimate against what came: how a history is slowed down, and how pairs are judged."""

from __future__ import annotations

from dataclasses import asdict, replace

import pytest

from benchmarks.policies.live.estimated import (
    Estimate,
    EstimateOutcome,
    Run,
    figures_of,
    read_outcome,
    slow_down,
)
from benchmarks.policies.live.jobs import FASTER
from benchmarks.policies.made_up_job import BEGIN
from benchmarks.results import load_outcomes, store_outcome

BUSY = "flink_taskmanager_job_task_accumulateBusyTimeMs"
TAKEN = "flink_taskmanager_job_task_numRecordsIn"
OUTCOME = EstimateOutcome(
    job="trips", trace="taxi", date="2026-01-02T03:04:05+00:00", commit="a", trees={}, load=1.0,
    used=0.5, others=0.0, first=Run(cost=0.4, over=0.25, restarts=3),
    first_estimated=Estimate(cost=0.4, over=0.3, over_low=0.3, over_high=0.3),
    estimated=Estimate(cost=0.30, over=0.11, over_low=0.05, over_high=0.20),
    live=Run(cost=0.28, over=0.12, restarts=2),
)  # fmt: skip


def dumped(name, value, time, labels='job_name="trips", task_name="Source: trips"'):
    return f'{{__name__="{name}", {labels}}} {value} {round(1000 * time)}'


def test_time_and_counters_of_time_pass_slower_and_records_stay_what_they_are():
    lines = [
        dumped(BUSY, "500", 110.0),
        dumped(BUSY, "250", 105.0),
        dumped(TAKEN, "7", 105.0),
        dumped("up", "1", 105.0, 'instance="a"'),
    ]

    busy, taken = slow_down(lines, start=100.0)

    assert busy.labels == {"job_name": "trips", "task_name": "Source: trips"}
    assert list(busy.times - BEGIN) == [5 * FASTER, 10 * FASTER]
    assert list(busy.values) == [250 * FASTER, 500 * FASTER]
    assert (taken.name, list(taken.values)) == (TAKEN, [7.0])


@pytest.mark.parametrize(
    ("value", "time"), [("7", 99.0), ("NaN", 101.0)], ids=["too early", "no value"]
)
def test_samples_from_before_the_first_record_or_without_a_value_are_left_out(value, time):
    lines = [dumped(TAKEN, value, time), dumped(TAKEN, "8", 102.0)]

    (taken,) = slow_down(lines, start=100.0)

    assert list(taken.values) == [8.0]


def verdicts(outcomes):
    return {each.figure: each.holds for each in figures_of(outcomes) if each.goal}


def test_an_estimate_that_came_true_reaches_every_goal():
    assert set(verdicts([OUTCOME]).values()) == {True}


@pytest.mark.parametrize(
    ("said", "missed"),
    [
        (
            {"cost": 0.21},
            {"estimated cost within 10% of the live one", "estimated cost too low, most"},
        ),
        (
            {"over": 0.15, "over_low": 0.13},
            {
                "live share over the bound within the estimate's range",
                "error of the share over the bound, mean",
            },
        ),
    ],
)
def test_an_estimate_that_did_not_come_true_misses_its_goals(said, missed):
    found = verdicts([replace(OUTCOME, estimated=replace(OUTCOME.estimated, **said))])

    assert {name for name, holds in found.items() if not holds} == missed


def test_an_outcome_is_read_as_it_was_kept(tmp_path):
    store_outcome(tmp_path / "trips-taxi.json", asdict(OUTCOME))

    assert load_outcomes(tmp_path, read_outcome) == [OUTCOME]
