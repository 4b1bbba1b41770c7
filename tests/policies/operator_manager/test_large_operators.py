"""An operator of as many node types and replicas as a manifest may name is decided for.

A policy for which it is too large says so: the controller has one event loop for all StreamApps.
"""

from collections import Counter
from contextlib import suppress

import numpy as np
import pytest

from weir_policies import registry
from weir_policies.errors import ParameterError
from weir_policies.model.node_types import Deployment, NodeType
from weir_policies.testing import a_model, an_observation

ALONE = [
    name
    for name in registry.names()
    if not registry.is_joint(name, {}) and "dqn" not in name  # which needs torch
]


def node_types(count, limit):
    return tuple(
        NodeType(
            name=f"t{n}", pool=f"p{n // 8}", speedup=1 + n / 100, price=1 + n / 90, pool_limit=limit
        )
        for n in range(count)
    )


@pytest.mark.parametrize("rate", [100.0, 50_000.0])
@pytest.mark.parametrize("limit", [None, 5000], ids=["without limits", "with limits of pools"])
@pytest.mark.parametrize(("count", "most"), [(1, 10_000), (2, 10_000), (16, 1000), (128, 10_000)])
@pytest.mark.parametrize("name", ALONE)
def test_a_large_operator_is_decided_for_within_its_limits_or_refused(
    name, count, most, limit, rate
):
    policy = registry.build(name, rng=np.random.default_rng(7))
    model = a_model(node_types=node_types(count, limit), max_replicas=most)
    present = Deployment((1,) + (0,) * (count - 1))

    with suppress(ParameterError):
        decision = policy.decide(an_observation(model=model, deployment=present, rate=rate))

        assert 1 <= decision.target.size <= most
        pools = Counter[str]()
        for node_type, replicas in zip(model.node_types, decision.target.counts, strict=True):
            pools[node_type.pool] += replicas
        assert max(pools.values()) <= (limit or most)


def test_an_operator_with_too_many_deployments_for_window_max_is_refused():
    policy = registry.build("window-max", rng=np.random.default_rng(7))
    model = a_model(node_types=node_types(128, None), max_replicas=10_000)
    deployment = Deployment((1,) + (0,) * 127)

    with pytest.raises(ParameterError, match="at most 100,000 deployments for window-max"):
        policy.decide(an_observation(model=model, deployment=deployment, rate=100.0))
