"""EDF's requests in order of priority, its Node Manager, and its token bucket.

Managers of operators and nodes know only their own part and change nothing: they make requests,
each with a score. In every period, the requests are ranked by score; those that conflict with a
higher one are dropped (`drop_conflicts`); the others are granted, all of them or as many as there
are tokens (`grant`); the rest is forgotten, and its managers ask again.

Source: Cardellini, Lo Presti, Nardelli, Russo Russo, Future Generation Computer Systems 2018 (EDF),
sections 4 and 7. Decided where it leaves a choice:
1. Scale-outs and migrations are one list, because one kind of token pays both. Of equal scores a
   scale-out comes first, then the operator's name decides.
2. Two requests conflict if they want more of one place than it has room for. There, a place is a
   node with room for one replica a period. In the controller, it is a node pool with a limit: no
   request names its node, because the cluster's scheduler chooses nodes.
3. A request that is dropped stays so, even if the one that it conflicts with then finds no token:
   the steps are in that order.

The Node Manager asks for a migration of a replica if its node is slow:

    V = speed of the node, relative to the other nodes of its pool
    V < V_min -> migrate one of its replicas, drawn evenly, with the score (V_min - V) / V_min

Source: Cardellini, Lo Presti, Nardelli, Russo Russo, Future Generation Computer Systems 2018 (EDF),
sections 5 and 6, which switched migration off in its experiments. Departures:
1. Slow, not overloaded: there a node asks above a CPU utilisation that is not named. A container
   has the CPU that it asked for, however busy its node is; but of nodes that are sold as alike, one
   may be throttled or share its cores, and only the speed shows that.
2. No target: there the node draws one. The cluster's scheduler knows which node of the pool has
   room, and gets only the one to avoid.

The token bucket: the response time decides which changes are allowed, and how many.

A token is of one kind: HIGH pays one replica more, or one on another node; LOW one replica less.
Every `every` seconds the application's response time R makes one: R > high a HIGH, R < low a LOW,
else none. The bucket holds one kind only: a new token throws out all of the other; in a full one it
replaces the oldest. Tokens do not expire. Requests are granted by score, one token each; those that
are left are denied.

Source: Cardellini, Lo Presti, Nardelli, Russo Russo, Future Generation Computer Systems 2018 (EDF),
section 7.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from statistics import median

import numpy as np

from weir_policies.errors import ParameterError
from weir_policies.parameters import refuse_outside


class Adaptation(StrEnum):
    """What is asked for; in the order in which equal scores are served."""

    SCALE_OUT = "scale-out"
    """One replica more."""
    MIGRATION = "migration"
    """One replica on another node of the same pool."""
    SCALE_IN = "scale-in"
    """One replica less."""


RANKS = {kind: rank for rank, kind in enumerate(Adaptation)}


@dataclass(frozen=True, kw_only=True, slots=True)
class AdaptationRequest:
    """One step that a manager asks for."""

    operator: str
    kind: Adaptation
    score: float
    """How much it gains, 1 the most; comparable among requests of one kind. A learner that explores
    may ask for what it takes to be a loss: then it is negative."""
    replica: str | None = None
    """The one that leaves; `None` if the caller chooses it."""
    places: Mapping[str, int] = field(default_factory=dict)
    """Replicas that it adds, by place with little room; other places are left out."""

    @property
    def change(self) -> int:
        """Replicas that the operator has more afterwards."""
        return {Adaptation.SCALE_OUT: 1, Adaptation.SCALE_IN: -1}.get(self.kind, 0)


def step_of(operator: str, change: int, score: float) -> AdaptationRequest:
    """Return the request of an operator for one replica more (`change` > 0) or less."""
    kind = Adaptation.SCALE_OUT if change > 0 else Adaptation.SCALE_IN
    return AdaptationRequest(operator=operator, kind=kind, score=score)


def prioritise(requests: Sequence[AdaptationRequest]) -> list[AdaptationRequest]:
    """Return the requests, the highest score first."""
    return sorted(requests, key=lambda each: (-each.score, RANKS[each.kind], each.operator))


def drop_conflicts(
    requests: Sequence[AdaptationRequest], room: Mapping[str, int]
) -> list[AdaptationRequest]:
    """Return the requests that find room at their places, the highest score served first.

    Args:
        requests: Those of a period.
        room: Replicas that each place has room for; without limit where a place is not in it.
    """
    left = dict(room)
    kept = []
    for each in prioritise(requests):
        if all(added <= left.get(place, added) for place, added in each.places.items()):
            kept.append(each)
            left |= {
                place: left[place] - added for place, added in each.places.items() if place in left
            }
    return kept


@dataclass(frozen=True, kw_only=True, slots=True)
class MigrationRules:
    """When a node is one to leave."""

    min_speed: float = 0.7
    """Speed relative to its pool below which a node is slow, V_min; in [0, 1], and 0 is never."""

    def __post_init__(self) -> None:
        """Refuse what is out of range."""
        refuse_outside("min_speed", self.min_speed, low=0, high=1)

    def score(self, node: Node) -> float:
        """Return how much a node is one to leave, at most 1; 0 where it is none."""
        # A speed that was not measured is NaN, which is below nothing.
        slow = node.speed < self.min_speed
        return (self.min_speed - node.speed) / self.min_speed if slow else 0.0


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
    """Return the node's request to be rid of a replica; `None` where it has no reason, or none."""
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


class Token(StrEnum):
    """What a token pays."""

    HIGH = "high"
    """One replica more, or one on another node."""
    LOW = "low"
    """One replica less."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TokenRules:
    """When a new token is created."""

    low: float
    """Response time below which replicas may go, s."""
    high: float
    """Response time above which replicas may come, s."""
    every: float = 60.0
    """Seconds from one token to the next."""
    size: int = 1
    """Most tokens in the bucket."""

    def __post_init__(self) -> None:
        """Refuse what makes no sense."""
        if not 0 <= self.low <= self.high:
            raise ParameterError(f"Expected 0 <= low <= high, got {self.low} s and {self.high} s")
        if not self.every > 0:
            raise ParameterError(f"Expected every > 0 s, got {self.every} s")
        if self.size < 1:
            raise ParameterError(f"Expected a size of at least 1 token, got {self.size}")


@dataclass(frozen=True, kw_only=True, slots=True)
class Tokens:
    """What is in the bucket: some tokens of one kind."""

    kind: Token = Token.HIGH
    count: int = 0
    generated_at: float = float("-inf")
    """Seconds on the caller's clock of the last time that a token could come."""

    def generate(self, rules: TokenRules, *, response_time: float, now: float) -> Tokens:
        """Return the bucket after the token that is due, if one is.

        Args:
            rules: When there is one.
            response_time: Of the application, s, mean over the last `rules.every` seconds. NaN,
                which is neither high nor low, makes none.
            now: Seconds on the caller's clock.
        """
        if now - self.generated_at < rules.every:
            return self
        waiting = replace(self, generated_at=now)
        if response_time > rules.high:
            kind = Token.HIGH
        elif response_time < rules.low:
            kind = Token.LOW
        else:
            return waiting
        held = self.count if kind is self.kind else 0
        return replace(waiting, kind=kind, count=min(held + 1, rules.size))


def token_for(kind: Adaptation) -> Token:
    """Return what pays such a request."""
    return Token.LOW if kind is Adaptation.SCALE_IN else Token.HIGH


def grant(
    requests: Sequence[AdaptationRequest], tokens: Tokens
) -> tuple[list[AdaptationRequest], Tokens]:
    """Return what the tokens pay, the highest score first, and what is left of them."""
    payable = [each for each in prioritise(requests) if token_for(each.kind) is tokens.kind]
    granted = payable[: tokens.count]
    return granted, replace(tokens, count=tokens.count - len(granted))
