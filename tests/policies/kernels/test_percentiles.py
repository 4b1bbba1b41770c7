import itertools

import numpy as np
import pytest
from scipy.special import gammaincinv

from weir_policies.kernels.percentiles import (
    gamma_quantile,
    normal_quantile,
    predict_percentile,
)
from weir_policies.kernels.policy import fill_model
from weir_policies.kernels.view import empty_view
from weir_policies.model.queueing import predict
from weir_policies.policy import Aggregation, Sharing
from weir_policies.testing import a_model

DEPLOYMENTS = np.array([(1, 0, 0), (0, 3, 0), (2, 1, 0), (1, 2, 3), (0, 0, 7)])


def gamma_percentile(mean, variance, quantile):
    with np.errstate(divide="ignore", invalid="ignore"):
        gamma = variance / mean * gammaincinv(mean**2 / variance, quantile)
    return np.where(np.isinf(mean), np.inf, np.where(variance == 0, mean, gamma))


@pytest.mark.parametrize("quantile", [0.01, 0.5, 0.95, 0.999])
@pytest.mark.parametrize("shape", [0.05, 0.7, 1.0, 3.0, 80.0, 9_000.0, 1e5])
def test_a_percentile_of_a_gamma_law_is_scipys(shape, quantile):
    mean, variance = 0.02, 0.02**2 / shape

    found = gamma_quantile(mean, variance, quantile, normal_quantile(quantile))

    assert found == pytest.approx(variance / mean * gammaincinv(shape, quantile), rel=1e-6)


@pytest.mark.parametrize(
    "changes",
    [
        {
            "sharing": sharing,
            "aggregation": aggregation,
            "keyed": keyed,
            "key_groups": groups,
            "service_scv": scv,
        }
        for sharing, aggregation, (keyed, groups), scv in itertools.product(
            Sharing, Aggregation, ((False, None), (True, None), (True, 13)), (0.4, 2.0)
        )
    ],
    ids=str,
)
def test_a_percentile_of_the_response_time_is_the_models(changes):
    model = a_model(network_time=0.003, arrival_scv=1.3, **changes)
    view = empty_view(operators=1, node_types=3, max_replicas=10)
    fill_model(view, 0, model)

    for rate in (0.0, 20.0, 150.0, 700.0):
        known = predict(model, DEPLOYMENTS, rate)
        queued = gamma_percentile(known.response_time - 0.003, known.variance, 0.95)
        for counts, time, busy in zip(DEPLOYMENTS, queued + 0.003, known.utilisation, strict=True):
            found = predict_percentile(0, view, counts, rate, 0.95, normal_quantile(0.95))

            assert found == pytest.approx((time, busy), rel=1e-6)
