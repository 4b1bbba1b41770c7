"""A policy's view: an observation is written once, between learning and deciding."""

import numpy as np
import pytest

from weir_policies import registry
from weir_policies.kernels.policy import KernelPolicy, fill_view
from weir_policies.kernels.view import OperatorView
from weir_policies.testing import a_transition, an_observation

OBSERVED = (
    "seen",
    "counts",
    "busy",
    "joined",
    "model",
    "speedup",
    "price",
    "pool",
    "limit",
)
"""What an observation and its model stand in."""
COMPILED = [
    each for each in registry.names() if registry.define(each) and not registry.is_joint(each)
]
"""The policies of one operator that are compiled."""


@pytest.mark.parametrize("name", COMPILED)
def test_a_policy_leaves_what_was_observed_as_it_was(name):
    policy = registry.build(name, rng=np.random.default_rng(0))
    assert isinstance(policy, KernelPolicy)
    before, after = an_observation(), an_observation(rate=300.0, time=60.0)
    policy.decide(before)
    policy.learn(a_transition(before, after))
    policy.decide(after)

    state = policy._state
    assert state is not None
    fresh = OperatorView.empty(len(after.model.node_types), after.model.max_replicas)
    fill_view(fresh, after)
    for field in OBSERVED:
        kept, written = getattr(state.view, field), getattr(fresh.view, field)
        assert kept.tobytes() == written.tobytes(), field


def test_an_observation_that_could_not_be_written_whole_is_written_again():
    operator = OperatorView.empty(node_types=3, max_replicas=10)
    usual, strange = an_observation(), an_observation(rate=300.0, utilisation=("much",) * 2)
    fill_view(operator, usual)

    with pytest.raises(ValueError, match="much"):
        fill_view(operator, strange)
    fill_view(operator, usual)

    assert operator.view.seen["rate"][0] == usual.rate
