"""Dhalion: more replicas against back-pressure, a fifth less where nothing waits.

Every `interval` seconds the metrics of that time are judged:

    suspended        = waiting / (waiting + taken in), the part of the time for which the operator
                       holds back others; more than the noise is back-pressure
    back-pressure  -> ceil(replicas x (1 + suspended / (1 - suspended)))
    no back-pressure, and almost nothing waits at a replica
                   -> floor(replicas x (1 - scale_down))

After a change the metrics of `wait` seconds count for nothing.

Source: Floratou et al., "Dhalion: Self-Regulating Stream Processing in Heron", PVLDB 10(12), 2017,
the policy for dynamic resource provisioning; apache/incubator-heron, module healthmgr:
`BackPressureDetector`, `UnderProvisioningDiagnoser`, `ScaleUpResolver` and
`DynamicResourceAllocationPolicy`, which have the noise filter, the limit of a step and the wait,
but do not scale in. Departures:
1. Weir observes no time for which an operator is suspended. `suspended` is for how long those
   before it would have been, had they offered all that waits at the end beside what was taken in.
   Where utilisation is the model's and may exceed 1, what is beyond 1 counts as waiting.
2. What waits at a replica is not observed either: it is what is there by Little's law, less what
   is being served. Neither the paper nor Heron says what "almost nothing" is; here it is fewer
   than `pending` records per replica.
3. Neither gives a part to scale in by as a default that is known to us: 0.2 is that of the public
   comparison by TU Delft (Siachamis et al., "Evaluating Stream Processing Autoscalers", DEBS 2024).
4. Operators decide alone, in one tick if need be: Dhalion changes one at a time. It scales in only
   where the whole job is free of back-pressure; an operator here knows of what waits upstream.
5. Data skew and slow instances are not diagnosed: in Heron, nothing is scaled for them. The list
   of actions that did not help is left out: no threshold for it is known to us.
6. It knows no node types. The mix stays as it is, see `kernels.enumeration`.
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
from weir_policies.kernels.steps import choose_action, find_action, total
from weir_policies.kernels.view import Memory, View
from weir_policies.kernels.wording import format_share
from weir_policies.model.node_types import Deployment
from weir_policies.parameters import PolicyParameters, read_parameters, setting
from weir_policies.policy import Decision, Observation

STAY = 0
LONGEST = 0.999
"""Most of the time for which those before an operator can be suspended, as in Heron."""
ROUNDING = 1e-9
"""A number of replicas that is short by less than this part is enough."""


class DhalionMemory(Fields):
    """Settings of `dhalion`, and the metrics gathered since the last judgement."""

    interval: float
    wait: float
    noise: float
    pending: float
    scale_down: float
    scale_up: float
    waiting: float
    """Seconds after a change that are still to be left out."""
    gathered: float
    """Seconds that the sums below cover."""
    taken_in: float
    """Records, as the next."""
    refused: float
    """What could not be taken in where a utilisation above 1 says so."""
    waited: float
    """Waiting records times seconds."""


@dataclass(frozen=True, kw_only=True, slots=True)
class DhalionParameters(PolicyParameters):
    """Settings of `dhalion`.

    Raises:
        ParameterError: One is out of its range.
    """

    interval: float = setting(300.0, low=0, low_allowed=False)
    """Seconds of metrics that are judged at once: the paper's."""
    wait: float = setting(180.0, low=0)
    """Seconds after a change whose metrics count for nothing: Heron's
    `conf_post_action_wait_interval_min`."""
    noise: float = setting(0.02, low=0, high=1, high_allowed=False)
    """Part of the time that may be suspended without being back-pressure: 20 ms per second in
    Heron, `noiseFilterMillis`."""
    pending: float = setting(1.0, low=0)
    """Waiting records per replica below which an operator has too many replicas."""
    scale_down: float = setting(0.2, low=0, high=1, high_allowed=False)
    """Part of the replicas that is then removed, one at least."""
    scale_up: float = setting(4.0, low=0, low_allowed=False)
    """Replicas that one step may add, as a multiple of the present ones: Heron's limit."""


def define(values: Mapping[str, Any], *, name: str) -> Algorithm:
    """Return the algorithm registered as `dhalion`, its parameters bound."""
    parameters = read_parameters(DhalionParameters, values, policy=name)
    return Algorithm(
        prepare=partial(_prepare, parameters),
        learn=learn,
        decide=decide,
        explain=_explain,
        needed=("processed", "backlog", "response_time"),
    )


def _prepare(parameters: DhalionParameters, view: View, ticks: int) -> Memory:
    return DhalionMemory.allocate(
        view,
        interval=parameters.interval,
        wait=parameters.wait,
        noise=parameters.noise,
        pending=parameters.pending,
        scale_down=parameters.scale_down,
        scale_up=parameters.scale_up,
    )


@compiled
def measure_taken_in(o: int, view: View) -> float:
    """Return the records/s that the operator took in, or could have if they had arrived."""
    seen = view.seen[o]
    # Busy for more than all of the time is what a model says of all that arrives, done or not.
    return seen.rate / seen.busiest if seen.busiest > 1 else seen.processed


@compiled
def count_waiting(o: int, view: View) -> float:
    """Return how many records wait at the operator, those being served left out."""
    seen = view.seen[o]
    busy = 0.0
    for place in range(view.counts.shape[1]):
        busy += view.counts[o, place] * view.busy[o, place]
    there = seen.processed * (seen.response_time - view.model[o].network_time)
    return max(there - busy, 0.0)


@compiled
def forget(own: DhalionMemory) -> None:
    """Begin to gather anew."""
    own.gathered = own.taken_in = own.refused = own.waited = 0.0


@compiled
def learn(o: int, view: View, memory: Memory) -> None:
    """Gather the metrics of the interval that ended, unless a change is too recent."""
    own, seen = DhalionMemory(memory[o]), view.seen[o]
    if own.gathered >= own.interval:
        forget(own)
    if find_action(view.counts_before[o], view.counts[o]) != STAY:
        forget(own)
        own.waiting = own.wait
    if own.waiting > 0:
        own.waiting = max(own.waiting - seen.interval, 0.0)
        return
    own.gathered += seen.interval
    taken_in = measure_taken_in(o, view)
    own.taken_in += seen.interval * taken_in
    if seen.busiest > 1:
        own.refused += seen.interval * (seen.rate - taken_in)
    own.waited += seen.interval * count_waiting(o, view)


@compiled
def find_suspended(o: int, view: View, own: DhalionMemory) -> float:
    """Return the part of the time for which it holds back others; 0 without back-pressure."""
    waiting = own.refused + view.seen[o].backlog
    if waiting <= 0:
        return 0.0
    suspended = min(waiting / (waiting + own.taken_in), LONGEST)
    return suspended if suspended > own.noise else 0.0


@compiled
def is_idle(o: int, view: View, own: DhalionMemory) -> bool:
    """Return whether almost nothing waits at a replica, and nothing upstream."""
    seen, size = view.seen[o], total(view.counts[o])
    waiting = max(own.waited / own.gathered, seen.backlog) / size
    return waiting < own.pending and not seen.upstream > 0


@compiled
def count_wanted(o: int, view: View, own: DhalionMemory) -> int:
    """Return the number of replicas to go to; the present one where nothing is to change."""
    size = total(view.counts[o])
    if size == 0:
        return 1
    if own.gathered < own.interval:
        return size
    suspended = find_suspended(o, view, own)
    if suspended > 0:
        more = min(suspended / (1 - suspended), own.scale_up)
        return int(np.ceil(size * (1 + more) * (1 - ROUNDING)))
    if is_idle(o, view, own):
        return max(int(np.floor(size * (1 - own.scale_down) * (1 + ROUNDING))), 1)
    return size


@compiled
def decide(o: int, view: View, memory: Memory) -> None:
    """Resolve what the metrics show."""
    wanted, size = count_wanted(o, view, DhalionMemory(memory[o])), total(view.counts[o])
    if wanted == size:
        choose_action(o, view, STAY)
    else:
        scale_mix(o, view, wanted, False)


def _explain(observation: Observation, target: Deployment, view: View, memory: Memory) -> Decision:
    own = DhalionMemory(memory[0])
    if own.gathered < own.interval:
        reason = (
            f"{own.gathered / 60:.0f} of the {own.interval / 60:.0f} min of metrics that it judges "
            "have passed"
        )
        return explain_rule(observation, target, reason)
    suspended = find_suspended(0, view, own)
    if suspended > 0:
        reason = (
            f"it holds back those before it for {format_share(suspended)} of the time, so "
            f"{count_wanted(0, view, own)} replicas are needed"
        )
    else:
        each = own.waited / own.gathered / max(observation.deployment.size, 1)
        few = "fewer" if is_idle(0, view, own) else "not fewer"
        reason = (
            f"it holds nobody back, and {each:.2g} records waited at each replica, {few} than the "
            f"{own.pending:g} below which there are too many replicas"
        )
    return explain_rule(observation, target, reason)
