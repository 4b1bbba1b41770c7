"""Whether a slot keeps the objective, where it bounds percentiles or single sinks.

The response time at a sink is that of the slowest path to it. It has a mean and a variance: the
sums over the path's operators, each of which has both by the queueing model, as if a record's times
at them were independent. A percentile is that of a gamma law with this mean and variance, as in
`model.queueing`; network times are constant and are added to it. Which path is the slowest, the
mean decides.

With queues, the wait in a backlog is part of an operator's time: the backlog over the records
processed per second, at every moment of the slot. Its variance is that over the slot (`dynamics`).

An M/M/1 queue's response time is exponential, and a sum of equal ones Erlang: for these, the
percentile is exact.
"""

from __future__ import annotations

import numpy as np

from weir_policies.kernels.compiled import compiled_apart
from weir_policies.kernels.percentiles import gamma_quantile, normal_quantile, predict_moments
from weir_policies.kernels.view import View
from weir_policies.model.arrays import Floats
from weir_policies.model.objective import Statistic
from weir_simulator.state import (
    AT_BOUND,
    AT_CONSTANT,
    AT_END,
    AT_MEAN,
    AT_NORMAL,
    AT_QUANTILE,
    AT_SINKS,
    AT_TIME,
    AT_VARIANCE,
    Goals,
    Rules,
    WorldState,
)


@compiled_apart
def judge(rules: Rules, truth: View, state: WorldState, goals: Goals) -> tuple[float, bool]:
    """Return the bounded response time from source to sink, s, and whether a single sink is late.

    Only where `rules.ends` is not 0.
    """
    if not rules.queues:  # with them, the variances were filled with the backlog
        for o in range(truth.counts.shape[0]):
            counts = truth.counts[o]
            _, goals.variance[o], _ = predict_moments(o, truth, counts, state.offered[o])
    _follow_paths(truth, state.offered_response, goals)
    time, late = 0.0, False
    for row in range(goals.bounds.shape[0]):
        found = _time_at_end(goals, row)
        if row < rules.ends:
            time = max(time, found)
        elif found > goals.bounds[row, AT_BOUND]:
            late = True
    return time, late


@compiled_apart
def _follow_paths(truth: View, times: Floats, goals: Goals) -> None:
    """Fill `goals.reached` for all operators; `times` are their mean response times, s."""
    reached = goals.reached
    for o in range(truth.counts.shape[0]):
        reached[o, AT_MEAN], reached[o, AT_VARIANCE] = times[o], goals.variance[o]
        reached[o, AT_CONSTANT] = truth.model[o].network_time
    # Edges to an operator come before those from it, so that it is complete when it is needed.
    for edge in range(truth.edges.shape[0]):
        above, below = truth.edges[edge, 0], truth.edges[edge, 1]
        mean = reached[above, AT_MEAN] + times[below]
        if mean > reached[below, AT_MEAN]:
            constant = reached[above, AT_CONSTANT] + truth.model[below].network_time
            reached[below, AT_MEAN], reached[below, AT_CONSTANT] = mean, constant
            reached[below, AT_VARIANCE] = reached[above, AT_VARIANCE] + goals.variance[below]


@compiled_apart
def _time_at_end(goals: Goals, row: int) -> float:
    """Return the bounded statistic of the response time where a bound applies, s."""
    bound = goals.bounds[row]
    end = int(bound[AT_END])
    mean, constant = goals.reached[end, AT_MEAN], goals.reached[end, AT_CONSTANT]
    if bound[AT_QUANTILE] == 0:
        return mean
    variance = goals.reached[end, AT_VARIANCE]
    return find_percentile(mean, variance, constant, bound[AT_QUANTILE], bound[AT_NORMAL])


@compiled_apart
def find_percentile(
    mean: float, variance: float, constant: float, quantile: float, normal: float
) -> float:
    """Return a percentile of a time with a constant part, s; `normal` is a normal law's."""
    # An operator that got no records has no time, not even on the wire.
    return gamma_quantile(max(mean - constant, 0.0), variance, quantile, normal) + constant


def take_statistics(reached: Floats, statistic: Statistic) -> Floats:
    """Return a statistic of many times, s, `(slots,)`.

    Args:
        reached: Mean, variance and constant part of each, `(3, slots)`.
        statistic: Which.
    """
    if statistic.quantile is None:
        mean: Floats = reached[0]
        return mean
    found = np.empty(reached.shape[1])
    normal = normal_quantile(statistic.quantile)
    _fill_percentiles(np.ascontiguousarray(reached), statistic.quantile, normal, found)
    return found


@compiled_apart
def _fill_percentiles(reached: Floats, quantile: float, normal: float, found: Floats) -> None:
    """Write a percentile of each time, s; `reached` has mean, variance and constant part."""
    for slot in range(found.size):
        found[slot] = find_percentile(
            reached[0, slot], reached[1, slot], reached[2, slot], quantile, normal
        )


def find_late(history: Floats, bound: float) -> Floats:
    """Return 1 for each slot of a history that violates the objective, else 0, `(slots,)`.

    Args:
        history: As in `state`.
        bound: From source to sink, s; those of single sinks are judged in the history.
    """
    late: Floats = np.maximum(history[:, AT_TIME] > bound, history[:, AT_SINKS])
    return late
