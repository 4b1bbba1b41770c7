from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from weir_policies.errors import DeploymentError, ParameterError, ShapeError
from weir_policies.model.cost import (
    find_restarts,
    kind_of_change,
    normalised_cost,
    price_deployments,
    price_per_hour,
    weighted_cost,
)
from weir_policies.model.deployments import enumerate_deployments
from weir_policies.model.node_types import Deployment
from weir_policies.policy import ChangeKind, CostParts, CostWeights
from weir_policies.testing import NODE_TYPES


def test_a_deployment_costs_the_sum_of_its_replicas():
    assert price_per_hour(Deployment((1, 2, 3)), NODE_TYPES) == pytest.approx(0.02 + 0.08 + 0.15)


def test_equal_costs_compare_equal_however_they_add_up():
    costs = price_deployments(np.array([[3, 0, 0], [1, 1, 0]]), NODE_TYPES)

    assert costs[0] == costs[1]


def test_the_normalised_cost_is_a_part_of_the_dearest_deployment():
    dearest = Deployment((0, 0, 10))

    assert normalised_cost(dearest, NODE_TYPES, max_replicas=10) == pytest.approx(1.0)
    assert normalised_cost(dearest, NODE_TYPES, max_replicas=10, dearest=0.1) == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("target", "kind"),
    [
        ((2, 1, 1), ChangeKind.NOTHING),
        ((0, 3, 1), ChangeKind.RESIZE),
        ((2, 1, 2), ChangeKind.RESCALE),
        ((2, 0, 2), ChangeKind.RESCALE),
    ],
    ids=["the same", "other sizes", "one more", "another pool"],
)
def test_only_other_counts_in_a_pool_need_a_restart(target, kind):
    assert kind_of_change(Deployment((2, 1, 1)), Deployment(target), NODE_TYPES) is kind


@given(st.integers(0, 33))
def test_many_changes_at_once_are_judged_as_one_by_one(row):
    deployments = enumerate_deployments(NODE_TYPES, max_replicas=4)
    current = Deployment(tuple(deployments[row].tolist()))
    one_by_one = [
        kind_of_change(current, Deployment(tuple(target)), NODE_TYPES) is ChangeKind.RESCALE
        for target in deployments.tolist()
    ]

    restarts = find_restarts(deployments, deployments[row], NODE_TYPES)

    assert restarts.tolist() == one_by_one


def test_an_interval_costs_its_weighted_parts():
    parts = CostParts(violation=1.0, resources=0.5, reconfiguration=1.0)

    cost = weighted_cost(parts, CostWeights(violation=0.6, resources=0.2, reconfiguration=0.2))

    assert cost == pytest.approx(0.6 + 0.1 + 0.2)


def test_negative_weights_are_refused():
    with pytest.raises(ParameterError, match="weights >= 0"):
        CostWeights(violation=-0.1)


def test_counts_of_other_node_types_are_refused():
    with pytest.raises(DeploymentError, match="3 node types"):
        kind_of_change(Deployment((1, 1)), Deployment((1, 1)), NODE_TYPES)
    with pytest.raises(ShapeError, match="shape"):
        price_deployments(np.array([[1, 1]]), NODE_TYPES)
