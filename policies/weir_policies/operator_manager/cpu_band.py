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
from weir_policies.kernels.policy import Algorithm
from weir_policies.kernels.steps import find_action, take, total
from weir_policies.kernels.view import BUSIEST, INTERVAL, Memory, View, empty_memory
from weir_policies.kernels.wording import say_share
from weir_policies.model.node_types import Deployment
from weir_policies.parameters import read_parameters, refuse_outside
from weir_policies.policy import Decision, Neighbourhood, Observation

# Columns of `Memory.floats`: the parameters, and for how many seconds the CPU has been out of band.
HIGH, LOW, HIGH_AFTER, LOW_AFTER, HIGH_FOR, LOW_FOR = range(6)
LEAST = 0
"""Column of `Memory.ints`."""
STAY = 0
"""The action that changes nothing."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CpuBandParameters:
    """Settings of `cpu-band`; the defaults are the service's.

    Raises:
        ParameterError: One is out of its range, or the band is empty.
    """

    high: float = 0.75
    """Busy share from which on more is needed."""
    high_after: float = 900.0
    """Seconds for which it must last."""
    low: float = 0.1
    """Busy share below which less will do."""
    low_after: float = 21_600.0
    """Seconds for which it must last."""
    least_replicas: int = 1
    """Replicas below which it does not go."""

    def __post_init__(self) -> None:
        """Refuse what is out of range."""
        refuse_outside("high", self.high, low=0, high=1, low_allowed=False)
        refuse_outside("low", self.low, low=0, high=1)
        if self.low >= self.high:
            raise ParameterError(f"Expected low below high, {self.high:g}, got {self.low:g}")
        refuse_outside("high_after", self.high_after, low=0, low_allowed=False)
        refuse_outside("low_after", self.low_after, low=0, low_allowed=False)
        refuse_outside("least_replicas", self.least_replicas, low=1)
        if self.least_replicas != int(self.least_replicas):
            raise ParameterError(
                f"Expected a whole number for least_replicas, got {self.least_replicas}"
            )


def define(values: Mapping[str, Any], *, name: str) -> Algorithm:
    """Return the algorithm registered as `cpu-band`, its parameters bound."""
    parameters = read_parameters(CpuBandParameters, values, policy=name)
    return Algorithm(
        neighbourhood=Neighbourhood.ANY,
        prepare=partial(_prepare, parameters),
        learn=learn,
        decide=decide,
        explain=_explain,
    )


def _prepare(parameters: CpuBandParameters, view: View, ticks: int) -> Memory:
    memory = empty_memory(view, floats=6)
    memory.floats[:, HIGH], memory.floats[:, LOW] = parameters.high, parameters.low
    memory.floats[:, HIGH_AFTER] = parameters.high_after
    memory.floats[:, LOW_AFTER] = parameters.low_after
    memory.ints[:, LEAST] = int(parameters.least_replicas)
    return memory


@compiled
def learn(o: int, view: View, memory: Memory) -> None:
    """Count for how long the busiest replica has been out of band."""
    floats, seen = memory.floats[o], view.seen[o]
    if find_action(view.counts_before[o], view.counts[o]) != STAY:
        floats[HIGH_FOR] = floats[LOW_FOR] = 0.0
    floats[HIGH_FOR] = floats[HIGH_FOR] + seen[INTERVAL] if seen[BUSIEST] >= floats[HIGH] else 0.0
    floats[LOW_FOR] = floats[LOW_FOR] + seen[INTERVAL] if seen[BUSIEST] < floats[LOW] else 0.0


@compiled
def decide(o: int, view: View, memory: Memory) -> None:
    """Double or halve where the band was left for long enough."""
    floats, busiest, size = memory.floats[o], view.seen[o, BUSIEST], total(view.counts[o])
    least = memory.ints[o, LEAST]
    if size == 0:
        scale_mix(o, view, least, False)
    elif busiest >= floats[HIGH] and floats[HIGH_FOR] >= floats[HIGH_AFTER]:
        scale_mix(o, view, 2 * size, False)
    elif busiest < floats[LOW] and floats[LOW_FOR] >= floats[LOW_AFTER]:
        scale_mix(o, view, max((size + 1) // 2, min(size, least)), False)
    else:
        take(o, view, STAY)


def _explain(observation: Observation, target: Deployment, view: View, memory: Memory) -> Decision:
    high, low, high_after, low_after, high_for, low_for = memory.floats[0]
    busiest = view.seen[0, BUSIEST]
    busy = f"the busiest replica is {say_share(busiest)} busy"
    if busiest >= high:
        reason = f"{busy}, {say_share(high)} or more for {high_for / 60:.0f} min"
        lasted, needed, step = high_for, high_after, "doubles"
    elif busiest < low:
        reason = f"{busy}, less than {say_share(low)} for {low_for / 60:.0f} min"
        lasted, needed, step = low_for, low_after, "halves"
    else:
        reason = f"{busy}, inside the band of {say_share(low)} to {say_share(high)}"
        return explain_rule(observation, target, reason)
    if lasted < needed:
        reason += f" of the {needed / 60:.0f} min after which it {step} the replicas"
    elif target == observation.deployment:
        reason += ", and there is no room to change the replicas"
    return explain_rule(observation, target, reason)
