import itertools

import numpy as np
import pytest

from weir_policies import registry
from weir_policies.model.node_types import Deployment, NodeType
from weir_policies.model.queueing import predict_means
from weir_policies.policy import Sharing
from weir_policies.testing import a_model, a_transition, an_observation

COSTLY = (
    NodeType(name="slow", pool="slow", speedup=0.7, price=0.7),
    NodeType(name="plain", pool="plain", speedup=1.0, price=1.0),
    NodeType(name="fast", pool="fast", speedup=1.3, price=1.3),
)


def build(**parameters):
    return registry.build("window-max", rng=np.random.default_rng(7), parameters=parameters)


def feed(policy, rates, **changes):
    seen = [an_observation(rate=rate, **changes) for rate in rates]
    for observation, following in itertools.pairwise(seen):
        policy.learn(a_transition(observation, following))
    return seen[-1]


def cheapest(model, rate, budget=0.05):
    """Look at every deployment, all mixes included."""
    counts = np.array(
        [
            each
            for each in itertools.product(range(model.max_replicas + 1), repeat=3)
            if 1 <= sum(each) <= model.max_replicas
        ]
    )
    times, _ = predict_means(model, counts, rate)
    prices = counts @ np.array([node_type.price for node_type in model.node_types])
    return prices[times <= budget].min()


@pytest.mark.parametrize("sharing", Sharing)
@pytest.mark.parametrize("rate", [3.0, 80.0, 240.0, 450.0])
def test_nothing_cheaper_covers_the_rate(sharing, rate):
    model = a_model(node_types=COSTLY, max_replicas=6, sharing=sharing)

    decision = build(factor=1).decide(an_observation(model=model, rate=rate))

    # A mix of three types is the one thing that it does not look at: worth a few percent.
    assert decision.expectation.response_time <= 0.05
    assert decision.expectation.cost_per_hour <= 1.05 * cheapest(model, rate)


def test_the_largest_rate_of_the_window_counts_and_one_before_it_does_not():
    inside, outside = build(window=3), build(window=3)

    last = feed(inside, [100.0, 600.0, 50.0, 50.0])
    feed(outside, [600.0, 100.0, 50.0, 50.0])

    assert "at 630 records/s" in inside.decide(last).reason
    assert "at 105 records/s" in outside.decide(last).reason


def test_the_rate_seen_now_counts_before_it_was_learned():
    policy = build(window=3)
    feed(policy, [100.0, 100.0])

    assert "at 525 records/s" in policy.decide(an_observation(rate=500.0)).reason


def test_a_full_pool_is_made_up_for_by_another():
    types = tuple(
        NodeType(name=pool, pool=pool, speedup=1.0, price=price, pool_limit=limit)
        for pool, price, limit in (("cheap", 0.01, 2), ("dear", 0.05, None))
    )
    model = a_model(node_types=types)

    target = build(factor=1).decide(
        an_observation(model=model, deployment=Deployment((1, 0)), rate=250.0)
    )

    assert target.target.counts[0] == 2
    assert target.target.counts[1] > 0


def test_where_nothing_covers_the_rate_it_takes_what_covers_most():
    decision = build().decide(an_observation(rate=9000.0))

    assert decision.target == Deployment((0, 0, 10))
    assert "comes closest" in decision.reason


def test_a_corrected_model_is_used_from_the_next_tick_on():
    policy = build(factor=1)
    feed(policy, [100.0, 100.0])
    before = policy.decide(an_observation(rate=100.0)).target
    slower = an_observation(rate=100.0, model=a_model(service_mean=0.03))

    policy.learn(a_transition(slower, slower))

    assert policy.decide(slower).target.size > before.size
