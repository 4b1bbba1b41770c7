"""Room for the largest rate of late: `window-max`.

    peak   = the largest rate of the last `window` intervals
    target = the cheapest deployment that keeps the budget at `factor` x peak, reached in one jump

What a deployment covers, the largest rate at which the queueing model keeps the budget, depends on
the model alone: it is worked out when the model changes, and a decision compares numbers.

Where every replica gets an equal share and the worst of them counts, a mix of node types is never
cheaper than as many of the slowest in it, so deployments of one type are compared. Elsewhere, and
where pools are limited, mixes of two types are compared as well; of three they never are.

A simple rule of Weir's own, to be beaten by anything that learns or plans.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from weir_policies.errors import ParameterError
from weir_policies.kernels.compiled import compiled
from weir_policies.kernels.explaining import explain_rule
from weir_policies.kernels.policy import Algorithm
from weir_policies.kernels.prediction import capacity_of, predict_one
from weir_policies.kernels.view import (
    AGGREGATION,
    ARRIVAL_SCV,
    BUDGET,
    EQUAL,
    MAX_REPLICAS,
    NETWORK_TIME,
    NO_LIMIT,
    RATE,
    SERVICE_MEAN,
    SERVICE_SCV,
    SHARING,
    WORST,
    Memory,
    View,
    empty_memory,
)
from weir_policies.kernels.wording import say_rate, say_time
from weir_policies.model.arrays import Counts
from weir_policies.model.node_types import Deployment
from weir_policies.parameters import read_parameters, refuse_outside
from weir_policies.policy import Decision, Neighbourhood, Observation

FACTOR, PEAK, RATES = 0, 1, 2  # columns of `Memory.floats`; behind the rates stands the model
WINDOW, SEEN_RATES, MIXES, COUNTS = range(4)  # columns of `Memory.ints`
BELIEFS = 5
"""Numbers of a model besides its speedups."""
HALVINGS = 60
"""Steps of a bisection; the last is below the precision of the numbers."""


@dataclass(frozen=True, kw_only=True, slots=True)
class WindowMaxParameters:
    """Settings of `window-max`.

    Raises:
        ParameterError: One is out of its range.
    """

    window: int = 600
    """Intervals whose largest rate must be covered, the present one among them."""
    factor: float = 1.05
    """What that rate is multiplied by."""

    def __post_init__(self) -> None:
        """Refuse what is out of range."""
        refuse_outside("window", self.window, low=1, high=100_000)
        if self.window != int(self.window):
            raise ParameterError(f"Expected a whole number for window, got {self.window}")
        refuse_outside("factor", self.factor, low=0, low_allowed=False)


def define(values: Mapping[str, Any], *, name: str) -> Algorithm:
    """Return the algorithm registered as `window-max`, its parameters bound."""
    parameters = read_parameters(WindowMaxParameters, values, policy=name)
    return Algorithm(
        neighbourhood=Neighbourhood.ANY,
        prepare=partial(_prepare, parameters),
        learn=learn,
        decide=decide,
        explain=_explain,
        needed=("budget", "model.service_mean", "model.service_scv"),
    )


def _prepare(parameters: WindowMaxParameters, view: View, ticks: int) -> Memory:
    types, most = view.counts.shape[1], int(view.rules[:, MAX_REPLICAS].max())
    simple = (view.rules[:, SHARING] == EQUAL) & (view.rules[:, AGGREGATION] == WORST)
    mixes = not simple.all() or bool((view.limit < NO_LIMIT).any())
    pairs = types * (types - 1) // 2 * (most * (most - 1) // 2)
    memory = empty_memory(
        view,
        floats=RATES + int(parameters.window) + BELIEFS + types,
        ints=COUNTS + types,
        values=types * most + (pairs if mixes else 0),
    )
    memory.floats[:, FACTOR] = parameters.factor
    memory.floats[:, RATES + int(parameters.window) :] = np.nan
    memory.ints[:, WINDOW] = int(parameters.window)
    memory.ints[:, MIXES] = mixes
    for o in range(view.counts.shape[0]):
        cover_all(o, view, memory)
    return memory


@compiled
def cover(o: int, view: View, counts: Counts) -> float:
    """Return the largest rate at which a deployment `(t,)` keeps the budget, records/s."""
    least, most = 0.0, capacity_of(o, view, counts)
    for _ in range(HALVINGS):
        rate = (least + most) / 2
        time, _ = predict_one(o, view, counts, rate)
        if time <= view.seen[o, BUDGET]:
            least = rate
        else:
            most = rate
    return least


@compiled
def cover_all(o: int, view: View, memory: Memory) -> None:
    """Work out what every deployment covers, in the order in which `find_cheapest` asks."""
    types, most = view.counts.shape[1], view.rules[o, MAX_REPLICAS]
    counts = memory.ints[o, COUNTS:]
    row = 0
    for one in range(types):
        for first in range(1, most + 1):
            counts[one] = first
            memory.values[o, row] = cover(o, view, counts)
            row += 1
        counts[one] = 0
    if memory.ints[o, MIXES]:
        for one in range(types):
            for other in range(one + 1, types):
                for first in range(1, most):
                    for second in range(1, most - first + 1):
                        counts[one], counts[other] = first, second
                        memory.values[o, row] = cover(o, view, counts)
                        row += 1
                counts[one], counts[other] = 0, 0


@compiled
def remember_model(o: int, view: View, memory: Memory) -> bool:
    """Keep what is believed; return whether it is new."""
    known = memory.floats[o, RATES + memory.ints[o, WINDOW] :]
    traits = view.traits[o]
    changed = known[0] != view.seen[o, BUDGET] or known[1] != traits[SERVICE_MEAN]
    changed = changed or known[2] != traits[SERVICE_SCV] or known[3] != traits[ARRIVAL_SCV]
    changed = changed or known[4] != traits[NETWORK_TIME]
    known[0], known[1] = view.seen[o, BUDGET], traits[SERVICE_MEAN]
    known[2], known[3], known[4] = traits[SERVICE_SCV], traits[ARRIVAL_SCV], traits[NETWORK_TIME]
    for place in range(view.counts.shape[1]):
        changed = changed or known[BELIEFS + place] != view.speedup[o, place]
        known[BELIEFS + place] = view.speedup[o, place]
    return changed


@compiled
def remember_rate(o: int, rate: float, memory: Memory) -> None:
    """Let a rate into the window, and the oldest out."""
    window = memory.ints[o, WINDOW]
    rates = memory.floats[o, RATES : RATES + window]
    place = memory.ints[o, SEEN_RATES] % window
    leaving = rates[place]
    rates[place] = rate
    memory.ints[o, SEEN_RATES] += 1
    if rate >= memory.floats[o, PEAK]:
        memory.floats[o, PEAK] = rate
    elif leaving == memory.floats[o, PEAK]:
        largest = 0.0
        for each in range(window):
            largest = max(largest, rates[each])
        memory.floats[o, PEAK] = largest


@compiled
def learn(o: int, view: View, memory: Memory) -> None:
    """Remember the rate; work out again what is covered where the model changed."""
    if memory.ints[o, SEEN_RATES] == 0:
        remember_rate(o, view.before[o, RATE], memory)
    remember_rate(o, view.seen[o, RATE], memory)
    if remember_model(o, view, memory):
        cover_all(o, view, memory)


@compiled
def find_cheapest(o: int, view: View, memory: Memory, rate: float) -> None:
    """Write the cheapest deployment that covers the rate; where none does, the one with most."""
    types, most = view.counts.shape[1], view.rules[o, MAX_REPLICAS]
    limit, price, covered = view.limit[o], view.price[o], memory.values[o]
    best_one, best_other, best_first, best_second = -1, -1, 0, 0
    least, greatest = np.inf, -1.0
    row = 0
    for one in range(types):
        for first in range(1, most + 1):
            if first <= limit[one]:
                enough = covered[row] >= rate
                cost = first * price[one]
                if (enough and cost < least) or (least == np.inf and covered[row] > greatest):
                    best_one, best_other, best_first, best_second = one, one, first, 0
                    least = cost if enough else np.inf
                    greatest = covered[row]
            row += 1
    if memory.ints[o, MIXES]:
        for one in range(types):
            for other in range(one + 1, types):
                shared = view.pool[o, one] == view.pool[o, other]
                for first in range(1, most):
                    for second in range(1, most - first + 1):
                        held = first + second if shared else second
                        if first <= limit[one] and held <= limit[other]:
                            enough = covered[row] >= rate
                            cost = first * price[one] + second * price[other]
                            more = least == np.inf and covered[row] > greatest
                            if (enough and cost < least) or more:
                                best_one, best_other = one, other
                                best_first, best_second = first, second
                                least = cost if enough else np.inf
                                greatest = covered[row]
                        row += 1
    for place in range(types):
        view.target[o, place] = view.counts[o, place] if best_one < 0 else 0
    if best_one >= 0:
        view.target[o, best_one] += best_first
        view.target[o, best_other] += best_second


@compiled
def decide(o: int, view: View, memory: Memory) -> None:
    """Jump to the cheapest deployment that covers the window's peak and a margin."""
    peak = max(memory.floats[o, PEAK], view.seen[o, RATE])
    find_cheapest(o, view, memory, memory.floats[o, FACTOR] * peak)


def _explain(observation: Observation, target: Deployment, view: View, memory: Memory) -> Decision:
    factor = memory.floats[0, FACTOR]
    peak = max(float(memory.floats[0, PEAK]), observation.rate)
    time, _ = predict_one(0, view, np.array(target.counts, dtype=np.int64), factor * peak)
    if time <= observation.budget:
        reason = (
            f"the cheapest that keeps the budget of {say_time(observation.budget)} at "
            f"{say_rate(factor * peak)}, {factor:g} times the largest rate of late"
        )
    else:
        reason = f"nothing covers {say_rate(factor * peak)}, and this comes nearest"
    return explain_rule(observation, target, reason)
