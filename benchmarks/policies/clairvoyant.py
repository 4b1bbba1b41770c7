"""The least that any policy could have paid, had it known the whole trace beforehand.

A dynamic program backward over the trace of one operator in steady state: per slot it pays for a
violation and the resources of the deployment in force, and for a change to any other. A change
decided in a slot is in force in the next one. The first deployment is free, which makes the result
a lower bound by a few millionths. Only efficient deployments are considered; under equal sharing
with the worst replica counting these are of one node type, because the slowest dictates.
"""

from __future__ import annotations

import numpy as np

from weir_policies.kernels.compiled import compiled_apart
from weir_policies.model.arrays import Floats
from weir_policies.model.queueing import predict_means
from weir_policies.policy import Aggregation, OperatorModel, Sharing
from weir_simulator.arrivals import arrival_rates
from weir_simulator.beliefs import true_models
from weir_simulator.experiment import Experiment

HALVINGS = 60


class ClairvoyantError(ValueError):
    """An experiment that this dynamic program does not solve."""


def least_cost(experiment: Experiment) -> float:
    """Return the mean cost per slot of the best possible course, with changes of any size."""
    model, *others = true_models(experiment)
    simple = model.sharing is Sharing.EQUAL and model.aggregation is Aggregation.WORST
    limited = any(node_type.pool_limit is not None for node_type in model.node_types)
    if others or not simple or limited or experiment.world.carries_backlog:
        raise ClairvoyantError(
            "Expected one operator that shares equally, judged by its worst replica, without pool "
            "limits and backlog: only for these the clairvoyant optimum is known to be of one type"
        )
    capacity, price = efficient_deployments(model, experiment.objective.response_time)
    weights = experiment.weights
    values = np.zeros(capacity.size)
    _go_back(
        arrival_rates(experiment.trace),
        capacity,
        weights.resources * price / (model.max_replicas * experiment.dearest),
        weights.violation,
        weights.reconfiguration,
        values,
    )
    return float(values.min() / arrival_rates(experiment.trace).size)


def efficient_deployments(model: OperatorModel, bound: float) -> tuple[Floats, Floats]:
    """Return capacities, records/s, and hourly prices of what carries more than all cheaper."""
    types = len(model.node_types)
    counts = np.concatenate(
        [count * np.eye(types, dtype=np.int64) for count in range(1, model.max_replicas + 1)]
    )
    speedups = np.array([node_type.speedup for node_type in model.node_types])
    low: Floats = np.zeros(len(counts))
    high: Floats = counts @ speedups / model.service_mean
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        times, _ = predict_means(model, counts, middle)
        keeps = times <= bound
        low, high = np.where(keeps, middle, low), np.where(keeps, high, middle)
    prices: Floats = np.array([node_type.price for node_type in model.node_types])
    # Equal costs compare equal, however they add up.
    price: Floats = (counts @ prices).round(12)
    order = np.lexsort((-low, price))
    best = np.maximum.accumulate(np.concatenate([[-1.0], low[order][:-1]]))
    efficient = order[low[order] > best]
    return low[efficient], price[efficient]


@compiled_apart
def _go_back(
    rates: Floats, capacity: Floats, price: Floats, violation: float, change: float, values: Floats
) -> None:
    """Fill the cost of the whole trace for each first deployment."""
    for slot in range(rates.size - 1, -1, -1):
        minimum = np.inf
        for place in range(values.size):
            minimum = min(minimum, values[place])
        for place in range(values.size):
            now = price[place] + (violation if rates[slot] > capacity[place] else 0.0)
            values[place] = now + min(values[place], minimum + change)
