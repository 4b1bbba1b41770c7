"""What `weir_policies.policy` promises, for every policy that is registered."""

from __future__ import annotations

import numpy as np
import pytest

from weir_policies import registry
from weir_policies.errors import UnknownPolicyError
from weir_policies.testing.contract import PolicyContract

# A class for each, made here: a new policy brings its tests by being registered.
globals().update(
    {
        f"Test[{name}]": type(f"Test[{name}]", (PolicyContract,), {"name": name})
        for name in registry.names()
    }
)


def test_a_policy_that_does_not_exist_is_refused_with_those_that_do():
    with pytest.raises(UnknownPolicyError, match=r"queueing.*got 'oracle'"):
        registry.build("oracle", rng=np.random.default_rng(7))
