"""Learning a model and backing up all of it, by hand on two replicas and two rate levels."""

from dataclasses import replace

import numpy as np
import pytest

from weir_policies import registry
from weir_policies.errors import ParameterError
from weir_policies.kernels.view import empty_view
from weir_policies.model.node_types import Deployment, NodeType
from weir_policies.operator_manager.full_backup import FullBackupPlan, find_score
from weir_policies.policy import NEEDED, CostParts, CostWeights, Transition
from weir_policies.testing import a_model, an_observation

ONE = (NodeType(name="small/1", pool="small", speedup=1.0, price=0.04),)
TWO = (NodeType(name="large/1", pool="large", speedup=2.0, price=0.09), *ONE)
# Levels at 0 and 100 records/s.
SETTINGS = {"levels": 2, "max_rate": 200, "alpha": 0.5, "gamma": 0.5}
MINIMUM, WITHOUT_MOVING, VIOLATED = "values", "expected", "unknown"
"""Tables of a plan: the least Q, Q without the cost of moving there, expected violations."""
WEIGHTS = CostWeights(violation=0.4, resources=0.4, reconfiguration=0.2)


def build(**parameters):
    return registry.build(
        "full-backup", rng=np.random.default_rng(7), parameters={**SETTINGS, **parameters}
    )


def at(rate, replicas=1, max_replicas=2, **changes):
    model = a_model(node_types=ONE, max_replicas=max_replicas)
    fields = {"model": model, "deployment": Deployment((replicas,)), "weights": WEIGHTS}
    return an_observation(rate=rate, **{**fields, **changes})


def interval(before, after, *, violated=False, proposed=None):
    return Transition(
        observation=before,
        proposed=proposed or after.deployment,
        enacted=after.deployment,
        cost=CostParts(violation=float(violated), resources=0.0, reconfiguration=0.0),
        next_observation=after,
    )


class Kernels:
    """The algorithm on a view of one operator, to look at its tables."""

    def __init__(self, levels=2, max_replicas=2):
        algorithm = registry.define("full-backup", {**SETTINGS, "levels": levels})
        assert algorithm is not None
        self._learn = algorithm.learn
        self._levels, self._replicas = levels, max_replicas
        self.view = empty_view(operators=1, node_types=1, max_replicas=max_replicas)
        self.view.model[0].max_replicas = self.view.model[0].top_cost = max_replicas
        self.view.price[0, 0] = 1.0
        self.weigh(WEIGHTS)
        self._memory = algorithm.prepare(self.view, 10)
        self.plan = FullBackupPlan(self._memory[0])

    def weigh(self, weights):
        self.view.model[0].weight_violation = weights.violation
        self.view.model[0].weight_resources = weights.resources
        self.view.model[0].weight_reconfiguration = weights.reconfiguration

    def learn(self, before, after, replicas, *, violated):
        self.view.before[0].rate, self.view.seen[0].rate = before, after
        self.view.counts[0, 0] = replicas
        self.view.cost[0].violation = violated
        self._learn(0, self.view, self._memory)

    def table(self, which):
        return getattr(self.plan, which).reshape(self._replicas, self._levels)


def test_one_backup_by_hand():
    kernels = Kernels()

    kernels.learn(100.0, 100.0, 1, violated=True)

    # Half a violation is expected at (1, 100/s); nothing follows the backup of zeros yet.
    np.testing.assert_allclose(kernels.table(WITHOUT_MOVING), [[0.2, 0.2 + 0.4 * 0.5], [0.4, 0.4]])
    np.testing.assert_allclose(kernels.table(MINIMUM), [[0.2, 0.4], [0.4, 0.4]])


def test_the_next_backup_takes_the_least_values_of_the_one_before():
    kernels = Kernels()
    kernels.learn(100.0, 100.0, 1, violated=True)

    kernels.learn(100.0, 0.0, 1, violated=False)

    # From 100/s it stayed twice, once by assumption, and fell once; from 0 it was never left.
    loaded = 2 / 3 * (0.4 * 0.5 + 0.5 * 0.4) + 1 / 3 * (0.5 * 0.2)
    np.testing.assert_allclose(
        kernels.table(WITHOUT_MOVING), [[0.2 + 0.5 * 0.2, 0.2 + loaded], [0.6, 0.6]]
    )


def test_a_violation_is_expected_of_fewer_replicas_and_higher_rates_as_well():
    kernels = Kernels(levels=3, max_replicas=3)

    kernels.learn(70.0, 70.0, 2, violated=True)

    np.testing.assert_allclose(
        kernels.table(VIOLATED), [[0.0, 0.2, 0.2], [0.0, 0.2, 0.2], [0.0, 0.0, 0.0]]
    )


def test_what_held_is_expected_of_more_replicas_and_lower_rates_as_well():
    kernels = Kernels(levels=3, max_replicas=3)
    kernels.learn(0.0, 0.0, 3, violated=True)  # now half a violation everywhere

    kernels.learn(70.0, 70.0, 2, violated=False)

    np.testing.assert_allclose(
        kernels.table(VIOLATED), [[0.2, 0.2, 0.2], [0.1, 0.1, 0.2], [0.1, 0.1, 0.2]]
    )


def test_it_stays_until_it_has_learned_something():
    decision = build().decide(at(100.0, 2))

    assert decision.target == Deployment((2,))
    assert "not learned from any interval yet" in decision.reason


def test_it_adds_a_replica_where_violations_cost_more_than_it():
    policy = build(gamma=0.9)
    for _ in range(20):
        policy.learn(interval(at(100.0), at(100.0), violated=True))

    decision = policy.decide(at(100.0))

    assert decision.target == Deployment((2,))
    assert decision.urgency >= NEEDED
    assert "score" in decision.reason


def test_it_removes_a_replica_that_only_costs():
    policy = build(gamma=0.9)
    for _ in range(20):
        policy.learn(interval(at(0.0, 2), at(0.0, 2)))

    decision = policy.decide(at(0.0, 2))

    assert decision.target == Deployment((1,))
    assert 0 < decision.urgency < NEEDED


def test_a_score_is_the_gain_until_gains_exceed_1():
    kernels = Kernels()
    for _ in range(2):
        kernels.learn(100.0, 100.0, 2, violated=False)

    score = find_score(0, kernels.view, kernels.plan, -1)

    assert kernels.plan.most_gain == 1.0
    assert score == pytest.approx((0.4 + 0.5 * 0.4) - (0.2 + 0.2 + 0.5 * 0.2))


def test_a_score_is_relative_to_the_greatest_gain_that_was_met():
    kernels = Kernels()
    kernels.weigh(replace(WEIGHTS, violation=40.0))
    kernels.learn(100.0, 100.0, 1, violated=True)

    score = find_score(0, kernels.view, kernels.plan, 1)

    assert kernels.plan.most_gain == pytest.approx(20.2 - 0.6)
    assert score == pytest.approx(1.0)


def test_a_denied_change_is_learned_as_the_state_that_was_really_reached():
    granted, denied = build(), build()
    here = at(100.0)

    granted.learn(interval(here, here, violated=True))
    denied.learn(interval(here, here, violated=True, proposed=Deployment((2,))))

    assert granted.state_dict() == denied.state_dict()


def test_the_node_type_that_is_added_and_removed_can_be_chosen():
    policy = build(gamma=0.9, node_type=1)
    seen = at(100.0, model=a_model(node_types=TWO, max_replicas=2), deployment=Deployment((1, 0)))
    for _ in range(20):
        policy.learn(interval(seen, seen, violated=True))

    assert policy.decide(seen).target == Deployment((1, 1))


def test_where_none_of_its_node_type_is_there_another_goes():
    policy = build(gamma=0.9, node_type=1)
    model = a_model(node_types=TWO, max_replicas=2)
    seen = at(0.0, model=model, deployment=Deployment((2, 0)))
    for _ in range(20):
        policy.learn(interval(seen, seen))

    assert policy.decide(seen).target == Deployment((1, 0))


def test_a_node_type_that_does_not_exist_is_refused():
    with pytest.raises(ParameterError, match=r"Expected node_type .*below 1, .* got 3"):
        build(node_type=3).decide(at(100.0))


def test_more_states_than_fit_are_refused():
    with pytest.raises(ParameterError, match=r"full-backup would need 2,000,000 states.*levels"):
        build(levels=10_000).decide(at(100.0, max_replicas=200))
