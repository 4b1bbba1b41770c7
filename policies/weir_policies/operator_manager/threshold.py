"""Thresholds on utilisation, one replica at a time: `threshold-cheapest`, `-fastest`, `-random`.

    U = utilisation of the worst of p replicas
    U > T and p < k_max                -> add a replica of the chosen type
    else p > 1 and U p/(p-1) < beta T  -> remove one of the chosen type
    else                               -> stay

The chosen type is the cheapest, the fastest (the first among equals), or one drawn each time.

Source: Russo Russo, Cardellini, Lo Presti, ACM TAAS 2023, section 6 ("TB-C", "TB-S"). It gives
T = 0.7 for the average utilisation; its published tables were made with 0.75, the default here, and
with the worst replica's. Further departures, none of which changes a published number:
1. Where the chosen type's pool is full, the next in order with room is added; of the random ones,
   one is drawn among those with room.
2. Where no replica of the chosen type is there, the dearest is removed (there: nothing); the random
   one is drawn among those that are there.
3. Urgency is the score of EDF (Cardellini et al., FGCS 2018, section 5.1): the distance from the
   threshold, relative to the most it could be.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from weir_policies.kernels.compiled import compiled
from weir_policies.kernels.explaining import explain_rule
from weir_policies.kernels.fields import Fields
from weir_policies.kernels.policy import Algorithm
from weir_policies.kernels.steps import has_room, total
from weir_policies.kernels.view import NO_POOL, Memory, View
from weir_policies.kernels.wording import format_share, urgency_of_need, urgency_of_saving
from weir_policies.model.node_types import Deployment
from weir_policies.operator_manager.hold import learn_nothing
from weir_policies.parameters import PolicyParameters, read_parameters, setting
from weir_policies.policy import Decision, Observation

CHEAPEST, FASTEST, RANDOM = range(3)
CHOICES = {
    "threshold-cheapest": CHEAPEST,
    "threshold-fastest": FASTEST,
    "threshold-random": RANDOM,
}


class ThresholdMemory(Fields):
    """Settings of a threshold policy."""

    high: float
    """Busy share above which a replica is added."""
    low: float
    """Busy share below which it must stay with one replica less."""
    choice: int
    """Which node type: `CHEAPEST`, `FASTEST` or `RANDOM`."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ThresholdParameters(PolicyParameters):
    """Settings of the threshold policies."""

    utilisation: float = setting(0.75, low=0, high=1, low_allowed=False)
    """Busy share of the worst replica above which one is added, T; inside (0, 1]."""
    scale_in_fraction: float = setting(0.75, low=0, high=1)
    """Part of T that utilisation must stay below with one replica less, beta; in [0, 1]."""


def define(values: Mapping[str, Any], *, name: str) -> Algorithm:
    """Return the algorithm of one of the three policies, its parameters bound."""
    parameters = read_parameters(ThresholdParameters, values, policy=name)
    return Algorithm(
        prepare=partial(_prepare, parameters, CHOICES[name]),
        learn=learn_nothing,
        decide=decide,
        explain=_explain,
        draws=CHOICES[name] == RANDOM,
    )


def _prepare(parameters: ThresholdParameters, choice: int, view: View, ticks: int) -> Memory:
    return ThresholdMemory.allocate(
        view,
        high=parameters.utilisation,
        low=parameters.scale_in_fraction * parameters.utilisation,
        choice=choice,
    )


@compiled
def decide(o: int, view: View, memory: Memory) -> None:
    """Move one replica of the chosen type, or none."""
    own = ThresholdMemory(memory[o])
    counts, busy = view.counts[o], view.seen[o].busiest
    size = total(counts)
    for place in range(counts.size):
        view.target[o, place] = counts[place]
    if busy > own.high:
        if size < view.model[o].max_replicas:
            chosen = _choose_added(o, view, own.choice)
            if chosen >= 0:
                view.target[o, chosen] += 1
    elif size > 1 and busy * size / (size - 1) < own.low:
        view.target[o, _choose_removed(o, view, own.choice)] -= 1


@compiled
def _rank(o: int, view: View, choice: int, place: int) -> float:
    """Return what the chosen type has least of."""
    return view.price[o, place] if choice == CHEAPEST else -view.speedup[o, place]


@compiled
def _choose_added(o: int, view: View, choice: int) -> int:
    """Return the node type to add: the first in order with room; -1 where none has."""
    best, best_rank, roomy = -1, np.inf, 0
    for place in range(view.counts.shape[1]):
        if has_room(o, view, view.counts[o], place):
            roomy += 1
            if _rank(o, view, choice, place) < best_rank:
                best, best_rank = place, _rank(o, view, choice, place)
    if choice != RANDOM or roomy == 0:
        return best
    left = int(view.draws[o, 0] * roomy)
    for place in range(view.counts.shape[1]):
        if has_room(o, view, view.counts[o], place):
            if left == 0:
                return place
            left -= 1
    return best


@compiled
def _choose_removed(o: int, view: View, choice: int) -> int:
    """Return the node type to remove: the chosen one, or the dearest that is there."""
    best, best_rank = 0, np.inf
    dearest, highest_price, held = 0, -np.inf, 0
    for place in range(view.counts.shape[1]):
        if view.pool[o, place] != NO_POOL and _rank(o, view, choice, place) < best_rank:
            best, best_rank = place, _rank(o, view, choice, place)
        if view.counts[o, place] > 0:
            held += 1
            if view.price[o, place] > highest_price:
                dearest, highest_price = place, view.price[o, place]
    if choice != RANDOM:
        return best if view.counts[o, best] > 0 else dearest
    left = int(view.draws[o, 0] * held)
    for place in range(view.counts.shape[1]):
        if view.counts[o, place] > 0:
            if left == 0:
                return place
            left -= 1
    return dearest


def _explain(observation: Observation, target: Deployment, view: View, memory: Memory) -> Decision:
    here, own = observation.deployment, ThresholdMemory(memory[0])
    busy, high, low = float(view.seen[0].busiest), own.high, own.low
    worst = f"the busiest replica is {format_share(busy)} busy"
    if target.size > here.size:
        excess = (busy - high) / (1 - high) if high < 1 else 1.0
        decision = explain_rule(
            observation, target, f"{worst}, above the threshold of {format_share(high)}"
        )
        return replace(decision, urgency=urgency_of_need(excess))
    if target.size < here.size:
        busy_with_less = busy * here.size / (here.size - 1)
        decision = explain_rule(
            observation,
            target,
            f"{worst}; with one replica less it would be {format_share(busy_with_less)}, "
            f"below {format_share(low)}",
        )
        return replace(decision, urgency=urgency_of_saving((low - busy_with_less) / low))
    if busy > high:
        full = f"no replica can be added to the {here.size} in use"
        return explain_rule(observation, target, f"{worst}, but {full}")
    return explain_rule(observation, target, f"{worst}, between the thresholds")
