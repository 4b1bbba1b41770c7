"""DS2: the smallest capacity that carries the rate, from the true processing rate.

    true rate of a replica = records processed / time spent busy
    replicas needed        = ceil(rate / true rate)

"True", because time spent waiting for input or for room downstream does not count: it is what the
replica could do. All is measured, nothing predicted, and the answer is reached in one step.

Source: Kalavri et al., "Three steps is all you need: fast, accurate, automatic scaling decisions
for distributed streaming dataflows", OSDI 2018, section 3. Departures:
1. DS2 knows no node types. The mix stays as it is: replicas are added to the node type that has
   the most (the first among equals), and removed from there, then from the next. The true rate is
   the mean over the present mix. A full pool passes its replicas on to the next type in use, then
   to the cheapest others.
2. `target_utilisation` and `catch_up` are additions of its descendants in practice (Flink's
   autoscaler has both); by default they do nothing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from weir_policies.model.cost import price_per_hour
from weir_policies.model.deployments import room_for
from weir_policies.model.node_types import Deployment
from weir_policies.operator_manager.memoryless import Memoryless
from weir_policies.operator_manager.staying import find_unknown, hold, stay
from weir_policies.operator_manager.urgency import urgency_of_need, urgency_of_saving
from weir_policies.operator_manager.wording import say_deployment, say_rate
from weir_policies.parameters import refuse_outside
from weir_policies.promise import (
    Candidate,
    Decision,
    Expectation,
    Neighbourhood,
    Observation,
    OperatorModel,
)

ROUNDING = 1e-9
"""A capacity that is short by less than this part is enough: 3.0000000001 replicas are 3."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Ds2Parameters:
    """Settings of `ds2`; the defaults are the paper.

    Raises:
        ParameterError: One is out of its range.
    """

    target_utilisation: float = 1.0
    """Busy share to plan for; inside (0, 1]."""
    catch_up: float | None = None
    """Seconds in which a backlog is worked off. `None` ignores it, as DS2 does."""

    def __post_init__(self) -> None:
        """Refuse what is out of range."""
        refuse_outside(
            "target_utilisation", self.target_utilisation, low=0, high=1, low_allowed=False
        )
        refuse_outside("catch_up", self.catch_up, low=0, low_allowed=False)


class Ds2Policy(Memoryless):
    """Scales to what the measured true rate says, in one step."""

    neighbourhood: ClassVar[Neighbourhood] = Neighbourhood.ANY

    def __init__(self, parameters: Ds2Parameters) -> None:
        self._parameters = parameters

    def decide(self, observation: Observation) -> Decision:
        """Choose the number of replicas that carries the rate."""
        catch_up = self._parameters.catch_up
        needed = ("processed",) if catch_up is None else ("processed", "backlog")
        unknown = find_unknown(observation, *needed)
        if unknown is not None:
            return hold(observation, unknown)
        busy = sum(observation.utilisation)
        if busy <= 0 or observation.processed * observation.interval < 1:
            return stay(
                observation, "Stays: no record was processed, so the true rate cannot be measured"
            )
        true_rate = observation.processed / busy
        rate = observation.rate + (observation.backlog / catch_up if catch_up else 0.0)
        replicas = rate / (true_rate * self._parameters.target_utilisation)
        wanted = max(1, math.ceil(replicas * (1 - ROUNDING)))
        here = observation.deployment
        target = _resize_mix(here, wanted, observation.model)
        return _explain(observation, target, wanted=wanted, true_rate=true_rate, rate=rate)


def _resize_mix(here: Deployment, wanted: int, model: OperatorModel) -> Deployment:
    """Return the present mix with as many replicas as wanted, or as many as there is room for."""
    counts = list(here.counts)
    most_first = sorted(
        range(len(counts)),
        key=lambda place: (-here.counts[place], model.node_types[place].price),
    )
    for place in most_first:
        surplus = sum(counts) - min(wanted, model.max_replicas)
        counts[place] -= min(max(surplus, 0), counts[place])
    for place in most_first:
        now = Deployment(tuple(counts))
        room = room_for(place, now, k_max=model.max_replicas, node_types=model.node_types)
        counts[place] += min(room, max(wanted - now.size, 0))
    return Deployment(tuple(counts))


def _explain(
    observation: Observation, target: Deployment, *, wanted: int, true_rate: float, rate: float
) -> Decision:
    """Return the decision with its reason and the neighbours in size that were too few or many."""
    model, here = observation.model, observation.deployment
    figures = (
        f"{say_rate(rate)} at a true rate of {say_rate(true_rate)} per replica need "
        f"{wanted} replica{'s' if wanted > 1 else ''}"
    )
    if target.size < wanted:
        figures += f", but there is room for {target.size} only"
    if target == here:
        reason, urgency = f"Stays: {figures}", 0.0
    else:
        reason = f"Goes to {say_deployment(target, model.node_types)}: {figures}"
        urgency = (
            urgency_of_need(1 - here.size / wanted)
            if target.size > here.size
            else urgency_of_saving(1 - target.size / here.size)
        )
    sizes = dict.fromkeys((target.size, target.size - 1, target.size + 1, here.size))
    candidates: list[Candidate] = []
    for size in sizes:
        deployment = (
            target if size == target.size else here if size == here.size
            else _resize_mix(here, size, model)
        )  # fmt: skip
        if 1 <= size <= model.max_replicas and deployment.size == size:
            candidates.append(
                Candidate(
                    deployment=deployment,
                    score=float(size) if size >= wanted or size == target.size else math.inf,
                    expectation=_expect(observation, deployment, true_rate),
                    verdict=_judge(size, target.size, wanted),
                )
            )
    return Decision(
        target=target,
        reason=reason,
        candidates=(candidates[0], *sorted(candidates[1:], key=lambda other: other.score)),
        expectation=candidates[0].expectation,
        urgency=urgency,
    )


def _expect(observation: Observation, deployment: Deployment, true_rate: float) -> Expectation:
    return Expectation(
        response_time=math.nan,
        utilisation=observation.rate / (true_rate * deployment.size),
        cost_per_hour=price_per_hour(deployment, observation.model.node_types),
    )


def _judge(size: int, chosen: int, wanted: int) -> str:
    if size == chosen:
        return "Chosen: the smallest capacity that carries the rate"
    return "Rejected: too few replicas" if size < wanted else "Rejected: more than needed"
