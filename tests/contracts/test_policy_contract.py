"""What `weir_policies.policy` promises, for every policy that is registered."""

from __future__ import annotations

import numpy as np
import pytest

from weir_policies import registry
from weir_policies.errors import ParameterError, UnknownPolicyError
from weir_policies.testing.contract import ApplicationPolicyContract, PolicyContract

JOINT: list[tuple[str, dict[str, int]]] = [
    (name, {}) for name in registry.names() if registry.is_joint(name)
] + [
    ("mdp", {"centralised": 1, "levels": 5, "max_rate": 500, "first_solve": 3}),
    ("mdp-rl", {"centralised": 1, "levels": 5, "max_rate": 500}),
    ("mdp-rl", {"centralised": 1, "levels": 5, "max_rate": 500, "known": 1}),
]
# A class for each, made here: a new policy brings its tests by being registered.
globals().update(
    {
        f"Test[{name}]": type(f"Test[{name}]", (PolicyContract,), {"name": name})
        for name in registry.names()
        if not registry.is_joint(name)
    }
)
globals().update(
    {
        f"TestJoint[{name}, {parameters}]": type(
            f"TestJoint[{name}, {parameters}]",
            (ApplicationPolicyContract,),
            {"name": name, "parameters": parameters},
        )
        for name, parameters in JOINT
    }
)


def test_a_policy_that_does_not_exist_is_refused_with_those_that_do():
    with pytest.raises(UnknownPolicyError, match=r"got 'oracle'; use one of .*queueing"):
        registry.build("oracle", rng=np.random.default_rng(7))


def test_a_policy_with_a_typing_mistake_is_refused_with_the_one_that_was_meant():
    with pytest.raises(UnknownPolicyError, match=r"got 'queing'; did you mean 'queueing'\?"):
        registry.build("queing", rng=np.random.default_rng(7))


def test_a_policy_for_one_operator_is_not_built_for_all():
    with pytest.raises(ParameterError, match=r"all operators of an application, got queueing"):
        registry.build_joint("queueing", rng=np.random.default_rng(7))
