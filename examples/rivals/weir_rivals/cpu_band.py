"""CPU above a band doubles, below it halves: `cpu-band`, a rule that people run today.

    busiest replica >= 75 % busy for 15 minutes on end: as many replicas again
    busiest replica <  10 % busy for 6 hours on end:    half of them, rounded up

Source: the documentation of Amazon Managed Service for Apache Flink, "Use automatic scaling": the
metric is the maximum over all containers, in periods of one minute. Departures:
1. Busy time stands for CPU time, the caller's interval for the minute; an interval in which the
   deployment changed starts the count again.
2. The service knows one kind of container. Here the mix stays as it is: replicas of the node types
   in use are added and removed, see `kernels.enumeration`.
3. The parallelism that the job was configured with, below which the service does not go, is the
   parameter `least_replicas`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from weir_policies.errors import ParameterError
from weir_policies.kernels.compiled import compiled
from weir_policies.kernels.enumeration import scale_mix
from weir_policies.kernels.explaining import explain_rule
from weir_policies.kernels.fields import Fields
from weir_policies.kernels.policy import Algorithm
from weir_policies.kernels.steps import choose_action, find_action, total
from weir_policies.kernels.view import Memory, View
from weir_policies.kernels.wording import format_share
from weir_policies.model.node_types import Deployment
from weir_policies.parameters import PolicyParameters, read_parameters, setting
from weir_policies.policy import Decision, Observation

STAY = 0
"""The action that changes nothing."""


class CpuBandMemory(Fields):
    """Settings of `cpu-band`, and for how long the CPU has been out of band."""

    high: float
    low: float
    high_after: float
    low_after: float
    least_replicas: int
    high_for: float
    """Seconds, as the next."""
    low_for: float


@dataclass(frozen=True, kw_only=True, slots=True)
class CpuBandParameters(PolicyParameters):
    """Settings of `cpu-band`; the defaults are the service's.

    Raises:
        ParameterError: One is out of its range, or the band is empty.
    """

    high: float = setting(0.75, low=0, high=1, low_allowed=False)
    """Busy share from which on more is needed."""
    high_after: float = setting(900.0, low=0, low_allowed=False)
    """Seconds for which it must last."""
    low: float = setting(0.1, low=0, high=1)
    """Busy share below which less will do."""
    low_after: float = setting(21_600.0, low=0, low_allowed=False)
    """Seconds for which it must last."""
    least_replicas: int = setting(1, low=1, whole=True)
    """Replicas below which it does not go."""

    def __post_init__(self) -> None:
        """Refuse what is out of range."""
        PolicyParameters.__post_init__(self)
        if self.low >= self.high:
            raise ParameterError(f"Expected low below high, {self.high:g}, got {self.low:g}")


def define(values: Mapping[str, Any], *, name: str) -> Algorithm:
    """Return the algorithm registered as `cpu-band`, its parameters bound."""
    parameters = read_parameters(CpuBandParameters, values, policy=name)
    return Algorithm(
        prepare=partial(_prepare, parameters),
        learn=learn,
        decide=decide,
        explain=_explain,
    )


def _prepare(parameters: CpuBandParameters, view: View, ticks: int) -> Memory:
    return CpuBandMemory.allocate(
        view,
        high=parameters.high,
        low=parameters.low,
        high_after=parameters.high_after,
        low_after=parameters.low_after,
        least_replicas=int(parameters.least_replicas),
    )


@compiled
def learn(o: int, view: View, memory: Memory) -> None:
    """Count for how long the busiest replica has been out of band."""
    own, seen = CpuBandMemory(memory[o]), view.seen[o]
    if find_action(view.counts_before[o], view.counts[o]) != STAY:
        own.high_for = own.low_for = 0.0
    own.high_for = own.high_for + seen.interval if seen.busiest >= own.high else 0.0
    own.low_for = own.low_for + seen.interval if seen.busiest < own.low else 0.0


@compiled
def decide(o: int, view: View, memory: Memory) -> None:
    """Double or halve where the band was left for long enough."""
    own, busiest, size = CpuBandMemory(memory[o]), view.seen[o].busiest, total(view.counts[o])
    minimum = own.least_replicas
    if size == 0:
        scale_mix(o, view, minimum, False)
    elif busiest >= own.high and own.high_for >= own.high_after:
        scale_mix(o, view, 2 * size, False)
    elif busiest < own.low and own.low_for >= own.low_after:
        scale_mix(o, view, max((size + 1) // 2, min(size, minimum)), False)
    else:
        choose_action(o, view, STAY)


def _explain(observation: Observation, target: Deployment, view: View, memory: Memory) -> Decision:
    own = CpuBandMemory(memory[0])
    busiest = view.seen[0].busiest
    busy = f"the busiest replica is {format_share(busiest)} busy"
    if busiest >= own.high:
        reason = f"{busy}, at least {format_share(own.high)} for {own.high_for / 60:.0f} min"
        lasted, needed, step = own.high_for, own.high_after, "doubles"
    elif busiest < own.low:
        reason = f"{busy}, below {format_share(own.low)} for {own.low_for / 60:.0f} min"
        lasted, needed, step = own.low_for, own.low_after, "halves"
    else:
        reason = f"{busy}, within the band of {format_share(own.low)} to {format_share(own.high)}"
        return explain_rule(observation, target, reason)
    if lasted < needed:
        reason += f" of the {needed / 60:.0f} min after which the policy {step} the replicas"
    elif target == observation.deployment:
        reason += ", but no other number of replicas is possible"
    return explain_rule(observation, target, reason)
