import math

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from weir_policies.errors import ShapeError
from weir_policies.kernels.percentiles import gamma_quantile, normal_quantile
from weir_policies.model.queueing import min_response_time, predict
from weir_policies.policy import Aggregation, Sharing
from weir_policies.testing import a_model, all_deployments


def simulate_waits(rng, *, arrival_scv, service_scv, utilisation, records=2_000_000):
    """Waits in a queue with gamma laws and a mean of 1 between arrivals (Lindley's recursion)."""
    between = rng.gamma(1 / arrival_scv, arrival_scv, records)
    service = rng.gamma(1 / service_scv, service_scv * utilisation, records)
    walk = np.concatenate([[0.0], np.cumsum(service[:-1] - between[1:])])
    return (walk - np.minimum.accumulate(walk))[records // 10 :]


def one_replica(**changes):
    return a_model(node_types=a_model().node_types[1:2], **changes), np.array([[1]])


def percentile(prediction, quantile):
    mean, variance = prediction.response_time[0], prediction.variance[0]
    return gamma_quantile(mean, variance, quantile, normal_quantile(quantile))


def test_poisson_arrivals_wait_as_pollaczek_and_khinchine_say():
    model, alone = one_replica(service_mean=0.01, service_scv=0.5)
    rate, second_moment = 80.0, 0.01**2 * 1.5

    prediction = predict(model, alone, rate)

    assert prediction.response_time[0] == pytest.approx(
        0.01 + rate * second_moment / 2 / (1 - 0.8), rel=1e-12
    )
    assert prediction.utilisation[0] == pytest.approx(0.8)


def test_exponential_service_has_the_exponential_response_time_of_m_m_1():
    model, alone = one_replica(service_mean=0.01, service_scv=1.0)

    prediction = predict(model, alone, 80.0)

    assert prediction.response_time[0] == pytest.approx(0.05)
    assert prediction.variance[0] == pytest.approx(0.05**2)
    assert percentile(prediction, 0.95) == pytest.approx(-0.05 * math.log(0.05))


@pytest.mark.parametrize("service_scv", [0.5, 1.0])
@pytest.mark.parametrize("replicas", [2, 4, 8])
@pytest.mark.parametrize("utilisation", [0.7, 0.9])
def test_every_pth_arrival_waits_as_in_a_simulated_queue(replicas, utilisation, service_scv):
    waits = simulate_waits(
        np.random.default_rng(replicas),
        arrival_scv=1 / replicas,
        service_scv=service_scv,
        utilisation=utilisation,
    )
    model = a_model(service_mean=utilisation, service_scv=service_scv)

    prediction = predict(model, np.array([[0, replicas, 0]]), float(replicas))

    mean = waits.mean() + utilisation
    deviation = math.sqrt(waits.var() + service_scv * utilisation**2)
    assert prediction.response_time[0] == pytest.approx(mean, rel=0.05)
    assert math.sqrt(prediction.variance[0]) == pytest.approx(deviation, rel=0.1)


def test_percentiles_are_those_of_a_simulated_queue():
    waits = simulate_waits(
        np.random.default_rng(5), arrival_scv=0.5, service_scv=1.0, utilisation=0.8
    )
    service = np.random.default_rng(6).gamma(1.0, 0.8, waits.size)
    model = a_model(service_mean=0.8, service_scv=1.0)

    prediction = predict(model, np.array([[0, 2, 0]]), 2.0)

    for quantile in (0.5, 0.95, 0.99):
        found = percentile(prediction, quantile)
        assert found == pytest.approx(np.quantile(waits + service, quantile), rel=0.08)


def test_the_path_of_two_operators_adds_up_to_one_law():
    mean, variance = 0.03 + 0.02, 0.03**2 + 0.02**2
    rng = np.random.default_rng(3)
    sums = rng.exponential(0.03, 1_000_000) + rng.exponential(0.02, 1_000_000)

    predicted = gamma_quantile(mean, variance, 0.95, normal_quantile(0.95))

    assert predicted == pytest.approx(np.quantile(sums, 0.95), rel=0.02)


def test_a_certain_time_is_its_own_percentile():
    normal = normal_quantile(0.99)

    assert gamma_quantile(0.1, 0.0, 0.99, normal) == 0.1
    assert gamma_quantile(math.inf, math.inf, 0.99, normal) == math.inf


@pytest.mark.parametrize("aggregation", Aggregation)
@pytest.mark.parametrize("sharing", Sharing)
def test_a_replica_that_cannot_keep_up_has_no_response_time(sharing, aggregation):
    model = a_model(sharing=sharing, aggregation=aggregation)

    prediction = predict(model, np.array([[2, 0, 0], [0, 1, 1]]), np.array([100.0, 261.0]))

    assert prediction.response_time.tolist() == [math.inf, math.inf]
    assert prediction.variance.tolist() == [math.inf, math.inf]
    assert (prediction.utilisation >= 1).all()


@pytest.mark.parametrize("aggregation", Aggregation)
@pytest.mark.parametrize("sharing", Sharing)
@pytest.mark.parametrize("keyed", [True, False])
@pytest.mark.parametrize("unknown", ["rate", "service_mean", "service_scv"])
def test_what_is_unknown_stays_unknown(sharing, aggregation, keyed, unknown):
    known = {"rate": 50.0, "service_mean": 0.01, "service_scv": 1.0} | {unknown: math.nan}
    rate = known.pop("rate")
    model = a_model(sharing=sharing, aggregation=aggregation, keyed=keyed, key_groups=128, **known)

    prediction = predict(model, np.array([[0, 3, 0], [1, 1, 1]]), rate)

    assert np.isnan(prediction.response_time).all()
    assert np.isnan(prediction.variance).all()


@pytest.mark.parametrize("sharing", Sharing)
def test_an_idle_operator_takes_the_service_time_and_the_network_time(sharing):
    model = a_model(sharing=sharing, service_scv=0.5, network_time=0.003)

    prediction = predict(model, np.array([[0, 3, 0], [0, 0, 1]]), 0.0)

    assert prediction.response_time == pytest.approx([0.013, 0.01 / 1.6 + 0.003])
    assert prediction.variance == pytest.approx([0.5 * 0.01**2, 0.5 * (0.01 / 1.6) ** 2])
    assert min_response_time(model) == pytest.approx(0.01 / 1.6 + 0.003)


def test_the_worst_of_two_kinds_of_replicas_is_the_slow_one_and_the_average_lies_between():
    mix, slow = np.array([[0, 1, 1]]), np.array([[0, 2, 0]])

    worst = predict(a_model(), mix, 100.0)
    average = predict(a_model(aggregation=Aggregation.AVERAGE), mix, 100.0)

    assert worst.response_time == pytest.approx(predict(a_model(), slow, 100.0).response_time)
    fast = predict(a_model(), np.array([[0, 0, 2]]), 100.0).response_time
    assert fast[0] < average.response_time[0] < worst.response_time[0]


def test_a_time_without_any_variability_is_only_service():
    model, alone = one_replica(service_scv=0.0, arrival_scv=0.0)

    prediction = predict(model, alone, 90.0)

    assert prediction.response_time[0] == pytest.approx(0.01)
    assert prediction.variance[0] == 0.0


@given(
    rates=st.tuples(st.floats(0, 400), st.floats(0, 400)),
    sharing=st.sampled_from(Sharing),
    aggregation=st.sampled_from(Aggregation),
    keyed=st.booleans(),
    arrival_scv=st.floats(0.1, 3),
    service_scv=st.floats(0.1, 3),
)
def test_more_load_never_shortens_the_response_time(
    rates, sharing, aggregation, keyed, arrival_scv, service_scv
):
    # The adaptive partitioner spares slow replicas only under load: there the average may fall.
    # It works by turns; no edge deals by key and by load.
    assume(sharing is not Sharing.BY_LOAD or (aggregation is Aggregation.WORST and not keyed))
    model = a_model(
        sharing=sharing,
        aggregation=aggregation,
        keyed=keyed,
        arrival_scv=arrival_scv,
        service_scv=service_scv,
        key_groups=128,
        max_replicas=4,
    )
    deployments = all_deployments(3, max_replicas=4)
    less, more = sorted(rates)

    calm, busy = predict(model, deployments, less), predict(model, deployments, more)

    assert (busy.response_time >= calm.response_time * (1 - 1e-9)).all()
    assert (busy.utilisation >= calm.utilisation - 1e-12).all()


@pytest.mark.parametrize("counts", [[[1, 2]], [1, 2, 3]])
def test_deployments_of_another_shape_are_refused(counts):
    with pytest.raises(ShapeError, match="shape"):
        predict(a_model(), np.array(counts), 10.0)
