"""A limit on cost is shared so that together the operators carry the most that it pays for."""

import math
from itertools import product

import numpy as np
import pytest

from weir_policies.application_manager.cost_cap import share_cap
from weir_policies.kernels.bounds import keep_within
from weir_policies.model.node_types import Deployment, NodeType
from weir_policies.model.queueing import predict_means
from weir_policies.testing import a_model

SMALL = NodeType(name="small/1", pool="small", speedup=1.0, price=1.0)
LARGE = NodeType(name="large/1", pool="large", speedup=1.9, price=2.1)
MODELS = {
    "parse": a_model(name="parse", node_types=(SMALL, LARGE), max_replicas=6, service_mean=0.01),
    "count": a_model(name="count", node_types=(SMALL, LARGE), max_replicas=6, service_mean=0.02),
}
BUDGETS = {"parse": 0.05, "count": 0.1}
RATES = {"parse": 1.0, "count": 0.6}


def share(money, *, floors=None, rates=None, before=None):
    return share_cap(
        MODELS,
        budgets=BUDGETS,
        rates=RATES if rates is None else rates,
        floors=floors or {},
        money=money,
        before=before,
    )


def carried(name, price):
    """Return the most records/s at the sources with which an operator keeps its budget."""
    most = 0.0
    for row in product(range(7), repeat=2):
        model, cost = MODELS[name], row[0] * SMALL.price + row[1] * LARGE.price
        if 1 <= sum(row) <= model.max_replicas and cost <= price + 1e-9:
            for rate in range(1, 600):
                times, _ = predict_means(model, np.array([row]), rate * RATES[name])
                if times[0] > BUDGETS[name]:
                    break
                most = max(most, float(rate))
    return most


@pytest.mark.parametrize("money", [4.0, 7.0])
def test_no_other_shares_carry_more(money):
    found = share(money).prices

    ours = min(carried(name, price) for name, price in found.items())
    steps = np.arange(1.0, money, 0.5)
    best = max(min(carried("parse", each), carried("count", money - each)) for each in steps)

    assert sum(found.values()) <= money * (1 + 1e-9)
    assert ours >= best - 1.0


def test_shares_follow_how_rates_relate_and_not_how_high_they_are():
    busy = {name: 50 * rate for name, rate in RATES.items()}

    assert share(8.0, rates=busy).prices == pytest.approx(share(8.0).prices)


def test_floors_are_paid_for_where_the_limit_allows_it():
    shares = share(9.0, floors={"parse": 5})

    assert shares.keeps_floors
    assert shares.prices["parse"] >= 5 * SMALL.price


def test_a_limit_counts_more_than_a_floor():
    shares = share(4.0, floors={"parse": 5})

    assert not shares.keeps_floors
    assert sum(shares.prices.values()) <= 4.0 * (1 + 1e-9)


def test_a_limit_below_the_cheapest_deployments_leaves_each_its_cheapest():
    shares = share(1.5)

    assert not shares.is_enough
    assert shares.prices == {"parse": 1.0, "count": 1.0}


def test_unknown_rates_share_by_speed():
    assert sum(share(8.0, rates={"parse": math.nan, "count": 1.0}).prices.values()) <= 8.0 + 1e-9


def test_shares_that_are_nearly_as_good_stay():
    first = share(8.0)
    slightly = {"parse": 1.0, "count": 0.61}

    assert share(8.0, rates=slightly, before=first).prices == first.prices
    assert share(5.0, before=first).prices != first.prices


@pytest.mark.parametrize(
    ("target", "present", "floor", "limit", "kept"),
    [
        ((1, 0), (1, 0), 3, None, (3, 0)),
        ((5, 0), (2, 0), 1, 3.0, (3, 0)),  # what the decision adds goes first
        ((2, 2), (2, 1), 1, 5.0, (2, 1)),
        ((0, 2), (0, 2), 4, 4.5, (4, 0)),  # cheaper ones, so that the floor is paid for
        ((0, 1), (0, 1), 1, 1.5, (1, 0)),
        ((0, 1), (0, 1), 1, 0.5, (1, 0)),  # no replica is cheap enough: the cheapest
        ((1, 0), (1, 0), 40, None, (6, 0)),
    ],
)
def test_a_target_is_changed_as_little_as_its_bounds_ask(target, present, floor, limit, kept):
    found = keep_within(
        MODELS["parse"],
        Deployment(target),
        present=Deployment(present),
        min_replicas=floor,
        max_price=limit,
    )

    assert found == Deployment(kept)
