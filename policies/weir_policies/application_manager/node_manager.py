"""EDF's Node Manager: a node that is slow asks to be rid of a replica.

    V = speed of the node, relative to the other nodes of its pool
    V < V_min -> migrate one of its replicas, drawn evenly, with the score (V_min - V) / V_min

Source: Cardellini, Lo Presti, Nardelli, Russo Russo, Future Generation Computer Systems 2018 (EDF),
sections 5 and 6, which switched migration off in its experiments. Departures:
1. Slow, not overloaded: there a node asks above a CPU utilisation that is not named. A container
   has the CPU that it asked for, however busy its node is; but of nodes that are sold as alike, one
   may be throttled or share its cores, and only the speed shows that.
2. No target: there the node draws one. The cluster's scheduler knows which node of the pool has
   room, and is told only which one not to take.
"""

from __future__ import annotations

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

    least_speed: float = 0.7
    """Speed relative to its pool below which a node is slow, V_min; in [0, 1], and 0 is never."""

    def __post_init__(self) -> None:
        """Refuse what is out of range."""
        refuse_outside("least_speed", self.least_speed, low=0, high=1)

    def score(self, node: Node) -> float:
        """Return how much a node is one to leave, at most 1; 0 where it is none."""
        # A speed that was not measured is NaN, which is below nothing.
        slow = node.speed < self.least_speed
        return (self.least_speed - node.speed) / self.least_speed if slow else 0.0


@dataclass(frozen=True, kw_only=True, slots=True)
class HostedReplica:
    """A replica that runs on a node."""

    name: str
    operator: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Node:
    """What is known of a node at one moment."""

    name: str
    speed: float
    """Work done per second, relative to the other nodes', see `relative_speeds`; NaN where it was
    not measured."""
    hosted: tuple[HostedReplica, ...]
    """Those that may leave."""


def ask_for_migration(
    node: Node, rules: MigrationRules, rng: np.random.Generator
) -> AdaptationRequest | None:
    """Return the node's request to be rid of a replica; `None` where it has no reason, or none.

    Args:
        node: The one that decides.
        rules: When a node is one to leave.
        rng: Draws the replica.
    """
    score = rules.score(node)
    if score == 0 or not node.hosted:
        return None
    leaving = node.hosted[int(rng.integers(len(node.hosted)))]
    return AdaptationRequest(
        operator=leaving.operator, kind=Adaptation.MIGRATION, score=score, replica=leaving.name
    )


def relative_speeds(service_times: Sequence[tuple[str, str, float]]) -> dict[str, float]:
    """Return how fast nodes are, relative to the others that do the same work.

    A replica's speed is the median service time of the same work on the other nodes over its own,
    a node's the median of its replicas'. Work that one node does alone says nothing.

    Args:
        service_times: Node, name of the work (an operator on a node type), and seconds per record
            of each replica; NaN where it was not measured.
    """
    known = [each for each in service_times if each[2] > 0]
    by_node: dict[str, list[float]] = {}
    for node, work, seconds in known:
        elsewhere = [other[2] for other in known if other[1] == work and other[0] != node]
        if elsewhere:
            by_node.setdefault(node, []).append(median(elsewhere) / seconds)
    return {node: median(speeds) for node, speeds in by_node.items()}
