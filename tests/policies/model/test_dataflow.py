import itertools
import math

import numpy as np
import pytest

from weir_policies.errors import DataflowError
from weir_policies.model.dataflow import Dataflow, Edge

# Records fork behind `parse`; `alert` is reached by both branches, `archive` by one.
FORK = Dataflow(
    operators=("source", "parse", "match", "count", "alert", "archive"),
    edges=(
        Edge(source="source", target="parse"),
        Edge(source="parse", target="match", selectivity=0.5),
        Edge(source="parse", target="count", selectivity=2.0),
        Edge(source="match", target="alert"),
        Edge(source="count", target="alert", selectivity=0.1),
        Edge(source="count", target="archive"),
    ),
)
TIMES = {"source": 1.0, "parse": 2.0, "match": 9.0, "count": 3.0, "alert": 1.0, "archive": 8.0}


def chain(*names):
    edges = tuple(Edge(source=one, target=other) for one, other in itertools.pairwise(names))
    return Dataflow(operators=names, edges=edges)


def test_every_path_runs_from_a_source_to_a_sink():
    paths = list(FORK.paths())

    assert paths == [
        ("source", "parse", "match", "alert"),
        ("source", "parse", "count", "alert"),
        ("source", "parse", "count", "archive"),
    ]
    assert FORK.sources == ("source",)
    assert FORK.sinks == ("alert", "archive")


def test_the_response_time_is_the_sum_over_the_slowest_path():
    response_time = FORK.response_time(TIMES)

    assert response_time == 1 + 2 + 3 + 8
    assert FORK.longest_path(TIMES) == ("source", "parse", "count", "archive")


def test_an_unknown_time_makes_the_response_time_unknown():
    assert math.isnan(FORK.response_time(TIMES | {"match": math.nan}))


def test_the_longest_path_through_an_operator_is_told_for_each():
    through = FORK.longest_through(TIMES)

    assert through == {
        "source": 14.0,
        "parse": 14.0,
        "match": 13.0,
        "count": 14.0,
        "alert": 13.0,
        "archive": 14.0,
    }


def test_rates_spread_with_the_selectivities():
    rates = FORK.spread_rates({"source": 100.0})

    assert rates == {
        "source": 100.0,
        "parse": 100.0,
        "match": 50.0,
        "count": 200.0,
        "alert": 50.0 + 20.0,
        "archive": 200.0,
    }


def test_what_leads_to_a_sink_is_its_own_dataflow():
    part = FORK.leading_to("archive")

    assert part.operators == ("source", "parse", "count", "archive")
    assert list(part.paths()) == [("source", "parse", "count", "archive")]


def test_one_operator_without_edges_is_a_dataflow():
    alone = Dataflow(operators=("job",))

    assert list(alone.paths()) == [("job",)]
    assert alone.response_time({"job": 0.2}) == 0.2


def test_forty_diamonds_in_a_row_are_measured_without_listing_their_paths():
    names = [f"{part}{place}" for place in range(40) for part in ("in", "left", "right", "out")]
    edges = []
    for place in range(40):
        for side in ("left", "right"):
            edges.append(Edge(source=f"in{place}", target=f"{side}{place}"))
            edges.append(Edge(source=f"{side}{place}", target=f"out{place}"))
        if place:
            edges.append(Edge(source=f"out{place - 1}", target=f"in{place}"))
    flow = Dataflow(operators=tuple(names), edges=tuple(edges))

    assert flow.response_time(dict.fromkeys(names, 1.0)) == 120.0


@pytest.mark.parametrize(
    ("operators", "edges", "complaint"),
    [
        ((), (), "at least one operator"),
        (("a", "a"), (), r"distinct operators, got \['a'\]"),
        (("a",), (Edge(source="a", target="b"),), "got 'b'"),
        (("a", "b"), (Edge(source="a", target="b"),) * 2, "distinct edges"),
        (("a", "b"), (Edge(source="a", target="b", selectivity=-1.0),), "selectivity >= 0"),
        (("a", "b"), (Edge(source="a", target="b", selectivity=math.nan),), "selectivity >= 0"),
        (
            ("a", "b"),
            (Edge(source="a", target="b"), Edge(source="b", target="a")),
            "no cycle, got",
        ),
    ],
    ids=["empty", "operator twice", "unknown", "edge twice", "negative", "nan", "cycle"],
)
def test_what_is_no_dataflow_is_refused_by_name(operators, edges, complaint):
    with pytest.raises(DataflowError, match=complaint):
        Dataflow(operators=operators, edges=edges)


def test_a_source_without_a_rate_is_refused():
    with pytest.raises(DataflowError, match="every source, got none for"):
        chain("a", "b").spread_rates({"b": 1.0})


def test_a_graph_without_an_operator_joins_its_feeders_to_its_followers():
    flow = Dataflow(
        operators=("source", "match", "count", "sink"),
        edges=(
            Edge(source="source", target="match", selectivity=0.5),
            Edge(source="source", target="count", selectivity=0.25),
            Edge(source="match", target="count", selectivity=3.0),
            Edge(source="count", target="sink"),
        ),
    )

    joined = flow.without(["match", "sink"])

    assert joined is not None
    assert joined.operators == ("source", "count")
    assert joined.edges == (Edge(source="source", target="count", selectivity=1.75),)
    assert (
        joined.spread_rates({"source": 8.0})["count"] == flow.spread_rates({"source": 8.0})["count"]
    )
    assert flow.without(flow.operators) is None


def test_many_response_times_are_each_the_sum_over_its_slowest_path():
    flow = Dataflow(
        operators=("a", "b", "c", "d"),
        edges=tuple(Edge(source=x, target=y) for x, y in ("ab", "ac", "bd")),
    )
    times = {
        "a": np.array([1.0, 2.0, 1.0]),
        "b": np.array([2.0, 1.0, math.nan]),
        "c": np.array([9.0, 2.0, 1.0]),
        "d": np.array([3.0, 4.0, 1.0]),
    }

    together = flow.response_times(times)

    one_by_one = [
        flow.response_time({name: each[slot] for name, each in times.items()}) for slot in range(3)
    ]
    assert together.tolist() == pytest.approx(one_by_one, nan_ok=True)
