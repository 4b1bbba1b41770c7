"""DS2: the smallest capacity that carries the rate, from the true processing rate.

    true rate of a replica = records processed / time spent busy
    replicas needed        = ceil(rate / true rate)

"True", because time spent waiting for input or for room downstream does not count: it is what the
replica could do. All is measured, nothing predicted, and the answer is reached in one step.

Source: Kalavri et al., "Three steps is all you need: fast, accurate, automatic scaling decisions
for distributed streaming dataflows", OSDI 2018, section 3. Departures:
1. DS2 knows no node types. The mix stays as it is, see `kernels.enumeration`; the true rate is the
   mean over the present mix. What finds no room in a pool goes to other types, in use or not.
2. `target_utilisation` and `catch_up` are additions of its descendants in practice (Flink's
   autoscaler has both); by default they do nothing.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from weir_policies.kernels.compiled import compiled
from weir_policies.kernels.enumeration import scale_mix
from weir_policies.kernels.fields import Fields
from weir_policies.kernels.policy import Algorithm
from weir_policies.kernels.staying import stay
from weir_policies.kernels.steps import choose_action
from weir_policies.kernels.view import Memory, View
from weir_policies.kernels.wording import (
    format_deployment,
    format_rate,
    urgency_of_need,
    urgency_of_saving,
)
from weir_policies.model.cost import price_per_hour
from weir_policies.model.node_types import Deployment
from weir_policies.operator_manager.hold import learn_nothing
from weir_policies.parameters import PolicyParameters, read_parameters, setting
from weir_policies.policy import Candidate, Decision, Expectation, Observation

ROUNDING = 1e-9
"""A capacity that is short by less than this part is enough: 3.0000000001 replicas are 3."""
BEYOND = 1e9
"""Replicas that stand for more than there could ever be."""


class Ds2Memory(Fields):
    """Settings of `ds2`."""

    target_utilisation: float
    catch_up: float
    """Seconds; infinite where a backlog is ignored."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Ds2Parameters(PolicyParameters):
    """Settings of `ds2`; the defaults are the paper."""

    target_utilisation: float = setting(1.0, low=0, high=1, low_allowed=False)
    """Busy share to plan for; inside (0, 1]."""
    catch_up: float | None = setting(None, low=0, low_allowed=False)
    """Seconds in which a backlog is worked off. `None` ignores it, as DS2 does."""


def define(values: Mapping[str, Any], *, name: str) -> Algorithm:
    """Return the algorithm registered as `ds2`, its parameters bound."""
    parameters = read_parameters(Ds2Parameters, values, policy=name)
    return Algorithm(
        prepare=partial(_prepare, parameters),
        learn=learn_nothing,
        decide=decide,
        explain=_explain,
        needed=("processed",) if parameters.catch_up is None else ("processed", "backlog"),
    )


def _prepare(parameters: Ds2Parameters, view: View, ticks: int) -> Memory:
    catch_up = np.inf if parameters.catch_up is None else parameters.catch_up
    return Ds2Memory.allocate(view, parameters, catch_up=catch_up)


@compiled
def measure_true_rate(o: int, view: View) -> float:
    """Return records/s of a replica that is always busy; 0 where none was processed."""
    seen = view.seen[o]
    busy = 0.0
    for place in range(view.counts.shape[1]):
        busy += view.counts[o, place] * view.busy[o, place]
    if busy <= 0 or seen.processed * seen.interval < 1:
        return 0.0
    # Busy for more than all of the time is what a model says of all that arrives, done or not.
    done = seen.rate if seen.busiest > 1 else seen.processed
    return done / busy


@compiled
def rate_to_carry(o: int, view: View, own: Ds2Memory) -> float:
    """Return records/s that must be carried, those that work off the backlog included."""
    if own.catch_up == np.inf:
        return view.seen[o].rate
    return view.seen[o].rate + view.seen[o].backlog / own.catch_up


@compiled
def count_wanted(o: int, view: View, own: Ds2Memory, true_rate: float) -> int:
    """Return the minimum number of replicas that carry the rate, even without room for them."""
    each = true_rate * own.target_utilisation
    wanted = np.ceil(rate_to_carry(o, view, own) / each * (1 - ROUNDING))
    return max(int(min(wanted, BEYOND)), 1)


@compiled
def decide(o: int, view: View, memory: Memory) -> None:
    """Go to the number of replicas that carries the rate."""
    true_rate = measure_true_rate(o, view)
    if true_rate > 0:
        scale_mix(o, view, count_wanted(o, view, Ds2Memory(memory[o]), true_rate), True)
    else:
        choose_action(o, view, 0)


def _explain(observation: Observation, target: Deployment, view: View, memory: Memory) -> Decision:
    model, here = observation.model, observation.deployment
    own = Ds2Memory(memory[0])
    true_rate = measure_true_rate(0, view)
    if true_rate == 0:
        return stay(
            observation, "Stays: no record was processed, so the true rate cannot be measured"
        )
    wanted = count_wanted(0, view, own, true_rate)
    figures = (
        f"{format_rate(rate_to_carry(0, view, own))} at a true rate of {format_rate(true_rate)} "
        f"per replica need {wanted} replica{'s' if wanted > 1 else ''}"
    )
    if target.size < wanted:
        figures += f", but there is room for only {target.size}"
    if target == here:
        reason, urgency = f"Stays: {figures}", 0.0
    else:
        reason = f"Goes to {format_deployment(target, model.node_types)}: {figures}"
        urgency = (
            urgency_of_need(1 - here.size / wanted)
            if target.size > here.size
            else urgency_of_saving(1 - target.size / here.size)
        )
    candidates = _list_candidates(observation, target, view, wanted=wanted, true_rate=true_rate)
    return Decision(
        target=target,
        reason=reason,
        candidates=(candidates[0], *sorted(candidates[1:], key=lambda other: other.score)),
        expectation=candidates[0].expectation,
        urgency=urgency,
    )


def _list_candidates(
    observation: Observation, target: Deployment, view: View, *, wanted: int, true_rate: float
) -> list[Candidate]:
    here = observation.deployment
    candidates: list[Candidate] = []
    for size in dict.fromkeys((target.size, target.size - 1, target.size + 1, here.size)):
        if not 1 <= size <= observation.model.max_replicas:
            continue
        deployment = here
        if size == target.size:
            deployment = target
        elif size != here.size:
            scale_mix(0, view, size, True)
            deployment = Deployment(tuple(int(count) for count in view.target[0]))
        if deployment.size == size:
            candidates.append(
                Candidate(
                    deployment=deployment,
                    score=float(size) if size >= wanted or size == target.size else math.inf,
                    expectation=_expect(observation, deployment, true_rate),
                    verdict=_judge(size, target.size, wanted),
                )
            )
    return candidates


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
