import numpy as np
import pytest

from tests.policies.operator_manager.learner import LEVELS, SETTINGS, Learner, at, live
from weir_policies import registry
from weir_policies.operator_manager.model_based import ModelBasedPlan, present_level


def believed(learner, replicas):
    return learner.own.violations[replicas - 1].tolist()


def test_what_violates_at_a_level_is_taken_to_violate_above_it():
    learner = Learner("model-based", ModelBasedPlan)

    learner.learn(at(50.0), at(150.0), violation=1.0)

    assert believed(learner, 1) == [0.0, 1.0, 1.0, 1.0]
    assert believed(learner, 2) == [0.0] * LEVELS


def test_what_does_not_violate_at_a_level_is_taken_not_to_below_it():
    learner = Learner("model-based", ModelBasedPlan)
    learner.learn(at(150.0), at(50.0), violation=1.0)

    learner.learn(at(50.0), at(250.0), violation=0.0)

    assert believed(learner, 1) == [0.0, 0.0, 0.0, 1.0]


def test_probabilities_never_fall_with_the_rate():
    learner, rng = Learner("model-based", ModelBasedPlan, least_alpha=0.3), np.random.default_rng(5)
    before = at(50.0)

    for _ in range(200):
        after = at(float(rng.uniform(0, 400)), int(rng.integers(1, 5)))
        learner.learn(before, after, violation=float(rng.random() < after.rate / 400))
        before = after

    for replicas in range(1, 5):
        assert believed(learner, replicas) == sorted(believed(learner, replicas))


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
    learner = Learner("model-based", ModelBasedPlan, published=published)
    learner.learn(at(50.0), at(150.0, time=60.0), violation=float(not violated))

    learner.learn(at(150.0, time=60.0), at(150.0, time=120.0), violation=float(violated))

    assert present_level(150.0, 120.0, learner.own) == level
