from dataclasses import astuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from weir_policies.application_manager.budgets import share_equally
from weir_policies.application_manager.search.space import Space
from weir_policies.model.dataflow import Dataflow, Edge
from weir_policies.policy import CostWeights, Tuning

CHAIN = (("a", "b"), ("b", "c"))
DIAMOND = (("a", "b"), ("a", "c"), ("b", "d"), ("c", "d"))
TREE = (("a", "b"), ("b", "c"), ("a", "d"))


def a_space(edges, bound=0.05, sink_bounds=None):
    names = tuple(dict.fromkeys(name for edge in edges for name in edge))
    flow = Dataflow(operators=names, edges=tuple(Edge(source=a, target=b) for a, b in edges))
    return Space(flow, bound, sink_bounds=sink_bounds or {})


def coordinates(dimensions):
    return arrays(np.float64, dimensions, elements=st.floats(0, 1))


@pytest.mark.parametrize("edges", [CHAIN, DIAMOND, TREE])
@given(data=st.data())
def test_no_point_leaves_the_bound_over_any_path_and_every_operator_has_a_budget(edges, data):
    space = a_space(edges)
    point = data.draw(coordinates(space.dimensions))

    tuned = space.decode(point)

    assert all(budget > 0 for budget in tuned.budgets.values())
    assert space.dataflow.response_time(tuned.budgets) <= space.bound * (1 + 1e-9)
    assert sum(astuple(tuned.weights)) == pytest.approx(1)
    assert min(astuple(tuned.weights)) > 0


@pytest.mark.parametrize(
    ("edges", "sinks"),
    [(TREE, {"d": 0.01}), (TREE, {"c": 0.03, "d": 0.01}), (DIAMOND, {"c": 0.02})],
)
@given(data=st.data())
def test_no_point_leaves_the_bound_of_a_single_sink(edges, sinks, data):
    space = a_space(edges, sink_bounds=sinks)
    point = data.draw(coordinates(space.dimensions))

    budgets = space.decode(point).budgets

    assert all(budget > 0 for budget in budgets.values())
    assert space.dataflow.response_time(budgets) <= space.bound * (1 + 1e-9)
    for sink, bound in sinks.items():
        assert space.dataflow.leading_to(sink).response_time(budgets) <= bound * (1 + 1e-9)


def test_the_tight_bound_of_one_sink_leaves_the_others_what_they_had():
    tuned = a_space(TREE, sink_bounds={"d": 0.01}).decode(np.full(4, 0.5)).budgets

    assert tuned["a"] + tuned["d"] == pytest.approx(0.01)
    assert tuned["a"] + tuned["b"] + tuned["c"] == pytest.approx(0.05)


@pytest.mark.parametrize("edges", [CHAIN, DIAMOND])
def test_the_middle_is_the_naive_baseline(edges):
    space = a_space(edges)

    tuned = space.decode(np.full(space.dimensions, 0.5))

    assert astuple(tuned.weights) == pytest.approx((1 / 3, 1 / 3, 1 / 3))
    assert tuned.budgets == pytest.approx(share_equally(space.dataflow, space.bound))


@given(point=coordinates(4))
def test_on_a_chain_a_point_survives_decoding_and_encoding(point):
    space = a_space(CHAIN)

    again = space.encode(space.decode(point))

    assert again == pytest.approx(point, abs=1e-6)


def test_weights_beyond_the_cube_are_encoded_at_its_edge():
    space = a_space(CHAIN)

    point = space.encode(
        Tuning(
            weights=CostWeights(violation=1.0, resources=0.0, reconfiguration=0.0),
            budgets={"a": 0.02, "b": 0.02, "c": 0.01},
        )
    )

    assert point[0] == 1.0
    assert ((point >= 0) & (point <= 1)).all()


def test_a_budget_above_what_a_path_has_left_is_encoded_within_the_cube():
    space = a_space(CHAIN)

    point = space.encode(
        Tuning(
            weights=CostWeights(violation=1, resources=1, reconfiguration=1),
            budgets={"a": 0.5, "b": 0.5, "c": 0.5},
        )
    )

    assert space.dataflow.response_time(space.decode(point).budgets) <= space.bound * (1 + 1e-9)


def test_an_operator_alone_has_the_whole_bound_and_no_coordinate():
    space = Space(Dataflow(operators=("op",)), 0.05)

    tuned = space.decode(np.array([0.2, 0.9]))

    assert space.dimensions == 2
    assert tuned.budgets == {"op": pytest.approx(0.05)}
