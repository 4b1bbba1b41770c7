"""Trains policies in the simulator, so that they need not explore on a real job.

The policies are those of live managers, with the same kernels, so that what they have learned here
can be loaded there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from weir_simulator.arrivals import arrival_rates
from weir_simulator.experiment import Experiment
from weir_simulator.policies import settings_of
from weir_simulator.result import new_outcome


@dataclass(frozen=True, slots=True)
class Trained:
    """What policies have learned, for `load_state_dict`."""

    operators: Mapping[str, Mapping[str, Any]]
    """By operator; empty where one policy decides for all."""
    application: Mapping[str, Any] | None = None
    """Of the policy that decides for all operators; `None` where each has its own."""


def train_policies(experiment: Experiment, *, slots: int, seed: int) -> Trained:
    """Return what the experiment's policies have learned.

    Args:
        experiment: The world, its trace and its policy.
        slots: How many are lived through, the trace over and over again.
        seed: Decides what happens by chance.

    Raises:
        ParameterError: The policy cannot take the experiment.
        TraceError: The trace cannot be read.
    """
    from weir_simulator.plain_loop import run_policies  # compiles when it is first imported

    trace = np.resize(arrival_rates(experiment.trace), slots)
    outcome = new_outcome(slots, len(experiment.node_types), history=False)
    choice = experiment.policy
    settings = settings_of(experiment, choice.parameters)
    policies = run_policies(experiment, trace, choice.name, settings, outcome, seed=seed)
    application = policies.application
    return Trained(
        {name: policy.state_dict() for name, policy in policies.operators.items()},
        None if application is None else application.state_dict(),
    )
