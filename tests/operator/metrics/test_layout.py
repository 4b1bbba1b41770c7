from __future__ import annotations

import pytest

from tests.operator.metrics.builders import a_layout
from weir_operator.errors import PermanentError
from weir_operator.metrics.layout import JobLayout, OperatorLayout
from weir_operator.metrics.names import mangle


def test_sources_are_fed_by_nothing_and_sinks_feed_nothing():
    layout = a_layout()

    assert layout.sources == ("gen",)
    assert layout.sinks == ("out",)
    assert layout.downstream()["gen"] == ("match",)


def test_a_job_of_a_single_operator_is_source_and_sink():
    layout = JobLayout(job_id="job1", operators={"job": OperatorLayout(replicas=())})

    assert layout.sources == layout.sinks == ("job",)


def test_an_operator_comes_after_everything_that_feeds_it():
    upstream = {"join": ("left", "right"), "left": ("gen",), "right": ("gen",), "gen": ()}
    layout = JobLayout(
        job_id="job1",
        operators={
            name: OperatorLayout(replicas=(), upstream=feeders)
            for name, feeders in upstream.items()
        },
    )

    order = layout.order

    assert order[0] == "gen"
    assert order[-1] == "join"
    assert set(order) == set(upstream)


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
