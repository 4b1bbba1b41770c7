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
from dataclasses import dataclass

import numpy as np

from weir_policies.kernels.compiled import compiled
from weir_policies.kernels.enumeration import scale_mix
from weir_policies.kernels.explaining import explain_rule
from weir_policies.kernels.fields import Fields, array
from weir_policies.kernels.policy import definition
from weir_policies.kernels.steps import choose_action, find_action, total
from weir_policies.kernels.view import NO_LIMIT, Memory, View
from weir_policies.kernels.wording import format_rate
from weir_policies.model.arrays import Floats
from weir_policies.model.node_types import Deployment
from weir_policies.parameters import PolicyParameters, setting
from weir_policies.policy import Decision, Observation

SHORTEST = 10.0
"""Seconds of an interval for which the window has room; of shorter ones it holds the last."""
STAY = 0


class FlinkAutoscalerMemory(Fields):
    """Settings of `flink-autoscaler`, its window and its recommendations."""

    target: float
    boundary: float
    window: float
    stabilisation: float
    down_after: float
    down_by: float
    up_by: float
    catch_up: float
    restart: float
    lag: float
    running: float
    """Seconds since the last restart."""
    down_for: float
    """Seconds since a smaller parallelism was first recommended; -1 where none is."""
    largest: int
    """The largest that was recommended since."""
    samples: int
    """Intervals for which the window has room."""
    next_sample: int
    held: int
    """Intervals in it."""
    seconds: Floats = array("samples")
    arrived: Floats = array("samples")
    """Records/s, as the next."""
    done: Floats = array("samples")
    busy: Floats = array("samples")


@dataclass(frozen=True, kw_only=True, slots=True)
class FlinkAutoscalerParameters(PolicyParameters):
    """Settings of `flink-autoscaler`; the defaults are those of the operator's options."""

    target_utilisation: float = setting(0.7, low=0, high=1, low_allowed=False)
    """Busy share to plan for: `utilization.target`."""
    boundary: float = setting(0.3, low=0, high=1)
    """How far the busy share may be from it: `target.utilization.boundary`."""
    metrics_window: float = setting(900.0, low=0, high=86_400, low_allowed=False)
    """Seconds to average over: `metrics.window`."""
    stabilisation: float = setting(300.0, low=0)
    """Seconds after a restart that count for nothing: `stabilization.interval`."""
    scale_down_interval: float = setting(3600.0, low=0)
    """Seconds for which less must have been enough: `scale-down.interval`."""
    max_scale_down: float = setting(0.6, low=0, high=1)
    """Part of the replicas that one step may remove: `scale-down.max-factor`."""
    max_scale_up: float = setting(100_000.0, low=0)
    """Replicas that one step may add, as a multiple of the present: `scale-up.max-factor`."""
    catch_up: float = setting(1800.0, low=0)
    """Seconds in which a backlog is to be worked off; 0 ignores it: `catch-up.duration`."""
    restart_time: float = setting(300.0, low=0)
    """Seconds that a restart is expected to take: `restart.time`."""
    lag_threshold: float = setting(300.0, low=0)
    """Seconds of work that make a backlog: `backlog-processing.lag-threshold`."""


def _prepare(parameters: FlinkAutoscalerParameters, view: View, ticks: int) -> Memory:
    return FlinkAutoscalerMemory.allocate(
        view,
        parameters,
        target=parameters.target_utilisation,
        window=parameters.metrics_window,
        down_after=parameters.scale_down_interval,
        down_by=parameters.max_scale_down,
        up_by=parameters.max_scale_up,
        restart=parameters.restart_time,
        lag=parameters.lag_threshold,
        down_for=-1.0,
        samples=math.ceil(parameters.metrics_window / SHORTEST),
    )


@compiled
def remember(o: int, view: View, own: FlinkAutoscalerMemory) -> None:
    """Add the interval that ended to the window."""
    seen, place = view.seen[o], own.next_sample
    own.seconds[place], own.arrived[place] = seen.interval, seen.rate
    # Busy for more than all of the time is what a model says of all that arrives, done or not.
    own.done[place] = seen.rate if seen.busiest > 1 else seen.processed
    own.busy[place] = seen.busiest
    own.next_sample = (place + 1) % own.samples
    own.held = min(own.held + 1, own.samples)


@compiled
def average(own: FlinkAutoscalerMemory) -> tuple[float, float]:
    """Return the mean rate over the window and the mean true rate, records/s.

    The true rate is infinite where no record was processed: what it is shows when some come.
    """
    seconds, arrived, done, busy = 0.0, 0.0, 0.0, 0.0
    for age in range(1, own.held + 1):
        if seconds >= own.window:
            break
        place = (own.next_sample - age) % own.samples
        length = own.seconds[place]
        seconds += length
        arrived += length * own.arrived[place]
        done += length * own.done[place]
        busy += length * own.busy[place]
    if seconds == 0:
        return 0.0, np.inf
    return arrived / seconds, np.inf if done == 0 else done / busy


@compiled
def capacity_for(
    o: int,
    view: View,
    own: FlinkAutoscalerMemory,
    rate: float,
    utilisation: float,
    restarts: bool,
) -> float:
    """Return the true rate that is wanted for a busy share, whole records/s."""
    utilisation = min(max(utilisation, 0.0), 1.0)
    if utilisation == 0:
        return np.inf
    extra = 0.0
    if own.catch_up > 0:
        extra = view.seen[o].backlog / own.catch_up
        if restarts:
            extra += rate * own.restart / own.catch_up
    return np.floor(extra + rate / utilisation + 0.5)


@compiled
def align(o: int, view: View, parallelism: int) -> int:
    """Return a parallelism among whose replicas the key groups of the operator divide evenly."""
    maximum, groups = view.model[o].max_replicas, view.model[o].key_groups
    parallelism = min(max(parallelism, 1), maximum)
    if view.model[o].keyed == 0 or groups == NO_LIMIT:
        return parallelism
    parallelism = min(parallelism, groups)
    for larger in range(parallelism, min(maximum, groups) + 1):
        if groups % larger == 0:
            return larger
    for smaller in range(parallelism, 0, -1):  # the least with which the fullest holds no more
        if groups // smaller > groups // parallelism:
            return smaller if groups % smaller == 0 else smaller + 1
    return 1


@compiled
def recommend(o: int, view: View, own: FlinkAutoscalerMemory, rate: float, true_rate: float) -> int:
    """Return the parallelism for the window's rate and true rate, whether to go there or not."""
    factor = capacity_for(o, view, own, rate, own.target, True) / true_rate
    factor = min(max(factor, 1 - own.down_by), 1 + own.up_by)
    wanted = np.ceil(factor * total(view.counts[o]))
    return align(o, view, int(min(wanted, view.model[o].max_replicas)))


@compiled
def is_in_band(
    o: int, view: View, own: FlinkAutoscalerMemory, rate: float, true_rate: float
) -> bool:
    """Return whether the true rate is one for which nothing is done."""
    upper, lower = own.target + own.boundary, own.target - own.boundary
    if view.seen[o].backlog > own.lag * rate:
        upper, lower = 1.0, 0.0
    minimum = capacity_for(o, view, own, rate, upper, False)
    maximum = capacity_for(o, view, own, rate, lower, True)
    return minimum <= true_rate <= maximum


@compiled
def is_ready(own: FlinkAutoscalerMemory) -> bool:
    """Return whether the window is full of intervals after the last restart."""
    return own.running >= own.stabilisation + own.window


@compiled
def learn(o: int, view: View, memory: Memory) -> None:
    """Remember the interval, and for how long less has been enough."""
    own = FlinkAutoscalerMemory(memory[o])
    if find_action(view.counts_before[o], view.counts[o]) != STAY:
        own.running, own.down_for, own.held = 0.0, -1.0, 0
    own.running += view.seen[o].interval
    remember(o, view, own)
    if not is_ready(own):
        return
    rate, true_rate = average(own)
    wanted = recommend(o, view, own, rate, true_rate)
    if wanted >= total(view.counts[o]):
        own.down_for = -1.0
    elif own.down_for < 0:
        own.down_for, own.largest = 0.0, wanted
    else:
        own.down_for += view.seen[o].interval
        own.largest = max(own.largest, wanted)


@compiled
def find_parallelism(o: int, view: View, own: FlinkAutoscalerMemory) -> int:
    """Return the target parallelism; the present one if nothing should change."""
    size = total(view.counts[o])
    if size == 0:
        return 1
    if not is_ready(own):
        return size
    rate, true_rate = average(own)
    if is_in_band(o, view, own, rate, true_rate):
        return size
    wanted = recommend(o, view, own, rate, true_rate)
    if wanted < size and own.down_after > 0:
        if own.down_for < own.down_after:
            return size
        return max(wanted, own.largest)
    return wanted


@compiled
def decide(o: int, view: View, memory: Memory) -> None:
    """Go to the parallelism that the window asks for."""
    own = FlinkAutoscalerMemory(memory[o])
    wanted, size = find_parallelism(o, view, own), total(view.counts[o])
    if wanted == size:
        choose_action(o, view, STAY)
    else:
        scale_mix(o, view, wanted, False)


def _explain(observation: Observation, target: Deployment, view: View, memory: Memory) -> Decision:
    own = FlinkAutoscalerMemory(memory[0])
    full_after = own.stabilisation + own.window
    if not is_ready(own):
        reason = (
            f"{own.running / 60:.0f} of the {full_after / 60:.0f} min of measurements that it "
            "needs after a restart have passed"
        )
        return explain_rule(observation, target, reason)
    rate, true_rate = average(own)
    replicas = observation.deployment.size
    figures = (
        f"{format_rate(rate)} arrived recently, and {replicas} replica{'s' if replicas > 1 else ''}"
        f" could process {format_rate(true_rate)}"
    )
    wanted = recommend(0, view, own, rate, true_rate)
    if is_in_band(0, view, own, rate, true_rate):
        reason = f"{figures}, which is within the bounds of the target utilisation"
    elif wanted < replicas and target == observation.deployment:
        waited = max(own.down_for, 0.0)
        reason = (
            f"{figures}; {wanted} are enough, and have been for {waited / 60:.0f} of the "
            f"{own.down_after / 60:.0f} min after which the policy removes replicas"
        )
    else:
        asked = find_parallelism(0, view, own)
        reason = f"{figures}, so {asked} replicas are needed"
        if target.size != asked:
            reason += f", but there is room for only {target.size}"
    return explain_rule(observation, target, reason)


define = definition(
    FlinkAutoscalerParameters,
    _prepare,
    learn=learn,
    decide=decide,
    explain=_explain,
    needed=("processed", "backlog"),
)
