"""Of policies that know a model: no target is worse than staying in cost and in the objective."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weir_policies import registry
from weir_policies.kernels.expectation import expect
from weir_policies.model.node_types import Deployment, NodeType
from weir_policies.model.queueing import predict_means
from weir_policies.policy import CostParts, Transition
from weir_policies.testing import a_model, an_observation

BUDGET = 0.05
SLOW = NodeType(name="slow", pool="slow", speedup=1.0, price=1.0)
FAST = NodeType(name="fast", pool="fast", speedup=2.0, price=2.1)
MODEL = a_model(node_types=(SLOW, FAST), max_replicas=12, keyed=True)
DEPLOYMENTS = st.tuples(st.integers(0, 6), st.integers(0, 6)).filter(any).map(Deployment)
RATES = st.lists(st.floats(10.0, 2_000.0), min_size=1, max_size=8)


def observe(deployment, rate, tick):
    """Return what is measured of an operator that is as the model says."""
    (time,), _ = predict_means(MODEL, np.array([deployment.counts]), rate)
    busy = tuple(
        min(rate / deployment.size * MODEL.service_mean / node_type.speedup, 1.0)
        for count, node_type in zip(deployment.counts, MODEL.node_types, strict=True)
        for _ in range(count)
    )
    return an_observation(
        model=MODEL,
        deployment=deployment,
        rate=rate,
        time=60.0 * tick,
        response_time=min(float(time), 10.0),
        utilisation=busy,
        budget=BUDGET,
    )


def lateness(expectation):
    """Return by how much a deployment is expected to miss the budget, 0 where it keeps it."""
    late = expectation.response_time - BUDGET
    return max(late, 0.0) if np.isfinite(late) else np.inf


@pytest.mark.parametrize("name", ["planner", "queueing", "window-max"])
@settings(deadline=None)
@given(start=DEPLOYMENTS, rates=RATES)
def test_no_target_is_dearer_and_later_than_staying(name, start, rates):
    policy = registry.build(name, rng=np.random.default_rng(7), parameters={})
    seen = observe(start, rates[0], 0)

    for tick, rate in enumerate([*rates[1:], rates[-1]], start=1):
        decision = policy.decide(seen)
        (staying,) = expect(seen, [seen.deployment])
        going = decision.expectation
        dearer = going.cost_per_hour > staying.cost_per_hour * (1 + 1e-9)
        assert not (dearer and lateness(going) > lateness(staying))
        if lateness(staying) > 0 and decision.target != seen.deployment:
            assert lateness(going) <= lateness(staying)  # never the cheapest of what is too small
        following = observe(decision.target, rate, tick)
        cost = CostParts(violation=float(lateness(going) > 0), resources=0.1, reconfiguration=0.0)
        policy.learn(
            Transition(
                observation=seen,
                proposed=decision.target,
                enacted=decision.target,
                cost=cost,
                next_observation=following,
            )
        )
        seen = following
