"""The ground truth for AuTraScale+: where its curves go, and what the figures ask of them."""

import numpy as np
import pytest

from benchmarks.papers.contention import ContendedApplication, word_count, yahoo

ONE_OPERATOR = ContendedApplication(
    base=np.array([150e3]), serial=np.array([0.25]), crosstalk=np.array([0.005])
)


def test_latency_falls_with_replicas_and_rises_again():
    truth = word_count()

    times = [truth.find_latency(each, 350e3) for each in [(3, 4, 12, 10), (20,) * 4, (40,) * 4]]

    assert times == pytest.approx([0.612, 0.129, 0.188], abs=1e-3)


def test_redundant_replicas_lower_the_throughput_on_shared_machines():
    truth = yahoo()

    assert truth.find_throughput((14, 5, 2, 7, 40)) == pytest.approx(60.5e3, rel=1e-3)
    assert truth.find_throughput((40,) * 5) == pytest.approx(52.3e3, rel=1e-3)


def test_a_backlog_grows_by_what_is_not_carried_and_goes_by_what_is_left():
    truth = ONE_OPERATOR

    grown = truth.work_off((2,), 300e3, 0.0, 60.0)
    gone = truth.work_off((6,), 300e3, grown, 600.0)

    assert grown == pytest.approx((300e3 - truth.find_throughput((2,))) * 60)
    assert gone == 0


def test_what_waits_is_taken_in_besides_what_arrives():
    truth = ONE_OPERATOR

    assert truth.measure((6,), 100e3).throughput == 100e3
    assert truth.measure((6,), 100e3, lag=1e6).throughput > 300e3


def test_a_measured_latency_scatters_by_two_per_cent():
    truth, rng = word_count(), np.random.default_rng(5)
    times = [truth.measure((20,) * 4, 350e3, rng=rng).latency for _ in range(400)]

    assert np.mean(times) == pytest.approx(truth.find_latency((20,) * 4, 350e3), rel=0.01)
    assert np.std(times) / np.mean(times) == pytest.approx(0.02, rel=0.2)
