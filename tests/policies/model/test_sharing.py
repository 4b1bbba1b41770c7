import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from weir_policies.model.queueing import predict
from weir_policies.model.sharing import (
    FILL_LEVEL,
    group_replicas,
    predict_utilisation,
    thin_arrivals,
)
from weir_policies.policy import Aggregation, Sharing
from weir_policies.testing import a_model, all_deployments

MIX = np.array([[1, 2, 1]])  # speeds 0.5, 1, 1 and 1.6: together 4.1 times 100 records/s


def shares(model, deployments, rate):
    groups = group_replicas(model, deployments, np.array([[rate]]))
    return groups, np.broadcast_to(groups.share, groups.replicas.shape)


@given(rate=st.floats(0, 2000), keyed=st.booleans())
def test_the_three_rules_agree_where_all_replicas_are_equally_fast(rate, keyed):
    pure = np.array([[0, 1, 0], [0, 4, 0], [3, 0, 0]])
    predictions = [
        predict(a_model(sharing=sharing, keyed=keyed), pure, rate) for sharing in Sharing
    ]

    equal, *others = predictions

    for other in others:
        assert other.response_time == pytest.approx(equal.response_time, rel=1e-9)
        assert other.utilisation == pytest.approx(equal.utilisation, rel=1e-9)


@given(
    rate=st.floats(0.1, 2000),
    sharing=st.sampled_from(Sharing),
    aggregation=st.sampled_from(Aggregation),
    key_groups=st.sampled_from([None, 7, 128]),
)
def test_the_shares_of_all_replicas_add_up_to_all_records(rate, sharing, aggregation, key_groups):
    model = a_model(
        sharing=sharing, aggregation=aggregation, keyed=aggregation is Aggregation.AVERAGE,
        key_groups=key_groups, max_replicas=5,
    )  # fmt: skip
    deployments = all_deployments(3, max_replicas=5)

    groups, share = shares(model, deployments, rate)

    assert (groups.replicas * share).sum(axis=1) == pytest.approx(np.ones(len(deployments)))


@pytest.mark.parametrize(
    ("replicas", "worst"), [(1, 1.0), (3, 43 / 128), (4, 32 / 128), (5, 26 / 128)]
)
def test_the_worst_of_p_keyed_replicas_carries_the_most_key_groups(replicas, worst):
    model = a_model(keyed=True, key_groups=128)

    utilisation = predict_utilisation(model, np.array([[0, replicas, 0]]), 60.0)

    assert utilisation[0] == pytest.approx(60.0 * worst * 0.01)


@pytest.mark.parametrize(("replicas", "worst"), [(1, 1.0), (2, 0.7), (8, 0.475)])
def test_a_hot_key_stays_with_one_replica_however_many_there_are(replicas, worst):
    model = a_model(keyed=True, key_groups=128, hot_share=0.4)

    utilisation = predict_utilisation(model, np.array([[0, replicas, 0]]), 60.0)

    assert utilisation[0] == pytest.approx(60.0 * worst * 0.01)


def test_where_keys_were_measured_the_fullest_replica_gets_what_they_say():
    model = a_model(keyed=True, key_groups=128, hot_share=0.4, fullest=(1.0, 0.8, 0.5))
    deployments = np.array([[0, 1, 0], [0, 2, 0], [0, 3, 0], [0, 9, 0]])

    utilisation = predict_utilisation(model, deployments, 60.0)

    assert utilisation == pytest.approx([0.6, 0.48, 0.3, 0.3])
    even = replace(model, keyed=False, key_groups=None)
    assert predict_utilisation(even, deployments[1:2], 60.0) == pytest.approx([0.3])


def test_key_groups_leave_some_replicas_with_less_than_the_average():
    keys = a_model(keyed=True, key_groups=4, aggregation=Aggregation.AVERAGE)
    three = np.array([[0, 3, 0]])

    groups, share = shares(keys, three, 90.0)

    assert groups.replicas[0].tolist() == [0, 1, 0, 0, 2, 0]
    assert share[0].tolist() == [0.5, 0.5, 0.5, 0.25, 0.25, 0.25]


def test_more_replicas_than_key_groups_bring_nothing():
    model = a_model(keyed=True, key_groups=4)
    deployments = np.array([[0, 4, 0], [0, 6, 0], [0, 9, 0]])

    utilisation = predict_utilisation(model, deployments, 100.0)

    assert utilisation == pytest.approx([0.25, 0.25, 0.25])


def test_without_keys_there_are_no_key_groups():
    utilisation = predict_utilisation(a_model(key_groups=4), np.array([[0, 3, 0]]), 90.0)

    assert utilisation[0] == pytest.approx(0.3)


def test_proportional_shares_make_all_replicas_equally_busy():
    groups, share = shares(a_model(sharing=Sharing.PROPORTIONAL), MIX, 200.0)

    assert share[0] == pytest.approx(np.array([0.5, 1, 1.6]) / 4.1)
    assert 200 * share[0] * groups.service_mean == pytest.approx([200 / 410] * 3)


def test_the_adaptive_partitioner_shares_equally_while_the_slowest_has_room():
    _, share = shares(a_model(sharing=Sharing.BY_LOAD), MIX, 100.0)

    assert share[0] == pytest.approx([0.25, 0.25, 0.25])


def test_the_adaptive_partitioner_spares_a_replica_that_is_full():
    groups, share = shares(a_model(sharing=Sharing.BY_LOAD), MIX, 240.0)

    busy = 240 * share[0] * groups.service_mean
    assert busy[0] == pytest.approx(FILL_LEVEL)
    assert share[0][1] == share[0][2] == pytest.approx((240 - FILL_LEVEL * 50) / 3 / 240)


def test_the_adaptive_partitioner_follows_speed_when_all_are_full():
    _, share = shares(a_model(sharing=Sharing.BY_LOAD), MIX, 400.0)

    assert share[0] == pytest.approx(np.array([0.5, 1, 1.6]) / 4.1)


@given(rate=st.floats(1, 409))
def test_the_adaptive_partitioner_overloads_nobody_while_there_is_capacity(rate):
    utilisation = predict_utilisation(a_model(sharing=Sharing.BY_LOAD), MIX, rate)

    assert utilisation[0] < 1


@pytest.mark.parametrize(
    ("arrival_scv", "keyed", "expected"),
    [(1.0, False, 0.25), (4.0, False, 1.0), (1.0, True, 1.0), (5.0, True, 2.0)],
)
def test_arrivals_thin_by_turn_or_by_chance(arrival_scv, keyed, expected):
    model = a_model(arrival_scv=arrival_scv, keyed=keyed)

    groups, _ = shares(model, np.array([[0, 4, 0]]), 100.0)

    assert thin_arrivals(model, groups)[0, 0] == pytest.approx(expected)


@pytest.mark.parametrize("sharing", Sharing)
def test_an_unknown_rate_gives_an_unknown_utilisation(sharing):
    assert np.isnan(predict_utilisation(a_model(sharing=sharing), MIX, math.nan)).all()
