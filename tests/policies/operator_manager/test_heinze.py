import numpy as np
import pytest

from weir_policies import registry
from weir_policies.model.node_types import Deployment
from weir_policies.testing import a_transition, an_observation


def build(name="heinze-cheapest", **parameters):
    return registry.build(name, rng=np.random.default_rng(7), parameters=parameters)


def at(busy, counts=(2, 0, 0), **changes):
    deployment = Deployment(counts)
    return an_observation(deployment=deployment, utilisation=(busy,) * deployment.size, **changes)


@pytest.mark.parametrize(
    ("busy", "target"),
    [(0.9, (3, 0, 0)), (0.5, (2, 0, 0)), (0.2, (1, 0, 0))],
    ids=["above the aim one more", "near it stay", "below half of it one less"],
)
def test_it_begins_with_the_rule_of_a_threshold(busy, target):
    assert build().decide(at(busy)).target == Deployment(target)


def test_what_joins_is_the_chosen_type_and_what_leaves_is_the_oldest():
    fastest = build("heinze-fastest")

    joined = fastest.decide(at(0.9, (2, 0, 0)))
    left = fastest.decide(at(0.1, (1, 1, 1), replica_ages=(10.0, 900.0, 50.0)))

    assert joined.target == Deployment((2, 0, 1))
    assert left.target == Deployment((1, 0, 1))


def test_an_action_that_leads_away_from_the_aim_is_unlearned():
    policy = build(alpha=1.0)
    taught = at(0.9, (2, 0, 0))
    for _ in range(40):  # scaling out at 90 % is answered by 10 % again and again
        policy.learn(a_transition(taught, at(0.1, (3, 0, 0))))

    decision = policy.decide(taught)

    assert decision.target != Deployment((3, 0, 0))


def test_a_full_operator_stays():
    assert build().decide(at(0.99, (10, 0, 0))).target == Deployment((10, 0, 0))
