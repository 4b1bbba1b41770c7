from __future__ import annotations

import math

import pytest

from weir_operator.metrics.rates import bound_of, quantile

INF = math.inf


def test_a_bucket_that_fell_behind_a_smaller_one_is_read_as_equal_to_it():
    # Replicas are scraped at different moments.
    assert quantile(0.5, {100.0: 60.0, 200.0: 58.0, INF: 100.0}) == pytest.approx(250 / 3)


@pytest.mark.parametrize(
    ("label", "bound"),
    [("10", 10.0), ("10.0", 10.0), ("2_5", 2.5), ("_Inf", INF), ("+Inf", INF), ("Inf", INF)],
)
def test_a_bound_is_read_as_flink_and_as_prometheus_write_it(label, bound):
    assert bound_of(label) == bound


def test_a_label_that_is_no_bound_is_not_taken_for_one():
    assert math.isnan(bound_of("fast"))
    assert math.isnan(bound_of(""))
