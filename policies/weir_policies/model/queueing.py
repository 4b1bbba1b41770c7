"""Response time of an operator: its replicas as G/G/1 queues in steady state.

Knows no clock and no backlog. A replica that cannot keep up has no steady state and answers `inf`.

Mean wait of a replica: Kingman's formula, which is exact for Poisson arrivals (Pollaczek-Khinchine,
M/G/1), times the correction of Kraemer and Langenbach-Belz where arrivals are more regular than
Poisson. Every p-th arrival of a Poisson stream is such a stream. Against simulated queues with 2 to
8 replicas, utilisation 0.5 to 0.9 and a service SCV of 0.25 to 2, the response time is at most 4 %
off with the correction and up to 17 % too high without.

Variance: the wait is zero or, with the probability of a delay, a conditional wait whose variability
is that of M/G/1. Service times are taken as gamma for the third moment that this needs. Percentiles
come from a gamma law with the same mean and variance.

Sources: Kingman, Proc. Cambridge Phil. Soc. 57 (1961). Kraemer and Langenbach-Belz, Eighth
International Teletraffic Congress (1976). Whitt, "The Queueing Network Analyzer", Bell System
Technical Journal 62 (1983), section 5. Russo Russo, Cardellini, Lo Presti, ACM TAAS 2023: for its
M/G/1 model `keyed` with an arrival SCV of 1 gives the very formula.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from weir_policies.model.arrays import Counts, Floats
from weir_policies.model.sharing import (
    ReplicaGroups,
    as_column,
    group_replicas,
    thin_arrivals,
    worst_in_use,
)
from weir_policies.policy import Aggregation, OperatorModel


@dataclass(frozen=True, slots=True)
class Prediction:
    """What an operator is expected to do in each of `b` deployments."""

    response_time: Floats
    """Mean seconds in the operator, network time included, shape `(b,)`; `inf` where a replica
    that gets records cannot keep up."""
    variance: Floats
    """Of the response time, s^2, shape `(b,)`; the network time counts as constant."""
    utilisation: Floats
    """Busy share of the worst replica, shape `(b,)`; above 1 where it cannot keep up."""


def predict(model: OperatorModel, deployments: Counts, rate: Floats | float) -> Prediction:
    """Predict an operator's response time in each deployment.

    Args:
        model: The operator.
        deployments: Replicas per node type, shape `(b, t)`; each row has at least one.
        rate: Records/s that arrive at the operator, a scalar or shape `(b,)`.

    Returns:
        Three arrays of shape `(b,)`, NaN wherever the rate or the service time is NaN.

    Raises:
        ShapeError: The last axis of `deployments` does not match the node types.
    """
    queues = _see_as_queues(model, deployments, rate)
    waiting_variance = waiting_time_variance(
        waiting_time=queues.waiting_time,
        utilisation=queues.utilisation,
        service_scv=model.service_scv,
        arrival_scv=queues.arrival_scv,
    )
    variance = waiting_variance + model.service_scv * queues.groups.service_mean**2
    if model.aggregation is Aggregation.WORST:
        mean, spread = _take_worst(queues, variance)
    else:
        mean, spread = _take_average(queues, variance)
    return Prediction(
        response_time=mean + model.network_time,
        variance=spread,
        utilisation=worst_in_use(queues.groups, queues.utilisation),
    )


def predict_means(
    model: OperatorModel, deployments: Counts, rate: Floats | float
) -> tuple[Floats, Floats]:
    """Return `response_time` and `utilisation` of `predict`, at two thirds of its cost."""
    queues = _see_as_queues(model, deployments, rate)
    if model.aggregation is Aggregation.WORST:
        mean = worst_in_use(queues.groups, queues.response_time)
    else:
        mean = _average(queues, queues.response_time)
    return mean + model.network_time, worst_in_use(queues.groups, queues.utilisation)


def mean_waiting_time(
    *, utilisation: Floats, service_mean: Floats, service_scv: float, arrival_scv: Floats
) -> Floats:
    """Return how long a record waits at each replica on average, s.

    Args:
        utilisation: Arrival rate times mean service time, shape `(b, g)`.
        service_mean: Seconds of work per record, shape `(g,)`.
        service_scv: Squared coefficient of variation of the service time.
        arrival_scv: The same of the times between arrivals, shape `(b, g)` or `(b, 1)`.

    Returns:
        Shape `(b, g)`; `inf` where utilisation >= 1, NaN where anything is NaN.
    """
    variability, idle = arrival_scv + service_scv, 1 - utilisation
    # Utilisation 1 is answered at the end; next to 0 the exponent overflows to -inf, as it should.
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        waiting = utilisation / idle * service_mean * variability / 2
        regular = arrival_scv < 1
        if np.count_nonzero(regular):
            weight = (1 - arrival_scv) ** 2 / variability
            factor = np.exp(-2 * idle * weight / (3 * utilisation))
            # Without variability there is no wait to correct: 0/0 must not make it NaN.
            np.multiply(waiting, factor, out=waiting, where=regular & (variability > 0))
            waiting[utilisation == 0] = 0.0
    # Ask for >= 1, not < 1: every comparison with NaN is False, and NaN must stay NaN.
    waiting[utilisation >= 1] = np.inf
    return waiting


def waiting_time_variance(
    *, waiting_time: Floats, utilisation: Floats, service_scv: float, arrival_scv: Floats
) -> Floats:
    """Return the variance of the wait at each replica, s^2, shape `(b, g)`.

    Arguments are those of `mean_waiting_time`, with its answer. Exact for M/G/1 with gamma service.
    """
    # E[S^3] / E[S]^3 of a gamma law, and the SCV of a wait that is not zero (Whitt, eq. 53).
    third_moment = (1 + service_scv) * (1 + 2 * service_scv)
    conditional_scv = (
        2 * utilisation - 1 + 4 * (1 - utilisation) * third_moment / (3 * (1 + service_scv) ** 2)
    )
    square = waiting_time**2
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        delayed = _delay_probability(utilisation, service_scv, arrival_scv)
        scv = (conditional_scv + 1 - delayed) / delayed
        variance = np.where(square == 0, 0.0, square * scv)
    return np.where(np.isinf(waiting_time), np.inf, variance)


def min_response_time(model: OperatorModel) -> float:
    """Return the mean response time that no deployment can go below, s: the fastest node, idle."""
    fastest = max(node_type.speedup for node_type in model.node_types)
    return model.service_mean / fastest + model.network_time


def _delay_probability(utilisation: Floats, service_scv: float, arrival_scv: Floats) -> Floats:
    """Return the probability that a record must wait (Whitt, eq. 49 and 50)."""
    square = utilisation**2 * (4 * arrival_scv + service_scv)
    regular = (1 + arrival_scv + utilisation * service_scv) / (
        1 + utilisation * (service_scv - 1) + square
    )
    bursty = 4 * utilisation / (arrival_scv + square)
    shape = np.where(arrival_scv <= 1, regular, bursty)
    return utilisation + (arrival_scv - 1) * utilisation * (1 - utilisation) * shape


@dataclass(frozen=True, slots=True)
class _Queues:
    """The groups of replicas as queues, shapes `(b, g)` or what broadcasts to it."""

    groups: ReplicaGroups
    utilisation: Floats
    arrival_scv: Floats
    waiting_time: Floats
    response_time: Floats


def _see_as_queues(model: OperatorModel, deployments: Counts, rate: Floats | float) -> _Queues:
    column = as_column(rate)
    groups = group_replicas(model, deployments, column)
    utilisation = column * groups.share * groups.service_mean
    arrival_scv = thin_arrivals(model, groups)
    waiting_time = mean_waiting_time(
        utilisation=utilisation,
        service_mean=groups.service_mean,
        service_scv=model.service_scv,
        arrival_scv=arrival_scv,
    )
    return _Queues(
        groups, utilisation, arrival_scv, waiting_time, waiting_time + groups.service_mean
    )


def _take_worst(queues: _Queues, variance: Floats) -> tuple[Floats, Floats]:
    """Return both moments of the replica with the greatest mean, shapes `(b,)`."""
    in_use = np.where(queues.groups.replicas > 0, queues.response_time, -np.inf)
    worst = in_use.argmax(axis=1)  # NaN counts as the greatest, so it stays
    row = np.arange(worst.size)
    return in_use[row, worst], variance[row, worst]


def _take_average(queues: _Queues, variance: Floats) -> tuple[Floats, Floats]:
    """Return both moments of a record's time at whichever replica it goes to, shapes `(b,)`."""
    first = _average(queues, queues.response_time)
    second = _average(queues, variance + queues.response_time**2)
    with np.errstate(invalid="ignore"):
        spread = np.maximum(second - first**2, 0.0)
    return first, np.where(np.isinf(first), np.inf, spread)


def _average(queues: _Queues, value: Floats) -> Floats:
    """Return the mean over records, each at the replica that it goes to, shape `(b,)`."""
    weight = queues.groups.replicas * queues.groups.share
    # 0 * inf is NaN: a group without records has no say. A NaN weight is not 0 and stays NaN.
    average: Floats = (weight * np.where(weight == 0, 0.0, value)).sum(axis=1)
    return average
