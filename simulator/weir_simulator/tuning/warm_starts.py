"""Results worth trying elsewhere: of an earlier tuning, or of a similar application.

Weights say how much the parts of the cost matter to one policy, so they carry over between
applications with the same policy. Budgets are seconds at operators: they carry over between
operators of the same name, as parts of the bound.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from weir_policies.application_manager.budgets import share_equally
from weir_policies.policy import Tuning
from weir_simulator.beliefs import true_models
from weir_simulator.errors import TuningError
from weir_simulator.experiment import Experiment
from weir_simulator.experiment_files import load_experiment
from weir_simulator.tuning.study import read_best

ROUNDING = 1e-9
"""Relative difference from the bound up to which budgets are taken as they are."""


def read_warm_start(source: Path, experiment: Experiment) -> Tuning:
    """Return what a file or a study found, brought to an experiment.

    Raises:
        TuningError: The study holds no simulation in full, or another policy was tuned.
        ExperimentError: The file holds no experiment.
    """
    if source.is_dir():
        origin, point = read_best(source)
    else:
        origin = load_experiment(source)
        point = tuning_in_force(origin)
    if origin.policy.name != experiment.policy.name:
        raise TuningError(
            f"Expected in {source} a result for the policy {experiment.policy.name}, "
            f"got one for {origin.policy.name}, for which weights have another "
            "meaning; leave this one out"
        )
    return adapt_tuning(point, experiment)


def tuning_in_force(experiment: Experiment) -> Tuning:
    """Return the weights and budgets that an experiment runs with as it is."""
    budgets = experiment.share_bound(experiment.policy.name, true_models(experiment))
    return Tuning(weights=experiment.weights, budgets=budgets)


def adapt_tuning(point: Tuning, experiment: Experiment) -> Tuning:
    """Return a point of another experiment as one of this.

    Its budgets are stretched until a path takes its bound. Where the operators are others, they are
    shares of the bound that are equal along the longest path.
    """
    dataflow, objective = experiment.dataflow, experiment.objective
    bound, sinks = objective.mean_bound, objective.mean_sink_bounds
    if point.budgets.keys() != set(dataflow.operators):
        return replace(point, budgets=share_equally(dataflow, bound, sink_bounds=sinks))
    factor = bound / dataflow.response_time(point.budgets)
    for sink, tighter in sinks.items():
        paths = dataflow.leading_to(sink)
        factor = min(factor, tighter / paths.response_time(point.budgets))
    if abs(factor - 1) <= ROUNDING:
        return point
    budgets = {name: factor * budget for name, budget in point.budgets.items()}
    return replace(point, budgets=budgets)
