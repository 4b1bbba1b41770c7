from __future__ import annotations

import pytest

from weir_operator.errors import PermanentError
from weir_operator.metrics.names import mangle
from weir_operator.metrics.values import JobLayout, OperatorLayout


def test_an_unknown_feeder_is_refused():
    operators = {"out": OperatorLayout(replicas=(), upstream=("match",))}

    with pytest.raises(PermanentError, match=r"'out'.*'match'"):
        JobLayout(job_id="job1", operators=operators)


def test_a_circle_is_refused():
    operators = {
        "a": OperatorLayout(replicas=(), upstream=("b",)),
        "b": OperatorLayout(replicas=(), upstream=("a",)),
    }

    with pytest.raises(PermanentError):
        JobLayout(job_id="job1", operators=operators)


def test_names_are_mangled_as_flink_does_it():
    assert mangle("trips/match-0.a:b_c") == "trips_match_0_a:b_c"
