"""Runs an experiment once: one policy, one seed."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from weir_policies import registry
from weir_policies.kernels.policy import Algorithm
from weir_policies.kernels.view import Memory, compile_kernel
from weir_policies.model.arrays import Counts, Floats
from weir_policies.parameters import Settings
from weir_simulator.arrivals import arrival_rates, training_rates
from weir_simulator.compile import compile_experiment
from weir_simulator.experiment import Experiment
from weir_simulator.policies import policy_generator, tell_seasons
from weir_simulator.reference import run_reference
from weir_simulator.state import (
    COST,
    HISTORY,
    LOSSES,
    RECONFIGURATIONS,
    RESIZES,
    SPENT,
    TOTALS,
    VIOLATIONS,
    Outcome,
)
from weir_simulator.traces import Trace

CURVE_POINTS = 200


@dataclass(frozen=True, kw_only=True, slots=True)
class Result:
    """What came of a run."""

    policy: str
    seed: int
    average_cost: float
    """Mean over slots of the weighted cost."""
    violations: float
    """Percent of slots."""
    reconfigurations: float
    """Percent of slots in which a restart was decided."""
    resizes: float
    """Percent of slots in which only sizes were changed, in place."""
    losses: int
    """Replicas lost."""
    resources: float
    """Mean price of what is paid, per hour."""
    replicas: Mapping[str, float]
    """Mean replicas per node type."""
    slots: int
    operators: int
    seconds: float
    """Wall time of the loop."""
    curve_slots: Counts
    """Slots after which the mean cost so far is noted, evenly spaced on a log scale, `(c,)`."""
    curve: Floats
    """Mean cost up to those slots, `(c,)`."""
    history: Floats
    """What happened in every slot, `(slots, 5)`, columns as in `state`; empty unless asked for."""

    @property
    def slots_per_second(self) -> float:
        """Slots simulated per second, all operators of a slot together."""
        return self.slots / self.seconds


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
    registry.neighbourhood(name)  # refuses a name that does not exist
    if parameters is None:
        parameters = experiment.policy.parameters if name == experiment.policy.name else {}
    settings = settings_of(experiment, parameters)
    if registry.is_deep(name):
        from weir_simulator.deep import can_batch, simulate_deep  # it imports this module

        if can_batch(experiment):
            return simulate_deep(
                [(experiment, seed)], policy=name, parameters=parameters, history=history
            )[0]
    trace = arrival_rates(experiment.trace)
    outcome = new_outcome(trace.size, len(experiment.node_types), history=history)
    algorithm = registry.define(name, settings)
    # A decision's urgency, which arbitration ranks by, is in no compiled kernel.
    if algorithm is None or not experiment.arbitration.grants_all:
        began = time.perf_counter()
        run_reference(experiment, trace, name, settings, outcome, seed=seed)
        seconds = time.perf_counter() - began
    else:
        seconds, _ = run_compiled(experiment, trace, name, algorithm, outcome, seed=seed)
    return summarise(experiment, name, seed, trace.size, outcome, seconds)


def settings_of(experiment: Experiment, parameters: Mapping[str, Any]) -> Settings:
    """Return a policy's settings: those given, and the experiment's rate levels where they fit."""
    return Settings(parameters, {"levels": experiment.rate.levels, "max_rate": experiment.rate.max})


def run_compiled(
    experiment: Experiment,
    trace: Trace,
    policy: str,
    algorithm: Algorithm,
    outcome: Outcome,
    *,
    seed: int,
) -> tuple[float, Memory]:
    """Run a compiled policy; fill the outcome, return the loop's wall time, s, and the memory."""
    from weir_simulator.world import run_world  # compiles when it is first imported

    scene = compile_experiment(experiment, seed=seed, policy=policy)
    memory = algorithm.prepare(scene.view, trace.size)
    tell_seasons(experiment, algorithm, memory)
    if algorithm.train is not None:
        memory = algorithm.train(scene.view, memory, training_rates(experiment, policy))
    draws = draw_for_policies(algorithm, seed, trace.size, len(experiment.operators))
    for kernel in (algorithm.learn, algorithm.decide):
        compile_kernel(kernel)  # here, so that the first run's speed is that of the loop
    began = time.perf_counter()
    run_world(
        trace,
        scene.rules,
        scene.truth,
        scene.state,
        scene.changes,
        outcome,
        algorithm.learn,
        algorithm.decide,
        algorithm.joint,
        scene.view,
        memory,
        draws,
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


def new_outcome(slots: int, node_types: int, *, history: bool) -> Outcome:
    """Return an outcome to be filled by a run of so many slots."""
    points = np.unique(np.geomspace(1, slots, min(CURVE_POINTS, slots)).round().astype(np.int64))
    return Outcome(
        totals=np.zeros(TOTALS),
        replicas=np.zeros(node_types),
        curve_slots=points,
        curve=np.zeros(points.size),
        history=np.zeros((slots if history else 0, HISTORY)),
    )


def summarise(
    experiment: Experiment, policy: str, seed: int, slots: int, outcome: Outcome, seconds: float
) -> Result:
    """Return what an outcome's sums say of a run of so many slots."""
    totals = outcome.totals
    return Result(
        policy=policy,
        seed=seed,
        average_cost=float(totals[COST] / slots),
        violations=float(100 * totals[VIOLATIONS] / slots),
        reconfigurations=float(100 * totals[RECONFIGURATIONS] / slots),
        resizes=float(100 * totals[RESIZES] / slots),
        losses=int(totals[LOSSES]),
        resources=float(totals[SPENT] / slots),
        replicas={
            node_type.name: float(total / slots)
            for node_type, total in zip(experiment.node_types, outcome.replicas, strict=True)
        },
        slots=slots,
        operators=len(experiment.operators),
        seconds=seconds,
        curve_slots=outcome.curve_slots,
        curve=outcome.curve,
        history=outcome.history,
    )
