"""A tabular policy for one operator on one node type, with its memory in sight."""

from dataclasses import replace

import numpy as np

from tests.policies.views import view_of
from weir_policies import registry
from weir_policies.kernels.policy import fill_interval
from weir_policies.kernels.tables import encode, read
from weir_policies.model.node_types import Deployment
from weir_policies.policy import CostParts
from weir_policies.testing import a_model, a_transition, an_observation

SINGLE = a_model(node_types=(a_model().node_types[1],), max_replicas=4)
LEVELS = 4
SETTINGS = {"levels": LEVELS, "max_rate": 400.0}
STAY, LESS, MORE = range(3)
"""Actions with one node type."""


def at(rate, replicas=1, **changes):
    return an_observation(model=SINGLE, rate=rate, deployment=Deployment((replicas,)), **changes)


def interval(before, after, proposed=None, **parts):
    """Return an interval in which `proposed` replicas were asked for; `None`: what was granted."""
    cost = CostParts(**{"violation": 0.0, "resources": 0.0, "reconfiguration": 0.0} | parts)
    asked = after.deployment if proposed is None else Deployment((proposed,))
    return replace(a_transition(before, after), proposed=asked, cost=cost)


class Learner:
    def __init__(self, name, fields, **parameters):
        algorithm = registry.define(name, {**SETTINGS, **parameters})
        assert algorithm is not None
        self.algorithm = algorithm
        self.view = view_of(at(50.0))
        self.memory = algorithm.prepare(self.view, 100)
        self.own = fields(self.memory[0])

    def learn(self, *sides, **parts):
        fill_interval(self.view, interval(*sides, **parts))
        self.algorithm.learn(0, self.view, self.memory)

    def decide(self, *draws):
        self.view.draws[0] = draws
        self.algorithm.decide(0, self.view, self.memory)
        return int(self.view.target[0, 0])

    def value(self, level, replicas, action):
        """Return Q as a table keeps it."""
        key = encode(np.array([replicas]), 5, level, LEVELS) * 3 + action
        return read(self.own.keys, self.own.values, key)


def live(policy, rates):
    """Let a policy run one operator that violates above 80 records/s per replica."""
    size, before, sizes = 1, None, []
    changed = False
    for tick, rate in enumerate(rates):
        seen = at(rate, size, time=60.0 * tick)
        if before is not None:
            parts = {
                "violation": float(rate > 80 * size),
                "resources": size / 4,
                "reconfiguration": float(changed),
            }
            policy.learn(interval(before, seen, **parts))
        target = policy.decide(seen).target.size
        changed, size, before = target != size, target, seen
        sizes.append(size)
    return sizes
