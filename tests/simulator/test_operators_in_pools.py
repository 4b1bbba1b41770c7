"""Operators that may not run everywhere stay where they may, whatever the policy."""

from collections import defaultdict

import numpy as np
import pytest

from weir_simulator.plain import run_plainly
from weir_simulator.plain_operator import PlainOperator
from weir_simulator.run import new_outcome, settings_of
from weir_simulator.testing import an_experiment

SLOTS = 150
TYPES = [
    {"name": "small/1", "speedup": 1.0, "price": 1.0, "pool": "small"},
    {"name": "small/2", "speedup": 2.0, "price": 2.1, "pool": "small"},
    {"name": "large", "speedup": 1.5, "price": 1.6},
    {"name": "spot", "speedup": 1.0, "price": 0.2},
    {"name": "fast", "speedup": 4.0, "price": 3.0},
]
OPERATORS = [
    {"name": "a", "service_rate": 300, "max_replicas": 4, "pools": ["small"]},
    {"name": "b", "service_rate": 150, "max_replicas": 5, "pools": ["large", "spot"]},
]
ALLOWED = {"a": {0, 1}, "b": {2, 3}}
ROOM = {"small/1": 3, "small/2": 3, "spot": 2}
POLICIES = [
    "ds2",
    "full-backup",
    "planner",
    "ql-pds",
    "queueing",
    "threshold-cheapest",
    "threshold-fastest",
    "threshold-random",
    "window-max",
]


@pytest.fixture
def installed(monkeypatch):
    """Return the deployments that operators of the plain world get, by operator, as it runs."""
    seen = defaultdict(set)
    install = PlainOperator.install

    def record(operator, deployment):
        seen[operator.truth.name].add(deployment.counts)
        install(operator, deployment)

    monkeypatch.setattr(PlainOperator, "install", record)
    return seen


def an_experiment_in_pools(*, limited):
    types = [
        {**each, "pool_limit": ROOM.get(str(each["name"]))} if limited else each for each in TYPES
    ]
    return an_experiment(
        operators=OPERATORS,
        edges=[["a", "b"]],
        node_types=types,
        rate={"levels": 10},
        world={"resizes": True},
    )


@pytest.mark.parametrize("limited", [False, True], ids=["room for all", "limited pools"])
@pytest.mark.parametrize("policy", POLICIES)
def test_no_operator_leaves_its_pools(policy, limited, installed):
    experiment = an_experiment_in_pools(limited=limited)
    trace = 400 + 300 * np.sin(np.arange(SLOTS) / 12)
    outcome = new_outcome(SLOTS, len(TYPES), history=False)

    run_plainly(experiment, trace, policy, settings_of(experiment, {}), outcome, seed=1)

    for name, allowed in ALLOWED.items():
        used = {place for counts in installed[name] for place, count in enumerate(counts) if count}
        assert used <= allowed
        assert len(installed[name]) > 1, "it was scaled"
