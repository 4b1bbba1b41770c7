"""One operator of the plain world: its replicas, its queue, and what it would be measured at."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

import numpy as np

from weir_policies.application_manager.adaptation import Adaptation, AdaptationRequest
from weir_policies.model.deployments import within_reach
from weir_policies.model.node_types import Deployment, NodeType
from weir_policies.model.queueing import predict_means
from weir_policies.model.sharing import group_replicas
from weir_policies.promise import (
    Aggregation,
    Observation,
    OperatorModel,
    OperatorPolicy,
    Sharing,
)
from weir_simulator.dynamics import NEAR_SATURATION
from weir_simulator.randomness import SPEED, draw_factor


@dataclass(slots=True)
class Replica:
    """One TaskManager."""

    place: int
    """Its node type."""
    factor: float
    """Its speed relative to the node type's."""


@dataclass(slots=True, kw_only=True)
class PlainOperator:
    """One operator as it is, and its policy."""

    row: int
    """Its place among the operators; numbers what is drawn for it."""
    truth: OperatorModel
    """Its speedups are those of the replicas that there are."""
    nominal: tuple[NodeType, ...]
    """The node types as they are today, before replicas differ."""
    believed: OperatorModel
    policy: OperatorPolicy
    budget: float
    most_replicas: int
    """What its greatest cost is made of."""
    source: bool
    """Records enter the dataflow here."""
    seed: int
    spread: float
    """How much replicas of a node type differ in speed."""
    target: Deployment
    """Where its policy wants to go, cut to what can be."""
    proposed: Deployment
    """Where its policy wanted to go."""
    replicas: list[Replica] = field(default_factory=list)
    """The one that joined first before the others."""
    born: int = 0
    """Replicas that it ever had."""
    backlog: float = 0.0
    rate: float = 0.0
    """Records/s that arrive, no more than those before it pass on."""
    offered: float = 0.0
    """Records/s that would arrive if no operator were too slow."""
    passed: float = 0.0
    response: float = 0.0
    offered_response: float = 0.0
    before: Observation | None = None
    """What it observed a slot earlier; `None` where that was not measured."""
    reconfigured: bool = False
    urgency: float = 0.0
    """Of the last decision."""

    @property
    def deployment(self) -> Deployment:
        """Its replicas, counted."""
        places = [replica.place for replica in self.replicas]
        return Deployment(tuple(places.count(place) for place in range(len(self.nominal))))

    @property
    def capacity(self) -> float:
        """Records/s if all replicas were busy."""
        speed = sum(
            count * node_type.speedup
            for count, node_type in zip(self.deployment, self.truth.node_types, strict=True)
        )
        return speed / self.truth.service_mean

    def take_in(self, *, rate: float, offered: float) -> None:
        """Let a slot in steady state pass."""
        self.rate, self.offered = rate, offered
        self.passed = min(rate, self.capacity)
        self.response = self.predict(rate)
        self.offered_response = self.predict(offered)

    def work_through(self, *, rate: float, slot: float, gap: float) -> None:
        """Let a slot with a queue pass, whose first `gap` seconds stand still; see `dynamics`."""
        self.rate = self.offered = rate
        most, working = self.sustain(), slot - gap
        before, arrived = self.backlog, rate * slot
        processed = min(before + arrived, most * working)
        self.backlog = before + arrived - processed
        self.passed = processed / slot
        if processed == 0:
            self.response = math.inf if before + arrived > 0 else 0.0
        else:
            waiting = before + rate * gap if self.source else before
            arriving = rate if self.source else arrived / working
            area = gap * (before + waiting) / 2
            emptied = waiting / (most - arriving) if most > arriving else math.inf
            if emptied < working:
                area += emptied * waiting / 2
            else:
                area += working * (waiting + self.backlog) / 2
            steady = self.predict(min(arriving, NEAR_SATURATION * most))
            self.response = steady + area / processed
        self.offered_response = self.response

    def predict(self, rate: float) -> float:
        """Return the response time in steady state, s."""
        counts = np.array([self.deployment.counts], dtype=np.int64)
        times, _ = predict_means(self.truth, counts, rate)
        return float(times[0])

    def sustain(self) -> float:
        """Return records/s at which the busiest replica is just always busy."""
        if self.truth.sharing is Sharing.BY_LOAD:
            return self.capacity
        return 1 / max(self.utilise(1.0))

    def utilise(self, rate: float) -> list[float]:
        """Return the utilisation of each replica, ordered by node type."""
        counts = np.array([self.deployment.counts], dtype=np.int64)
        groups = group_replicas(self.truth, counts, np.array([[rate]]))
        shares = np.broadcast_to(groups.share, groups.replicas.shape)[0]
        return [
            float(rate * shares[place] * groups.service_mean[place])
            for place, count in enumerate(self.deployment)
            for _ in range(count)
        ]

    def ages(self) -> tuple[float, ...]:
        """Return how old the replicas are, ordered by node type, in ranks: who is older counts."""
        by_type = sorted(range(len(self.replicas)), key=lambda rank: self.replicas[rank].place)
        return tuple(float(len(by_type) - rank) for rank in by_type)

    def ask(self) -> AdaptationRequest:
        """Return its target as a request: for more speed, for less, or for as much elsewhere."""
        gained = sum(
            (after - before) * node_type.speedup
            for before, after, node_type in zip(
                self.deployment, self.target, self.nominal, strict=True
            )
        )
        kind = Adaptation.SCALE_OUT if gained > 0 else Adaptation.SCALE_IN
        return AdaptationRequest(
            operator=self.truth.name,
            kind=Adaptation.MIGRATION if gained == 0 else kind,
            score=self.urgency,
        )

    def install(self, deployment: Deployment) -> None:
        """Change to a deployment: of each node type the oldest replicas leave first."""
        for place, count in enumerate(deployment):
            held = [replica for replica in self.replicas if replica.place == place]
            for leaving in held[: max(len(held) - count, 0)]:
                self.replicas = [each for each in self.replicas if each is not leaving]
        for place, count in enumerate(deployment):
            for _ in range(count - self.deployment.counts[place]):
                self.start_replica(place)
        self.find_speeds()

    def replace_lost(self, rank: int) -> None:
        """Lose a replica; another of its node type joins."""
        gone = self.replicas.pop(rank)
        self.start_replica(gone.place)
        self.find_speeds()

    def start_replica(self, place: int) -> None:
        """Let a replica join."""
        self.born += 1
        factor = draw_factor(self.seed, self.born, self.row, SPEED, self.spread)
        self.replicas.append(Replica(place, factor))

    def find_speeds(self) -> None:
        """Set the speeds of the node types from the replicas that there are; see `dynamics`."""
        slowest_counts = (
            self.truth.aggregation is Aggregation.WORST and self.truth.sharing is Sharing.EQUAL
        )
        types = []
        for place, node_type in enumerate(self.nominal):
            factors = [each.factor for each in self.replicas if each.place == place] or [1.0]
            factor = min(factors) if slowest_counts else sum(factors) / len(factors)
            types.append(replace(node_type, speedup=node_type.speedup * factor))
        self.truth = replace(self.truth, node_types=tuple(types))


def step_towards(here: Deployment, target: Deployment, max_replicas: int) -> Deployment:
    """Return the deployment in reach that lies nearest to the target; adding comes first."""
    if target in within_reach(here, k_max=max_replicas):
        return target
    changes = [after - before for before, after in zip(here, target, strict=True)]
    counts = list(here)
    if max(changes) > 0 and here.size < max_replicas:
        counts[changes.index(max(changes))] += 1
    else:
        counts[changes.index(min(changes))] -= 1
    return Deployment(tuple(counts))
