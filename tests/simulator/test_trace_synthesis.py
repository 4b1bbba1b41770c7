"""The made-up traces against the published statistics of the real ones.

Source of the numbers: the traces published with the simulator of Russo Russo, Cardellini, Lo
Presti, ACM TAAS 2023.
"""

import numpy as np
import pytest

from weir_simulator.errors import TraceError
from weir_simulator.traces import TraceKind, describe, synthesise

SEEDS = (1, 2, 3)


@pytest.fixture(scope="module", params=SEEDS)
def taxi(request):
    return synthesise(TraceKind.TAXI, slots=525_533, rng=np.random.default_rng(request.param))


@pytest.fixture(scope="module", params=SEEDS)
def tweets(request):
    return synthesise(TraceKind.TWEETS, slots=242_960, rng=np.random.default_rng(request.param))


def test_taxi_has_the_published_mean_deviation_and_quantiles(taxi):
    statistics = describe(taxi)

    assert statistics.mean == pytest.approx(329.5, rel=0.05)
    assert statistics.standard_deviation == pytest.approx(150.9, rel=0.1)
    published = {0.01: 40, 0.05: 59, 0.25: 219, 0.5: 364, 0.75: 435, 0.95: 546, 0.99: 593}
    for probability, rate in published.items():
        assert statistics.quantiles[probability] == pytest.approx(rate, rel=0.1)


def test_taxi_moves_as_smoothly_as_the_real_one(taxi):
    statistics = describe(taxi)

    assert statistics.mean_step == pytest.approx(19.9, rel=0.05)
    assert statistics.zero_share == 0
    published = {1: 0.985, 10: 0.979, 60: 0.885, 1440: 0.799, 10080: 0.911}
    tolerance = {1: 0.005, 10: 0.005, 60: 0.02, 1440: 0.08, 10080: 0.05}
    for lag, value in published.items():
        assert statistics.autocorrelations[lag] == pytest.approx(value, abs=tolerance[lag])


def test_taxi_has_the_published_day_and_week(taxi):
    weeks = taxi[: 52 * 7 * 1440].reshape(52, 7, 24, 60)

    by_hour = weeks.mean(axis=(0, 1, 3))
    by_day = weeks.mean(axis=(0, 2, 3))

    published_hours = [216, 156, 117, 89, 132, 216, 293, 345, 358, 365, 381, 377]
    published_hours += [389, 382, 342, 360, 433, 478, 480, 474, 457, 422, 363, 285]
    assert by_hour == pytest.approx(published_hours, rel=0.1)
    assert by_day == pytest.approx([326, 336, 346, 360, 351, 288, 300], rel=0.07)


def test_tweets_has_the_published_mean_and_deviation_within_what_days_add(tweets):
    statistics = describe(tweets)

    assert statistics.mean == pytest.approx(2218, rel=0.15)
    assert statistics.standard_deviation == pytest.approx(1439.5, rel=0.15)
    assert statistics.quantiles[0.5] == pytest.approx(2570, rel=0.2)


def test_tweets_is_as_bursty_as_the_real_one(tweets):
    statistics = describe(tweets)

    assert statistics.zero_share == pytest.approx(0.068, abs=0.01)
    assert statistics.mean_step == pytest.approx(342, rel=0.1)
    published = {1: 0.900, 10: 0.316, 60: 0.559, 1440: 0.306, 10080: 0.346}
    tolerance = {1: 0.03, 10: 0.15, 60: 0.15, 1440: 0.25, 10080: 0.2}
    for lag, value in published.items():
        assert statistics.autocorrelations[lag] == pytest.approx(value, abs=tolerance[lag])


@pytest.mark.parametrize("kind", TraceKind)
def test_equal_seeds_give_equal_traces_and_others_do_not(kind):
    first, second, other = (
        synthesise(kind, slots=500, rng=np.random.default_rng(seed)) for seed in (4, 4, 5)
    )

    assert first.tolist() == second.tolist()
    assert first.tolist() != other.tolist()


@pytest.mark.parametrize("kind", TraceKind)
@pytest.mark.parametrize("slots", [1, 7, 1439, 1441])
def test_a_made_up_trace_has_the_length_asked_for(kind, slots):
    trace = synthesise(kind, slots=slots, rng=np.random.default_rng(1))

    assert trace.shape == (slots,)
    assert (trace >= 0).all()


def test_a_trace_without_slots_is_refused():
    with pytest.raises(TraceError, match="slots is 0"):
        synthesise(TraceKind.TAXI, slots=0, rng=np.random.default_rng(1))
