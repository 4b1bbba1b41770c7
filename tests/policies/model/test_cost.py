import pytest

from weir_policies.errors import DeploymentError, ParameterError
from weir_policies.model.cost import (
    kind_of_change,
    normalised_cost,
    price_per_hour,
)
from weir_policies.model.node_types import Deployment
from weir_policies.policy import ChangeKind, CostWeights
from weir_policies.testing import NODE_TYPES


def test_a_deployment_costs_the_sum_of_its_replicas():
    assert price_per_hour(Deployment((1, 2, 3)), NODE_TYPES) == pytest.approx(0.02 + 0.08 + 0.15)


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


def test_negative_weights_are_refused():
    with pytest.raises(ParameterError, match="weights >= 0"):
        CostWeights(violation=-0.1)


def test_counts_of_other_node_types_are_refused():
    with pytest.raises(DeploymentError, match="3 node types"):
        kind_of_change(Deployment((1, 1)), Deployment((1, 1)), NODE_TYPES)
