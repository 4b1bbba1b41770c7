"""What the queueing model expects of a few deployments of one operator.

Compiled: for a handful of deployments, `model.queueing` takes several times as long, nearly all of
it to call NumPy.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from copy import copy
from functools import cache

import numpy as np

from weir_policies.kernels.compiled import compiled
from weir_policies.kernels.policy import fill_queue
from weir_policies.kernels.prediction import predict_one
from weir_policies.kernels.view import View, empty_view
from weir_policies.model.arrays import Counts, Floats
from weir_policies.model.cost import prices_per_hour
from weir_policies.model.node_types import Deployment
from weir_policies.policy import Expectation, Observation, OperatorModel


@compiled
def expect_all(o: int, view: View, rows: Counts, rate: float, expected: Floats) -> None:
    """Write mean response times, s, and utilisations of deployments `(d, t)`.

    Args:
        o: Row of the operator.
        view: Where its model stands.
        rows: The deployments.
        rate: Records/s that arrive.
        expected: Filled with both, `(d, 2)`; the utilisation is that of the worst replica.
    """
    for index in range(rows.shape[0]):
        time, busy = predict_one(o, view, rows[index], rate)
        expected[index, 0], expected[index, 1] = time, busy


def compile_predictions() -> None:
    """Compile `predict_few` now, or load it: the first call of `expect_all` takes a while."""
    expect_all(0, _blank(1), np.ones((1, 1), dtype=np.int64), 1.0, np.empty((1, 2)))


@cache
def _blank(node_types: int) -> View:
    """Return an empty view, which is shared: an array is copied before it is written to.

    To make a view takes longer than to predict. It has room for one replica because no prediction
    reads `joined`.
    """
    return empty_view(operators=1, node_types=node_types, max_replicas=1)


def predict_few(
    model: OperatorModel, deployments: Sequence[Deployment], rate: float
) -> list[list[float]]:
    """Predict as `model.queueing.predict_means`, for a few deployments.

    One difference: where only a variability is NaN, the utilisation is NaN, too.

    Args:
        model: The operator.
        deployments: Each with at least one replica.
        rate: Records/s that arrive.

    Returns:
        Of each the mean response time, s, and the utilisation of the worst replica; both are NaN
        where the rate, the service time or a variability is.
    """
    if math.isnan(rate + model.service_mean + model.service_scv + model.arrival_scv):
        return [[math.nan, math.nan] for _ in deployments]
    blank = _blank(len(model.node_types))
    view = blank._replace(
        model=copy(blank.model),
        speedup=copy(blank.speedup),
        fullest=np.zeros((1, max(len(model.fullest), 1))),
    )
    fill_queue(view, 0, model)
    counts = np.array([each.counts for each in deployments], dtype=np.int64)
    expected = np.empty((len(deployments), 2))
    expect_all(0, view, counts, rate, expected)
    return expected.tolist()


def expect(observation: Observation, deployments: Sequence[Deployment]) -> list[Expectation]:
    """Return what the queueing model expects of each deployment at the measured rate.

    Where the service time is not known, or no finite time is to be expected, the response time is
    NaN; utilisation then follows the number of replicas.
    """
    model = observation.model
    prices = prices_per_hour(deployments, model.node_types)
    if math.isnan(model.service_mean) or math.isnan(model.service_scv):
        busy = max(observation.utilisation, default=0.0) * observation.deployment.size
        return [
            Expectation(response_time=math.nan, utilisation=busy / each.size, cost_per_hour=price)
            for each, price in zip(deployments, prices, strict=True)
        ]
    predicted = predict_few(model, deployments, observation.rate)
    return [
        Expectation(
            response_time=time if math.isfinite(time) else math.nan,
            utilisation=busy,
            cost_per_hour=price,
        )
        for (time, busy), price in zip(predicted, prices, strict=True)
    ]
