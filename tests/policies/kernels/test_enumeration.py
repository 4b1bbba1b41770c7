import numpy as np
import pytest

from tests.policies.views import view_of
from weir_policies.kernels.enumeration import (
    count_near,
    list_rows,
    needs_restart,
    next_in_order,
    next_nearby,
    price_evenly,
)
from weir_policies.model.cost import kind_of_change
from weir_policies.model.node_types import Deployment, NodeType
from weir_policies.policy import ChangeKind
from weir_policies.testing import a_model, all_deployments, an_observation


def node_types(count, *, per_pool=2, limit=None):
    return tuple(
        NodeType(
            name=f"t{n}", pool=f"p{n // per_pool}", speedup=1.0, price=0.1 * (n + 1),
            pool_limit=limit,
        )
        for n in range(count)
    )  # fmt: skip


def a_view(types, max_replicas, here=None):
    counts = here or (1,) + (0,) * (len(types) - 1)
    model = a_model(node_types=types, max_replicas=max_replicas)
    return view_of(an_observation(model=model, deployment=Deployment(counts)))


def listed(view):
    row = np.zeros(view.counts.shape[1], dtype=np.int64)
    rows = np.zeros((50_000, row.size), dtype=np.int64)
    found = rows[: list_rows(0, view, row, rows, 0)]
    assert not row.any()
    return {tuple(each) for each in found.tolist()}


@pytest.mark.parametrize("limit", [None, 3])
def test_a_short_list_has_every_deployment_that_keeps_the_limits(limit):
    types = node_types(4, limit=limit)

    found = listed(a_view(types, 6))

    maximum = limit or 6
    assert found == {
        tuple(each)
        for each in all_deployments(4, max_replicas=6).tolist()
        if each[0] + each[1] <= maximum and each[2] + each[3] <= maximum
    }


def test_limits_can_make_a_list_short_enough_to_be_complete():
    types = node_types(8, per_pool=1, limit=2)

    assert (2, 2, 2, 2, 2, 2, 2, 2) in listed(a_view(types, 20))


def test_a_long_list_has_mixes_of_two_and_what_is_near():
    here = (2, 0, 1, 0, 0, 0, 1, 0)
    types = node_types(8)

    found = listed(a_view(types, 20, here))

    assert (0, 7, 0, 0, 13, 0, 0, 0) in found
    assert (0, 1, 1, 1, 0, 0, 0, 0) not in found
    assert {(3, *here[1:]), (1, *here[1:]), (1, 1, *here[2:]), (0, 2, *here[2:])} <= found
    assert all(1 <= sum(each) <= 20 for each in found)


def test_near_deployments_keep_the_limits():
    view = a_view(node_types(4, limit=2), 3, (2, 0, 1, 0))
    row = np.zeros(4, dtype=np.int64)

    near = {
        tuple(row.tolist())
        for number in range(count_near(view.counts.shape[1]))
        if next_nearby(0, view, number, row)
    }

    assert near == {
        (1, 0, 1, 0), (2, 0, 0, 0), (1, 1, 1, 0), (0, 2, 1, 0), (2, 0, 0, 1)
    }  # fmt: skip


def test_what_is_skipped_costs_more():
    view = a_view(node_types(3), 5)
    row = np.zeros(3, dtype=np.int64)
    cheap, skip = set(), False
    while next_in_order(0, view, row, 3, skip):
        skip = price_evenly(0, view, row) > 0.7
        if not skip:
            cheap.add(tuple(row.tolist()))

    assert cheap == {each for each in listed(view) if np.dot(each, (1, 2, 3)) <= 7}


def test_only_other_counts_per_pool_take_a_restart():
    types, here = node_types(4), (1, 1, 1, 0)
    view = a_view(types, 4, here)

    for each in listed(view):
        change = kind_of_change(Deployment(here), Deployment(each), types)
        restarts = needs_restart(0, view, np.array(each, dtype=np.int64))

        assert restarts == (change is ChangeKind.RESCALE)
