from hypothesis import given
from hypothesis import strategies as st

from weir_policies.model.deployments import within_reach
from weir_policies.model.node_types import Deployment, NodeType


def types(pools, limits=None):
    limits = limits or [None] * len(pools)
    return tuple(
        NodeType(name=f"{pool}/{place}", pool=pool, speedup=1.0, price=1.0, pool_limit=limit)
        for place, (pool, limit) in enumerate(zip(pools, limits, strict=True))
    )


def deployments(k_max, node_types=3):
    on = st.lists(st.integers(0, node_types - 1), min_size=1, max_size=k_max)
    return on.map(lambda on: Deployment(tuple(on.count(place) for place in range(node_types))))


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


def test_no_node_type_of_a_full_pool_can_be_added():
    node_types = types("aab", [2, 2, None])

    reached = within_reach(Deployment((1, 1, 0)), k_max=10, node_types=node_types)

    assert [each.counts for each in reached if each.size == 3] == [(1, 1, 1)]


def test_nothing_can_be_added_while_a_pool_is_over_its_limit():
    reached = within_reach(Deployment((3, 1)), k_max=10, node_types=types("ab", [2, None]))

    assert [each.counts for each in reached] == [(3, 1), (2, 1), (3, 0)]
