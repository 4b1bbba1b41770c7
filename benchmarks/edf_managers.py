"""EDF's three kinds of operators' managers: thresholds, Q-learning, and full backup.

Thresholds and full backup are the policies `threshold-cheapest` and `full-backup` with one node
type. Q-learning differs from the policy `ql`, which is the later paper's: alpha and epsilon are
constant, and it may learn from what it proposed although that was denied.

Source: Cardellini, Lo Presti, Nardelli, Russo Russo, Future Generation Computer Systems 2018 (EDF),
section 5.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.edf_world import MOST, OPERATORS, SLOT, Seen
from weir_policies import registry
from weir_policies.application_manager.edf import AdaptationRequest, step_of
from weir_policies.kernels.view import (
    BUSIEST,
    MAX_REPLICAS,
    RATE,
    TIME,
    TOP_COST,
    VIOLATION,
    WEIGHT_RECONFIGURATION,
    WEIGHT_RESOURCES,
    WEIGHT_VIOLATION,
    Memory,
    View,
    empty_view,
)
from weir_policies.model.arrays import Counts, Floats
from weir_policies.operator_manager.full_backup import find_score

QUANTUM, LEVELS = 50, 11
GAMMA, ALPHA, EPSILON = 0.99, 0.1, 0.05
SCALE_IN = 0.75
CHANGES = (0, -1, 1)
"""In the order in which the first of equals wins."""

Score = Callable[[int, View, Memory, int], float]
"""How much a change of so many replicas gains an operator."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Weights:
    """Of the parts of an interval's cost."""

    violation: float
    resources: float
    reconfiguration: float


RESOURCES = Weights(violation=0.4, resources=0.4, reconfiguration=0.2)
RECONFIGURATIONS = Weights(violation=0.4, resources=0.2, reconfiguration=0.4)


class CompiledManagers:
    """A compiled policy for every operator, on one node type."""

    def __init__(
        self, policy: str, parameters: Mapping[str, Any], weights: Weights, score: Score
    ) -> None:
        algorithm = registry.define(policy, parameters)
        if algorithm is None:
            raise TypeError(f"Expected a compiled policy, got {policy}")
        self._algorithm, self._score = algorithm, score
        view = empty_view(operators=len(OPERATORS), node_types=1, max_replicas=int(MOST.max()))
        view.rules[:, MAX_REPLICAS] = MOST
        view.speedup[:] = view.price[:] = 1.0
        view.traits[:, TOP_COST] = MOST
        view.traits[:, WEIGHT_VIOLATION] = weights.violation
        view.traits[:, WEIGHT_RESOURCES] = weights.resources
        view.traits[:, WEIGHT_RECONFIGURATION] = weights.reconfiguration
        self._view, self._memory = view, algorithm.prepare(view, 0)
        self._began = False

    def step(self, seen: Seen) -> list[AdaptationRequest]:
        """Let every operator's kernels learn and decide."""
        view, memory = self._view, self._memory
        view.before[:], view.counts_before[:] = view.seen, view.counts
        view.counts[:, 0] = seen.replicas
        view.seen[:, RATE], view.seen[:, BUSIEST] = seen.rates, seen.busy
        view.seen[:, TIME] = seen.slot * SLOT
        view.cost[:, VIOLATION] = seen.violated
        requests = []
        for o, name in enumerate(OPERATORS):
            if self._began:
                self._algorithm.learn(o, view, memory)
            self._algorithm.decide(o, view, memory)
            change = int(view.target[o, 0] - view.counts[o, 0])
            if change != 0:
                score = float(self._score(o, view, memory, change))
                requests.append(step_of(name, change, score))
        self._began = True
        return requests


def use_thresholds(threshold: float) -> CompiledManagers:
    """Return managers that go by utilisation."""

    def score(o: int, view: View, memory: Memory, change: int) -> float:
        busy, size, low = view.seen[o, BUSIEST], view.counts[o, 0], SCALE_IN * threshold
        if change > 0:
            return float((busy - threshold) / (1 - threshold))
        return float((low - busy * size / (size - 1)) / low)

    parameters = {"utilisation": threshold, "scale_in_fraction": SCALE_IN}
    return CompiledManagers("threshold-cheapest", parameters, RESOURCES, score)


def use_full_backup(weights: Weights) -> CompiledManagers:
    """Return managers that learn a model and plan with it."""
    parameters = {
        "levels": LEVELS,
        "max_rate": LEVELS * QUANTUM,
        "alpha": ALPHA,
        "gamma": GAMMA,
    }
    return CompiledManagers("full-backup", parameters, weights, find_score)


class QLearningManagers:
    """A table of Q for every operator."""

    def __init__(self, weights: Weights, *, learns_denied: bool, seed: int) -> None:
        """Begin with Q = 0.

        Args:
            weights: Of the cost.
            learns_denied: Whether a denied change is learned as if it were the action of the
                interval, its cost included; else that action was to stay.
            seed: Of the exploration.
        """
        self._weights, self._learns_denied = weights, learns_denied
        self._rng = np.random.default_rng([seed, 1])
        # A change is a column, and -1 is the last.
        self._q = np.zeros((len(OPERATORS), int(MOST.max()) + 1, LEVELS, len(CHANGES)))
        self._most_gain = np.ones(len(OPERATORS))
        self._last: tuple[Counts, Counts, Counts] | None = None

    def step(self, seen: Seen) -> list[AdaptationRequest]:
        """Update Q with what the last interval cost, then choose by epsilon-greedy."""
        levels = np.minimum(seen.rates / QUANTUM + 0.5, LEVELS - 1).astype(np.int64)
        if self._last is not None:
            self._learn(seen, *self._last)
        changes = np.array([self._choose(o, seen.replicas[o], levels[o]) for o in range(MOST.size)])
        self._last = (seen.replicas, levels, changes)
        return [
            step_of(
                OPERATORS[o],
                int(changes[o]),
                self._score(o, self._q[o, seen.replicas[o], levels[o]], int(changes[o])),
            )
            for o in np.flatnonzero(changes).tolist()
        ]

    def values_of(self, operator: str, *, replicas: int, rate: float) -> dict[int, float]:
        """Return Q of every change that is allowed."""
        o = OPERATORS.index(operator)
        values = self._q[o, replicas, min(int(rate / QUANTUM + 0.5), LEVELS - 1)]
        return {change: float(values[change]) for change in list_changes(o, replicas)}

    def _learn(self, seen: Seen, replicas: Counts, before: Counts, proposed: Counts) -> None:
        changes = proposed if self._learns_denied else seen.replicas - replicas
        weights = self._weights
        costs = (
            weights.reconfiguration * (changes != 0)
            + weights.violation * seen.violated
            + weights.resources * seen.replicas / MOST
        )
        for o, cost in enumerate(costs):
            reached = self.values_of(
                OPERATORS[o], replicas=int(seen.replicas[o]), rate=float(seen.rates[o])
            )
            least = min(reached.values())
            place = (o, replicas[o], before[o], changes[o])
            self._q[place] += ALPHA * (cost + GAMMA * least - self._q[place])

    def _choose(self, o: int, replicas: int, level: int) -> int:
        values, valid = self._q[o, replicas, level], list_changes(o, replicas)
        gains = [values[0] - values[change] for change in valid]
        self._most_gain[o] = max(self._most_gain[o], *gains)
        if self._rng.random() < EPSILON:
            return int(self._rng.choice(valid))
        return min(valid, key=lambda change: values[change])

    def _score(self, o: int, values: Floats, change: int) -> float:
        return float((values[0] - values[change]) / self._most_gain[o])


def list_changes(o: int, replicas: int) -> list[int]:
    """Return the changes that an operator's replicas allow."""
    return [change for change in CHANGES if 1 <= replicas + change <= MOST[o]]
