"""Operators that may not run everywhere stay where they may, whatever the policy."""

from collections import defaultdict
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.simulator.builders import an_experiment
from weir_policies import registry
from weir_policies.model.node_types import Deployment
from weir_policies.policy import JoinsRestarts
from weir_simulator import plain_loop
from weir_simulator.plain_loop import run_policies
from weir_simulator.policies import Policies, build_policies, settings_of
from weir_simulator.result import new_outcome
from weir_simulator.world import close_slot

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
UNFIT = {"hold", "mdp", "value-iteration", "dqn", "dqn-pds", "dqn-pds-plus"}
"""Policies that never scale, that learn from a trace of their own first, or that need torch."""
POLICIES = [name for name in registry.names() if name not in UNFIT]


@pytest.fixture
def installed(monkeypatch):
    """Return the deployments that operators have at the end of a slot, by operator, as they run."""
    seen = defaultdict(set)

    def record(t, kind, rules, truth, *others):
        close_slot(t, kind, rules, truth, *others)
        for operator, counts in zip(OPERATORS, truth.counts.tolist(), strict=True):
            seen[operator["name"]].add(tuple(counts))

    monkeypatch.setattr(plain_loop, "close_slot", record)
    return seen


class OnlyItsOwn:
    """A policy that is told of no node type but its operator's, as a live one."""

    def __init__(self, policy, places):
        self.policy, self.places = policy, sorted(places)

    def decide(self, observation):
        return self.widen(self.policy.decide(self.narrow(observation)))

    def learn(self, transition):
        self.policy.learn(self.narrow_interval(transition))

    @property
    def joins_restarts(self):
        return isinstance(self.policy, JoinsRestarts) and self.policy.joins_restarts

    def narrow_interval(self, transition):
        return replace(
            transition,
            observation=self.narrow(transition.observation),
            proposed=self.cut(transition.proposed),
            enacted=self.cut(transition.enacted),
            next_observation=self.narrow(transition.next_observation),
        )

    def narrow(self, observation):
        types = tuple(observation.model.node_types[place] for place in self.places)
        return replace(
            observation,
            model=replace(observation.model, node_types=types),
            deployment=self.cut(observation.deployment),
        )

    def cut(self, deployment):
        return Deployment(tuple(deployment.counts[place] for place in self.places))

    def widen(self, decision):
        counts = dict(zip(self.places, decision.target.counts, strict=True))
        target = Deployment(tuple(counts.get(place, 0) for place in range(len(TYPES))))
        return replace(decision, target=target)


class OnlyTheirOwn:
    """A policy for all operators that is told of no node type but each operator's."""

    def __init__(self, policy):
        self.policy = policy
        self.each = {name: OnlyItsOwn(policy, places) for name, places in ALLOWED.items()}

    def decide(self, observations, dataflow):
        narrow = {name: self.each[name].narrow(seen) for name, seen in observations.items()}
        decisions = self.policy.decide(narrow, dataflow)
        return {name: self.each[name].widen(decision) for name, decision in decisions.items()}

    def learn(self, transitions, dataflow):
        narrow = {name: self.each[name].narrow_interval(t) for name, t in transitions.items()}
        self.policy.learn(narrow, dataflow)


@pytest.fixture
def narrowed(monkeypatch):
    """Return a function that lets every policy of the plain loop know its own types only."""

    def build_narrow(experiment, *args, **kwargs):
        policies = build_policies(experiment, *args, **kwargs)
        narrow: Any = {
            name: OnlyItsOwn(each, ALLOWED[name]) for name, each in policies.operators.items()
        }
        narrow_together: Any = (
            None if policies.application is None else OnlyTheirOwn(policies.application)
        )
        return Policies(narrow, narrow_together)

    return lambda: monkeypatch.setattr(plain_loop, "build_policies", build_narrow)


def run(experiment, policy):
    trace = 400 + 300 * np.sin(np.arange(SLOTS) / 12)
    outcome = new_outcome(SLOTS, len(TYPES), history=True)
    run_policies(experiment, trace, policy, settings_of(experiment, {}), outcome, seed=1)
    return outcome


def an_experiment_in_pools(*, limited, **fields):
    types = [
        {**each, "pool_limit": ROOM.get(str(each["name"]))} if limited else each for each in TYPES
    ]
    return an_experiment(
        operators=OPERATORS,
        edges=[["a", "b"]],
        node_types=types,
        rate={"levels": 10},
        world={"resizes": True},
        **fields,
    )


@pytest.mark.parametrize("policy", POLICIES)
def test_no_operator_leaves_its_pools(policy, installed):
    experiment = an_experiment_in_pools(limited=True)

    run(experiment, policy)

    for name, allowed in ALLOWED.items():
        used = {place for counts in installed[name] for place, count in enumerate(counts) if count}
        assert used <= allowed
        assert len(installed[name]) > 1, "it was scaled"


@pytest.mark.parametrize("policy", POLICIES)
def test_a_policy_decides_as_a_live_one_that_is_told_of_no_other_pools(policy, narrowed):
    first = {"small/1": 1, "small/2": 1, "large": 1, "spot": 1}
    # As a fitted experiment: shares are equal and the mean over records counts.
    experiment = an_experiment_in_pools(limited=False, aggregation="average", initial=first)
    listed = run(experiment, policy)

    narrowed()
    live = run(experiment, policy)

    np.testing.assert_allclose(listed.history, live.history)
    np.testing.assert_array_equal(listed.replicas, live.replicas)
