"""Uneven keys in experiments: what they cost, and what a policy does that knows them."""

import numpy as np
import pytest

from tests.simulator.builders import an_experiment
from weir_policies.model.keys import fullest_share, shares_of_groups, zipf_shares
from weir_policies.model.queueing import predict_means
from weir_simulator.beliefs import true_models
from weir_simulator.errors import ExperimentError
from weir_simulator.experiment import Keys
from weir_simulator.run import simulate

TYPES = [
    {"name": "small", "speedup": 1.0, "price": 1.0},
    {"name": "fast", "speedup": 2.0, "price": 2.6},
]
HOT = {"shares": (0.3,)}


def an_operator(**fields):
    return {"name": "op", "service_rate": 100, "max_replicas": 12, **fields}


def with_keys(keys, **fields):
    return an_experiment(
        operators=[an_operator(**({} if keys is None else {"keys": keys}))],
        trace={"kind": "taxi", "slots": 1500},
        world={"queues": True, "downtime": 5.0},
        objective={"response_time": 0.04},
        **{"node_types": TYPES, **fields},
    )


def test_the_fullest_replica_gets_what_flinks_key_groups_give_it():
    [model] = true_models(with_keys({"zipf": 1.1, "count": 2000}))

    by_group = shares_of_groups(zipf_shares(1.1, 2000), 720)
    assert model.key_groups == 720
    assert model.fullest[3] == pytest.approx(fullest_share(by_group, 4))


def test_even_keys_are_as_none():
    [uneven] = true_models(with_keys({"zipf": 0.0, "count": 100_000}))

    assert uneven.fullest == ()


def test_what_a_heavy_key_costs_grows_where_it_is_not_known():
    even, known, unknown = (
        simulate(with_keys(keys, **fields), seed=1)
        for keys, fields in [
            ({"zipf": 0.0, "count": 100_000}, {}),
            (HOT, {}),
            (HOT, {"believed": {"keys": False}}),
        ]
    )

    assert even.average_cost < known.average_cost < unknown.average_cost


def test_the_planner_buys_no_replica_that_cannot_help():
    # Two keys that are parted from four replicas on, and rates that no deployment can bear.
    experiment = with_keys(
        {"shares": (0.48, 0.48), "count": 1000},
        node_types=[{"name": "small", "speedup": 1.0, "price": 1.0}],
    )
    [model] = true_models(experiment)

    result = simulate(experiment, seed=1)

    assert model.fullest[3] < 0.5 < model.fullest[2]
    assert result.violations > 30
    assert result.replicas["small"] < 5


@pytest.mark.parametrize(
    "keys",
    [
        {},
        {"zipf": 1.0, "shares": (0.1,)},
        {"shares": (0.6, 0.5)},
        {"shares": (0.1, 0.1), "count": 2},
        {"zipf": 1.0, "fullest": (1.0, 0.6)},
        {"fullest": (1.0, 0.4)},
    ],
)
def test_shares_that_are_no_law_are_refused(keys):
    with pytest.raises(ValueError, match=r"one of zipf, shares|leave something|one part in p"):
        Keys(**keys)


def test_measured_shares_hold_and_the_last_one_for_more_replicas():
    [model] = true_models(with_keys({"fullest": (1.0, 0.6, 0.45)}))

    assert model.fullest == (1.0, 0.6, *[0.45] * 10)


def test_the_mean_over_records_is_longer_where_one_replica_gets_more_and_below_its_own():
    counts = np.array([[4, 0], [2, 3]])
    even, average, worst = (
        predict_means(true_models(with_keys(keys, aggregation=aggregation))[0], counts, 200.0)
        for keys, aggregation in [
            ({"zipf": 0.0, "count": 100_000}, "average"),
            (HOT, "average"),
            (HOT, "worst"),
        ]
    )

    assert (even[0] < average[0]).all()
    assert (average[0] < worst[0]).all()
    assert average[1] == pytest.approx(worst[1])  # how busy the fullest replica is


@pytest.mark.parametrize("operator", [{"keyed": False}, {"sharing": "Proportional"}])
def test_keys_need_records_that_are_dealt_by_key(operator):
    with pytest.raises((ExperimentError, ValueError), match="keyed, with sharing: equal"):
        an_experiment(operators=[an_operator(keys=HOT, **operator)])
