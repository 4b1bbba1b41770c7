"""Policies by name. To add one: one file under `operator_manager/`, one line in `POLICIES`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from weir_policies.errors import UnknownPolicyError
from weir_policies.operator_manager.ds2 import Ds2Parameters, Ds2Policy
from weir_policies.operator_manager.queueing import QueueingParameters, QueueingPolicy
from weir_policies.operator_manager.threshold import ThresholdParameters, ThresholdPolicy
from weir_policies.parameters import read_parameters
from weir_policies.promise import Neighbourhood, OperatorPolicy

Values = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Registered:
    """A policy that can be chosen by name."""

    build: Callable[[np.random.Generator, Values], OperatorPolicy]
    """Makes one from a generator, which those that draw nothing leave alone, and parameters."""
    neighbourhood: Neighbourhood


def _threshold_cheapest(rng: np.random.Generator, values: Values) -> OperatorPolicy:
    parameters = read_parameters(ThresholdParameters, values, policy="threshold-cheapest")
    return ThresholdPolicy(parameters, fastest=False)


def _threshold_fastest(rng: np.random.Generator, values: Values) -> OperatorPolicy:
    parameters = read_parameters(ThresholdParameters, values, policy="threshold-fastest")
    return ThresholdPolicy(parameters, fastest=True)


def _ds2(rng: np.random.Generator, values: Values) -> OperatorPolicy:
    return Ds2Policy(read_parameters(Ds2Parameters, values, policy="ds2"))


def _queueing(rng: np.random.Generator, values: Values) -> OperatorPolicy:
    return QueueingPolicy(read_parameters(QueueingParameters, values, policy="queueing"))


POLICIES: Mapping[str, Registered] = {
    "threshold-cheapest": Registered(_threshold_cheapest, ThresholdPolicy.neighbourhood),
    "threshold-fastest": Registered(_threshold_fastest, ThresholdPolicy.neighbourhood),
    "ds2": Registered(_ds2, Ds2Policy.neighbourhood),
    "queueing": Registered(_queueing, QueueingPolicy.neighbourhood),
}


def names() -> tuple[str, ...]:
    """Return the names of all policies."""
    return tuple(POLICIES)


def build(
    name: str, *, rng: np.random.Generator, parameters: Values | None = None
) -> OperatorPolicy:
    """Return a new policy.

    Args:
        name: One of `names()`.
        rng: The only source of randomness that it may use.
        parameters: Its settings by name; `None` and what is left out are its defaults.

    Raises:
        UnknownPolicyError: No policy has this name.
        ParameterError: A parameter is unknown, no number, or out of its range.
    """
    return _find(name).build(rng, parameters or {})


def neighbourhood(name: str) -> Neighbourhood:
    """Return which targets the policy proposes: one replica away, or any.

    Raises:
        UnknownPolicyError: No policy has this name.
    """
    return _find(name).neighbourhood


def _find(name: str) -> Registered:
    if name not in POLICIES:
        raise UnknownPolicyError(f"Expected a policy out of {list(POLICIES)}, got {name!r}")
    return POLICIES[name]
