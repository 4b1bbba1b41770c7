"""What AuTraScale+ is compared with: in proportion, doubled, and by DRS."""

from __future__ import annotations

import pytest

from benchmarks.papers.autrascale_baselines import allocate, double, scale_in_proportion, sojourn


def test_proportion_and_exponent_stop_at_the_most():
    assert scale_in_proportion((2, 5), throughput=10.0, wanted=25.0, most=(9, 9)) == (5, 9)
    assert double((2, 5), (9, 9)) == (4, 9)


def test_drs_adds_where_the_sojourn_time_falls_most():
    # M/M/3 at load 2.5 takes 24 ms, M/M/4 12 ms; the other operator is hardly used.
    assert sojourn(250.0, 100.0, 3) == pytest.approx(0.024, abs=1e-3)
    assert allocate((250.0, 250.0), (100.0, 10_000.0), bound=0.015, most=(9, 9)) == (4, 1)


def test_drs_gives_up_where_no_replica_helps():
    assert allocate((250.0,), (100.0,), bound=0.001, most=(5,)) == (5,)
