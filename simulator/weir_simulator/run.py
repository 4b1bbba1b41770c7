"""Runs an experiment once: one policy, one seed."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import numpy as np

from weir_policies import registry
from weir_policies.kernels.policy import Algorithm
from weir_policies.kernels.view import Memory, compile_kernel, with_workspaces
from weir_policies.model.arrays import Floats
from weir_simulator.arrivals import arrival_rates, training_rates
from weir_simulator.compile import compile_experiment
from weir_simulator.experiment import Experiment
from weir_simulator.policies import pass_seasons, policy_generator, settings_of
from weir_simulator.result import Result, new_outcome, summarise
from weir_simulator.state import SimulationOutcome
from weir_simulator.traces import Trace


def simulate(
    experiment: Experiment,
    *,
    seed: int,
    policy: str | None = None,
    parameters: Mapping[str, Any] | None = None,
    history: bool = False,
) -> Result:
    """Run an experiment once.

    Args:
        experiment: What to run.
        seed: Decides everything that happens by chance, in the world and in the policy.
        policy: Its name; `None` is the experiment's.
        parameters: Its settings; `None` is the experiment's where it names this policy, else none.
        history: Whether to keep what happened in every slot.

    Raises:
        UnknownPolicyError: No policy has this name.
        ParameterError: A parameter is wrong, the policy cannot take this experiment, or it learns
            from a training trace and there is none.
        TraceError: The trace cannot be read.
    """
    name = experiment.policy.name if policy is None else policy
    registry.find(name)  # refuses a name that does not exist
    if parameters is None:
        parameters = experiment.policy.parameters if name == experiment.policy.name else {}
    settings = settings_of(experiment, parameters)
    if registry.find(name).network is not None:
        from weir_simulator.deep import (  # compiles when it is first imported
            can_batch,
            simulate_deep,
        )

        if can_batch(experiment):
            return simulate_deep(
                [(experiment, seed)], policy=name, parameters=parameters, history=history
            )[0]
    trace = arrival_rates(experiment.trace)
    outcome = new_outcome(trace.size, len(experiment.node_types), history=history)
    algorithm = registry.define(name, settings)
    # A decision's urgency, which arbitration ranks by, is in no compiled kernel.
    if algorithm is None or not experiment.arbitration.grants_all:
        from weir_simulator.plain_loop import run_policies  # compiles when it is first imported

        began = time.perf_counter()
        run_policies(experiment, trace, name, settings, outcome, seed=seed)
        seconds = time.perf_counter() - began
    else:
        seconds, _ = run_compiled(experiment, trace, name, algorithm, outcome, seed=seed)
    return summarise(experiment, name, seed, trace.size, outcome, seconds)


def run_compiled(
    experiment: Experiment,
    trace: Trace,
    policy: str,
    algorithm: Algorithm,
    outcome: SimulationOutcome,
    *,
    seed: int,
) -> tuple[float, Memory]:
    """Run a compiled policy; fill the outcome, return the loop's wall time, s, and the memory."""
    from weir_simulator.world import run_world  # compiles when it is first imported

    compiled = compile_experiment(experiment, seed=seed, policy=policy, slots=trace.size)
    view = with_workspaces(compiled.view, algorithm.workspace_words)
    memory = algorithm.prepare(view, trace.size)
    pass_seasons(experiment, algorithm, memory)
    if algorithm.train is not None:
        memory = algorithm.train(view, memory, training_rates(experiment, policy))
    draws = draw_for_policies(algorithm, seed, trace.size, len(experiment.operators))
    for kernel in (algorithm.learn, algorithm.decide):
        compile_kernel(kernel)  # here, so that the first run's speed is that of the loop
    began = time.perf_counter()
    run_world(
        trace,
        compiled.rules,
        compiled.truth,
        compiled.state,
        compiled.changes,
        compiled.goals,
        outcome,
        algorithm.learn,
        algorithm.decide,
        algorithm.joint,
        algorithm.joins_restarts,
        view,
        memory,
        draws,
        compiled.bounds,
    )
    return time.perf_counter() - began, memory


def draw_for_policies(algorithm: Algorithm, seed: int, slots: int, operators: int) -> Floats:
    """Return the numbers that the policies draw, `(slots, o, 2)`, one generator per operator.

    They are what a live policy draws that is built with `policy_generator`. No slots where the
    policies draw none.
    """
    if not algorithm.draws:
        return np.zeros((0, operators, 2))
    drawn = [policy_generator(seed, o).random((slots, 2)) for o in range(operators)]
    return np.ascontiguousarray(np.stack(drawn, axis=1))
