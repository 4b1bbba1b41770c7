"""The parts of the tuning benchmarks that need neither the trace nor minutes."""

from __future__ import annotations

import pytest

from benchmarks.papers.applications import applications
from benchmarks.papers.reproduce_am import (
    JUDGED_ON,
    TUNED_ON,
    Case,
    Judged,
    summarise,
)
from weir_policies.application_manager.search import protocol


def a_case(**fields):
    setting = {
        "figure": "Figure 21",
        "application": next(applications()),
        "algorithm": "weights",
        "violations": 0.05,
        "reconfigurations": 0.1,
    }
    return Case(**{**setting, **fields})


def a_year(*, money=8.0, violations=0.01):
    return protocol.TrialOutcome(money=money, violations=violations, reconfigurations=0.01)


def a_judged(*, money=(8.0, 8.5), violations=0.01, naive_violations=0.2):
    """Return a case of two seeds beside a naive baseline that costs 10."""
    return Judged(
        case=a_case(),
        ours=tuple(a_year(money=each, violations=violations) for each in money),
        naive=a_year(money=10.0, violations=naive_violations),
    )


def values_of(figures):
    return {figure.figure: figure.value for figure in figures}


def test_a_setting_that_costs_more_than_naive_with_one_seed_misses_the_goal():
    figures = summarise("Figure 21", [a_judged(), a_judged(money=(8.0, 10.5))])

    assert (figures[0].value, figures[0].unit, figures[0].holds) == (1, "of 2", False)
    values = values_of(figures)
    assert values["Figure 21: runs that cost less than naive"] == 3
    assert values["Figure 21: saving of a run, least"] == pytest.approx(-5)


def test_a_setting_that_breaks_a_limit_with_a_seed_misses_the_goal():
    figures = summarise("Figure 21", [a_judged(), a_judged(violations=0.06)])

    kept = next(each for each in figures if "the paper's 96 %" in each.figure)
    assert (kept.value, kept.holds) == (50, False)
    assert values_of(figures)["Figure 21: settings in which naive keeps them"] == 0


def test_a_naive_baseline_that_breaks_the_limits_is_no_fair_price():
    dear = a_judged(money=(11.0, 11.0))
    cheap = a_judged(money=(9.0, 9.0), naive_violations=0.01)

    [fair] = [
        each
        for each in summarise("Figure 21", [dear, cheap])
        if each.figure == "Figure 21: the same where naive keeps the constraints"
    ]

    assert (fair.value, fair.unit) == (2, "of 2")


def test_no_slot_that_judges_was_tuned_on():
    (tuned, slots), (judged, _) = TUNED_ON, JUDGED_ON

    assert tuned + slots <= judged
