from dataclasses import replace

import numpy as np
import pytest

from tests.simulator.builders import an_experiment
from weir_policies.application_manager.search.protocol import Limits
from weir_simulator.tuning import tune as tuning
from weir_simulator.tuning.evaluation import RunResult
from weir_simulator.tuning.judging import (
    Judged,
    certainty_of_keeping,
    explain_doubt,
    is_better,
)
from weir_simulator.tuning.order import Constraints, TuningRequest
from weir_simulator.tuning.tune import naive_tuning, tune

PARTS = 100
LIMITS = Limits(violations=0.05, reconfigurations=0.1)
NEVER = np.zeros(PARTS)
BURSTS = np.where(np.arange(PARTS) % 20 == 0, 0.98, 0.0)
"""0.049 on average, by five bursts: another trace may as well have six."""


def measured(violations, *, money=10.0, restarts=NEVER):
    columns = [np.full_like(violations, money), violations, np.resize(restarts, violations.size)]
    lengths = np.full(violations.size, 10.0)
    return RunResult(slots=10 * violations.size, parts=np.column_stack(columns), lengths=lengths)


def judged(violations=NEVER, *, seeds=3, **fields):
    return Judged([measured(violations, **fields)] * seeds)


def better(ours, theirs, limits=LIMITS):
    return is_better(ours, theirs, limits, confidence=0.95)


def test_what_may_keep_a_limit_by_luck_is_not_better_however_cheap():
    ours, theirs = judged(BURSTS, money=1.0), judged(money=10.0)

    assert ours.outcome.keeps(LIMITS)
    assert not better(ours, theirs)
    assert better(ours, theirs, Limits(violations=0.2, reconfigurations=0.1))


def test_so_it_is_with_restarts():
    ours, theirs = judged(restarts=2 * BURSTS, money=1.0), judged(money=10.0)

    assert ours.outcome.keeps(LIMITS)
    assert not better(ours, theirs)
    assert better(ours, theirs, Limits(violations=0.05, reconfigurations=0.4))


def test_what_misses_far_less_than_it_may_is_sure_to_keep_the_limit():
    assert certainty_of_keeping(judged(0.2 * BURSTS), LIMITS) == pytest.approx(1, abs=0.01)


@pytest.mark.parametrize("limit", [0.0, 0.001, 0.5])
def test_what_never_happened_keeps_every_limit(limit):
    assert certainty_of_keeping(judged(), Limits(violations=limit, reconfigurations=limit)) == 1.0


def test_what_happened_once_does_not_keep_a_limit_of_none():
    once = np.where(np.arange(PARTS) == 50, 0.1, 0.0)

    certainty = certainty_of_keeping(judged(once), Limits(violations=0.0, reconfigurations=0.0))

    assert certainty is not None
    assert certainty < 0.5


@pytest.mark.parametrize(("share", "certainty"), [(0.04, 1.0), (0.06, 0.0)])
def test_what_does_not_vary_is_known(share, certainty):
    constant = judged(np.full(PARTS, share))

    assert certainty_of_keeping(constant, LIMITS) == pytest.approx(certainty)


@pytest.mark.parametrize("violations", [np.ones(PARTS), BURSTS, np.linspace(0, 1, PARTS)])
def test_a_limit_of_all_slots_is_always_kept(violations):
    anything = Limits(violations=1.0, reconfigurations=1.0)

    assert certainty_of_keeping(judged(violations), anything) == 1.0
    assert better(judged(violations, money=9.0), judged(), anything)


def test_one_seed_does_not_tell_whether_a_limit_is_kept():
    assert certainty_of_keeping(judged(seeds=1), LIMITS) is None


@pytest.mark.parametrize("parts", [1, 3])
def test_so_few_parts_that_nothing_can_be_said_are_never_better(parts):
    few = np.zeros(parts)

    assert not better(judged(few, money=1.0), judged(few, money=10.0))


def test_misses_that_hang_together_are_borne_where_even_the_worst_of_the_trace_keeps_the_limit():
    while_it_learned = np.where(np.arange(PARTS) < 20, 0.04, 0.0)

    assert certainty_of_keeping(judged(while_it_learned), LIMITS) == 1.0


def test_where_misses_hang_together_too_long_to_be_told_it_says_so():
    rising = judged(np.linspace(0, 0.09, PARTS), money=1.0)

    doubt = explain_doubt(rising, judged(money=10.0), LIMITS)

    assert certainty_of_keeping(rising, LIMITS) is None
    assert not better(rising, judged(money=10.0))
    assert doubt.startswith("1000 slots were simulated, and misses are autocorrelated for so long")


def test_where_the_limit_is_broken_surely_fewer_misses_are_better_even_if_too_many_still():
    assert better(judged(0.12 + BURSTS / 10), judged(0.13 + BURSTS / 10))


def test_where_the_limit_is_broken_cheaper_alone_is_not_better():
    mostly = np.where(np.arange(PARTS) == 30, 0.2, 1.1 * BURSTS)
    ours, theirs = judged(1.1 * BURSTS, money=1.0), judged(mostly, money=10.0)

    assert ours.outcome.excess(LIMITS) < theirs.outcome.excess(LIMITS)
    assert not better(ours, theirs)


def test_what_is_at_its_limit_is_said_to_keep_it_as_seldom_as_asked():
    rng = np.random.default_rng(8)
    limits = Limits(violations=0.5, reconfigurations=1.0)
    repeats = 400

    mistaken = sum(
        (certainty_of_keeping(judged(noise), limits) or 0.0) >= 0.95
        for noise in (0.5 + 0.1 * rng.standard_normal(PARTS) for _ in range(repeats))
    )

    assert mistaken / repeats <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / repeats)


class _Workers:
    """Simulates nothing: what is found by search keeps the limit by luck, a warm start surely."""

    def __init__(self, experiment, trace, *, count):
        self._naive = naive_tuning(experiment)

    def __enter__(self):
        return self

    def __exit__(self, *failure):
        return None

    def evaluate(self, runs, *, should_stop):
        return [self._measure(run.point) for run in runs]

    def _measure(self, point):
        if point == self._naive:
            return measured(NEVER, money=10.0)
        if point.weights.violation == WARM.violation:
            return measured(NEVER, money=9.0)
        return measured(BURSTS, money=8.0)


WARM = replace(naive_tuning(an_experiment()).weights, violation=0.77)


def test_the_cheapest_that_is_surely_better_goes_before_a_cheaper_one_that_may_break_a_limit(
    monkeypatch,
):
    monkeypatch.setattr(tuning, "Workers", _Workers)
    experiment = an_experiment(trace={"kind": "taxi", "slots": 1000})
    warm = replace(naive_tuning(experiment), weights=WARM)
    order = TuningRequest(
        experiment=experiment,
        algorithm="random",
        evaluations=6,
        constraints=Constraints(max_violations=0.05),
        warm_starts=(warm,),
    )

    result = tune(order)

    assert result.better
    assert result.best == warm
    assert result.certainty is not None
    assert result.keeping is not None
    assert min(result.certainty, result.keeping) >= result.required
    assert min(each.money for each in result.evaluations if each.feasible) == 8.0


class _CloseWorkers(_Workers):
    """Most points keep the limit by luck; those with little weight on resources do surely."""

    def _measure(self, point):
        if point == self._naive:
            return measured(NEVER, money=10.0)
        if point.weights.resources < 0.25:
            return measured(0.2 * BURSTS, money=9.0 - point.weights.resources)
        return measured(BURSTS, money=8.0 - point.weights.resources)


def test_the_cheapest_within_half_of_the_limits_is_compared_beside_the_best_which_break_them(
    monkeypatch,
):
    monkeypatch.setattr(tuning, "Workers", _CloseWorkers)
    experiment = an_experiment(trace={"kind": "taxi", "slots": 1000})
    order = TuningRequest(
        experiment=experiment,
        algorithm="random",
        evaluations=30,
        constraints=Constraints(max_violations=0.05),
    )

    result = tune(order)

    careful = [each.money for each in result.evaluations if each.violations < 0.025]
    assert sum(each.money < min(careful) for each in result.evaluations) > order.shortlist
    assert result.better
    assert result.prediction.money.mean == pytest.approx(min(careful))
