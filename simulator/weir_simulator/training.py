"""Trains policies in the simulator, so that they need not explore on a real job.

The policies are those of live managers, with the same kernels, so that what they have learned here
can be loaded there.
"""

from __future__ import annotations

import numpy as np

from weir_simulator.arrivals import arrival_rates
from weir_simulator.experiment import Experiment
from weir_simulator.policies import Policies, settings_of
from weir_simulator.result import new_outcome


def train_policies(experiment: Experiment, *, slots: int, seed: int) -> Policies:
    """Return the experiment's policies with what they have learned.

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
    return run_policies(experiment, trace, choice.name, settings, outcome, seed=seed)
