import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weir_policies.application_manager.budgets import (
    BUSY,
    profile_budgets,
    share_budgets,
    share_equally,
    spread_spare,
)
from weir_policies.errors import InfeasibleObjectiveError, ParameterError
from weir_policies.model.dataflow import Dataflow, Edge
from weir_policies.model.node_types import NodeType
from weir_policies.testing import a_model

# The "complex" application of the 2023 paper: paths of three, three and two operators.
COMPLEX = Dataflow(
    operators=("1", "2", "3", "4", "5"),
    edges=(
        Edge(source="1", target="2"),
        Edge(source="2", target="3"),
        Edge(source="2", target="4"),
        Edge(source="1", target="5"),
    ),
)
BOUND = 0.3


def on_path(budgets, path):
    return sum(budgets[name] for name in path)


@st.composite
def dataflows(draw):
    count = draw(st.integers(1, 7))
    names = tuple(f"op{place}" for place in range(count))
    pairs = [(a, b) for a in range(count) for b in range(a + 1, count)]
    drawn = draw(st.lists(st.sampled_from(pairs), unique=True)) if pairs else []
    edges = tuple(Edge(source=names[a], target=names[b]) for a, b in drawn)
    return Dataflow(operators=names, edges=edges)


def test_equal_quotas_follow_the_longest_path_through_each_operator():
    quotas = share_equally(COMPLEX, BOUND)

    assert quotas == pytest.approx({"1": 0.1, "2": 0.1, "3": 0.1, "4": 0.1, "5": 0.15})


def test_spare_time_goes_to_the_operators_that_no_exhausted_path_holds_back():
    budgets = spread_spare(COMPLEX, BOUND, share_equally(COMPLEX, BOUND))

    assert budgets == pytest.approx({"1": 0.1, "2": 0.1, "3": 0.1, "4": 0.1, "5": 0.2})


@given(flow=dataflows(), floors=st.lists(st.floats(0, 0.03), min_size=7, max_size=7))
def test_no_path_is_given_more_than_the_bound_and_every_operator_is_on_one_that_uses_it(
    flow, floors
):
    minimum = dict(zip(flow.operators, floors, strict=False))

    budgets = share_budgets(flow, BOUND, least=minimum)

    longest = max(on_path(budgets, path) for path in flow.paths())
    assert longest <= BOUND * (1 + 1e-9)
    assert all(budgets[name] >= minimum[name] for name in flow.operators)
    through = flow.longest_through(budgets)
    assert all(length == pytest.approx(BOUND, rel=1e-6) for length in through.values())


def test_three_quarters_of_the_spare_time_go_by_the_time_that_an_operator_cannot_do_without():
    minimum = {"1": 0.15, "2": 0.01, "3": 0.01, "4": 0.01, "5": 0.01}

    budgets = share_budgets(COMPLEX, BOUND, least=minimum)

    spare = BOUND - 0.17
    assert budgets["1"] == pytest.approx(0.15 + spare * (0.25 / 3 + 0.75 * 0.15 / 0.17))
    assert budgets["3"] == pytest.approx(0.01 + spare * (0.25 / 3 + 0.75 * 0.01 / 0.17))


def test_without_least_times_the_quotas_are_equal():
    assert share_budgets(COMPLEX, BOUND)["1"] == pytest.approx(BOUND / 3)


def test_an_objective_below_the_service_times_is_refused_with_the_least_possible_bound():
    minimum = dict.fromkeys(COMPLEX.operators, 0.02)

    with pytest.raises(InfeasibleObjectiveError, match=r"more than 60\.0 ms .* 1 -> 2 ") as refused:
        share_budgets(COMPLEX, 0.05, least=minimum)

    assert refused.value.least == pytest.approx(0.06)


def test_a_tighter_bound_for_one_sink_tightens_only_what_leads_to_it():
    budgets = share_budgets(COMPLEX, BOUND, sink_bounds={"5": 0.1})

    assert budgets["1"] + budgets["5"] <= 0.1 * (1 + 1e-9)
    assert budgets["2"] == pytest.approx(0.1)


@pytest.mark.parametrize("bound", [0.0, -1.0, math.nan, math.inf])
def test_a_bound_that_is_no_time_is_refused(bound):
    with pytest.raises(ParameterError, match="above 0 s"):
        share_budgets(COMPLEX, bound)


def test_a_bound_for_what_is_no_operator_is_refused():
    with pytest.raises(ParameterError, match="got 'alerts'"):
        share_budgets(COMPLEX, BOUND, sink_bounds={"alerts": 0.1})


def test_equal_quotas_keep_the_bound_of_a_single_sink():
    quotas = share_equally(COMPLEX, BOUND, sink_bounds={"5": 0.06})

    assert COMPLEX.leading_to("5").response_time(quotas) == pytest.approx(0.06)
    assert COMPLEX.response_time(quotas) <= BOUND * (1 + 1e-9)


ONE_TYPE = {"node_types": (NodeType(name="t1", pool="p1", speedup=1.0, price=1.0),)}
A, B, SLOW = (
    a_model(name=name, service_mean=mean, service_scv=1.0, max_replicas=6, keyed=True, **ONE_TYPE)
    for name, mean in (("a", 0.001), ("b", 0.005), ("a", 0.06))
)


def test_profiled_budgets_are_the_times_at_the_load_that_brings_the_path_to_the_bound():
    flow = Dataflow(operators=("a", "b"), edges=(Edge(source="a", target="b"),))

    budgets = profile_budgets(flow, [A, B], 0.05, rate=200.0)

    # Two replicas of b are 50 % busy, one would be 100 %. Both are M/M/1 queues of one load.
    load = (1 / 0.001) - 1 / budgets["a"]
    assert sum(budgets.values()) == pytest.approx(0.05, rel=1e-3)
    assert budgets["b"] == pytest.approx(1 / (1 / 0.005 - load / 2), rel=1e-3)
    assert load > 2 * BUSY / 0.005


def test_a_bound_that_no_load_meets_cannot_be_profiled():
    flow = Dataflow(operators=("a",), edges=())

    with pytest.raises(InfeasibleObjectiveError):
        profile_budgets(flow, [SLOW], 0.05, rate=1.0)
