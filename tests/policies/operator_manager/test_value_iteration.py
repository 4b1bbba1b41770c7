import itertools

import numpy as np
import pytest

from weir_policies import registry
from weir_policies.kernels.policy import KernelPolicy
from weir_policies.model.node_types import Deployment
from weir_policies.testing import a_transition, an_observation

QUIET, BUSY = 50.0, 350.0
"""Rates that one and that four replicas of the plain type carry."""


def build(**parameters):
    settings = {"levels": 20, "max_rate": 400.0, **parameters}
    algorithm = registry.define("value-iteration", settings)
    assert algorithm is not None
    return KernelPolicy(algorithm, np.random.default_rng(7))


def trained(rates, **parameters):
    policy = build(**parameters)
    policy.train(an_observation(), np.array(rates))
    return policy


def follow(policy, rate, *, start, ticks=20):
    """Let a policy go where it wants to under a steady rate; return where it ends."""
    deployment = Deployment(start)
    for _ in range(ticks):
        deployment = policy.decide(an_observation(rate=rate, deployment=deployment)).target
    return an_observation(rate=rate, deployment=deployment)


@pytest.mark.parametrize("rate", [QUIET, 150.0, 250.0, BUSY])
@pytest.mark.parametrize("start", [(0, 1, 0), (2, 2, 2), (10, 0, 0)])
def test_where_the_rate_stays_it_goes_to_where_nothing_violates_and_stays(rate, start):
    policy = trained([each for each in (QUIET, 150.0, 250.0, BUSY) for _ in range(200)])

    end = follow(policy, rate, start=start)

    decision = policy.decide(end)
    assert decision.target == end.deployment
    assert decision.expectation.response_time <= 0.05


def test_it_keeps_room_for_what_the_trace_says_will_follow():
    sudden = trained([QUIET, BUSY, BUSY, BUSY] * 100)
    calm = trained([QUIET] * 300 + [BUSY] * 300)

    ready = follow(sudden, QUIET, start=(0, 5, 0))
    thrifty = follow(calm, QUIET, start=(0, 5, 0))

    assert ready.deployment.size > thrifty.deployment.size


def test_what_it_learned_from_a_trace_is_not_changed_by_what_it_sees():
    policy = trained([QUIET] * 300 + [BUSY] * 300)
    before = policy.state_dict()

    seen = [an_observation(rate=rate) for rate in (QUIET, BUSY, QUIET, BUSY)]
    for observation, following in itertools.pairwise(seen):
        policy.learn(a_transition(observation, following))

    assert policy.state_dict()["memory"] == before["memory"]


def test_without_a_trace_it_holds_until_it_has_seen_enough_and_then_plans():
    policy = build(first_solve=6)
    seen = [an_observation(rate=BUSY, deployment=Deployment((0, 1, 0))) for _ in range(7)]
    held = policy.decide(seen[0])

    for observation, following in itertools.pairwise(seen):
        policy.learn(a_transition(observation, following))

    assert held.target == seen[0].deployment
    assert "of the 6 intervals" in held.reason
    assert policy.decide(seen[-1]).target.size == 2


def test_a_level_that_was_never_seen_costs_nothing_only_as_published():
    rates, unseen = [QUIET] * 100, an_observation(rate=BUSY, deployment=Deployment((0, 4, 0)))

    textbook = trained(rates).decide(unseen)
    published = trained(rates, published=1).decide(unseen)

    assert textbook.expectation.response_time <= 0.05
    assert published.target.size == 4
    assert published.candidates[0].score < textbook.candidates[0].score
