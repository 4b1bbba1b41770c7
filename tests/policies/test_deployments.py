from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from weir_policies.errors import DeploymentError
from weir_policies.model.deployments import (
    COMPLETE_UP_TO,
    enumerate_deployments,
    enumerate_resizes,
    find_pareto_optimal,
    within_reach,
)
from weir_policies.model.node_types import Deployment, NodeType
from weir_policies.testing import NODE_TYPES


def types(pools, limits=None):
    limits = limits or [None] * len(pools)
    return tuple(
        NodeType(name=f"{pool}/{place}", pool=pool, speedup=1.0, price=1.0, pool_limit=limit)
        for place, (pool, limit) in enumerate(zip(pools, limits, strict=True))
    )


def deployments(k_max, node_types=3):
    on = st.lists(st.integers(0, node_types - 1), min_size=1, max_size=k_max)
    return on.map(lambda on: Deployment(tuple(on.count(place) for place in range(node_types))))


def test_three_types_and_ten_replicas_have_the_285_deployments_of_the_formula():
    rows = enumerate_deployments(types("abc"), max_replicas=10)

    assert len({tuple(row) for row in rows.tolist()}) == rows.shape[0] == 285
    assert rows.sum(axis=1).min() == 1
    assert rows.sum(axis=1).max() == 10


def test_limits_of_pools_hold_over_all_sizes_of_a_pool():
    node_types = types(["a", "a", "b"], [2, 2, None])
    expected = {
        k for k in itertools.product(range(5), repeat=3) if 1 <= sum(k) <= 4 and k[0] + k[1] <= 2
    }

    rows = enumerate_deployments(node_types, max_replicas=4)

    assert {tuple(row) for row in rows.tolist()} == expected


def test_a_set_too_large_to_be_complete_keeps_pure_and_mixed_ones_and_what_is_near():
    node_types = types([f"pool-{place // 2}" for place in range(10)])
    present = Deployment((3, 2, 0, 0, 0, 4, 1, 0, 1, 0))

    rows = enumerate_deployments(node_types, max_replicas=20, present=present)

    found = {tuple(row) for row in rows.tolist()}
    assert len(found) <= COMPLETE_UP_TO
    assert (0, 0, 0, 20, 0, 0, 0, 0, 0, 0) in found
    assert (0, 7, 0, 0, 0, 0, 0, 0, 0, 9) in found
    assert {target.counts for target in within_reach(present, k_max=20)} <= found
    assert {target.counts for target in enumerate_resizes(present, node_types)} <= found


def test_a_present_deployment_out_of_bounds_is_no_candidate():
    node_types = types([f"pool-{place}" for place in range(10)])
    present = Deployment((15, 15, 0, 0, 0, 0, 0, 0, 0, 0))

    rows = enumerate_deployments(node_types, max_replicas=20, present=present)

    assert rows.sum(axis=1).max() == 20


def test_enumerating_twice_gives_the_same_read_only_array():
    first = enumerate_deployments(types("abc"), max_replicas=6)

    again = enumerate_deployments(types("abc"), max_replicas=6)

    assert again is first
    with pytest.raises(ValueError, match="read-only"):
        first[0, 0] = 9


@pytest.mark.parametrize(
    ("node_types", "max_replicas"),
    [((), 3), (types("ab"), 0), (types("ab", [0, 0]), 3)],
    ids=["no node type", "no replica", "no room in any pool"],
)
def test_what_leaves_no_deployment_is_refused(node_types, max_replicas):
    with pytest.raises(DeploymentError, match="Expected"):
        enumerate_deployments(node_types, max_replicas=max_replicas)


@given(deployment=deployments(k_max=10))
def test_no_target_within_reach_leaves_the_bounds(deployment):
    targets = within_reach(deployment, k_max=10)

    assert all(1 <= target.size <= 10 for target in targets)
    assert all(
        sum(abs(a - b) for a, b in zip(target, deployment, strict=True)) <= 1 for target in targets
    )
    assert targets[0] == deployment


def test_within_reach_stands_in_the_order_stay_remove_add():
    reached = within_reach(Deployment((1, 0, 2)), k_max=10)

    assert [target.counts for target in reached] == [
        (1, 0, 2),
        (0, 0, 2),
        (1, 0, 1),
        (2, 0, 2),
        (1, 1, 2),
        (1, 0, 3),
    ]


def test_a_full_pool_cannot_be_added_to():
    reached = within_reach(Deployment((2, 1)), k_max=10, node_types=types("ab", [2, None]))

    assert Deployment((3, 1)) not in reached
    assert Deployment((2, 2)) in reached


@given(deployment=deployments(k_max=6, node_types=5))
def test_resizes_keep_the_replicas_of_every_pool(deployment):
    node_types = types(["a", "b", "a", "b", "a"])

    resizes = list(enumerate_resizes(deployment, node_types))

    assert deployment not in resizes
    assert len(set(resizes)) == len(resizes)
    assert all(target.per_pool(node_types) == deployment.per_pool(node_types) for target in resizes)


def test_every_resize_is_found():
    resizes = set(enumerate_resizes(Deployment((2, 0, 1)), NODE_TYPES))

    assert {target.counts for target in resizes} == {(1, 1, 1), (0, 2, 1)}


def test_many_resizes_are_cut_to_single_moves_and_pools_of_one_size():
    node_types = types(["a"] * 6)
    deployment = Deployment((20, 0, 0, 0, 0, 5))

    resizes = {target.counts for target in enumerate_resizes(deployment, node_types)}

    assert (0, 0, 25, 0, 0, 0) in resizes
    assert (19, 1, 0, 0, 0, 5) in resizes
    assert len(resizes) == 6 + 10


def test_the_pareto_optimal_are_neither_dearer_nor_slower_than_another():
    cost = np.array([1.0, 1.0, 2.0, 3.0, 2.0, np.nan, 0.5])
    time = np.array([5.0, 6.0, 4.0, 4.0, 4.0, 1.0, np.inf])

    optimal = find_pareto_optimal(cost, time)

    assert optimal.tolist() == [True, False, True, False, True, False, False]


@given(
    st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=1, max_size=30),
)
def test_the_pareto_optimal_are_those_that_no_other_beats(points):
    cost, time = np.array(points, dtype=float).T
    unbeaten = [
        not any(
            c <= cost[place] and t <= time[place] and (c < cost[place] or t < time[place])
            for c, t in zip(cost, time, strict=True)
        )
        for place in range(len(points))
    ]

    optimal = find_pareto_optimal(cost, time)

    assert optimal.tolist() == unbeaten
