import json
import math
from dataclasses import replace

import numpy as np
import pytest

from weir_policies.errors import StateError
from weir_policies.model.estimation import (
    CALM,
    MEMORY,
    WRONG,
    WRONG_FOR,
    OperatorBelief,
    ServiceMeasurement,
    believe,
    estimate_speedups,
    learn_arrival_scv,
    learn_hot_share,
    learn_keys,
    learn_network_time,
    learn_services,
    note_error,
    without_network,
)
from weir_policies.model.keys import KeyShares
from weir_policies.model.node_types import Deployment
from weir_policies.model.queueing import predict, predict_means
from weir_policies.policy import Aggregation
from weir_policies.testing import a_model

SPECIFIED = a_model(service_mean=math.nan, service_scv=1.0)
DEPLOYMENT = Deployment((0, 2, 1))


def measure(name, mean, *, records=1000.0, scv=0.5):
    return ServiceMeasurement(node_type=name, records=records, mean=mean, variance=scv * mean**2)


def learn(belief, *services, given=(), rate=math.nan, response_time=math.nan, model=SPECIFIED):
    belief = learn_services(belief, services)
    average = without_network(believe(belief, model, given=given))
    predicted, utilisation = predict_means(average, np.array([DEPLOYMENT.counts]), rate)
    return learn_network_time(
        belief,
        response_time=response_time,
        predicted=float(predicted[0]),
        utilisation=float(utilisation[0]),
    )


def test_nothing_measured_leaves_the_model_as_it_was_specified():
    model = believe(OperatorBelief(), SPECIFIED, given=())

    assert math.isnan(model.service_mean)
    assert replace(model, service_mean=1.0) == replace(SPECIFIED, service_mean=1.0)


def test_service_times_of_all_node_types_pool_into_one_at_speedup_one():
    measured = measure("small/1", 0.012), measure("large/1", 0.01, records=3000.0)

    belief = learn(OperatorBelief(), *measured, given=["small/1", "large/1"])

    model = believe(belief, SPECIFIED, given=["small/1", "large/1"])
    assert model.service_mean == pytest.approx((0.012 + 3 * 0.016) / 4)
    assert model.service_scv == pytest.approx(0.5)
    assert [node_type.speedup for node_type in model.node_types] == [0.5, 1.0, 1.6]


def test_a_speedup_that_nobody_gave_is_the_ratio_to_one_that_was():
    belief = learn(OperatorBelief(), measure("small/1", 0.012), measure("large/1", 0.004))

    speedups = estimate_speedups(belief, SPECIFIED.node_types, given=["small/1"])

    assert speedups["large/1"] == pytest.approx(3.0)


def test_a_given_speedup_anchors_even_where_it_is_not_the_first():
    belief = learn(OperatorBelief(), measure("small/1", 0.016), measure("large/1", 0.010))

    speedups = estimate_speedups(belief, SPECIFIED.node_types, given=["large/1"])

    assert speedups["small/1"] == pytest.approx(1.0)
    assert speedups["large/1"] == 1.6


def test_without_a_given_speedup_the_first_measured_node_type_is_the_reference():
    belief = learn(OperatorBelief(), measure("large/1", 0.005), measure("small/1", 0.010))

    speedups = estimate_speedups(belief, SPECIFIED.node_types, given=[])

    assert speedups["small/1"] == 1.0
    assert speedups["large/1"] == pytest.approx(2.0)


def test_a_size_that_never_ran_follows_its_pool():
    belief = learn(OperatorBelief(), measure("large/1", 0.01), measure("small/1", 0.008))

    speedups = estimate_speedups(belief, SPECIFIED.node_types, given=["large/1"])

    assert speedups["small/1"] == pytest.approx(2.0)
    assert speedups["small/500m"] == pytest.approx(1.0)


def test_a_handful_of_records_teaches_nothing_yet():
    belief = learn(OperatorBelief(), measure("large/1", 0.1, records=20.0))

    assert math.isnan(believe(belief, SPECIFIED, given=["large/1"]).service_mean)


def test_few_records_are_believed_while_no_node_type_has_more():
    belief = learn(OperatorBelief(), measure("large/1", 0.1, records=40.0))

    assert believe(belief, SPECIFIED, given=["large/1"]).service_mean == pytest.approx(0.16)

    belief = learn(belief, measure("small/1", 0.3, records=100.0))

    assert believe(belief, SPECIFIED, given=["small/1"]).service_mean == pytest.approx(0.3)


def test_the_estimate_converges_on_the_law_that_the_samples_come_from():
    rng = np.random.default_rng(11)
    belief = OperatorBelief()

    for _ in range(40):
        samples = rng.gamma(2.0, 0.005 / 1.3, 500)
        measured = ServiceMeasurement(
            node_type="small/1", records=500.0, mean=samples.mean(), variance=samples.var()
        )
        belief = learn(belief, measured, given=["small/1"])

    model = believe(belief, SPECIFIED, given=["small/1"])
    assert model.service_mean == pytest.approx(0.01 / 1.3, rel=0.02)
    assert model.service_scv == pytest.approx(0.5, rel=0.05)


def test_work_that_changes_is_followed():
    belief = learn(OperatorBelief(), measure("small/1", 0.01, records=1_000_000.0))

    for _ in range(20):
        belief = learn(belief, measure("small/1", 0.03, records=MEMORY / 5))

    assert believe(belief, SPECIFIED, given=["small/1"]).service_mean == pytest.approx(
        0.03, rel=0.05
    )


def test_a_job_without_a_variance_keeps_the_assumed_one():
    plain = ServiceMeasurement(node_type="small/1", records=500.0, mean=0.01, variance=math.nan)

    belief = learn(OperatorBelief(), plain, given=["small/1"])

    model = believe(belief, SPECIFIED, given=["small/1"])
    assert (model.service_mean, model.service_scv) == (0.01, 1.0)


@pytest.mark.parametrize("mean", [math.nan, 0.0])
def test_an_unusable_mean_is_passed_over(mean):
    belief = learn(OperatorBelief(), measure("small/1", mean))

    assert belief == OperatorBelief()


def truth(rate, network_time):
    model = a_model(aggregation=Aggregation.AVERAGE, network_time=network_time)
    return float(predict(model, np.array([DEPLOYMENT.counts]), rate).response_time[0])


def test_the_network_time_is_what_a_calm_operator_takes_beyond_the_prediction():
    belief = OperatorBelief()

    for rate in (60.0, 90.0, 120.0):
        belief = learn(
            belief, model=a_model(), rate=rate, response_time=truth(rate, network_time=0.004)
        )

    assert believe(belief, a_model(), given=()).network_time == pytest.approx(0.004)


def test_the_network_time_moves_slowly_once_it_is_known():
    known = OperatorBelief(network_time=0.004, calm_intervals=50)

    belief = learn(known, model=a_model(), rate=60.0, response_time=truth(60.0, 0.024))

    assert belief.network_time == pytest.approx(0.006)


def test_what_waited_in_an_earlier_backlog_is_forgotten_with_the_next_calm_interval():
    drained = learn(OperatorBelief(), model=a_model(), rate=60.0, response_time=9.0)

    belief = learn(drained, model=a_model(), rate=60.0, response_time=truth(60.0, 0.004))

    assert belief.network_time == pytest.approx(0.004)


def test_a_busy_operator_teaches_no_network_time():
    belief = learn(OperatorBelief(), model=a_model(), rate=250.0, response_time=1.0)

    assert belief == OperatorBelief()


def test_the_network_time_is_never_negative():
    belief = learn(OperatorBelief(), model=a_model(), rate=60.0, response_time=0.0001)

    assert belief.network_time == 0.0


def test_an_unknown_response_time_teaches_nothing():
    belief = learn(OperatorBelief(), model=a_model(), rate=60.0)

    assert belief == OperatorBelief()


def expect(model, rate):
    means, utilisation = predict_means(without_network(model), np.array([DEPLOYMENT.counts]), rate)
    return float(means[0]), float(utilisation[0])


def learn_waiting(belief, specified, *, rate, response_time):
    """Learn from an interval as an Operator Manager does, but for services and hot keys."""
    believed = believe(belief, specified, given=())
    predicted, utilisation = expect(believed, rate)
    belief = note_error(
        belief, response_time=response_time, expected=predicted + believed.network_time
    )
    return learn_arrival_scv(
        belief,
        specified,
        passed=response_time - believed.network_time,
        utilisation=utilisation,
        size=DEPLOYMENT.size,
        predict=lambda scv: expect(replace(believed, arrival_scv=scv), rate)[0],
    )


@pytest.mark.parametrize("keyed", [False, True])
@pytest.mark.parametrize("network_time", [0.0, 0.005])
@pytest.mark.parametrize("times", [4, 12, 60])
@pytest.mark.parametrize("load", [0.6, 0.8, 0.95])
def test_waiting_that_is_wrong_by_a_factor_is_believed_after_three_intervals_and_given_up_again(
    keyed, network_time, times, load
):
    specified = a_model(keyed=keyed, network_time=network_time)
    rate = load / expect(specified, 1.0)[1]
    fitting = expect(specified, rate)[0] + network_time
    belief, beliefs = OperatorBelief(), []
    for response_time in [times * fitting] * WRONG_FOR + [fitting] * WRONG_FOR:
        belief = learn_waiting(belief, specified, rate=rate, response_time=response_time)
        beliefs.append(believe(belief, specified, given=()))

    assert beliefs[: WRONG_FOR - 1] == [specified] * (WRONG_FOR - 1)
    corrected = beliefs[WRONG_FOR - 1]
    assert expect(corrected, rate)[0] + network_time == pytest.approx(times * fitting)
    assert beliefs[-2:] == [corrected, specified]


@pytest.mark.parametrize(
    ("load", "factors"),
    [
        (0.8, [0.95 * WRONG] * 9),
        (0.8, [1.05 / WRONG] * 9),
        (0.8, [9.0, 9.0, 1.0] * 3),
        (0.8, [9.0, 9.0, 1 / 9] * 3),
        (0.9 * CALM, [9.0] * 9),
        (1.1, [9.0] * 9),
        (0.8, [math.nan] * 9),
    ],
    ids=["near", "nearly", "not in a row", "both ways", "calm", "overloaded", "not measured"],
)
def test_waiting_that_is_not_wrong_for_long_or_for_other_reasons_is_not_corrected(load, factors):
    specified = a_model()
    rate = load / expect(specified, 1.0)[1]
    belief = OperatorBelief()
    for factor in factors:
        response_time = factor * expect(specified, min(load, 0.9) * rate / load)[0]
        belief = learn_waiting(belief, specified, rate=rate, response_time=response_time)

    assert believe(belief, specified, given=()) == specified


KEYED = a_model(keyed=True, key_groups=128)


def test_the_part_that_a_hot_key_brings_is_seen_in_the_shares_of_the_replicas():
    belief = OperatorBelief()
    for _ in range(8):
        belief = learn_hot_share(belief, [700.0, 300.0], KEYED)

    assert believe(belief, KEYED, given=()).hot_share == pytest.approx(0.4, rel=0.01)
    # On three replicas, 43 of 128 key groups are the even share of the fullest.
    spread = learn_hot_share(OperatorBelief(), [43.0, 43.0, 42.0], KEYED)
    assert believe(spread, KEYED, given=()).hot_share == 0.0


@pytest.mark.parametrize(
    ("records", "model"),
    [
        ([1000.0], KEYED),
        ([9.0, 1.0], KEYED),
        ([math.nan, 1000.0], KEYED),
        ([900.0, 100.0], a_model()),
    ],
    ids=["one replica", "few records", "not known", "no keys"],
)
def test_shares_that_say_nothing_of_keys_teach_nothing(records, model):
    known = OperatorBelief(hot_share=0.3)

    assert learn_hot_share(known, records, model) == known


HALF_IN_ONE = KeyShares(by_group=(0.5, *[0.5 / 127] * 127), counted=10_000)


def test_keys_that_are_counted_take_the_place_of_what_rates_say():
    belief = OperatorBelief(hot_share=0.3)

    believed = believe(learn_keys(belief, HALF_IN_ONE, 4), KEYED, given=())

    assert believed.hot_share == 0.0
    assert believed.fullest == pytest.approx(
        (1.0, *(0.5 + n / 254 for n in (63, 42, 31))), rel=1e-3
    )
    even = KeyShares(by_group=(1 / 128,) * 128, counted=10_000)
    believed = believe(learn_keys(belief, even, 4), KEYED, given=())
    assert not believed.is_skewed


def test_counts_that_differ_by_chance_change_no_belief():
    belief = learn_keys(OperatorBelief(), HALF_IN_ONE, 4)
    again = KeyShares(by_group=(0.505, *[0.495 / 127] * 127), counted=10_000)
    other = KeyShares(by_group=(0.6, *[0.4 / 127] * 127), counted=10_000)

    assert learn_keys(belief, again, 4) is belief
    assert learn_keys(belief, replace(other, counted=9), 4) is belief
    assert learn_keys(belief, None, 4) is belief
    assert learn_keys(belief, other, 4) != belief


@pytest.mark.parametrize("records", [100, 200, 400, 10_000])
def test_even_keys_are_not_hot_by_chance(records):
    draws, belief, hot = np.random.default_rng(7), OperatorBelief(), []
    for _ in range(1000):
        first = draws.binomial(records, 0.5)
        belief = learn_hot_share(belief, [first, records - first], KEYED)
        hot.append(believe(belief, KEYED, given=()).hot_share > 0)

    assert np.mean(hot) < 0.01


def test_a_belief_survives_storage_as_json():
    unknown = ServiceMeasurement(node_type="large/1", records=10.0, mean=0.01, variance=math.nan)
    belief = learn(OperatorBelief(), measure("small/1", 0.1 / 3), unknown)

    belief = replace(belief, wrong=-2, arrival_scv=7.5)

    restored = OperatorBelief.from_dict(json.loads(json.dumps(belief.to_dict(), allow_nan=False)))

    assert restored.services["small/1"] == belief.services["small/1"]
    assert math.isnan(restored.services["large/1"].variance)
    assert restored.to_dict() == belief.to_dict()


def test_a_belief_of_another_version_is_refused():
    with pytest.raises(StateError, match="version 1, got 99"):
        OperatorBelief.from_dict(OperatorBelief().to_dict() | {"version": 99})
