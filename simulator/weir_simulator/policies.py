"""Builds the policies of an experiment, as live managers would."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from weir_policies import registry
from weir_policies.kernels.policy import Algorithm
from weir_policies.kernels.view import Memory
from weir_policies.parameters import Settings
from weir_policies.policy import ApplicationPolicy, OperatorPolicy, WarmStartable
from weir_simulator.experiment import Experiment


def policy_generator(seed: int, operator: int) -> np.random.Generator:
    """Return the generator of one operator's policy; one for all operators has the first's."""
    return np.random.default_rng([seed, 1, operator])


def settings_of(experiment: Experiment, parameters: Mapping[str, Any]) -> Settings:
    """Return a policy's settings: those given, and the experiment's rate levels where they fit."""
    return Settings(parameters, {"levels": experiment.rate.levels, "max_rate": experiment.rate.max})


@dataclass(frozen=True, slots=True)
class Policies:
    """What decides in a run: one policy per operator, or one for all of them."""

    operators: Mapping[str, OperatorPolicy]
    """By operator; empty where one decides for all."""
    application: ApplicationPolicy | None = None


def build_policies(
    experiment: Experiment, policy: str, settings: Mapping[str, Any], *, seed: int
) -> Policies:
    """Return the policies, with the usual arrivals if the experiment has them.

    Raises:
        ParameterError: A setting is wrong.
    """
    if registry.is_joint(policy, settings):
        rng = policy_generator(seed, 0)
        return Policies({}, registry.build_joint(policy, rng=rng, parameters=settings))
    policies: dict[str, OperatorPolicy] = {}
    for row, operator in enumerate(experiment.operators):
        rng = policy_generator(seed, row)
        built = registry.build(policy, rng=rng, parameters=settings)
        if operator.usual is not None and isinstance(built, WarmStartable):
            built.warm_start(operator.usual.season)
        policies[operator.name] = built
    return Policies(policies)


def pass_seasons(experiment: Experiment, algorithm: Algorithm, memory: Memory) -> None:
    """Do the same for a compiled policy, in the memory that it has prepared."""
    for row, operator in enumerate(experiment.operators):
        if operator.usual is not None and algorithm.warm_start is not None:
            algorithm.warm_start(row, memory, operator.usual.season)
