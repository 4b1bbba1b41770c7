import pytest

from tests.simulator.builders import an_experiment
from weir_simulator.experiment import Change, World
from weir_simulator.frontier import unavoidable_violations
from weir_simulator.run import simulate


def a_chain(**fields):
    operators = [
        {"name": "a", "service_rate": 200, "scv": 0.5, "max_replicas": 3},
        {"name": "b", "service_rate": 300, "max_replicas": 2, "key_groups": 7},
    ]
    setting = {
        "operators": operators,
        "edges": [{"source": "a", "target": "b", "selectivity": 1.5}],
        "trace": {"kind": "taxi", "slots": 2000},
    }
    return an_experiment(**{**setting, **fields})


@pytest.mark.parametrize("bound", [0.012, 0.02, 0.05])
def test_it_is_what_the_largest_deployment_misses_when_it_is_held(bound):
    operators = [
        {"name": "a", "service_rate": 200, "scv": 0.5, "max_replicas": 3},
        {"name": "b", "service_rate": 300, "max_replicas": 3, "key_groups": 7},
    ]
    experiment = a_chain(operators=operators, initial={"t1": 3}, objective={"response_time": bound})
    held = simulate(experiment, seed=1, policy="hold")

    [missed] = unavoidable_violations(experiment, [bound])

    assert missed > 0
    assert missed == pytest.approx(held.violations)


def test_a_bound_below_the_service_time_is_never_kept():
    # The fastest node takes 1/200 s and 1/300 s for a record.
    assert unavoidable_violations(a_chain(), [0.008]) == (100.0,)


def test_an_operator_is_fastest_where_it_may_run():
    # On t2 a record takes operator a twice 1/200 s, on t1 half of that.
    operators = [{"name": "a", "service_rate": 200, "max_replicas": 3, "pools": ["t2"]}]

    assert unavoidable_violations(an_experiment(operators=operators), [0.0099]) == (100.0,)


def test_where_one_replica_more_has_more_to_do_the_largest_deployment_is_not_the_fastest():
    keys = {"fullest": (1.0, 0.5, 0.4, 0.7)}
    operators = [{"name": "a", "service_rate": 200, "scv": 0.5, "max_replicas": 4, "keys": keys}]
    experiment = an_experiment(
        operators=operators,
        trace={"kind": "taxi", "slots": 500},
        objective={"response_time": 0.02},
    )
    three, four = (
        simulate(experiment.model_copy(update={"initial": {"t1": size}}), seed=1, policy="hold")
        for size in (3, 4)
    )

    [missed] = unavoidable_violations(experiment, [0.02])

    assert 0 < missed == pytest.approx(three.violations)
    assert missed < four.violations


def test_no_policy_misses_less():
    bound = 0.02
    experiment = a_chain(objective={"response_time": bound})
    best = simulate(experiment, seed=1, policy="queueing").violations

    [missed] = unavoidable_violations(experiment, [bound])

    assert 0 < missed <= best


def test_more_traffic_on_the_way_counts():
    grown = a_chain(world=World(changes=(Change(slot=1000, rate=1.5),)))

    before, after = (unavoidable_violations(each, [0.02]) for each in (a_chain(), grown))

    assert after[0] > before[0]


def test_a_node_type_that_becomes_faster_is_taken_to_be_so_throughout():
    faster = a_chain(world=World(changes=(Change(slot=1999, speedups={"t2": 4.0}),)))

    before, after = (unavoidable_violations(each, [0.012]) for each in (a_chain(), faster))

    assert after[0] < before[0]
