"""The parts of the tuning benchmarks that need neither the trace nor minutes."""

from __future__ import annotations

import math

import pytest

import benchmarks.policies.tune
from benchmarks.papers.applications import applications
from benchmarks.papers.reproduce_am import (
    FRESH,
    JUDGED_ON,
    TUNED_ON,
    Case,
    Judged,
    cases,
    summarise,
)
from benchmarks.policies import application_manager
from benchmarks.policies.tune import Progress, read_runs, summarise_runs, time_tuning, write_runs
from tests.operator.reporting.builders import a_run as a_recorded_run
from tests.operator.tuning.fakes import a_prediction
from tests.simulator.builders import an_experiment
from weir_operator.loop.tuned import UNTUNED
from weir_operator.tuning.store import Standing, Version
from weir_operator.tuning.trial import TuningTrial
from weir_policies.application_manager.search import protocol
from weir_simulator.tuning import evaluation, workers
from weir_simulator.tuning.order import Forecast
from weir_simulator.tuning.tune import JUDGING_SEEDS


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
        searches=(),
        ours=tuple(a_year(money=each, violations=violations) for each in money),
        naive=a_year(money=10.0, violations=naive_violations),
    )


def values_of(figures):
    return {figure.figure: figure.value for figure in figures}


def test_every_application_is_there_with_both_bounds_and_both_numbers_of_types():
    assert len({str(application) for application in applications()}) == 12


def test_no_case_is_there_twice():
    names = [f"{case.figure}: {case}" for case in cases()]

    assert len(set(names)) == len(names)


def test_a_setting_that_costs_more_than_naive_with_one_seed_misses_the_goal():
    figures = summarise("Figure 21", [a_judged(), a_judged(money=(8.0, 10.5))])

    assert (figures[0].value, figures[0].unit, figures[0].holds) == (1, "of 2", False)
    values = values_of(figures)
    assert values["Figure 21: settings that cost less in the mean over seeds"] == 2
    assert values["Figure 21: runs that cost less than naive"] == 3
    assert values["Figure 21: saving of a run, least"] == pytest.approx(-5)


def test_a_setting_that_breaks_a_limit_with_a_seed_misses_the_goal():
    figures = summarise("Figure 21", [a_judged(), a_judged(violations=0.06)])

    kept = next(each for each in figures if "the paper's 96 %" in each.figure)
    assert (kept.value, kept.holds) == (50, False)
    assert values_of(figures)["Figure 21: settings in which naive keeps them"] == 0


def test_figure_20_counts_what_keeps_the_papers_limits():
    figures = summarise("Figure 20", [a_judged(), a_judged(violations=0.06, naive_violations=0.01)])

    counted = [
        (each.value, each.unit) for each in figures if "the paper's 5 and 10 %" in each.figure
    ]
    assert counted == [(1, "of 2"), (2, "of 4"), (2, "of 2")]


def test_a_naive_baseline_that_breaks_the_limits_is_no_fair_price():
    dear = a_judged(money=(11.0, 11.0))
    cheap = a_judged(money=(9.0, 9.0), naive_violations=0.01)

    [fair] = [
        each
        for each in summarise("Figure 21", [dear, cheap])
        if each.figure == "Figure 21: the same where naive keeps the constraints"
    ]

    assert (fair.value, fair.unit) == (2, "of 2")


def test_no_slot_that_judges_was_tuned_on_and_the_fresh_ones_judge_nothing_else():
    tuned, judged, fresh = (
        range(begin, begin + slots) for begin, slots in (TUNED_ON, JUDGED_ON, FRESH)
    )

    assert tuned.stop <= judged.start
    assert judged.stop <= fresh.start
    assert {case.judged_on for case in cases() if case.replays == 1} == {JUDGED_ON}
    assert {case.judged_on for case in cases() if case.replays > 1} == {FRESH}


def a_run(way="joint", *, setting="B", seed=1, used=(1.0, 50.0), best=(9.0, 7.0)):
    return Progress(way=way, setting=setting, seed=seed, used=used, best=best)


def test_progress_says_when_a_value_was_reached():
    progress = a_run(used=(1, 1.25, 2.25), best=(math.inf, 9.0, 7.0))

    assert progress.when_at(8.0) == 2.25
    assert progress.when_at(1.0) == math.inf


def the_others(setting):
    return [a_run(way, setting=setting) for way in ("random",)]


def test_searches_are_compared_setting_by_setting():
    runs = [
        a_run(setting="B", used=(1.0, 20.0), best=(9.0, 6.0)),
        a_run("alternating", setting="B", used=(1.0, 50.0, 100.0), best=(9.0, 8.0, 6.5)),
        a_run(setting="C", used=(1.0, 50.0), best=(30.0, 30.0)),
        a_run("alternating", setting="C", used=(1.0, 100.0), best=(30.0, 20.0)),
        *the_others("B"),
        *the_others("C"),
    ]

    values = values_of(summarise_runs(runs))

    assert values["B: slots until joint is where Algorithm 4 ends (median)"] == 20
    assert values["C: slots until joint is where Algorithm 4 ends (median)"] is None
    assert values["B: joint, money above the best known (median)"] == 0
    assert values["B: best known money"] == 6


def test_a_long_run_tells_what_is_known_and_is_not_judged():
    runs = [
        a_run(seed=0, best=(9.0, 5.0)),
        a_run(best=(9.0, 6.0)),
        a_run("alternating", best=(9.0, 6.0)),
        *the_others("B"),
    ]

    values = values_of(summarise_runs(runs))

    assert values["joint: money above the best known (median)"] == pytest.approx(20)


def test_a_comparison_that_was_interrupted_goes_on_with_the_runs_that_it_kept(tmp_path):
    known = Progress(way="joint", setting="A", seed=1, used=(1.0, 2.0), best=(math.inf, 9.5))
    file = tmp_path / "runs.json"

    before = read_runs(file)
    write_runs(file, [known])

    assert before == {}
    assert read_runs(file) == {("joint", "A", 1): known}


def test_what_is_timed_is_every_simulation_of_a_tuning_as_shipped_but_the_warming_up(monkeypatch):
    simulated = []

    def evaluate(experiment, trace, run):
        simulated.append(run)
        return evaluation.evaluate(experiment, trace, run)

    monkeypatch.setattr(workers, "evaluate", evaluate)
    monkeypatch.setattr(benchmarks.policies.tune, "EVALUATIONS", 4)
    monkeypatch.setattr(benchmarks.policies.tune, "SLOTS", 10)

    timed = time_tuning(
        an_experiment(policy={"name": "hold"}, world={"noise": 0.01}),
        workers=1,
        clock=lambda: float(len(simulated)),
    )

    assert timed == len(simulated) - 1
    assert len({run.seed for run in simulated[1:]}) == 1 + JUDGING_SEEDS


def a_version(number, standing, *, intervals):
    return Version(
        number=number,
        since=0.0,
        former=number - 1,
        point=UNTUNED,
        budgets={},
        prediction=a_prediction(1.0),
        former_prediction=a_prediction(2.0),
        certainty=0.99,
        forecast=Forecast(intervals=30, violations=0.1, money=1.5),
        most_rate=100.0,
        standing=standing,
        trial=TuningTrial(intervals=intervals),
    )


@pytest.mark.parametrize(
    ("standing", "intervals", "kept"),
    [
        (Standing.KEPT, 30, True),
        (Standing.REPLACED, 30, True),
        (Standing.ROLLED_BACK, 30, False),
        (Standing.ON_TRIAL, 29, False),
        (Standing.OVERGROWN, 10, False),
        (Standing.REPLACED, 10, False),
    ],
)
def test_a_tuning_counts_as_kept_only_if_it_passed_its_trial(standing, intervals, kept):
    found = application_manager.figures(
        a_recorded_run(ticks=1), (a_version(1, standing, intervals=intervals),)
    )

    [figure] = [each for each in found if each.figure == "tunings kept"]
    assert (figure.value, figure.holds) == (int(kept), kept)
