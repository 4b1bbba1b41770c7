"""Shares of key groups, and what the fullest replica gets of them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from weir_policies.errors import ParameterError
from weir_policies.model.keys import (
    HeavyKey,
    KeyShares,
    fullest_share,
    fullest_shares,
    group_of,
    measure_lengths,
    most_useful,
    replica_shares,
    shares_of_groups,
    zipf_shares,
)

# Of Flink 2.3: KeyGroupRangeAssignment.computeKeyGroupForKeyHash(hash, 720).
FLINK = {
    0: 94,
    1: 198,
    12345: 241,
    -1: 208,
    -99999: 227,
    -(2**31): 12,
    2**31 - 1: 14,
    1097125900: 150,
}


def test_keys_are_in_the_groups_in_which_flink_has_them():
    assert {code: group_of(code, 720) for code in FLINK} == FLINK


def test_neighbouring_key_groups_share_a_replica_as_in_flink():
    assert replica_shares([0.1, 0.2, 0.3, 0.4], 3) == pytest.approx([0.3, 0.3, 0.4])
    assert fullest_share([0.1, 0.2, 0.3, 0.4], 2) == pytest.approx(0.7)
    assert replica_shares([0.5, 0.5], 3).sum() == pytest.approx(1.0)


@given(st.lists(st.floats(0.001, 1.0), min_size=1, max_size=50), st.integers(1, 60))
def test_all_records_go_to_some_replica(weights, parallelism):
    shares = replica_shares(np.array(weights) / sum(weights), parallelism)

    assert shares.shape == (parallelism,)
    assert shares.sum() == pytest.approx(1.0)


def test_a_heavy_key_gives_one_replica_at_least_its_share():
    keys = np.array([0.3, *[0.7 / 9999] * 9999])
    groups = KeyShares(by_group=shares_of_groups(keys, 720), counted=1e6)

    fullest = fullest_shares(groups, 20)

    assert len(fullest) == 20
    assert fullest[0] == pytest.approx(1.0)
    assert min(fullest) > 0.3
    assert most_useful(fullest) < 20


def test_many_keys_of_one_weight_are_even():
    groups = KeyShares(by_group=shares_of_groups(np.full(100_000, 1e-5), 720), counted=1e6)

    assert fullest_shares(groups, 12) == ()


def test_few_records_are_uneven_by_chance():
    counts = np.random.default_rng(7).multinomial(200, np.full(720, 1 / 720))
    groups = KeyShares(by_group=tuple((counts / 200).tolist()), counted=200)

    assert fullest_shares(groups, 4) == ()


def test_replicas_help_only_beyond_chance():
    true = np.zeros(128)
    true[[0, 4, 70, 71, 72, 73]] = 0.3, 0.1, 0.1, 0.1, 0.2, 0.2
    drawn = np.random.default_rng(7).multinomial(5000, true) / 5000
    few = fullest_shares(KeyShares(by_group=tuple(drawn.tolist()), counted=5000), 40)
    known = fullest_shares(KeyShares(by_group=tuple(true.tolist()), counted=np.inf), 40)

    steps = {round(each, 2) for each in known}
    assert len(set(few)) == len(steps)
    assert few == pytest.approx(known, rel=0.05)


def test_more_replicas_than_part_the_heavy_groups_are_of_no_use():
    assert most_useful([1.0, 0.6, 0.45, 0.46, 0.44]) == 3
    assert most_useful([1.0]) == 1


def test_a_key_is_shown_by_its_text_where_that_is_known():
    assert HeavyKey(name="=hot key", group=1, share=0.3).label == "'hot key'"
    assert HeavyKey(name="1a2b3c4d", group=1, share=0.3).label == "1a2b3c4d"


def test_zipf_has_each_key_in_proportion_to_its_rank():
    shares = zipf_shares(1.0, 3)

    assert shares == pytest.approx([6 / 11, 3 / 11, 2 / 11])


@pytest.mark.parametrize("shares", [(), (0.5, 0.4), (1.5, -0.5)])
def test_shares_that_are_none_are_refused(shares):
    with pytest.raises(ParameterError, match="sum to 1"):
        KeyShares(by_group=shares, counted=100)


def test_of_two_groups_with_equal_records_the_one_with_five_times_the_work_is_the_fullest():
    records = np.array([0.5, 0.5])

    lengths = measure_lengths(records, np.array([1 / 6, 5 / 6]), samples=500)

    assert lengths == pytest.approx([1 / 3, 5 / 3])
    work = tuple((records * lengths).tolist())
    keys = KeyShares(by_group=(0.5, 0.5), counted=1e5, work=work)
    assert fullest_shares(keys, 2) == pytest.approx((1.0, 5 / 6))


def test_one_dear_group_of_many_is_found_and_the_others_share_the_rest_by_their_records():
    rng = np.random.default_rng(7)
    records = rng.dirichlet(np.full(128, 20.0))
    true = np.where(np.arange(128) == 40, 10.0, 1.0)
    true /= records @ true
    samples = 20_000
    timed = rng.poisson(samples * records)
    time = rng.gamma(timed, true)  # the sums of so many exponential times

    lengths = measure_lengths(records, time / time.sum(), samples / 2)

    assert lengths[40] == pytest.approx(true[40], rel=0.2)
    others = np.delete(lengths, 40)
    assert others == pytest.approx(np.full(127, others[0]))
    assert records @ lengths == pytest.approx(1.0)


@pytest.mark.parametrize("samples", [10, 1000, 100_000])
def test_what_nodes_and_chance_differ_by_is_no_work_of_keys(samples):
    rng = np.random.default_rng(7)
    records = np.full(128, 1 / 128)
    slower = np.where(np.arange(128) < 32, 1.3, 1.0)  # the groups of one replica of four
    time = rng.poisson(samples * records) * slower

    assert measure_lengths(records, time / time.sum(), samples) == pytest.approx(np.ones(128))


def test_a_group_without_records_or_without_time_says_nothing():
    lengths = measure_lengths(np.array([0.0, 1.0]), np.array([1.0, 0.0]), samples=100)

    assert np.isfinite(lengths).all()
