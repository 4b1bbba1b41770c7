"""What no policy can do: how often the largest deployment itself misses a bound.

An operator is fastest with all its replicas on the fastest node type that it may run on: each gets
the least records and works them off soonest, whatever the rule of sharing. Left out is everything
that could only make it worse: backlog, lost replicas, and limits of pools, which may make another
deployment the fastest. Where this says that a bound is missed, it is missed, by replicas of nominal
speed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from weir_policies.model.arrays import Floats
from weir_policies.model.node_types import NOWHERE
from weir_policies.model.queueing import predict_means
from weir_simulator.arrivals import arrival_rates
from weir_simulator.beliefs import true_models
from weir_simulator.experiment import Experiment


def unavoidable_violations(experiment: Experiment, bounds: Sequence[float]) -> tuple[float, ...]:
    """Return percent of the slots in which even the largest deployment exceeds each bound.

    Args:
        experiment: Gives operators, node types and traffic.
        bounds: Seconds from source to sink.

    Raises:
        TraceError: The trace cannot be read.
    """
    times = _least_times(experiment)
    return tuple(float(100 * np.mean(times > bound)) for bound in bounds)


def _least_times(experiment: Experiment) -> Floats:
    """Return the least response time from source to sink, s, shape `(slots,)`."""
    dataflow = experiment.dataflow
    rates = _rates(experiment)
    shares = dataflow.spread_rates(dict.fromkeys(dataflow.sources, 1.0))
    # A node type that is faster for a while is taken to be so throughout.
    gain = max(
        (factor for each in experiment.world.changes for factor in each.speedups.values()),
        default=1.0,
    )
    behind: dict[str, Floats] = {}
    reached = np.zeros(rates.size)
    for model in sorted(true_models(experiment), key=lambda it: dataflow.order.index(it.name)):
        quick = replace(model, service_mean=model.service_mean / max(gain, 1.0))
        deployment = np.zeros((1, len(model.node_types)), dtype=np.int64)
        speeds = [0.0 if each.pool == NOWHERE else each.speedup for each in model.node_types]
        deployment[0, int(np.argmax(speeds))] = model.max_replicas
        rate = rates * shares[model.name]
        rows = np.repeat(deployment, rate.size, axis=0)
        time, _ = predict_means(quick, rows, rate)
        before = [behind[edge.source] for edge in dataflow.into(model.name)]
        behind[model.name] = time + (np.max(before, axis=0) if before else 0.0)
        reached = np.maximum(reached, behind[model.name])
    return reached


def _rates(experiment: Experiment) -> Floats:
    """Return the records/s of each slot at a source, changes on the way included."""
    rates = np.array(arrival_rates(experiment.trace), dtype=float)
    factors = np.ones(rates.size)
    for change in sorted(experiment.world.changes, key=lambda each: each.slot):
        if change.rate is not None:
            factors[change.slot :] = change.rate
    return rates * factors
