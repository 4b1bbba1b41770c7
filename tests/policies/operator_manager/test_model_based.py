from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from weir_policies import registry
from weir_policies.kernels.policy import fill_interval, fill_model, fill_present
from weir_policies.kernels.view import empty_view
from weir_policies.model.node_types import Deployment
from weir_policies.operator_manager.model_based import ModelBasedPlan, present_level
from weir_policies.policy import CostParts
from weir_policies.testing import a_model, a_transition, an_observation

SINGLE = a_model(node_types=(a_model().node_types[1],), max_replicas=4)
LEVELS = 4
SETTINGS = {"levels": LEVELS, "max_rate": 400.0}


def at(rate, replicas=1, time=0.0):
    return an_observation(
        model=SINGLE, rate=rate, deployment=Deployment((replicas,)), time=time, budget=0.05
    )


def interval(before, after, *, violated):
    cost = CostParts(violation=float(violated), resources=0.1, reconfiguration=0.0)
    return replace(a_transition(before, after), cost=cost)


class Learner:
    """The kernels of the policy, with its memory in sight."""

    def __init__(self, **parameters):
        algorithm = registry.define("model-based", {**SETTINGS, **parameters})
        assert algorithm is not None
        self.algorithm = algorithm
        self.view = empty_view(operators=1, node_types=1, max_replicas=4)
        fill_model(self.view, 0, SINGLE)
        fill_present(self.view, at(50.0))
        self.memory = algorithm.prepare(self.view, 100)

    def learn(self, before, after, *, violated):
        fill_interval(self.view, interval(before, after, violated=violated))
        self.algorithm.learn(0, self.view, self.memory)

    def believed(self, replicas):
        return ModelBasedPlan(self.memory[0]).violations[replicas - 1].tolist()


def test_what_violates_at_a_level_is_taken_to_violate_above_it():
    learner = Learner()

    learner.learn(at(50.0), at(150.0), violated=True)

    assert learner.believed(1) == [0.0, 1.0, 1.0, 1.0]
    assert learner.believed(2) == [0.0] * LEVELS


def test_what_does_not_violate_at_a_level_is_taken_not_to_below_it():
    learner = Learner()
    learner.learn(at(150.0), at(50.0), violated=True)

    learner.learn(at(50.0), at(250.0), violated=False)

    assert learner.believed(1) == [0.0, 0.0, 0.0, 1.0]


def test_probabilities_never_fall_with_the_rate():
    learner, rng = Learner(least_alpha=0.3), np.random.default_rng(5)
    before = at(50.0)

    for _ in range(200):
        after = at(float(rng.uniform(0, 400)), int(rng.integers(1, 5)))
        learner.learn(before, after, violated=rng.random() < after.rate / 400)
        before = after

    for replicas in range(1, 5):
        assert learner.believed(replicas) == sorted(learner.believed(replicas))


def live(policy, rates):
    """Let a policy run one operator that violates above 80 records/s per replica."""
    deployment, before, sizes = Deployment((1,)), None, []
    for tick, rate in enumerate(rates):
        seen = at(rate, deployment.size, time=60.0 * tick)
        if before is not None:
            policy.learn(interval(before, seen, violated=rate > 80 * seen.deployment.size))
        deployment, before = policy.decide(seen).target, seen
        sizes.append(deployment.size)
    return sizes


def test_it_learns_how_many_replicas_a_steady_rate_needs():
    policy = registry.build("model-based", rng=np.random.default_rng(7), parameters=SETTINGS)

    sizes = live(policy, [230.0] * 300)

    assert sizes[-50:] == [3] * 50


def test_it_learns_to_follow_a_slow_wave():
    policy = registry.build("model-based", rng=np.random.default_rng(7), parameters=SETTINGS)
    wave = [50.0] * 40 + [230.0] * 40

    sizes = live(policy, wave * 12)

    assert sizes[-10:] == [3] * 10
    assert min(sizes[-80:-40]) < 3


@pytest.mark.parametrize(
    ("violated", "published", "level"),
    [(True, 0, 1), (True, 1, LEVELS - 1), (False, 0, 1), (False, 1, 0)],
    ids=["after a rise", "after a rise as published", "after a fall", "after a fall as published"],
)
def test_the_level_in_hand_is_the_rates_but_as_published(violated, published, level):
    learner = Learner(published=published)
    learner.learn(at(50.0), at(150.0, time=60.0), violated=not violated)

    learner.learn(at(150.0, time=60.0), at(150.0, time=120.0), violated=violated)

    assert present_level(150.0, 120.0, ModelBasedPlan(learner.memory[0])) == level
