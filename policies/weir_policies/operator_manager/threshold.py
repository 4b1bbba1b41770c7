"""Thresholds on utilisation, one replica at a time: `threshold-cheapest`, `threshold-fastest`.

    U = utilisation of the worst of p replicas
    U > T and p < k_max                -> add a replica of the chosen type
    else p > 1 and U p/(p-1) < beta T  -> remove one of the chosen type
    else                               -> stay

The chosen type is the cheapest, or the fastest; the first among equals.

Source: Russo Russo, Cardellini, Lo Presti, ACM TAAS 2023, section 6 ("TB-C", "TB-S"). It gives
T = 0.7; its published tables were made with 0.75, the default here. Departures, none of which
changes a published number:
1. Where the chosen type's pool is full, the next in order with room is added.
2. Where no replica of the chosen type is there, the dearest is removed (there: nothing).
3. Urgency is the score of EDF (Russo Russo et al., DEBS 2018, section 5.1): the distance from the
   threshold, relative to the most it could be.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from weir_policies.model.cost import price_per_hour
from weir_policies.model.deployments import room_for, within_reach
from weir_policies.model.node_types import Deployment, NodeType
from weir_policies.operator_manager.memoryless import Memoryless
from weir_policies.operator_manager.staying import find_unknown, hold
from weir_policies.operator_manager.urgency import urgency_of_need, urgency_of_saving
from weir_policies.operator_manager.wording import say_deployment, say_share
from weir_policies.parameters import refuse_outside
from weir_policies.promise import (
    Candidate,
    Decision,
    Expectation,
    Neighbourhood,
    Observation,
)


@dataclass(frozen=True, kw_only=True, slots=True)
class ThresholdParameters:
    """Settings of both threshold policies.

    Raises:
        ParameterError: One is out of its range.
    """

    utilisation: float = 0.75
    """Busy share of the worst replica above which one is added, T; inside (0, 1]."""
    scale_in_fraction: float = 0.75
    """Part of T that utilisation must stay below with one replica less, beta; in [0, 1]."""

    def __post_init__(self) -> None:
        """Refuse what is out of range."""
        refuse_outside("utilisation", self.utilisation, low=0, high=1, low_allowed=False)
        refuse_outside("scale_in_fraction", self.scale_in_fraction, low=0, high=1)


class ThresholdPolicy(Memoryless):
    """Adds above a threshold, removes below a lower one; always of one node type."""

    neighbourhood: ClassVar[Neighbourhood] = Neighbourhood.ONE

    def __init__(self, parameters: ThresholdParameters, *, fastest: bool) -> None:
        self._parameters = parameters
        self._fastest = fastest

    def decide(self, observation: Observation) -> Decision:
        """Choose one replica more, one less, or to stay."""
        unknown = find_unknown(observation)
        if unknown is not None:
            return hold(observation, unknown)
        here = observation.deployment
        busy = max(observation.utilisation, default=0.0)
        high = self._parameters.utilisation
        low = self._parameters.scale_in_fraction * high

        if busy > high:
            target = self._add(observation)
            if target is None:
                full = f"all {here.size} replicas that there can be are in use"
                return self._decide(observation, here, f"{_say(busy)} busy, but {full}", 0.0)
            reason = f"{_say(busy)} busy, above the threshold of {say_share(high)}"
            return self._decide(observation, target, reason, urgency_of_need(_excess(busy, high)))
        busy_with_less = busy * here.size / (here.size - 1) if here.size > 1 else math.inf
        if busy_with_less < low:
            reason = (
                f"{_say(busy)} busy; with one replica less it would be "
                f"{say_share(busy_with_less)}, below {say_share(low)}"
            )
            saving = urgency_of_saving((low - busy_with_less) / low)
            return self._decide(observation, self._remove(observation), reason, saving)
        reason = f"{_say(busy)} busy, between the thresholds"
        return self._decide(observation, here, reason, 0.0)

    def _add(self, observation: Observation) -> Deployment | None:
        """Return the deployment with one replica more, or `None` where nothing has room."""
        model, here = observation.model, observation.deployment
        for place in _rank(model.node_types, fastest=self._fastest):
            if room_for(place, here, k_max=model.max_replicas, node_types=model.node_types):
                return _change(here, place, 1)
        return None

    def _remove(self, observation: Observation) -> Deployment:
        """Return the deployment with one replica less, of the chosen type where there is one."""
        node_types, counts = observation.model.node_types, observation.deployment.counts
        chosen = _rank(node_types, fastest=self._fastest)[0]
        if counts[chosen] == 0:
            held = [place for place, count in enumerate(counts) if count]
            chosen = max(held, key=lambda place: node_types[place].price)
        return _change(observation.deployment, chosen, -1)

    def _decide(
        self, observation: Observation, target: Deployment, reason: str, urgency: float
    ) -> Decision:
        """Return the decision; the rule leaves one step, so it rules out the others in reach."""
        model, here = observation.model, observation.deployment
        sentence = _say_move(here, target, model.node_types) + reason
        reached = within_reach(here, k_max=model.max_replicas, node_types=model.node_types)
        others = [
            deployment for deployment in dict.fromkeys((here, *reached)) if deployment != target
        ]
        chosen = Candidate(
            deployment=target,
            score=0.0,
            expectation=_expect(observation, target),
            verdict="Chosen by the rule",
        )
        rejected = [
            Candidate(
                deployment=deployment,
                score=math.inf,
                expectation=_expect(observation, deployment),
                verdict="Rejected: the rule asks for another step",
            )
            for deployment in others
        ]
        return Decision(
            target=target,
            reason=sentence,
            candidates=(chosen, *rejected[:11]),
            expectation=chosen.expectation,
            urgency=urgency,
        )


def _rank(node_types: Sequence[NodeType], *, fastest: bool) -> list[int]:
    """Return the places of the node types, the one to choose first; stable among equals."""
    return sorted(
        range(len(node_types)),
        key=lambda place: -node_types[place].speedup if fastest else node_types[place].price,
    )


def _expect(observation: Observation, deployment: Deployment) -> Expectation:
    """Return what the rule expects: the busy share scales with the number of replicas."""
    busy = max(observation.utilisation, default=0.0)
    return Expectation(
        response_time=math.nan,
        utilisation=busy * observation.deployment.size / deployment.size,
        cost_per_hour=price_per_hour(deployment, observation.model.node_types),
    )


def _change(deployment: Deployment, place: int, step: int) -> Deployment:
    counts = list(deployment.counts)
    counts[place] += step
    return Deployment(tuple(counts))


def _excess(busy: float, high: float) -> float:
    return (busy - high) / (1 - high) if high < 1 else 1.0


def _say(busy: float) -> str:
    return f"the worst replica is {say_share(busy)}"


def _say_move(here: Deployment, target: Deployment, node_types: Sequence[NodeType]) -> str:
    if target == here:
        return "Stays: "
    verb = "Adds a replica" if target.size > here.size else "Removes a replica"
    return f"{verb} to reach {say_deployment(target, node_types)}: "
