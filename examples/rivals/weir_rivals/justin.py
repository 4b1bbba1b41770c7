"""Justin without its memory: DS2 at half busy replicas, outside of a band.

    busy share within 0.5 -/+ 0.3:  nothing changes
    otherwise:                      DS2's replicas, at a target of 0.5

Justin raises the memory of a replica before it adds replicas, where many reads miss the cache. Weir
does not choose memory, so what is here is what Justin does for an operator without state, or one
that has all the memory there is.

Source: Schmitz, Rosinosky, Riviere, "Justin: Hybrid CPU/Memory Elastic Scaling for Distributed
Stream Processing", DAIS 2025 (arXiv 2505.19739). The rule is that of the authors' program, the
paper's artifact CloudLargeScale-UCLouvain/flink-justin (`ScalingExecutor.policy`), with the
target and the boundary of its experiments. Departures:
1. No memory, see above.
2. The program's DS2 is the autoscaler of the Flink Kubernetes Operator (`flink-autoscaler`). Its
   target and boundary are here; its catch-up, and its windows of 1 and 2 minutes and an hour before
   it decides, are not: each interval decides.
3. DS2's departures.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from weir_policies.kernels.compiled import compiled
from weir_policies.kernels.enumeration import scale_mix
from weir_policies.kernels.explaining import explain_rule
from weir_policies.kernels.fields import Fields
from weir_policies.kernels.policy import Algorithm
from weir_policies.kernels.steps import choose_action, total
from weir_policies.kernels.view import Memory, View
from weir_policies.kernels.wording import format_rate, format_share
from weir_policies.model.node_types import Deployment
from weir_policies.operator_manager.ds2 import BEYOND, ROUNDING, measure_true_rate
from weir_policies.operator_manager.hold import learn_nothing
from weir_policies.parameters import PolicyParameters, read_parameters, setting
from weir_policies.policy import Decision, Observation

STAY = 0


class JustinMemory(Fields):
    """Settings of `justin`."""

    target: float
    boundary: float


@dataclass(frozen=True, kw_only=True, slots=True)
class JustinParameters(PolicyParameters):
    """Settings of `justin`; the defaults are those of the authors' experiments.

    Raises:
        ParameterError: One is out of its range.
    """

    target_utilisation: float = setting(0.5, low=0, high=1, low_allowed=False)
    """Busy share to plan for; inside (0, 1]."""
    boundary: float = setting(0.3, low=0, high=1)
    """How far the busy share may be from it before anything changes."""


def define(values: Mapping[str, Any], *, name: str) -> Algorithm:
    """Return the algorithm registered as `justin`, its parameters bound."""
    parameters = read_parameters(JustinParameters, values, policy=name)
    return Algorithm(
        prepare=partial(_prepare, parameters),
        learn=learn_nothing,
        decide=decide,
        explain=_explain,
        needed=("processed",),
    )


def _prepare(parameters: JustinParameters, view: View, ticks: int) -> Memory:
    return JustinMemory.allocate(
        view, target=parameters.target_utilisation, boundary=parameters.boundary
    )


@compiled
def is_in_band(o: int, view: View, own: JustinMemory, true_rate: float) -> bool:
    """Return whether the rate keeps the replicas about as busy as they should be."""
    busy = view.seen[o].rate / true_rate / total(view.counts[o])
    return abs(busy - own.target) <= own.boundary


@compiled
def count_wanted(o: int, view: View, own: JustinMemory) -> int:
    """Return DS2's replicas, even without room for them; 0 where nothing was processed."""
    true_rate, size = measure_true_rate(o, view), total(view.counts[o])
    if true_rate <= 0:
        return 0
    if is_in_band(o, view, own, true_rate):
        return size
    replicas = view.seen[o].rate / true_rate
    wanted = np.ceil(replicas / own.target * (1 - ROUNDING))
    return max(int(min(wanted, BEYOND)), 1)


@compiled
def decide(o: int, view: View, memory: Memory) -> None:
    """Go to DS2's replicas, unless the present ones are in the band."""
    wanted = min(count_wanted(o, view, JustinMemory(memory[o])), view.model[o].max_replicas)
    if wanted in (0, total(view.counts[o])):
        choose_action(o, view, STAY)
    else:
        scale_mix(o, view, wanted, True)


def _explain(observation: Observation, target: Deployment, view: View, memory: Memory) -> Decision:
    own, size = JustinMemory(memory[0]), observation.deployment.size
    wanted = count_wanted(0, view, own)
    if wanted == 0:
        reason = "no record was processed, so the true rate cannot be measured"
        return explain_rule(observation, target, reason)
    true_rate = measure_true_rate(0, view)
    figures = (
        f"{format_rate(observation.rate)} at a true rate of {format_rate(true_rate)} per replica"
    )
    if is_in_band(0, view, own, true_rate):
        busy = format_share(observation.rate / true_rate / size)
        low = format_share(max(own.target - own.boundary, 0.0))
        high = format_share(own.target + own.boundary)
        reason = (
            f"{figures} keep {size} replica{'s' if size > 1 else ''} busy for {busy} of the time; "
            f"between {low} and {high}, nothing changes"
        )
        return explain_rule(observation, target, reason)
    reason = (
        f"{figures} and a target of {format_share(own.target)} need {wanted} "
        f"replica{'s' if wanted > 1 else ''}"
    )
    allowed = min(wanted, observation.model.max_replicas)
    if allowed < wanted:
        reason += f", but there may be only {allowed}"
    return explain_rule(observation, target, reason)
