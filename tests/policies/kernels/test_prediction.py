import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from weir_policies.kernels.expectation import predict_few
from weir_policies.kernels.policy import fill_model
from weir_policies.kernels.prediction import predict_one
from weir_policies.kernels.view import empty_view
from weir_policies.model.node_types import Deployment, NodeType
from weir_policies.model.queueing import predict_means
from weir_policies.policy import Aggregation, Sharing
from weir_policies.testing import a_model


@st.composite
def cases(draw):
    speeds = draw(st.lists(st.sampled_from([0.25, 0.5, 0.7, 1.0, 1.6]), min_size=1, max_size=4))
    node_types = tuple(
        NodeType(name=f"t{place}", pool=f"p{place}", speedup=speed, price=speed)
        for place, speed in enumerate(speeds)
    )
    model = a_model(
        node_types=node_types,
        sharing=draw(st.sampled_from(Sharing)),
        aggregation=draw(st.sampled_from(Aggregation)),
        keyed=draw(st.booleans()),
        key_groups=draw(st.sampled_from([None, 1, 7, 128])),
        hot_share=draw(st.sampled_from([0.0, 0.4])),
        fullest=draw(st.sampled_from([(), (1.0, 0.6, 0.45, 0.5, 0.4)])),
        arrival_scv=draw(st.sampled_from([0.0, 0.5, 1.0, 3.0])),
        service_scv=draw(st.sampled_from([0.0, 0.5, 2.0])),
        network_time=draw(st.sampled_from([0.0, 0.003])),
    )
    counts = draw(
        st.lists(st.integers(0, 5), min_size=len(speeds), max_size=len(speeds)).filter(any)
    )
    return model, np.array(counts, dtype=np.int64), draw(st.floats(0, 1500))


@given(cases())
def test_the_compiled_model_agrees_with_the_model(case):
    model, counts, rate = case
    view = empty_view(operators=1, node_types=counts.size, max_replicas=20)
    fill_model(view, 0, model)

    time, utilisation = predict_one(0, view, counts, rate)

    times, utilisations = predict_means(model, counts[None, :], rate)
    assert time == pytest.approx(times[0], rel=1e-9)
    assert utilisation == pytest.approx(utilisations[0], rel=1e-9)


@given(cases(), st.integers(1, 3))
def test_a_few_deployments_are_predicted_as_many_are(case, more):
    model, counts, rate = case
    rows = np.array([counts, counts + more])

    predicted = predict_few(model, [Deployment(tuple(row)) for row in rows.tolist()], rate)

    times, utilisations = predict_means(model, rows, rate)
    assert [time for time, _ in predicted] == pytest.approx(times, rel=1e-9)
    assert [busy for _, busy in predicted] == pytest.approx(utilisations, rel=1e-9)


UNKNOWN = (
    a_model(service_mean=math.nan),
    a_model(service_scv=math.nan),
    a_model(arrival_scv=math.nan),
)


@pytest.mark.parametrize("aggregation", Aggregation)
@pytest.mark.parametrize(
    ("model", "rate"), [(a_model(), math.nan), *((each, 10.0) for each in UNKNOWN)]
)
def test_nothing_is_predicted_from_what_is_not_known(model, rate, aggregation):
    here = Deployment((1,) * len(model.node_types))

    [(time, busy)] = predict_few(replace(model, aggregation=aggregation), [here], rate)

    assert math.isnan(time)
    assert math.isnan(busy)
