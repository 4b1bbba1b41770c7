"""EDF's Node Manager: a node that is overloaded, or slow, asks to be rid of a replica.

    U = CPU utilisation of the node, V = its speed relative to the other nodes of its pool
    U > U_max            -> score (U - U_max) / (1 - U_max)
    V < V_min            -> score (V_min - V) / V_min
    either, and a target -> migrate one of its replicas, drawn evenly, with the higher score

The target is a node of the same pool that is neither overloaded nor slow and has room. It is drawn
by the rank of its distance: of m candidates the nearest has weight m, the farthest 1. Each node
decides by itself; that two ask for one target is the Application Manager's affair (`adaptation`).

Source: Cardellini, Lo Presti, Nardelli, Russo Russo, Future Generation Computer Systems 2018 (EDF),
sections 5 and 6. It names neither U_max nor the law of the draw, and switched migration off in its
experiments. Departures:
1. Slow nodes: there all nodes are alike. In a pool whose nodes are sold as alike, one may be
   throttled or share its cores, which utilisation alone does not show.
2. Same pool: another pool has another speed and price, which is the operators' managers' choice.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

import numpy as np

from weir_policies.application_manager.adaptation import Adaptation, AdaptationRequest
from weir_policies.parameters import refuse_outside


@dataclass(frozen=True, kw_only=True, slots=True)
class MigrationRules:
    """When a node is one to leave.

    Raises:
        ParameterError: A number is out of its range.
    """

    most_busy: float = 0.8
    """CPU utilisation above which a node is overloaded, U_max; in [0, 1)."""
    least_speed: float = 0.7
    """Speed relative to its pool below which a node is slow, V_min; in [0, 1], and 0 is never."""

    def __post_init__(self) -> None:
        """Refuse what is out of range."""
        refuse_outside("most_busy", self.most_busy, low=0, high=1, high_allowed=False)
        refuse_outside("least_speed", self.least_speed, low=0, high=1)

    def score(self, node: Node) -> float:
        """Return how much a node is one to leave, at most 1; 0 where it is none."""
        overload = (node.utilisation - self.most_busy) / (1 - self.most_busy)
        slowness = (self.least_speed - node.speed) / self.least_speed if self.least_speed else 0.0
        # What was not measured is NaN, and no reason to leave.
        return max([0.0, *(each for each in (overload, slowness) if not math.isnan(each))])


@dataclass(frozen=True, kw_only=True, slots=True)
class HostedReplica:
    """A replica that runs on a node."""

    name: str
    operator: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Node:
    """What is known of a node at one moment; NaN where something could not be measured."""

    name: str
    pool: str
    utilisation: float
    """Busy share of its CPU, in [0, 1]."""
    speed: float = 1.0
    """Work done per second, relative to the pool's; see `relative_speeds`."""
    room: int = 0
    """Replicas that it could take besides."""
    hosted: tuple[HostedReplica, ...] = ()


def ask_for_migration(
    node: Node,
    neighbours: Sequence[Node],
    rules: MigrationRules,
    rng: np.random.Generator,
) -> AdaptationRequest | None:
    """Return the node's request to be rid of a replica; `None` where it has no reason or no target.

    Args:
        node: The one that decides.
        neighbours: The nodes that it knows, the nearest first.
        rules: When a node is one to leave.
        rng: Draws the replica, then the target.
    """
    score = rules.score(node)
    targets = [
        each
        for each in neighbours
        if each.pool == node.pool
        and each.name != node.name
        and each.room > 0
        and not math.isnan(each.utilisation)  # it may well be overloaded
        and rules.score(each) == 0
    ]
    if score == 0 or not targets or not node.hosted:
        return None
    leaving = node.hosted[int(rng.integers(len(node.hosted)))]
    weights = np.arange(len(targets), 0, -1)
    target = targets[int(rng.choice(len(targets), p=weights / weights.sum()))]
    return AdaptationRequest(
        operator=leaving.operator,
        kind=Adaptation.MIGRATION,
        score=score,
        replica=leaving.name,
        node=target.name,
    )


def relative_speeds(service_times: Sequence[tuple[str, str, float]]) -> dict[str, float]:
    """Return how fast nodes are, relative to the pool that they stand in.

    A replica's speed is the median service time of its operator in the pool over its own, a node's
    the median of its replicas'. Replicas of one operator do the same work, so what they differ by
    is the node; an operator with a single replica in the pool says nothing, its own median being
    its own.

    Args:
        service_times: Node, operator, and seconds per record of each replica in one pool; NaN where
            it was not measured.
    """
    known = [each for each in service_times if each[2] > 0]
    by_operator: dict[str, list[float]] = {}
    for _, operator, seconds in known:
        by_operator.setdefault(operator, []).append(seconds)
    by_node: dict[str, list[float]] = {}
    for node, operator, seconds in known:
        if len(by_operator[operator]) > 1:
            by_node.setdefault(node, []).append(median(by_operator[operator]) / seconds)
    return {node: median(speeds) for node, speeds in by_node.items()}
