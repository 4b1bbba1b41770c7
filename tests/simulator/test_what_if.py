import numpy as np
import pytest

from tests.simulator.builders import an_experiment
from weir_simulator.errors import ExperimentError
from weir_simulator.experiment import Believed, Change, RateLevels, World
from weir_simulator.run import simulate
from weir_simulator.state import AT_RATE
from weir_simulator.what_if import (
    with_bound,
    with_emphasis,
    with_pool,
    with_price,
    with_traffic,
    without_pool,
)


def rates_of(experiment):
    return simulate(experiment, seed=1, policy="hold", history=True).history[:, AT_RATE]


def test_a_price_changes_in_its_pool_only():
    changed = with_price(an_experiment(), "t2", 2.0)

    assert [each.price for each in changed.node_types] == [1.0, 1.4]


def test_an_unknown_pool_is_refused_with_those_that_exist():
    with pytest.raises(ExperimentError, match="expected one of t1, t2, got 'spot'"):
        with_price(an_experiment(), "spot", 2.0)


def test_traffic_grows_in_every_slot_changes_on_the_way_included():
    grown = World(changes=(Change(slot=5, rate=2.0),))
    experiment = an_experiment(world=grown, rate=RateLevels(max=600))

    busier = with_traffic(experiment, 1.5)

    np.testing.assert_allclose(rates_of(busier), 1.5 * rates_of(experiment))
    assert busier.rate.max == 900


def test_traffic_that_is_no_positive_number_is_refused():
    with pytest.raises(ExperimentError, match="traffic: expected a factor above 0, got -1"):
        with_traffic(an_experiment(), -1.0)


def test_a_pool_is_added_with_one_node_type():
    changed = with_pool(an_experiment(), "spot", speedup=1.0, price=0.4)

    added = changed.node_types[-1]
    assert (added.name, added.pool_name, added.speedup, added.price) == ("spot", "spot", 1.0, 0.4)


def test_a_pool_is_not_added_twice():
    with pytest.raises(ExperimentError, match="pool t1: expected a new name"):
        with_pool(an_experiment(), "t1", speedup=1.0, price=1.0)


def test_a_pool_without_speed_is_refused():
    with pytest.raises(ExperimentError, match="pool spot: "):
        with_pool(an_experiment(), "spot", speedup=0.0, price=1.0)


def test_what_the_file_says_of_a_pool_goes_with_it():
    experiment = an_experiment(
        initial={"t1": 1, "t2": 2},
        believed=Believed(speedups={"t1": 1.1, "t2": 0.6}),
        world=World(changes=(Change(slot=3, prices={"t1": 2.0, "t2": 3.0}),)),
    )

    changed = without_pool(experiment, "t1")

    assert [each.name for each in changed.node_types] == ["t2"]
    assert changed.initial == {"t2": 2}
    assert changed.believed.speedups == {"t2": 0.6}
    assert changed.world.changes == (Change(slot=3, prices={"t2": 3.0}),)


def test_the_last_pool_cannot_go():
    one = without_pool(an_experiment(), "t1")

    with pytest.raises(ExperimentError, match="without t2: expected at least one other pool"):
        without_pool(one, "t2")


def two_in_their_pools(one, other, **fields):
    operators = [
        {"name": "a", "service_rate": 200, "max_replicas": 2, "pools": one},
        {"name": "b", "service_rate": 200, "max_replicas": 2, "pools": other},
    ]
    return an_experiment(operators=operators, **fields)


def test_a_pool_leaves_the_operators_that_name_it():
    changed = without_pool(two_in_their_pools(["t1", "t2"], None, initial={"t1": 1}), "t1")

    assert [each.pools for each in changed.operators] == [("t2",), None]
    assert [each.counts for each in changed.initial_deployments] == [(1,), (1,)]


def test_the_only_pool_of_an_operator_cannot_go():
    with pytest.raises(ExperimentError, match="without t1: expected another pool for operator a"):
        without_pool(two_in_their_pools(["t1"], None), "t1")


def test_an_added_pool_can_take_the_place_of_an_operators_only_one():
    both = with_pool(two_in_their_pools(["t1"], None), "spot", speedup=1.0, price=0.4)

    replaced = without_pool(both, "t1")

    assert [each.pools for each in both.operators] == [("t1", "spot"), None]
    assert [each.pools for each in replaced.operators] == [("spot",), None]


def test_budgets_of_the_file_are_parts_of_the_bound():
    experiment = an_experiment(
        operators=[
            {"name": "a", "service_rate": 200, "max_replicas": 2, "budget": "20ms"},
            {"name": "b", "service_rate": 200, "max_replicas": 2},
        ]
    )

    changed = with_bound(experiment, 0.1)

    assert changed.objective.response_time == 0.1
    assert [each.budget for each in changed.operators] == [pytest.approx(0.04), None]


def test_an_emphasis_touches_the_weight_of_violations_only():
    weights = with_emphasis(an_experiment(), 0.5).weights

    assert (weights.violation, weights.resources, weights.reconfiguration) == (0.3, 0.2, 0.2)
