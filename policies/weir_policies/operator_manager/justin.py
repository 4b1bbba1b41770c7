"""Justin: DS2, but a replica's memory is doubled before replicas are added, where misses are many.

    busy share within 0.5 -/+ 0.3, or DS2 wants as many replicas as there are: nothing changes
    the last change was not of memory:
        hit rate < 80 % and there is more memory: the next amount, with the present replicas
        otherwise:                                DS2's replicas, with the present amount
    the last change was the next amount of memory:
        hit rate rose by 5 points or less:        the amount before, with DS2's replicas
        the operator can process over 5 % more, hit rate < 95 %, and there is more memory:
                                                  the next amount, with the present replicas
        otherwise:                                DS2's replicas, with the present amount

The hit rate is that of the cache through which state is read. What DS2 wants is the number of
replicas that carries the rate at half of the measured true rate of one.

Source: Schmitz, Rosinosky, Riviere, "Justin: Hybrid CPU/Memory Elastic Scaling for Distributed
Stream Processing", DAIS 2025 (arXiv 2505.19739). The rule is that of the authors' program, the
paper's artifact CloudLargeScale-UCLouvain/flink-justin (`ScalingExecutor.policy`), with the
thresholds of its experiments, and those of its options that these leave as they are. Departures:
1. The program also takes memory for short where an access of state lasts over 1 ms, and for
   improved where it lasts less than before. Weir does not measure that: RocksDB has no counter of
   it, and Flink's tracking of it costs each access. The hit rate alone decides.
2. The program's levels double from one to the next, and the released one knows two, though its
   pages show three. Here the levels are the amounts of the pools, however many.
3. The program gives operators without state no managed memory. Weir's amounts have none of zero,
   and an operator without misses may as well have all its state in the cache: it keeps what it has.
4. The program begins with one replica and the lowest level, where a job in Weir may be larger. An
   operator never gives memory back that helped once, so let it begin with the least.
5. After an amount that did not help, the program notes that it must not try again, and never reads
   the note. Here it may try again, too.
6. What Weir forbids is passed over: an amount whose heap is too small, or that has no room. Then
   DS2's replicas keep the present amount.
7. The program's DS2 is the autoscaler of the Flink Kubernetes Operator (`flink-autoscaler`). Its
   target and boundary are here; its catch-up, and its windows of 1 and 2 minutes and an hour before
   it decides, are not: each interval decides.
8. DS2's departures, but replicas of another amount come on the node type that ranks the same by
   price there.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from weir_policies.kernels.compiled import compiled
from weir_policies.kernels.enumeration import is_allowed, scale_mix
from weir_policies.kernels.explaining import explain_rule
from weir_policies.kernels.fields import Fields
from weir_policies.kernels.policy import Algorithm
from weir_policies.kernels.steps import choose_action, has_room, total
from weir_policies.kernels.view import NO_POOL, Memory, View
from weir_policies.kernels.wording import format_rate, format_share
from weir_policies.model.arrays import Counts
from weir_policies.model.node_types import Deployment
from weir_policies.operator_manager.ds2 import BEYOND, ROUNDING, measure_true_rate
from weir_policies.parameters import read_parameters, refuse_outside
from weir_policies.policy import Decision, Neighbourhood, Observation

STAY = 0
NONE = -1
"""What stands for an amount of memory that there is not."""
HORIZONTAL, VERTICAL, ROLLBACK = range(3)
"""What a decision does: DS2's replicas, the next amount of memory, or the amount before."""


class JustinMemory(Fields):
    """Settings of `justin`, and what was measured before the last change of memory."""

    target: float
    boundary: float
    min_hit_rate: float
    max_hit_rate: float
    min_hit_gain: float
    min_capacity_gain: float
    raised_to: int
    """Number of the amount, where the last change was the next amount of memory."""
    raised_size: int
    """Replicas then; 0 where the last change was another one."""
    hit_rate_before: float
    capacity_before: float
    """Records/s of all replicas together."""


@dataclass(frozen=True, kw_only=True, slots=True)
class JustinParameters:
    """Settings of `justin`; the defaults are those of the authors' experiments and program.

    Raises:
        ParameterError: One is out of its range.
    """

    target_utilisation: float = 0.5
    """Busy share to plan for; inside (0, 1]."""
    boundary: float = 0.3
    """How far the busy share may be from it before anything changes."""
    min_hit_rate: float = 0.8
    """Hit rate of the cache below which memory is short."""
    max_hit_rate: float = 0.95
    """Hit rate from which no more memory is added, even if the last did help."""
    min_hit_gain: float = 0.05
    """By how much the hit rate must have risen for memory to have helped."""
    min_capacity_gain: float = 0.05
    """Part by which an operator must process more for memory to be added again."""

    def __post_init__(self) -> None:
        """Refuse what is out of range."""
        refuse_outside(
            "target_utilisation", self.target_utilisation, low=0, high=1, low_allowed=False
        )
        refuse_outside("boundary", self.boundary, low=0, high=1)
        refuse_outside("min_hit_rate", self.min_hit_rate, low=0, high=1)
        refuse_outside("max_hit_rate", self.max_hit_rate, low=0, high=1)
        refuse_outside("min_hit_gain", self.min_hit_gain, low=0, high=1)
        refuse_outside("min_capacity_gain", self.min_capacity_gain, low=0)


def define(values: Mapping[str, Any], *, name: str) -> Algorithm:
    """Return the algorithm registered as `justin`, its parameters bound."""
    parameters = read_parameters(JustinParameters, values, policy=name)
    return Algorithm(
        neighbourhood=Neighbourhood.ANY,
        prepare=partial(_prepare, parameters),
        learn=learn,
        decide=decide,
        explain=_explain,
        needed=("processed",),
    )


def _prepare(parameters: JustinParameters, view: View, ticks: int) -> Memory:
    return JustinMemory.allocate(
        view,
        target=parameters.target_utilisation,
        boundary=parameters.boundary,
        min_hit_rate=parameters.min_hit_rate,
        max_hit_rate=parameters.max_hit_rate,
        min_hit_gain=parameters.min_hit_gain,
        min_capacity_gain=parameters.min_capacity_gain,
    )


# Measurements ------------------------------------------------------------------------------------


@compiled
def measure_capacity(processed: float, rate: float, busiest: float) -> float:
    """Return records/s that all replicas can process; 0 where none was busy."""
    if busiest <= 0:
        return 0.0
    # Busy for more than all of the time is what a model says of all that arrives, done or not.
    return (rate if busiest > 1 else processed) / busiest


# Amounts of memory -------------------------------------------------------------------------------


@compiled
def amount_of(o: int, view: View, counts: Counts) -> int:
    """Return the number of the amount that replicas `(t,)` have; `NONE` where there are none."""
    for place in range(counts.size):
        if counts[place] > 0:
            return view.memory[o, place]
    return NONE


@compiled
def next_amount(o: int, view: View, change: int) -> int:
    """Return the number of the next larger amount, or of the next smaller one; `NONE`.

    Args:
        o: Row of the operator.
        view: Where its amounts stand.
        change: 1 for the larger one, -1 for the smaller one.
    """
    here, found = amount_of(o, view, view.counts[o]), NONE
    for place in range(view.memory.shape[1]):
        other = view.memory[o, place]
        if here == NONE or view.pool[o, place] == NO_POOL or (other - here) * change <= 0:
            continue
        if found == NONE or (found - other) * change > 0:
            found = other
    return found


@compiled
def rank_by_price(o: int, view: View, place: int) -> int:
    """Return how many node types of the same amount are cheaper; of equals, the first is."""
    rank = 0
    for other in range(view.memory.shape[1]):
        if other == place or view.pool[o, other] == NO_POOL:
            continue
        if view.memory[o, other] == view.memory[o, place]:
            dearer = view.price[o, place] - view.price[o, other]
            rank += dearer > 0 or (dearer == 0 and other < place)
    return rank


@compiled
def find_alike(o: int, view: View, place: int, amount: int) -> int:
    """Return the node type of another amount that ranks the same by price, or the dearest."""
    rank, found, best = rank_by_price(o, view, place), NONE, -1
    for other in range(view.memory.shape[1]):
        if view.memory[o, other] == amount and view.pool[o, other] != NO_POOL:
            its = rank_by_price(o, view, other)
            if best < its <= rank:
                found, best = other, its
    return found


@compiled
def move_to_amount(o: int, view: View, amount: int, wanted: int) -> bool:
    """Write the present mix with another amount and so many replicas as target.

    Returns:
        Whether that can be; if not, the target is left in disorder.
    """
    target = view.target[o]
    for place in range(target.size):
        target[place] = 0
    most, main = 0, NONE
    for place in range(target.size):
        if view.counts[o, place] > 0:
            alike = find_alike(o, view, place, amount)
            target[alike] += view.counts[o, place]
            if target[alike] > most:
                most, main = target[alike], alike
    if main == NONE:
        return False
    while total(target) > wanted and target[main] > 0:
        target[main] -= 1
        if target[main] == 0:
            for place in range(target.size):
                if target[place] > target[main]:
                    main = place
    while total(target) < wanted and has_room(o, view, target, main):
        target[main] += 1
    return is_allowed(o, view, target)


# The policy --------------------------------------------------------------------------------------


@compiled
def learn(o: int, view: View, memory: Memory) -> None:
    """Remember whether the last change was of memory, and what was measured before it."""
    own, before = JustinMemory(memory[o]), view.before[o]
    amount, size = amount_of(o, view, view.counts[o]), total(view.counts[o])
    rise = amount - amount_of(o, view, view.counts_before[o])
    grown = size - total(view.counts_before[o])
    if rise > 0 and grown == 0:
        own.raised_to, own.raised_size = amount, size
        own.hit_rate_before = 1 - before.miss_share
        own.capacity_before = measure_capacity(before.processed, before.rate, before.busiest)
    elif rise != 0 or grown != 0:
        own.raised_size = 0


@compiled
def is_raised(o: int, view: View, own: JustinMemory) -> bool:
    """Return whether the last change was the next amount of memory."""
    counts = view.counts[o]
    return own.raised_size == total(counts) and own.raised_to == amount_of(o, view, counts)


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
def choose_step(o: int, view: View, own: JustinMemory) -> int:
    """Return what is to be done where DS2 wants other replicas."""
    seen = view.seen[o]
    hit_rate = 1 - seen.miss_share
    if np.isnan(hit_rate):
        return HORIZONTAL
    if not is_raised(o, view, own):
        return VERTICAL if hit_rate < own.min_hit_rate else HORIZONTAL
    if np.isnan(own.hit_rate_before):
        return HORIZONTAL  # whether the memory helped is not known
    if not hit_rate - own.hit_rate_before > own.min_hit_gain:
        return ROLLBACK
    capacity = measure_capacity(seen.processed, seen.rate, seen.busiest)
    gained = capacity > own.capacity_before * (1 + own.min_capacity_gain)
    return VERTICAL if gained and hit_rate < own.max_hit_rate else HORIZONTAL


@compiled
def decide(o: int, view: View, memory: Memory) -> None:
    """Do the step, where it can be done."""
    own = JustinMemory(memory[o])
    size = total(view.counts[o])
    wanted = min(count_wanted(o, view, own), view.model[o].max_replicas)
    if wanted in (0, size):
        choose_action(o, view, STAY)
        return
    step = choose_step(o, view, own)
    if step != HORIZONTAL:
        amount = next_amount(o, view, 1 if step == VERTICAL else -1)
        count = size if step == VERTICAL else wanted
        if amount != NONE and move_to_amount(o, view, amount, count):
            return
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
    if allowed != size:
        reason += _explain_step(observation, target, view, own)
    return explain_rule(observation, target, reason)


def _explain_step(
    observation: Observation, target: Deployment, view: View, own: JustinMemory
) -> str:
    """Return why memory changes, or does not, a clause; empty where misses are not measured."""
    if math.isnan(observation.miss_share):
        return ""
    hits = f"{format_share(1 - observation.miss_share)} of reads of state hit its cache"
    if is_raised(0, view, own):
        hits += f", {format_share(own.hit_rate_before)} did with less memory"
    here = amount_of(0, view, view.counts[0])
    amounts = {int(view.memory[0, place]) for place, count in enumerate(target) if count}
    if here in amounts:
        return f", and the memory stays: {hits}"
    if choose_step(0, view, own) == VERTICAL:
        return f", but more memory is tried first: {hits}"
    return f", and the memory goes back, because more did not help: {hits}"
