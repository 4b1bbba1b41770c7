"""What the managers propose in a tick, the Application Manager's verdicts, and limiting factors.

A limiting factor is what keeps an operator from meeting its budget; users would otherwise search
for it in vain. Pure. Arbitration reports full pools and the restart budget.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from weir_operator.loop.verify import ChangeSoFar
from weir_operator.runtime.protocol import Deployments
from weir_policies.application_manager.arbitration import count_added
from weir_policies.application_manager.edf import AdaptationRequest
from weir_policies.application_manager.restart_budget import RestartTokens
from weir_policies.kernels.bounds import keep_within
from weir_policies.kernels.expectation import expect
from weir_policies.kernels.explaining import AT_MOST
from weir_policies.kernels.wording import format_deployment, format_time
from weir_policies.model.cost import kind_of_change, price_per_hour
from weir_policies.model.node_types import Deployment, NodeType, speed_of
from weir_policies.policy import (
    NEEDED,
    Candidate,
    ChangeKind,
    Decision,
    Neighbourhood,
    Observation,
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Proposal:
    """One operator's observation and its manager's decision."""

    observation: Observation
    decision: Decision

    @property
    def kind(self) -> ChangeKind:
        """What the proposal takes."""
        seen = self.observation
        return kind_of_change(seen.deployment, self.decision.target, seen.model.node_types)

    @property
    def is_required(self) -> bool:
        """Whether the operator cannot stay: it has too few replicas, or they cost too much."""
        seen = self.observation
        return seen.deployment.size < seen.min_replicas or seen.costs_too_much


@dataclass(frozen=True, kw_only=True, slots=True)
class Move:
    """A replica that should leave its node, for another one of its pool."""

    request: AdaptationRequest
    replica: str
    node: str
    """The one that is left."""
    reason: str
    """One sentence, without a full stop."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Ruling:
    """What a tick comes to: verdicts on its proposals, or a change that no operator proposed."""

    verdicts: Mapping[str, str]
    """One sentence per operator that proposed something, or that something binds."""
    granted: tuple[str, ...]
    target: Deployments
    """Deployments of all operators with the granted changes."""
    restart: bool
    tokens: RestartTokens
    move: Move | None = None
    """What is granted where no proposal is; `None` where no replica leaves its node."""
    reason: str = ""
    """Why the change is made, where no operator proposed it."""
    vertices: Mapping[str, tuple[str, ...]] | None = None
    """What the target's operators are made of; `None` if they are the same as before."""
    id: str = ""
    """Under which the change is found again from its decisions; empty before it is granted."""
    proposals: Mapping[str, Proposal] = field(default_factory=dict)
    """What was ruled on, by operator; empty for a fallback."""
    change: ChangeSoFar | None = None
    """By which it is judged once the job runs again; `None` of one that is not taken back, because
    no operator expected anything of it."""

    def only_advised(self, mode: str, current: Deployments) -> Ruling:
        """Return the ruling of a mode that touches nothing."""
        return replace(
            self,
            verdicts=dict.fromkeys(self.verdicts, f"Only advised: spec.mode is {mode}"),
            granted=(),
            target=current,
            restart=False,
            move=None,
        )


def cut_all(
    proposals: Mapping[str, Proposal],
    observations: Mapping[str, Observation],
    splits: Mapping[str, float],
) -> dict[str, Proposal]:
    """Return the proposals within what there is: splits, room in pools, money; and above floors.

    A policy knows the limit of a pool, not what other operators hold of it. The most urgent
    proposal gets its part first. New replicas start before old ones stop, so what an operator gives
    up in the same change is not free yet.
    """
    room = _find_room(observations)
    cut: dict[str, Proposal] = {}
    for name in sorted(proposals, key=lambda name: -_rank(proposals[name])):
        proposal = cut_to_splits(proposals[name], splits.get(name, math.nan))
        if proposal.kind is ChangeKind.RESCALE:
            proposal = cut_to_room(proposal, room)
        proposal = keep_bounds(proposal, proposal.decision.target, room)
        for pool, added in _added(proposal).items():
            if pool in room:
                room[pool] -= added
        cut[name] = proposal
    return {name: cut[name] for name in proposals}


def _rank(proposal: Proposal) -> float:
    """Return in which order room is given out, the highest first."""
    return proposal.decision.urgency + proposal.is_required


def count_per_pool(deployments: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """Return the replicas of deployments, by pool."""
    pools: dict[str, int] = {}
    for counts in deployments:
        for node_type, count in counts.items():
            pool = node_type.split("/", 1)[0]
            pools[pool] = pools.get(pool, 0) + count
    return pools


def _find_room(observations: Mapping[str, Observation]) -> dict[str, int]:
    """Return how many replicas may be added, by pool that has a limit."""
    limits: dict[str, int] = {}
    held: dict[str, int] = {}
    for seen in observations.values():
        for each in seen.model.node_types:
            # That of a source may be lowered to its splits.
            if each.pool_limit is not None:
                limits[each.pool] = max(each.pool_limit, limits.get(each.pool, 0))
        for pool, count in seen.deployment.per_pool(seen.model.node_types).items():
            held[pool] = held.get(pool, 0) + count
    return {pool: max(0, limit - held.get(pool, 0)) for pool, limit in limits.items()}


def _added(proposal: Proposal) -> dict[str, int]:
    seen = proposal.observation
    types = seen.model.node_types
    return count_added(seen.deployment.per_pool(types), proposal.decision.target.per_pool(types))


def cut_to_room(proposal: Proposal, room: Mapping[str, int]) -> Proposal:
    """Return the proposal with no more new replicas in a pool than it has room for."""
    types = proposal.observation.model.node_types
    target = proposal.decision.target
    counts = list(target)
    full: list[str] = []
    for pool, added in _added(proposal).items():
        excess = added - room.get(pool, added)
        if excess > 0:
            left = f"only {room[pool]}" if room[pool] else "no"
            full.append(f"{left} more of pool {pool}")
            _take_slowest(
                counts, [i for i in range(len(types)) if types[i].pool == pool], excess, types
            )
    if not full:
        return proposal
    allowed = f"{format_deployment(target, types)}, as there is room for {' and '.join(full)}"
    return _cut(
        proposal, counts, allowed, "Chosen: the part of the decision that the pools have room for"
    )


def keep_bounds(proposal: Proposal, start: Deployment, room: Mapping[str, int]) -> Proposal:
    """Return the proposal to go to a deployment, changed as little as the operator's bounds ask."""
    seen, decision = proposal.observation, proposal.decision
    types, present = seen.model.node_types, seen.deployment
    held = present.per_pool(types)
    free = tuple(
        replace(each, pool_limit=held.get(each.pool, 0) + room[each.pool])
        if each.pool in room
        else each
        for each in types
    )
    target = keep_within(
        replace(seen.model, node_types=free),
        start,
        present=present,
        min_replicas=seen.min_replicas,
        max_price=seen.max_price,
    )
    urgency = max(decision.urgency, NEEDED) if proposal.is_required else decision.urgency
    if target == decision.target:
        if urgency == decision.urgency:
            return proposal
        return replace(proposal, decision=replace(decision, urgency=urgency))
    bounds = [f"at least {seen.min_replicas} replicas"] if seen.min_replicas > 1 else []
    if seen.max_price is not None:
        bounds.append(f"a cost of at most {seen.max_price:.4g} per hour")
    asked = " and ".join(bounds)
    goes = "Stays" if target == present else f"Goes to {format_deployment(target, types)}"
    return _replace_target(
        proposal,
        target,
        reason=f"{goes} to keep {asked} ({decision.reason})",
        verdict=f"Chosen: it keeps {asked}",
        others=[each for each in decision.candidates if each.deployment != target],
        urgency=urgency,
    )


def cut_to_splits(proposal: Proposal, splits: float) -> Proposal:
    """Return the proposal with no more replicas than the source has splits, or than it has now.

    Each split is read by one replica.

    Args:
        proposal: Of a manager; its pools are within the splits, their sum need not be.
        splits: What the source shares among its replicas; NaN where unknown.
    """
    seen, target = proposal.observation, proposal.decision.target
    now, types = seen.deployment, seen.model.node_types
    maximum = now.size if math.isnan(splits) else max(int(splits), now.size)
    if math.isnan(splits) or target.size <= maximum:
        return proposal
    counts = list(target)
    _take_slowest(counts, range(len(types)), target.size - maximum, types)
    return _cut(
        proposal,
        counts,
        f"{target.size} replicas of a source with {describe_splits(splits)}",
        "Chosen: the part of the decision that the source has splits for",
    )


def _take_slowest(
    counts: list[int], places: Iterable[int], excess: int, types: Sequence[NodeType]
) -> None:
    """Take replicas away; the slowest go first, of equals the dearest."""
    for place in sorted(places, key=lambda i: (types[i].speedup, -types[i].price)):
        taken = min(counts[place], excess)
        counts[place] -= taken
        excess -= taken


def _cut(proposal: Proposal, counts: Sequence[int], allowed: str, verdict: str) -> Proposal:
    """Return the proposal with a smaller target, or to stay where that does no more work."""
    seen, decision = proposal.observation, proposal.decision
    now, target, types = seen.deployment, decision.target, seen.model.node_types
    cut = Deployment(tuple(counts))
    if speed_of(cut, types) <= speed_of(now, types):
        cut = now
    start = "Stays" if cut == now else f"Goes to {format_deployment(cut, types)}"
    scores = {each.deployment: each.score for each in decision.candidates}
    return _replace_target(
        proposal,
        cut,
        reason=f"{start} instead of {allowed} ({decision.reason})",
        verdict=verdict,
        others=[
            replace(each, verdict=f"Rejected: {allowed}") if each.deployment == target else each
            for each in decision.candidates
            if each.deployment != cut
        ],
        urgency=0.0 if cut == now else decision.urgency,
        score=scores.get(cut, math.nan),
    )


def _replace_target(
    proposal: Proposal,
    target: Deployment,
    *,
    reason: str,
    verdict: str,
    others: Sequence[Candidate],
    urgency: float,
    score: float = math.nan,
) -> Proposal:
    """Return the proposal with another target, whose expectation is computed here."""
    [expectation] = expect(proposal.observation, [target])
    chosen = Candidate(deployment=target, score=score, expectation=expectation, verdict=verdict)
    decision = replace(
        proposal.decision,
        target=target,
        reason=reason,
        candidates=(chosen, *others)[:AT_MOST],
        expectation=expectation,
        urgency=urgency,
    )
    return replace(proposal, decision=decision)


def describe_splits(splits: float) -> str:
    """Return how many parts a source shares among its replicas, and what follows."""
    noun = "split (partition)" if splits == 1 else "splits (partitions)"
    return f"{splits:.0f} {noun}; more replicas would have nothing to read"


def find_binding(proposal: Proposal, neighbourhood: Neighbourhood, splits: float = math.nan) -> str:
    """Return what binds where the decision is not expected to suffice, a clause.

    Empty where it is, or where the policy does not predict.
    """
    seen = proposal.observation
    model, target = seen.model, proposal.decision.target
    short = find_shortage(proposal)
    if not short:
        return ""
    if neighbourhood is Neighbourhood.ONE and proposal.kind is not ChangeKind.NOTHING:
        return f"{short} yet, because its policy moves one replica at a time"
    if is_short_of_money(proposal):
        return f"{short}, because of objective.maxCostPerHour"
    if target.size >= model.max_replicas:
        return f"{short}, because of maxReplicas = {model.max_replicas}"
    if target.size >= splits:
        return f"{short}, because the source has {describe_splits(splits)}"
    limits = {each.pool: each.pool_limit for each in model.node_types}
    used = target.per_pool(model.node_types)
    full = [
        pool
        for pool, maximum in limits.items()
        if maximum is not None and used.get(pool, 0) >= maximum
    ]
    if len(full) == len(limits):
        return f"{short}, because there is no room in {' and '.join(full)}"
    return f"{short}, because no reachable deployment is expected to be worth its cost"


def find_shortage(proposal: Proposal) -> str:
    """Return in what the decision is not expected to suffice, a clause; empty where it is."""
    seen, expected = proposal.observation, proposal.decision.expectation
    if expected.utilisation > 1:
        return "it is not expected to keep up with the load"
    if expected.response_time > seen.budget:  # what is NaN binds nothing
        return f"it is not expected to meet its budget of {format_time(seen.budget)}"
    return ""


def is_short_of_money(proposal: Proposal) -> bool:
    """Return whether the decision does not suffice, and one more replica would cost too much."""
    seen = proposal.observation
    if seen.max_price is None or not find_shortage(proposal):
        return False
    types = seen.model.node_types
    left = seen.max_price - price_per_hour(proposal.decision.target, types)
    return all(each.price > left * (1 + 1e-9) for each in types)
