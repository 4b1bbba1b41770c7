"""The compiled and the plain loop agree with each other, slot by slot, and with the oracle."""

import json

import numpy as np
import pytest

from tests.simulator.oracle import run_oracle
from weir_policies import registry
from weir_simulator.experiment import Experiment
from weir_simulator.plain_loop import run_policies
from weir_simulator.policies import settings_of
from weir_simulator.result import new_outcome
from weir_simulator.run import run_compiled

SLOTS = 180
SEED = 3

COMPILED = [name for name in registry.names() if registry.POLICIES[name].kernels is not None]
TOGETHER = {"centralised": 1, "levels": 5}
ONE = {"name": "op", "serviceRate": 180, "scv": 0.5, "maxReplicas": 4}
TYPES = [
    {"name": "t1", "speedup": 1.0, "price": 1.0},
    {"name": "t2", "speedup": 0.7, "price": 0.7},
]
POOLS = [
    {"name": "s/500m", "speedup": 0.6, "price": 0.5, "pool": "s"},
    {"name": "s/1", "speedup": 1.0, "price": 1.0, "pool": "s", "poolLimit": 7},
    {"name": "l/1", "speedup": 1.7, "price": 1.5, "pool": "l", "poolLimit": 4},
]
CHAIN = [
    {"name": "a", "serviceRate": 400, "scv": 0.5, "maxReplicas": 4},
    {"name": "b", "serviceRate": 220, "scv": 1.0, "maxReplicas": 5, "keyed": False},
    {"name": "c", "serviceRate": 300, "scv": 0.1, "maxReplicas": 4},
    {"name": "d", "serviceRate": 500, "scv": 0.1, "maxReplicas": 3},
]
DIAMOND = [
    {"from": "a", "to": "b", "selectivity": 0.8},
    {"from": "a", "to": "c"},
    {"from": "b", "to": "d"},
    {"from": "c", "to": "d", "selectivity": 0.3},
]
UNLIMITED = [{field: each[field] for field in each if field != "poolLimit"} for each in POOLS]
IN_POOLS = [
    CHAIN[0] | {"pools": ["s"]},
    CHAIN[1],
    CHAIN[2] | {"pools": ["l"]},
    CHAIN[3] | {"pools": ["t2", "s"]},
]
BEYOND = {
    "resizes": True,
    "provisioningDelay": "2m",
    "downtime": "20s",
    "replicaSpread": 0.1,
    "lossProbability": 0.003,
    "noise": 0.05,
    "missing": 0.02,
    "changes": [
        {"slot": 90, "rate": 1.5, "prices": {"l/1": 3.0}},
        {"slot": 150, "rate": 0.7, "speedups": {"s/1": 0.8}},
    ],
}


def an_experiment(**changes):
    fields = {
        "operators": [ONE],
        "nodeTypes": TYPES,
        "costNormaliser": 2.0,
        "objective": {"responseTime": "50ms"},
        "rate": {"levels": 10, "max": 650},
        "trace": {"kind": "taxi", "slots": SLOTS, "seed": 2},
        "training": {"kind": "taxi", "slots": 400, "seed": 4},
    }
    return Experiment.model_validate_json(json.dumps(fields | changes))


EXPERIMENTS = {
    "one operator": an_experiment(),
    "by speed, average": an_experiment(sharing="Proportional", aggregation="average"),
    "uneven keys": an_experiment(
        operators=[ONE | {"keys": {"shares": [0.3]}}], world={"queues": True, "downtime": "20s"}
    ),
    "a diamond": an_experiment(operators=CHAIN, edges=DIAMOND),
    "queues and resizes": an_experiment(
        operators=[ONE | {"usual": {"rates": [100 + hour % 24 for hour in range(168)]}}],
        nodeTypes=POOLS,
        world={"queues": True, "resizes": True, "downtime": "20s"},
    ),
    "beyond the papers": an_experiment(
        operators=CHAIN,
        edges=DIAMOND,
        nodeTypes=POOLS,
        sharing="ByLoad",
        initial={"s/500m": 1},
        world=BEYOND,
        believed={"serviceError": [0.05, 0.1], "speedupError": 0.2},
    ),
    "percentiles in a diamond, with queues": an_experiment(
        operators=[each | {"networkTime": "2ms"} for each in CHAIN],
        edges=DIAMOND[:3],
        objective={
            "responseTime": {"bound": "100ms", "statistic": "P95"},
            "paths": [
                {"sink": "c", "responseTime": "20ms"},
                {"sink": "d", "responseTime": {"bound": "120ms", "statistic": "P99"}},
            ],
        },
        world={"queues": True, "downtime": "20s"},
    ),
    "a percentile, in steady state": an_experiment(
        objective={"responseTime": {"bound": "90ms", "statistic": "P99"}}
    ),
    "unlike pools": an_experiment(
        operators=IN_POOLS,
        edges=DIAMOND,
        nodeTypes=[*POOLS, TYPES[1]],
        world={"resizes": True, "changes": [{"slot": 120, "speedups": {"s/1": 0.8}}]},
    ),
    "unlike pools without limits": an_experiment(
        operators=IN_POOLS, edges=DIAMOND, nodeTypes=[*UNLIMITED, TYPES[1]]
    ),
    "floors, and a limit on cost": an_experiment(
        operators=[CHAIN[0] | {"minReplicas": 2}, CHAIN[1], CHAIN[2]],
        edges=[DIAMOND[0], {"from": "b", "to": "c"}],
        nodeTypes=POOLS,
        windows=[
            {"name": "early", "schedule": "40 0 * * *", "duration": "30m", "minReplicas": {"b": 4}},
            {"name": "late", "schedule": "0 2 * * *", "duration": "1h", "minReplicas": {"c": 3}},
        ],
        objective={"responseTime": "50ms", "maxCostPerHour": 9.0},
    ),
    "three in a row": an_experiment(
        operators=[each | {"maxReplicas": 3} for each in CHAIN[:3]],
        edges=[DIAMOND[0], {"from": "b", "to": "c", "selectivity": 1.5}],
        nodeTypes=UNLIMITED,
        world={"queues": True, "noise": 0.05, "provisioningDelay": "2m"},
    ),
}
PARTLY_SEEN = ("floors, and a limit on cost", "beyond the papers", "unlike pools")
"""Experiments with operators that share limited pools, or are not always measured."""


def a_trace(experiment):
    slots = np.arange(SLOTS)
    rng = np.random.default_rng(5)
    rates = 250 + 220 * np.sin(slots / 25) + rng.normal(0, 30, SLOTS)
    return np.clip(rates, 0, None).round()


def list_cases():
    """Return policies, their parameters and experiments.

    Of a joint policy the compiled loop says neither what room others take nor what is missing.
    """
    for policy in COMPILED:
        for where in EXPERIMENTS:
            if not registry.is_joint(policy) or where not in PARTLY_SEEN:
                yield policy, {}, where
    for policy in ("mdp", "mdp-rl"):
        yield policy, TOGETHER, "one operator"
        yield policy, TOGETHER, "three in a row"


@pytest.mark.parametrize(("policy", "parameters", "where"), [*list_cases()])
def test_both_loops_do_the_same(policy, parameters, where):
    experiment, trace = EXPERIMENTS[where], a_trace(EXPERIMENTS[where])
    settings = settings_of(experiment, parameters)
    algorithm = registry.define(policy, settings)
    assert algorithm is not None
    plain = new_outcome(SLOTS, len(experiment.node_types), history=True)
    compiled = new_outcome(SLOTS, len(experiment.node_types), history=True)

    run_compiled(experiment, trace, policy, algorithm, compiled, seed=SEED)
    run_policies(experiment, trace, policy, settings, plain, seed=SEED)

    compare(compiled, plain)


@pytest.mark.parametrize("where", EXPERIMENTS)
@pytest.mark.parametrize("policy", ["threshold-cheapest", "queueing", "planner"])
def test_the_world_is_that_of_the_oracle(policy, where):
    experiment, trace = EXPERIMENTS[where], a_trace(EXPERIMENTS[where])
    settings = settings_of(experiment, {})
    ours = new_outcome(SLOTS, len(experiment.node_types), history=True)
    expected = new_outcome(SLOTS, len(experiment.node_types), history=True)

    run_policies(experiment, trace, policy, settings, ours, seed=SEED)
    run_oracle(experiment, trace, policy, settings, expected, seed=SEED)

    compare(ours, expected)


def compare(ours, expected):
    np.testing.assert_allclose(ours.history, expected.history, rtol=1e-9)
    np.testing.assert_allclose(ours.totals, expected.totals, rtol=1e-9)
    np.testing.assert_allclose(ours.curve, expected.curve, rtol=1e-9)
    np.testing.assert_array_equal(ours.replicas, expected.replicas)
