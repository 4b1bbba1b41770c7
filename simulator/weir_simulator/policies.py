"""The policies of an experiment's operators, as their live managers would build them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from weir_policies import registry
from weir_policies.kernels.policy import Algorithm
from weir_policies.kernels.view import Memory
from weir_policies.policy import OperatorPolicy, WarmStartable
from weir_simulator.experiment import Experiment


def policy_generator(seed: int, operator: int) -> np.random.Generator:
    """Return the generator of one operator's policy."""
    return np.random.default_rng([seed, 1, operator])


def build_policies(
    experiment: Experiment, policy: str, settings: Mapping[str, Any], *, seed: int
) -> Sequence[OperatorPolicy]:
    """Return a policy per operator, told what usually arrives where the experiment says it.

    Raises:
        UnknownPolicyError: No policy has this name.
        ParameterError: A setting is wrong.
    """
    rngs = [policy_generator(seed, row) for row in range(len(experiment.operators))]
    policies = registry.build_all(policy, rngs=rngs, parameters=settings)
    for operator, built in zip(experiment.operators, policies, strict=True):
        if operator.usual is not None and isinstance(built, WarmStartable):
            built.expect(operator.usual.season)
    return policies


def tell_seasons(experiment: Experiment, algorithm: Algorithm, memory: Memory) -> None:
    """Do the same for a compiled policy, in the memory that it has prepared."""
    for row, operator in enumerate(experiment.operators):
        if operator.usual is not None and algorithm.expect is not None:
            algorithm.expect(row, memory, operator.usual.season)
