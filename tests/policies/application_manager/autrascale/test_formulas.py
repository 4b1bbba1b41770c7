"""The formulas of AuTraScale+, by the numbers that are published and by hand."""

import math

import numpy as np
import pytest

from weir_policies.application_manager.autrascale.gaussian_process import (
    draw_candidates,
    expect_improvement,
    fit,
)
from weir_policies.application_manager.autrascale.policy import choose_bootstrap
from weir_policies.application_manager.autrascale.throughput import (
    find_target_throughput,
    score_throughput,
)
from weir_policies.application_manager.autrascale.values import (
    AutrascaleSettings,
    Measurement,
    find_threshold,
    score_benefit,
)
from weir_policies.errors import ParameterError


@pytest.mark.parametrize(
    ("parallelism", "floor", "published"),
    [
        ((7, 8, 12, 38), (3, 4, 12, 10), 0.9096),
        ((4, 2, 1, 1, 40), (4, 2, 1, 1, 34), 0.994),
        ((22, 2, 1, 1, 36), (4, 2, 1, 1, 34), 0.965),
    ],
)
def test_the_scores_of_the_papers_table_come_out(parallelism, floor, published):
    score = score_benefit(parallelism, floor, latency=0.1, latency_bound=0.18, alpha=0.8)

    assert score == pytest.approx(published, abs=5e-4)


def test_the_threshold_is_the_published_one():
    assert find_threshold(0.8, 1.0) == pytest.approx(0.9)


def test_a_late_record_scores_by_how_late_it_is():
    assert score_benefit((2,), (2,), latency=0.4, latency_bound=0.2, alpha=0.8) == pytest.approx(
        0.6
    )
    assert score_benefit(
        (2,), (2,), latency=math.inf, latency_bound=0.2, alpha=0.8
    ) == pytest.approx(0.2)


def test_the_throughput_that_works_a_backlog_off_in_time():
    # What is allowed to wait is 24,200 x 0.38 s; the rest of 12 million goes in 8 minutes.
    wanted = find_target_throughput(
        rate=24_200, lag=12e6, latency=0.12, age_bound=0.5, limit=8 * 60
    )

    assert wanted == pytest.approx(49_200, rel=1e-3)


def test_what_is_allowed_to_wait_asks_for_nothing():
    assert find_target_throughput(rate=100, lag=30, latency=0.1, age_bound=0.5, limit=60) == 100


def test_the_throughput_score_is_nine_tenths_a_ninth_of_beta_off():
    assert score_throughput(48_000 - 10_000 / 9, 48_000, 10_000) == pytest.approx(0.9)
    assert score_throughput(48_000 + 10_000 / 9, 48_000, 10_000) == pytest.approx(0.9)


def test_age_is_latency_and_the_time_that_the_lag_takes():
    seen = Measurement(
        parallelism=(1,),
        rate=50.0,
        throughput=100.0,
        demands=(50.0,),
        true_rates=(100.0,),
        latency=0.2,
        lag=300.0,
    )

    assert seen.age == pytest.approx(3.2)


def test_the_bootstrap_set_of_word_count_has_the_ten_samples_of_the_paper():
    chosen = choose_bootstrap((3, 4, 12, 10), (40,) * 4, uniform=6)

    assert len(chosen) == 10
    assert chosen[0] == (12, 12, 12, 12)
    assert chosen[5] == (40, 40, 40, 40)
    assert chosen[6] == (40, 4, 12, 10)


def test_uniform_samples_that_coincide_are_kept_once():
    assert len(choose_bootstrap((4, 2, 1, 1, 34), (40,) * 5, uniform=35)) == 7 + 5


def test_a_floor_above_the_most_is_refused():
    with pytest.raises(ParameterError, match=r"floor within the most replicas \(3,\), got \(4,\)"):
        choose_bootstrap((4,), (3,), uniform=2)


def test_improvement_is_hoped_for_where_mean_or_doubt_is_great():
    expected = expect_improvement(
        np.array([0.5, 0.9, 0.5, 0.9]), np.array([0.1, 0.1, 0.4, 0.0]), best=0.7, margin=0.0
    )

    assert expected[1] > expected[2] > expected[0] > 0
    assert expected[3] == 0
    # Z = 2: 0.2 Phi(2) + 0.1 phi(2)
    assert expected[1] == pytest.approx(0.2 * 0.97725 + 0.1 * 0.05399, rel=1e-4)


def test_a_process_goes_through_its_samples_and_doubts_what_is_far():
    rng = np.random.default_rng(3)
    inputs = rng.random((25, 2))
    values = np.sin(3 * inputs[:, 0]) + inputs[:, 1] ** 2

    model = fit(inputs, values)

    at_samples, sure = model.predict(inputs)
    fresh = rng.random((50, 2))
    between, _ = model.predict(fresh)
    _, unsure = model.predict(np.array([[9.0, 9.0]]))
    assert at_samples == pytest.approx(values, abs=1e-2)
    assert between == pytest.approx(np.sin(3 * fresh[:, 0]) + fresh[:, 1] ** 2, abs=0.15)
    assert unsure[0] > 10 * sure.max()


def test_a_process_of_equal_values_predicts_them():
    model = fit(np.array([[0.1], [0.9]]), np.array([0.7, 0.7]))

    mean, deviation = model.predict(np.array([[0.5]]))

    assert mean[0] == pytest.approx(0.7)
    assert deviation[0] > 0


def test_a_small_omega_is_looked_at_whole_and_a_large_one_in_part():
    small = draw_candidates(
        (1, 2), (3, 4), best=(1, 2), without=frozenset({(1, 2)}), rng=np.random.default_rng(1)
    )
    large = draw_candidates(
        (1,) * 5, (40,) * 5, best=(20,) * 5, without=frozenset(), rng=np.random.default_rng(1)
    )

    assert len(small) == 3 * 3 - 1
    assert 5000 < len(large) <= 6000
    assert large.min() == 1
    assert large.max() == 40


@pytest.mark.parametrize(
    ("name", "value"), [("alpha", 1.5), ("runs", 0), ("beta", -1.0), ("catch_up", 0.0)]
)
def test_a_setting_out_of_range_is_refused_by_name(name, value):
    with pytest.raises(ParameterError, match=f"Expected {name} "):
        AutrascaleSettings(**{name: value})
