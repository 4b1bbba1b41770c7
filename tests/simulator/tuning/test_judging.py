import numpy as np
import pytest

from weir_policies.application_manager.search.protocol import Limits
from weir_simulator.tuning.evaluation import MONEY, RunResult
from weir_simulator.tuning.judging import (
    Judged,
    certainty_of_less,
    correlation_time,
    explain_doubt,
    is_better,
    spread_of_mean,
)

LIMITS = Limits(violations=0.05, reconfigurations=0.1)
PARTS = 100


def judged(
    money,
    violations,
    *,
    reconfigurations=0.01,
    spread=0.1,
    seed=0,
    seeds=3,
    by_seed=0.0,
    parts=PARTS,
    resampled=False,
):
    """Return a point of the given means, with traffic that all points meet alike.

    `spread` is chance in each part, `by_seed` what a seed brings for the whole trace.
    """
    rng = np.random.default_rng(seed)
    traffic = autoregressive(np.random.default_rng(99), parts, time=3.0)
    runs = []
    for luck in by_seed * rng.standard_normal(seeds):
        noise = spread * rng.standard_normal(parts)
        columns = [
            money + traffic + luck + noise,
            violations * (1 + 0.1 * traffic),
            np.full(parts, reconfigurations),
        ]
        lengths = np.full(parts, 10.0)
        runs.append(RunResult(slots=10 * parts, parts=np.column_stack(columns), lengths=lengths))
    return Judged(runs, resampled=resampled)


def better(ours, theirs):
    return is_better(ours, theirs, LIMITS, confidence=0.95)


def autoregressive(rng, count, *, time):
    """Return values that hang together over about `time` neighbours."""
    kept = np.exp(-2 / time)
    values = np.empty(count + round(5 * time))
    values[0] = rng.standard_normal()
    for place in range(1, values.size):
        fresh = np.sqrt(1 - kept**2) * rng.standard_normal()
        values[place] = kept * values[place - 1] + fresh
    return values[-count:]


def test_a_small_saving_is_sure_because_both_met_the_same_traffic():
    ours, theirs = judged(9.8, 0.01, seed=1), judged(10.0, 0.01, seed=2)

    assert (ours.prediction.money.standard_error or 0.0) > 0.1
    assert better(ours, theirs)
    assert not better(theirs, ours)


def test_a_saving_that_may_be_luck_is_none():
    ours, theirs = judged(9.97, 0.01, spread=2, seed=1), judged(10.0, 0.01, spread=2, seed=2)

    assert not better(ours, theirs)


def test_a_saving_that_one_seed_has_and_the_other_not_is_none_however_long_the_trace():
    ours, theirs = judged(9.8, 0.01, by_seed=0.5, seed=1), judged(10.0, 0.01, by_seed=0.5, seed=2)

    assert not better(ours, theirs)
    assert not better(theirs, ours)


def test_nothing_is_better_than_itself():
    point = judged(10.0, 0.01)

    assert not better(point, point)
    assert certainty_of_less(point, point, (MONEY,)) == 0.5


def test_what_breaks_a_limit_is_not_better_however_cheap():
    assert not better(judged(1.0, 0.2), judged(10.0, 0.01))


def test_what_keeps_the_limits_is_better_than_what_does_not_however_dear():
    assert better(judged(20.0, 0.01), judged(10.0, 0.2))


def test_where_both_break_a_limit_less_is_better():
    assert better(judged(10.0, 0.1), judged(10.0, 0.2))
    assert not better(judged(5.0, 0.2), judged(10.0, 0.1))


def test_too_many_reconfigurations_count_as_well():
    assert better(judged(10.0, 0.01), judged(10.0, 0.01, reconfigurations=0.3))


def test_the_mean_over_seeds_is_judged():
    runs = [
        RunResult(slots=10, parts=np.full((2, 3), value), lengths=np.array([5.0, 5.0]))
        for value in (0.1, 0.3)
    ]

    assert Judged(runs).outcome.money == pytest.approx(0.2)


def test_a_part_counts_by_its_slots():
    parts = np.array([[1.0, 0, 0], [4.0, 0, 0]])

    point = Judged([RunResult(slots=12, parts=parts, lengths=np.array([10.0, 2.0]))])

    assert point.outcome.money == pytest.approx(1.5)


def test_without_any_variation_the_sign_says_it():
    cheap, dear = judged(1.0, 0.01, spread=0), judged(2.0, 0.01, spread=0)

    assert certainty_of_less(cheap, dear, (MONEY,)) == 1.0
    assert certainty_of_less(dear, cheap, (MONEY,)) == 0.0


def test_one_seed_says_nothing_and_so_it_is_told():
    ours, theirs = judged(1.0, 0.01, seeds=1), judged(10.0, 0.01, seeds=1)

    assert not better(ours, theirs)
    assert ours.prediction.money.standard_error is None
    assert "1 seed" in explain_doubt(ours, theirs, LIMITS)


def test_a_trace_whose_traffic_is_no_sample_says_nothing_and_so_it_is_told():
    rising = np.linspace(0, 1, 40)
    ours = Judged([as_money(rising * (1 + 0.01 * seed)) for seed in range(3)])
    theirs = Judged([as_money(np.full(40, 4.0))] * 3)

    doubt = explain_doubt(ours, theirs, LIMITS)

    assert certainty_of_less(ours, theirs, (MONEY,)) is None
    assert not better(ours, theirs)
    assert doubt.startswith("40 slots were simulated")


def test_where_something_can_be_said_there_is_no_doubt_to_explain():
    assert explain_doubt(judged(9.9, 0.01, seed=1), judged(10.0, 0.01, seed=2), LIMITS) == ""


@pytest.mark.parametrize("time", [1.0, 10.0])
def test_how_long_a_series_hangs_together_is_found(time):
    rng = np.random.default_rng(3)
    series = rng.standard_normal(4000) if time == 1 else autoregressive(rng, 4000, time=time)

    assert correlation_time(series) == pytest.approx(time, rel=0.35)


@pytest.mark.parametrize(("count", "time"), [(40, 1.5), (40, 8.0), (200, 10.0), (200, 40.0)])
def test_the_mean_of_what_hangs_together_is_mistaken_for_a_difference_as_seldom_as_asked(
    count, time
):
    rng = np.random.default_rng(4)
    repeats, mistaken = 400, 0

    for _ in range(repeats):
        series = np.tile(autoregressive(rng, count, time=time), (3, 1))
        ours = Judged([as_money(values) for values in series])
        theirs = Judged([as_money(np.zeros(count))] * 3)
        mistaken += (certainty_of_less(ours, theirs, (MONEY,)) or 0.0) >= 0.95

    # 5 % and three standard errors of a share of 400.
    assert mistaken / repeats <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / repeats)


def as_money(values):
    """Return a run whose money is given part by part, above zero."""
    columns = np.column_stack([100 + values, np.zeros_like(values), np.zeros_like(values)])
    return RunResult(slots=values.size, parts=columns, lengths=np.ones(values.size))


def test_more_seeds_and_more_stretches_make_a_mean_surer():
    few = spread_of_mean(np.random.default_rng(5).standard_normal((3, 40)), np.ones(40))
    many = spread_of_mean(np.random.default_rng(5).standard_normal((12, 160)), np.ones(160))

    assert few is not None
    assert many is not None
    assert many.error < few.error
    assert many.freedom > few.freedom


def test_runs_with_traffic_of_their_own_are_sure_of_another_run_not_of_their_mean():
    ours, theirs = (
        judged(money, 0.01, seed=seed, seeds=30, by_seed=1.0, spread=0.0, resampled=True)
        for money, seed in ((9.0, 1), (10.0, 2))
    )

    certainty = certainty_of_less(ours, theirs, (MONEY,))

    # One run in four is dearer, though the mean of thirty is surely less.
    assert certainty == pytest.approx(0.76, abs=0.06)
    assert not better(ours, theirs)


def test_a_short_stretch_says_enough_where_each_run_has_traffic_of_its_own():
    ours, theirs = (
        judged(money, 0.01, seed=seed, seeds=30, parts=4, resampled=True)
        for money, seed in ((8.0, 1), (10.0, 2))
    )

    assert explain_doubt(ours, theirs, LIMITS) == ""
    assert better(ours, theirs)
