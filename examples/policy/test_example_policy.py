"""The policy keeps what Weir asks of every policy, and does what it says."""

import numpy as np

from weir_policies import registry
from weir_policies.testing import an_observation
from weir_policies.testing.contract import PolicyContract


class TestPromise(PolicyContract):
    name = "target-utilisation"


def test_it_takes_as_many_replicas_as_the_rate_needs():
    policy = registry.build(
        "target-utilisation", rng=np.random.default_rng(1), parameters={"target": 0.5}
    )

    decision = policy.decide(an_observation(rate=200.0))  # of 10 ms each, at speedup 1

    assert decision.target.size == 3  # on large/1, the cheapest for its speed: 1.6
