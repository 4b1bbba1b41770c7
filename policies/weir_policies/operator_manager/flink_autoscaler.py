"""The autoscaler of the Flink Kubernetes Operator, with its defaults: `flink-autoscaler`.

All is averaged over a window that is full only `stabilisation + metrics_window` after a restart:

    true rate     = records processed per second / busy share of the busiest replica
    capacity(u)   = backlog / catch-up + rate x restart time / catch-up + rate / u, rounded
    factor        = capacity(target utilisation) / true rate, within the limits of one step
    parallelism   = ceil(factor x present), for keyed operators the next divisor of the key groups

Nothing is done while the true rate is within [capacity(1.0) without restart, capacity(0.4)]; these
are target -/+ boundary. With a backlog of more than `lag_threshold` the band is [capacity(1.0),
inf). Going up is done at once; going down only once it has been recommended for the scale-down
interval without a break, and then to the largest of the recommendations meanwhile.

Source: apache/flink-kubernetes-operator, module flink-autoscaler, options `job.autoscaler.*`:
`ScalingMetricEvaluator`, `JobVertexScaler`, `ScalingExecutor`, `AutoScalerUtils`. Departures:
1. It changes parallelism and knows no node types: the node types in use are scaled, see
   `kernels.enumeration`, up to `max_replicas` and the limits of their pools.
2. Operators decide alone: each counts its own restarts and its own backlog, where the original
   restarts the window for the whole job and derives a backlog's rate from the sources.
3. Its second measurement of the true rate, at sources that catch up, is left out, as are its limits
   on memory, which do nothing by default.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from weir_policies.errors import ParameterError
from weir_policies.kernels.compiled import compiled
from weir_policies.kernels.enumeration import scale_mix
from weir_policies.kernels.explaining import explain_rule
from weir_policies.kernels.policy import Algorithm
from weir_policies.kernels.steps import find_action, take, total
from weir_policies.kernels.view import (
    BACKLOG,
    BUSIEST,
    INTERVAL,
    KEY_GROUPS,
    KEYED,
    MAX_REPLICAS,
    NO_LIMIT,
    PROCESSED,
    RATE,
    Memory,
    View,
    empty_memory,
)
from weir_policies.kernels.wording import say_rate
from weir_policies.model.node_types import Deployment
from weir_policies.parameters import read_parameters, refuse_outside
from weir_policies.policy import Decision, Neighbourhood, Observation

# Columns of `Memory.floats`: parameters, then seconds since the last restart and since a smaller
# parallelism was first recommended (-1 where none is).
TARGET, BOUNDARY, WINDOW, STABILISATION, DOWN_AFTER, DOWN_BY, UP_BY = range(7)
CATCH_UP, RESTART, LAG, RUNNING, DOWN_FOR = range(7, 12)
# Columns of `Memory.ints`: where the next sample goes, samples held, largest recommendation.
NEXT, HELD, LARGEST = range(3)
# A sample in `Memory.values`: seconds, and what was measured in them.
SECONDS, ARRIVED, DONE, BUSY = range(4)
SAMPLE = 4
SHORTEST = 10.0
"""Seconds of an interval for which the window has room; of shorter ones it holds the last."""
STAY = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class FlinkAutoscalerParameters:
    """Settings of `flink-autoscaler`; the defaults are those of the operator's options.

    Raises:
        ParameterError: One is out of its range.
    """

    target_utilisation: float = 0.7
    """Busy share to plan for: `utilization.target`."""
    boundary: float = 0.3
    """How far the busy share may be from it: `target.utilization.boundary`."""
    metrics_window: float = 900.0
    """Seconds to average over: `metrics.window`."""
    stabilisation: float = 300.0
    """Seconds after a restart that count for nothing: `stabilization.interval`."""
    scale_down_interval: float = 3600.0
    """Seconds for which less must have been enough: `scale-down.interval`."""
    max_scale_down: float = 0.6
    """Part of the replicas that one step may remove: `scale-down.max-factor`."""
    max_scale_up: float = 100_000.0
    """Replicas that one step may add, as a multiple of the present: `scale-up.max-factor`."""
    catch_up: float = 1800.0
    """Seconds in which a backlog is to be worked off; 0 ignores it: `catch-up.duration`."""
    restart_time: float = 300.0
    """Seconds that a restart is expected to take: `restart.time`."""
    lag_threshold: float = 300.0
    """Seconds of work that make a backlog: `backlog-processing.lag-threshold`."""

    def __post_init__(self) -> None:
        """Refuse what is out of range."""
        refuse_outside(
            "target_utilisation", self.target_utilisation, low=0, high=1, low_allowed=False
        )
        refuse_outside("boundary", self.boundary, low=0, high=1)
        refuse_outside("metrics_window", self.metrics_window, low=0, low_allowed=False)
        if self.metrics_window > 86_400:
            raise ParameterError(
                f"Expected metrics_window of at most a day, 86400, got {self.metrics_window:g}"
            )
        refuse_outside("max_scale_down", self.max_scale_down, low=0, high=1)
        for name in (
            "stabilisation",
            "scale_down_interval",
            "max_scale_up",
            "catch_up",
            "restart_time",
            "lag_threshold",
        ):
            refuse_outside(name, getattr(self, name), low=0)


def define(values: Mapping[str, Any], *, name: str) -> Algorithm:
    """Return the algorithm registered as `flink-autoscaler`, its parameters bound."""
    parameters = read_parameters(FlinkAutoscalerParameters, values, policy=name)
    return Algorithm(
        neighbourhood=Neighbourhood.ANY,
        prepare=partial(_prepare, parameters),
        learn=learn,
        decide=decide,
        explain=_explain,
        needed=("processed", "backlog"),
    )


def _prepare(parameters: FlinkAutoscalerParameters, view: View, ticks: int) -> Memory:
    samples = math.ceil(parameters.metrics_window / SHORTEST)
    memory = empty_memory(view, floats=12, ints=3, values=SAMPLE * samples)
    floats = memory.floats
    floats[:, TARGET], floats[:, BOUNDARY] = parameters.target_utilisation, parameters.boundary
    floats[:, WINDOW] = parameters.metrics_window
    floats[:, STABILISATION] = parameters.stabilisation
    floats[:, DOWN_AFTER] = parameters.scale_down_interval
    floats[:, DOWN_BY], floats[:, UP_BY] = parameters.max_scale_down, parameters.max_scale_up
    floats[:, CATCH_UP], floats[:, RESTART] = parameters.catch_up, parameters.restart_time
    floats[:, LAG] = parameters.lag_threshold
    floats[:, DOWN_FOR] = -1.0
    return memory


@compiled
def remember(o: int, view: View, memory: Memory) -> None:
    """Let the interval that ended into the window."""
    seen, ints, values = view.seen[o], memory.ints[o], memory.values[o]
    at = SAMPLE * ints[NEXT]
    values[at + SECONDS], values[at + ARRIVED] = seen[INTERVAL], seen[RATE]
    # Busy for more than all of the time is what a model says of all that arrives, done or not.
    values[at + DONE] = seen[RATE] if seen[BUSIEST] > 1 else seen[PROCESSED]
    values[at + BUSY] = seen[BUSIEST]
    samples = values.size // SAMPLE
    ints[NEXT] = (ints[NEXT] + 1) % samples
    ints[HELD] = min(ints[HELD] + 1, samples)


@compiled
def average(o: int, memory: Memory) -> tuple[float, float]:
    """Return the mean rate over the window and the mean true rate, records/s.

    The true rate is infinite where no record was processed: what it is shows when some come.
    """
    ints, values = memory.ints[o], memory.values[o]
    samples = values.size // SAMPLE
    seconds, arrived, done, busy = 0.0, 0.0, 0.0, 0.0
    for age in range(1, ints[HELD] + 1):
        if seconds >= memory.floats[o, WINDOW]:
            break
        at = SAMPLE * ((ints[NEXT] - age) % samples)
        length = values[at + SECONDS]
        seconds += length
        arrived += length * values[at + ARRIVED]
        done += length * values[at + DONE]
        busy += length * values[at + BUSY]
    if seconds == 0:
        return 0.0, np.inf
    return arrived / seconds, np.inf if done == 0 else done / busy


@compiled
def capacity_for(
    o: int, view: View, memory: Memory, rate: float, utilisation: float, restarts: bool
) -> float:
    """Return the true rate that is wanted for a busy share, whole records/s."""
    utilisation = min(max(utilisation, 0.0), 1.0)
    if utilisation == 0:
        return np.inf
    catch_up, extra = memory.floats[o, CATCH_UP], 0.0
    if catch_up > 0:
        extra = view.seen[o, BACKLOG] / catch_up
        if restarts:
            extra += rate * memory.floats[o, RESTART] / catch_up
    return np.floor(extra + rate / utilisation + 0.5)


@compiled
def align(o: int, view: View, parallelism: int) -> int:
    """Return a parallelism among whose replicas the key groups of the operator divide evenly."""
    most, groups = view.rules[o, MAX_REPLICAS], view.rules[o, KEY_GROUPS]
    parallelism = min(max(parallelism, 1), most)
    if view.rules[o, KEYED] == 0 or groups == NO_LIMIT:
        return parallelism
    parallelism = min(parallelism, groups)
    for larger in range(parallelism, min(most, groups) + 1):
        if groups % larger == 0:
            return larger
    for smaller in range(parallelism, 0, -1):  # the least with which the fullest holds no more
        if groups // smaller > groups // parallelism:
            return smaller if groups % smaller == 0 else smaller + 1
    return 1


@compiled
def recommend(o: int, view: View, memory: Memory, rate: float, true_rate: float) -> int:
    """Return the parallelism for the window's rate and true rate, whether to go there or not."""
    floats = memory.floats[o]
    factor = capacity_for(o, view, memory, rate, floats[TARGET], True) / true_rate
    factor = min(max(factor, 1 - floats[DOWN_BY]), 1 + floats[UP_BY])
    wanted = np.ceil(factor * total(view.counts[o]))
    return align(o, view, int(min(wanted, view.rules[o, MAX_REPLICAS])))


@compiled
def is_in_band(o: int, view: View, memory: Memory, rate: float, true_rate: float) -> bool:
    """Return whether the true rate is one for which nothing is done."""
    floats = memory.floats[o]
    upper, lower = floats[TARGET] + floats[BOUNDARY], floats[TARGET] - floats[BOUNDARY]
    if view.seen[o, BACKLOG] > floats[LAG] * rate:
        upper, lower = 1.0, 0.0
    least = capacity_for(o, view, memory, rate, upper, False)
    most = capacity_for(o, view, memory, rate, lower, True)
    return least <= true_rate <= most


@compiled
def is_ready(o: int, memory: Memory) -> bool:
    """Return whether the window is full of intervals after the last restart."""
    floats = memory.floats[o]
    return floats[RUNNING] >= floats[STABILISATION] + floats[WINDOW]


@compiled
def learn(o: int, view: View, memory: Memory) -> None:
    """Remember the interval, and for how long less has been enough."""
    floats, ints = memory.floats[o], memory.ints[o]
    if find_action(view.counts_before[o], view.counts[o]) != STAY:
        floats[RUNNING], floats[DOWN_FOR], ints[HELD] = 0.0, -1.0, 0
    floats[RUNNING] += view.seen[o, INTERVAL]
    remember(o, view, memory)
    if not is_ready(o, memory):
        return
    rate, true_rate = average(o, memory)
    wanted = recommend(o, view, memory, rate, true_rate)
    if wanted >= total(view.counts[o]):
        floats[DOWN_FOR] = -1.0
    elif floats[DOWN_FOR] < 0:
        floats[DOWN_FOR], ints[LARGEST] = 0.0, wanted
    else:
        floats[DOWN_FOR] += view.seen[o, INTERVAL]
        ints[LARGEST] = max(ints[LARGEST], wanted)


@compiled
def find_parallelism(o: int, view: View, memory: Memory) -> int:
    """Return where to go; the present parallelism where nothing is to be done."""
    floats, size = memory.floats[o], total(view.counts[o])
    if size == 0:
        return 1
    if not is_ready(o, memory):
        return size
    rate, true_rate = average(o, memory)
    if is_in_band(o, view, memory, rate, true_rate):
        return size
    wanted = recommend(o, view, memory, rate, true_rate)
    if wanted < size and floats[DOWN_AFTER] > 0:
        if floats[DOWN_FOR] < floats[DOWN_AFTER]:
            return size
        return max(wanted, memory.ints[o, LARGEST])
    return wanted


@compiled
def decide(o: int, view: View, memory: Memory) -> None:
    """Go to the parallelism that the window asks for."""
    wanted, size = find_parallelism(o, view, memory), total(view.counts[o])
    if wanted == size:
        take(o, view, STAY)
    else:
        scale_mix(o, view, wanted, False)


def _explain(observation: Observation, target: Deployment, view: View, memory: Memory) -> Decision:
    floats = memory.floats[0]
    full_after = floats[STABILISATION] + floats[WINDOW]
    if not is_ready(0, memory):
        reason = (
            f"{floats[RUNNING] / 60:.0f} of the {full_after / 60:.0f} min that it watches after a "
            "restart have passed"
        )
        return explain_rule(observation, target, reason)
    rate, true_rate = average(0, memory)
    replicas = observation.deployment.size
    figures = (
        f"{say_rate(rate)} of late, and {replicas} replica{'s' if replicas > 1 else ''} could "
        f"process {say_rate(true_rate)}"
    )
    wanted = recommend(0, view, memory, rate, true_rate)
    if is_in_band(0, view, memory, rate, true_rate):
        reason = f"{figures}, which is within the boundary of the target utilisation"
    elif wanted < replicas and target == observation.deployment:
        waited = max(floats[DOWN_FOR], 0.0)
        reason = (
            f"{figures}; {wanted} would do, and have done for {waited / 60:.0f} of the "
            f"{floats[DOWN_AFTER] / 60:.0f} min after which it removes some"
        )
    else:
        asked = find_parallelism(0, view, memory)
        reason = f"{figures}, so {asked} replicas are wanted"
        if target.size != asked:
            reason += f", but there is room for {target.size} only"
    return explain_rule(observation, target, reason)
