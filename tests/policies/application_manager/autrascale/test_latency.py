"""The PLO and ELO solvers on jobs whose truth is known."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from benchmarks.papers.contention import word_count, yahoo
from weir_policies.application_manager.autrascale import event_latency, latency
from weir_policies.application_manager.autrascale.gaussian_process import (
    RATES_KEPT,
    find_nearest,
    is_same_rate,
    predict_lightly,
    remember,
)
from weir_policies.application_manager.autrascale.policy import choose_bootstrap
from weir_policies.application_manager.autrascale.values import (
    AutrascaleSettings,
    Sample,
    Trained,
    Transfer,
)

FLOOR, OLD_FLOOR = (3, 4, 12, 10), (3, 3, 10, 8)
RATE, OLD_RATE, BOUND = 350e3, 300e3, 0.18
SETTINGS = AutrascaleSettings()


def search_latency(seed, *, old=None, settings=SETTINGS, rate=RATE, floor=FLOOR, bound=BOUND):
    truth, rng = word_count(), np.random.default_rng(seed)
    state = latency.begin(
        truth.measure(floor, rate, rng=rng),
        floor,
        truth.bounds,
        bound=bound,
        bootstrap=choose_bootstrap(floor, truth.bounds, settings.uniform),
        old=old,
    )
    while not state.over:
        seen = truth.measure(state.target, rate, rng=rng)
        state = latency.advance(state, seen, settings, rng)
    return state


@cache
def learn_old_rate(seed):
    return search_latency(seed + 50, rate=OLD_RATE, floor=OLD_FLOOR).summarise()


def test_a_lean_parallelism_that_keeps_the_latency_is_found():
    found = search_latency(1)

    truth = word_count()
    assert found.met
    assert truth.find_latency(found.target, RATE) <= BOUND * 1.05
    assert truth.find_throughput(found.target) >= RATE * 0.99
    assert len(found.runs) <= 10 + SETTINGS.runs
    assert sum(found.target) < 120


def test_the_same_seed_finds_the_same():
    assert search_latency(4) == search_latency(4)


def test_a_search_that_is_lent_an_old_model_needs_fewer_runs():
    from_scratch = len(search_latency(0).runs)
    traditional = AutrascaleSettings(transfer=Transfer.TRADITIONAL)

    light = search_latency(0, old=learn_old_rate(0))
    heavy = search_latency(0, old=learn_old_rate(0), settings=traditional)

    assert light.met
    assert len(light.runs) < from_scratch / 2
    assert heavy.met
    assert len(heavy.runs) < from_scratch


def test_an_old_model_is_left_after_so_many_runs():
    wrong = Trained(
        rate=OLD_RATE,
        floor=OLD_FLOOR,
        samples=tuple(
            Sample(parallelism=(3, 3, 10, count), score=0.99 - 0.01 * count) for count in (8, 40)
        ),
    )

    found = search_latency(0, old=wrong, settings=AutrascaleSettings(transfer_runs=2))

    assert found.met


def test_estimates_stand_in_for_the_bootstrap_runs():
    truth = word_count()
    sets = choose_bootstrap(FLOOR, truth.bounds, SETTINGS.uniform)
    estimates = [Sample(parallelism=each, score=0.8) for each in sets]

    state = latency.begin(
        truth.measure(FLOOR, RATE),
        FLOOR,
        truth.bounds,
        bound=BOUND,
        bootstrap=sets,
        estimates=estimates,
    )
    state = latency.advance(state, truth.measure(FLOOR, RATE), SETTINGS, np.random.default_rng(1))

    assert state.pending == ()
    assert len(state.runs) == 1
    assert len(state.samples) == 1 + len(estimates)


def test_at_the_cap_the_best_that_keeps_the_latency_is_taken():
    stingy = AutrascaleSettings(overallocation=0.0, runs=3)

    found = search_latency(1, settings=stingy)

    assert not found.met
    assert len(found.runs) == 10 + 3
    chosen = next(run for run in found.runs if run.sample.parallelism == found.target)
    assert chosen.kept
    assert chosen.sample.score == max(run.sample.score for run in found.runs if run.kept)


def test_where_nothing_keeps_the_latency_the_best_score_is_taken():
    found = search_latency(1, bound=0.01, settings=AutrascaleSettings(runs=2))

    assert not found.met
    best = max(found.runs, key=lambda run: run.sample.score)
    assert found.target == best.sample.parallelism


def test_without_a_sample_the_old_model_speaks_alone_and_then_ever_less():
    old = learn_old_rate(0)
    points = np.array([[5, 5, 20, 20], [3, 4, 12, 10]])
    below = Sample(parallelism=(5, 5, 20, 20), score=0.2)

    before, doubt = predict_lightly(points, old, (), FLOOR, weight=1.0)
    after, doubt_after = predict_lightly(points, old, (below,), FLOOR, weight=1.0)

    assert before[0] > 0.7
    assert after[0] == pytest.approx(0.2, abs=0.05)
    assert doubt_after[0] < doubt[0]


def test_models_are_found_by_the_nearest_rate_and_kept_once_per_rate():
    def at(rate):
        return Trained(rate=rate, floor=(1,), samples=(Sample(parallelism=(1,), score=rate),))

    models: tuple[Trained, ...] = ()
    for rate in (100.0, 200.0, 103.0):
        models = remember(models, at(rate))

    assert [model.rate for model in models] == [200.0, 103.0]
    nearest = find_nearest(models, 160.0)
    assert nearest is not None
    assert nearest.rate == 200.0
    assert find_nearest((), 160.0) is None
    assert is_same_rate(100.0, 104.0)
    assert not is_same_rate(100.0, 110.0)
    for rate in range(1000, 40_000, 1000):
        models = remember(models, at(float(rate)))
    assert len(models) == RATES_KEPT


def search_event_time(wanted, *, seed=0, profiled=()):
    truth, rng = yahoo(), np.random.default_rng(seed)
    floor = (4, 2, 1, 1, 13)
    state = event_latency.begin(
        wanted,
        floor,
        truth.bounds,
        bootstrap=choose_bootstrap(floor, truth.bounds, 6),
        profiled=profiled,
    )
    settings = replace(SETTINGS, margin=0.05, beta=10_000.0)
    while not state.over:
        state = event_latency.advance(state, truth.find_throughput(state.target), settings, rng)
    return state


@pytest.mark.parametrize("wanted", [40e3, 50e3])
def test_replicas_that_work_a_backlog_off_in_time_are_found(wanted):
    found = search_event_time(wanted)

    assert not found.late
    assert yahoo().find_throughput(found.target) >= wanted
    assert sum(found.target) < 0.7 * sum(yahoo().bounds)


def test_what_nothing_can_work_off_in_time_is_said_to_be_late():
    found = search_event_time(90e3)

    assert found.late
    greatest = max(trial.throughput for trial in found.profiled)
    assert yahoo().find_throughput(found.target) >= 0.98 * greatest


def test_a_profile_is_used_again_for_the_next_backlog():
    first = search_event_time(50e3)

    again = search_event_time(50e3, seed=5, profiled=first.profiled)

    assert len(again.profiled) == len(first.profiled)
    assert again.target == first.target
