"""`ql-edf`: hand-computed updates, denied proposals, scores, and a problem that it learns."""

import math

import numpy as np
import pytest

from tests.policies.operator_manager.learner import (
    LEVELS,
    MORE,
    SETTINGS,
    STAY,
    Learner,
    at,
    interval,
    live,
)
from weir_policies import registry
from weir_policies.model.node_types import Deployment
from weir_policies.operator_manager.q_learning_edf import EdfQLearningMemory
from weir_policies.policy import NEEDED


def test_an_update_moves_the_action_by_a_constant_part_of_the_error():
    learner = Learner("ql-edf", EdfQLearningMemory, gamma=0.5)

    for _ in range(2):
        learner.learn(at(120.0, 1), at(220.0, 2), violation=1.0, resources=0.5)

    # Weights 0.6, 0.2, 0.2; nothing is known of what follows.
    cost = 0.2 + 0.6 + 0.1
    assert learner.value(1, 1, MORE) == pytest.approx(0.1 * cost + 0.9 * 0.1 * cost)


def test_levels_are_the_nearest_multiples_and_the_highest_is_shared():
    learner = Learner("ql-edf", EdfQLearningMemory)

    for rate in (149.0, 151.0, 1000.0):
        learner.learn(at(rate, 1), at(50.0, 1), violation=1.0)

    assert [learner.value(level, 1, STAY) > 0 for level in range(LEVELS)] == [
        False,
        True,
        True,
        True,
    ]


def test_a_denied_proposal_is_learned_as_proposed_and_pays_for_the_reconfiguration():
    learner = Learner("ql-edf", EdfQLearningMemory)

    learner.learn(at(100.0, 1), at(100.0, 1), 2, resources=0.5)

    assert learner.value(1, 1, MORE) == pytest.approx(0.1 * (0.2 + 0.1))
    assert learner.value(1, 1, STAY) == 0.0


def test_an_interval_of_unknown_cost_teaches_nothing():
    learner = Learner("ql-edf", EdfQLearningMemory)

    learner.learn(at(100.0, 1), at(100.0, 1), violation=math.nan)

    assert not learner.own.values.any()


def test_it_explores_with_a_constant_probability():
    learner = Learner("ql-edf", EdfQLearningMemory, epsilon=0.2)
    for _ in range(20):
        learner.learn(at(50.0, 2), at(50.0, 2))

    explored = {learner.decide(0.1, drawn) for drawn in (0.0, 0.34, 0.67, 0.99)}
    greedy = {learner.decide(0.3, drawn) for drawn in (0.0, 0.34, 0.67, 0.99)}

    assert explored == {1, 2, 3}
    assert greedy == {2}


@pytest.mark.parametrize("violation", [0.0, 1.0])
def test_the_urgency_of_a_change_is_its_gain_against_the_greatest_so_far(violation):
    policy = registry.build(
        "ql-edf",
        rng=np.random.default_rng(7),
        parameters={**SETTINGS, "epsilon": 0.0, "alpha": 1.0, "gamma": 0.0},
    )
    policy.learn(interval(at(100.0, 2), at(100.0, 2), violation=violation, resources=0.5))
    policy.learn(interval(at(100.0, 2), at(100.0, 2), 1, resources=0.5, violation=1.0))

    decision = policy.decide(at(100.0, 2))

    # Staying cost 0.1 or 0.7, asking for less 0.9, asking for more nothing yet.
    assert decision.target == Deployment((3,))
    assert decision.urgency == pytest.approx(NEEDED + (1 - NEEDED) * (0.7 if violation else 0.1))


def test_it_learns_how_many_replicas_a_steady_rate_needs():
    policy = registry.build(
        "ql-edf", rng=np.random.default_rng(7), parameters={**SETTINGS, "gamma": 0.9}
    )

    sizes = live(policy, [230.0] * 3000)

    assert np.mean(np.array(sizes[-500:]) == 3) > 0.8
