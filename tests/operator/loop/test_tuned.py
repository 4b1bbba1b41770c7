"""What a tuning's weights and budgets do to the managers, at whatever holds by then."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.operator.loop.test_application_manager import a_manager
from weir_operator.loop.arbitrate import BudgetSharing, fit_budgets
from weir_policies.model.dataflow import Dataflow, Edge
from weir_policies.model.node_types import Deployment
from weir_policies.policy import CostWeights, Tuning
from weir_policies.testing import a_model
from weir_simulator.experiment import Objective

DIAMOND = Dataflow(
    operators=("a", "b", "c", "d"),
    edges=(
        Edge(source="a", target="b"),
        Edge(source="a", target="c"),
        Edge(source="b", target="d"),
        Edge(source="c", target="d"),
    ),
)
PAIR = Dataflow(operators=("match", "count"), edges=(Edge(source="match", target="count"),))
MIN_BUDGETS = dict.fromkeys(DIAMOND.operators, 0.01)
SHARED = dict.fromkeys(DIAMOND.operators, 0.1)


def fitted(wished, *, bound=0.5, sink_bounds=None):
    budgets = fit(wished, bound=bound, sink_bounds=sink_bounds or {})
    assert budgets is not None
    return budgets


def fit(wished, *, bound=0.5, sink_bounds):
    return fit_budgets(
        wished, SHARED, least=MIN_BUDGETS, dataflow=DIAMOND, bound=bound, sink_bounds=sink_bounds
    )


def test_budgets_that_fit_are_taken_as_they_were_tuned():
    wished = {"a": 0.1, "b": 0.3, "c": 0.05, "d": 0.08}

    assert fitted(wished) == pytest.approx(wished)


@given(
    wished=st.fixed_dictionaries(
        {name: st.floats(0.011, 3.0) for name in DIAMOND.operators},
    ),
    bound=st.floats(0.05, 1.0),
)
def test_whatever_was_tuned_no_path_gets_more_than_the_bound_nor_an_operator_too_little(
    wished, bound
):
    budgets = fitted(wished, bound=bound)

    assert DIAMOND.response_time(budgets) <= bound * (1 + 1e-9)
    assert all(budgets[name] > MIN_BUDGETS[name] for name in budgets)


def test_a_tighter_bound_of_one_sink_holds_too():
    wished = {"a": 0.1, "b": 0.1, "c": 0.1, "d": 0.1}

    budgets = fitted(wished, sink_bounds={"d": 0.15})

    assert DIAMOND.response_time(budgets) <= 0.15 * (1 + 1e-9)


def test_a_budget_below_what_the_operator_needs_now_is_not_to_be_had():
    assert fit({"a": 0.1, "b": 0.009}, sink_bounds={}) is None


def test_what_is_not_tuned_keeps_its_share_and_the_tuned_part_gives_way():
    budgets = fitted({"b": 0.4, "c": 0.4}, bound=0.5)

    assert budgets["a"] == budgets["d"] == 0.1
    assert budgets["b"] == pytest.approx(0.3)


def test_a_tuning_that_fits_is_shared():
    sharing = BudgetSharing(Objective(response_time=0.5))
    managers = {"match": a_manager("match"), "count": a_manager("count")}
    sharing.tuned = Tuning(weights=CostWeights(), budgets={"match": 0.4, "count": 0.1})

    after, _ = sharing.share(PAIR, managers)

    assert after == pytest.approx({"match": 0.4, "count": 0.1})


def test_a_tuned_budget_that_fits_no_more_falls_back_to_the_share():
    sharing = BudgetSharing(Objective(response_time=0.5))
    managers = {"match": a_manager("match", service_mean=0.05), "count": a_manager("count")}
    untuned = sharing.share(PAIR, managers)
    sharing.tuned = Tuning(weights=CostWeights(), budgets={"match": 0.001, "count": 0.1})

    assert sharing.share(PAIR, managers) == untuned


def test_a_fixed_operator_takes_no_part_in_a_tuning():
    one = Deployment((1, *(0 for _ in a_model().node_types[1:])))
    managers = {"match": a_manager("match", fixed=one), "count": a_manager("count")}
    sharing = BudgetSharing(Objective(response_time=0.5))
    naive = sharing.share(PAIR, managers)[0]
    sharing.tuned = Tuning(weights=CostWeights(), budgets={"match": 0.4, "count": 0.1})

    budgets = sharing.share(PAIR, managers)[0]

    assert budgets["match"] == naive["match"]
    assert budgets["count"] == pytest.approx(0.1)


async def test_tuned_weights_and_budgets_hold_from_the_next_decision_on(stage_of):
    stage = await stage_of().started()
    [before] = await stage.ticks(1)
    weights = CostWeights(violation=0.9, resources=0.05, reconfiguration=0.05)

    stage.am.sharing.tuned = Tuning(weights=weights, budgets={"match": 0.1})
    [after] = await stage.ticks(1)

    assert before.proposals["match"].observation.weights == CostWeights()
    assert after.proposals["match"].observation.weights == weights
    assert after.proposals["match"].observation.budget == pytest.approx(0.1)
