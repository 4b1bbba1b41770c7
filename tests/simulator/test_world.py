"""The simulated world against closed forms: queues where it is steady, fluids where it is not."""

import json

import numpy as np
import pytest

from weir_policies import registry
from weir_simulator.experiment import Experiment
from weir_simulator.policies import settings_of
from weir_simulator.result import new_outcome
from weir_simulator.run import run_compiled
from weir_simulator.state import (
    AT_CHANGE,
    AT_PRICE,
    AT_RATE,
    AT_REPLICAS,
    AT_TIME,
    BACKLOGGED,
    COST,
    RESTART,
    SPENT,
    VIOLATIONS,
)

SERVICE_RATE = 100.0
SLOT = 60.0


def an_experiment(**changes):
    fields = {
        "operators": [{"name": "op", "serviceRate": SERVICE_RATE, "scv": 1.0, "maxReplicas": 10}],
        "nodeTypes": [{"name": "t1", "speedup": 1.0, "price": 0.5}],
        "objective": {"responseTime": "100ms"},
        "trace": {"kind": "taxi", "slots": 10},
    }
    return Experiment.model_validate_json(json.dumps(fields | changes))


def hold(experiment, rates):
    """Run a trace without a change of deployment; return what came of it."""
    trace = np.array(rates, dtype=np.float64)
    outcome = new_outcome(trace.size, len(experiment.node_types), history=True)
    algorithm = registry.define("hold")
    assert algorithm is not None
    run_compiled(experiment, trace, "hold", algorithm, outcome, seed=1)
    return outcome


def times(experiment, rates):
    return hold(experiment, rates).history[:, AT_TIME]


def test_one_replica_with_exponential_service_is_the_m_m_1_queue():
    rates = np.array([1.0, 50.0, 90.0, 99.0])

    measured = times(an_experiment(), rates)

    np.testing.assert_allclose(measured, 1 / (SERVICE_RATE - rates))


def test_a_saturated_operator_never_answers_where_nothing_is_carried_over():
    outcome = hold(an_experiment(), [100.0, 250.0, 10.0])

    assert np.isinf(outcome.history[:2, AT_TIME]).all()
    assert outcome.history[2, AT_TIME] == pytest.approx(1 / 90)


def test_a_path_takes_the_sum_and_a_fork_the_slower_branch():
    rates = {"a": 400.0, "b": 250.0, "c": 300.0, "d": 500.0}
    operators = [
        {"name": name, "serviceRate": rate, "scv": 1.0, "maxReplicas": 3}
        for name, rate in rates.items()
    ]
    edges = [["a", "b"], ["a", "c"], ["b", "d"], ["c", "d"]]
    at = 100.0

    [measured] = times(
        an_experiment(
            operators=operators,
            edges=[*edges[:3], {"from": "c", "to": "d", "selectivity": 0.5}],
        ),
        [at],
    )

    own = {"a": at, "b": at, "c": at, "d": 1.5 * at}
    response = {name: 1 / (rates[name] - own[name]) for name in rates}
    assert measured == pytest.approx(
        response["a"] + max(response["b"], response["c"]) + response["d"]
    )


def test_a_backlog_builds_up_and_drains_as_a_fluid_does():
    experiment = an_experiment(world={"queues": True})
    overload, calm = 150.0, 40.0
    left = (overload - SERVICE_RATE) * SLOT

    outcome = hold(experiment, [overload, calm, calm])

    first, second, third = outcome.history[:, AT_TIME]
    steady = 1 / (SERVICE_RATE - 0.98 * SERVICE_RATE)
    # Little's law: the mean backlog, left / 2, is worked off at the service rate.
    assert first == pytest.approx(steady + left / 2 / SERVICE_RATE)
    drained = left / (SERVICE_RATE - calm)
    assert drained < SLOT
    processed = left + calm * SLOT
    assert second == pytest.approx(1 / (SERVICE_RATE - calm) + drained * left / 2 / processed)
    assert third == pytest.approx(1 / (SERVICE_RATE - calm))


def test_a_queue_holds_what_arrived_and_was_not_worked_off():
    rates = np.random.default_rng(4).uniform(0, 190, 300)
    waiting = [0.0]
    for rate in rates:
        waiting.append(max(waiting[-1] + (rate - SERVICE_RATE) * SLOT, 0.0))

    outcome = hold(an_experiment(world={"queues": True}), rates)

    assert outcome.totals[BACKLOGGED] == sum(left > 0 for left in waiting)


def test_costs_are_the_weighted_parts():
    experiment = an_experiment(
        initial={"t1": 4}, weights={"violations": 0.5, "resources": 0.3, "reconfigurations": 0.2}
    )

    outcome = hold(experiment, [100.0, 300.0, 399.0, 500.0])

    assert outcome.totals[VIOLATIONS] == 2
    assert outcome.totals[SPENT] == pytest.approx(4 * 4 * 0.5)
    assert outcome.totals[COST] == pytest.approx(2 * 0.5 + 4 * 0.3 * 4 / 10)
    assert (outcome.history[:, AT_PRICE] == 2.0).all()
    assert (outcome.history[:, AT_REPLICAS] == 4).all()


def test_a_change_leaves_what_it_does_not_name_as_it_was():
    changes = [{"slot": 1, "rate": 1.5}, {"slot": 2, "prices": {"t1": 2.0}}]
    rates = np.array([10.0, 10.0, 10.0])

    history = hold(an_experiment(world={"changes": changes}), rates).history

    assert history[:, AT_RATE].tolist() == [10.0, 15.0, 15.0]
    assert history[:, AT_PRICE].tolist() == [0.5, 0.5, 1.0]


TOO_SLOW = [
    {"name": "a", "serviceRate": 100, "scv": 1.0, "maxReplicas": 3},
    {"name": "b", "serviceRate": 150, "scv": 1.0, "maxReplicas": 10},
    {"name": "c", "serviceRate": 150, "scv": 1.0, "maxReplicas": 10},
]


def test_behind_operators_that_are_too_slow_every_policy_sees_what_would_arrive():
    chain = [{"from": "a", "to": "b"}, {"from": "b", "to": "c"}]
    experiment = an_experiment(
        operators=TOO_SLOW, edges=chain, world={"queues": True}, objective={"responseTime": "150ms"}
    )
    algorithm = registry.define("window-max", settings_of(experiment, {}))
    assert algorithm is not None
    outcome = new_outcome(10, 1, history=True)

    run_compiled(experiment, np.full(10, 250.0), "window-max", algorithm, outcome, seed=1)

    restarts = outcome.history[:, AT_CHANGE] == RESTART
    assert restarts.tolist() == [True] + 9 * [False]
