"""The cheapest deployment for the highest recent rate: `window-max`.

    peak   = the largest rate of the last `window` intervals
    target = the cheapest deployment that keeps the budget at `factor` x peak, reached in one jump

What a deployment covers, the largest rate at which the queueing model keeps the budget, depends on
the model alone: it is worked out when the model changes, and a decision compares numbers.

Where every replica gets an equal share and the worst of them counts, a mix of node types is never
cheaper than as many of the slowest in it, so deployments of one type are compared. Elsewhere, and
where pools are limited, mixes of two types are compared as well; of three they never are.

A simple rule of Weir's own; policies that learn or plan should be better.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from weir_policies.errors import ParameterError
from weir_policies.kernels.compiled import compiled
from weir_policies.kernels.explaining import explain_rule
from weir_policies.kernels.fields import Fields, array
from weir_policies.kernels.policy import definition
from weir_policies.kernels.prediction import capacity_of, predict_one
from weir_policies.kernels.view import EQUAL, NO_LIMIT, WORST, Memory, View
from weir_policies.kernels.wording import format_rate, format_time
from weir_policies.model.arrays import Counts, Floats
from weir_policies.model.node_types import Deployment
from weir_policies.parameters import PolicyParameters, setting
from weir_policies.policy import Decision, Observation

HALVINGS = 60
"""Steps of a bisection; the last is below the precision of the numbers."""
MOST_DEPLOYMENTS = 100_000
"""Deployments that are compared. To work out what so many cover takes a second, in which nothing
else is decided; with mixes, their number is the square of maxReplicas times that of node types."""


class WindowMaxMemory(Fields):
    """Settings of `window-max`, the recent rates, and what deployments cover."""

    factor: float
    peak: float
    """The largest of the rates, records/s."""
    seen_rates: int
    window: int
    rates: Floats = array("window")
    mixes: int
    """1 where mixes of two types are compared as well."""
    node_types: int
    speedups: Floats = array("node_types")
    """With the next five, the model that `covered` is of."""
    budget: float
    service_mean: float
    service_scv: float
    arrival_scv: float
    network_time: float
    deployments: int
    covered: Floats = array("deployments")
    """Records/s that each covers, in the order in which `find_cheapest` asks."""
    counts: Counts = array("node_types")
    """Room for one deployment."""


@dataclass(frozen=True, kw_only=True, slots=True)
class WindowMaxParameters(PolicyParameters):
    """Settings of `window-max`."""

    window: int = setting(600, low=1, high=100_000, whole=True)
    """Intervals whose largest rate must be covered, the present one among them."""
    factor: float = setting(1.05, low=0, low_allowed=False)
    """What that rate is multiplied by."""


def _prepare(parameters: WindowMaxParameters, view: View, ticks: int) -> Memory:
    types, maximum = view.counts.shape[1], int(view.model["max_replicas"].max())
    simple = (view.model["sharing"] == EQUAL) & (view.model["aggregation"] == WORST)
    mixes = not simple.all() or bool((view.limit < NO_LIMIT).any())
    pairs = types * (types - 1) // 2 * (maximum * (maximum - 1) // 2)
    deployments = types * maximum + (pairs if mixes else 0)
    if deployments > MOST_DEPLOYMENTS:
        raise ParameterError(
            f"Expected at most {MOST_DEPLOYMENTS:,} deployments for window-max to compare, got "
            f"{deployments:,}; give fewer node types or a smaller maxReplicas"
        )
    memory = WindowMaxMemory.allocate(
        view,
        parameters,
        mixes=mixes,
        node_types=types,
        deployments=deployments,
        budget=np.nan,  # no model yet
    )
    for o, row in enumerate(memory):
        cover_all(o, view, WindowMaxMemory(row))
    return memory


@compiled
def cover(o: int, view: View, counts: Counts) -> float:
    """Return the largest rate at which a deployment `(t,)` keeps the budget, records/s."""
    minimum, maximum = 0.0, capacity_of(o, view, counts)
    for _ in range(HALVINGS):
        rate = (minimum + maximum) / 2
        time, _ = predict_one(o, view, counts, rate)
        if time <= view.seen[o].budget:
            minimum = rate
        else:
            maximum = rate
    return minimum


@compiled
def cover_all(o: int, view: View, own: WindowMaxMemory) -> None:
    """Work out what every deployment covers, in the order in which `find_cheapest` asks."""
    types, maximum = view.counts.shape[1], view.model[o].max_replicas
    counts, covered = own.counts, own.covered
    row = 0
    for one in range(types):
        for first in range(1, maximum + 1):
            counts[one] = first
            covered[row] = cover(o, view, counts)
            row += 1
        counts[one] = 0
    if own.mixes:
        for one in range(types):
            for other in range(one + 1, types):
                for first in range(1, maximum):
                    for second in range(1, maximum - first + 1):
                        counts[one], counts[other] = first, second
                        covered[row] = cover(o, view, counts)
                        row += 1
                counts[one], counts[other] = 0, 0


@compiled
def remember_model(o: int, view: View, own: WindowMaxMemory) -> bool:
    """Keep what is believed; return whether it is new."""
    model, speedups = view.model[o], own.speedups
    changed = own.budget != view.seen[o].budget or own.service_mean != model.service_mean
    changed = changed or own.service_scv != model.service_scv
    changed = changed or own.arrival_scv != model.arrival_scv
    changed = changed or own.network_time != model.network_time
    own.budget, own.service_mean = view.seen[o].budget, model.service_mean
    own.service_scv, own.arrival_scv = model.service_scv, model.arrival_scv
    own.network_time = model.network_time
    for place in range(view.counts.shape[1]):
        changed = changed or speedups[place] != view.speedup[o, place]
        speedups[place] = view.speedup[o, place]
    return changed


@compiled
def remember_rate(rate: float, own: WindowMaxMemory) -> None:
    """Add a rate to the window, and drop the oldest."""
    rates = own.rates
    place = own.seen_rates % own.window
    leaving = rates[place]
    rates[place] = rate
    own.seen_rates += 1
    if rate >= own.peak:
        own.peak = rate
    elif leaving == own.peak:
        largest = 0.0
        for each in range(rates.size):
            largest = max(largest, rates[each])
        own.peak = largest


@compiled
def learn(o: int, view: View, memory: Memory) -> None:
    """Remember the rate; work out again what is covered where the model changed."""
    own = WindowMaxMemory(memory[o])
    if own.seen_rates == 0:
        remember_rate(view.before[o].rate, own)
    remember_rate(view.seen[o].rate, own)
    if remember_model(o, view, own):
        cover_all(o, view, own)


@compiled
def find_cheapest(o: int, view: View, own: WindowMaxMemory, rate: float) -> None:
    """Write the cheapest deployment that covers the rate; where none does, the one with most."""
    types, maximum = view.counts.shape[1], view.model[o].max_replicas
    limit, price, covered = view.limit[o], view.price[o], own.covered
    best_one, best_other, best_first, best_second = -1, -1, 0, 0
    best_cost, max_covered = np.inf, -1.0
    row = 0
    for one in range(types):
        for first in range(1, maximum + 1):
            if first <= limit[one]:
                enough = covered[row] >= rate
                cost = first * price[one]
                if (enough and cost < best_cost) or (
                    best_cost == np.inf and covered[row] > max_covered
                ):
                    best_one, best_other, best_first, best_second = one, one, first, 0
                    best_cost = cost if enough else np.inf
                    max_covered = covered[row]
            row += 1
    if own.mixes:
        for one in range(types):
            for other in range(one + 1, types):
                shared = view.pool[o, one] == view.pool[o, other]
                for first in range(1, maximum):
                    for second in range(1, maximum - first + 1):
                        held = first + second if shared else second
                        if first <= limit[one] and held <= limit[other]:
                            enough = covered[row] >= rate
                            cost = first * price[one] + second * price[other]
                            more = best_cost == np.inf and covered[row] > max_covered
                            if (enough and cost < best_cost) or more:
                                best_one, best_other = one, other
                                best_first, best_second = first, second
                                best_cost = cost if enough else np.inf
                                max_covered = covered[row]
                        row += 1
    for place in range(types):
        view.target[o, place] = view.counts[o, place] if best_one < 0 else 0
    if best_one >= 0:
        view.target[o, best_one] += best_first
        view.target[o, best_other] += best_second


@compiled
def decide(o: int, view: View, memory: Memory) -> None:
    """Jump to the cheapest deployment that covers the window's peak and a margin."""
    own = WindowMaxMemory(memory[o])
    find_cheapest(o, view, own, own.factor * max(own.peak, view.seen[o].rate))


def _explain(observation: Observation, target: Deployment, view: View, memory: Memory) -> Decision:
    own = WindowMaxMemory(memory[0])
    factor = own.factor
    peak = max(float(own.peak), observation.rate)
    time, _ = predict_one(0, view, np.array(target.counts, dtype=np.int64), factor * peak)
    if time <= observation.budget:
        reason = (
            f"the cheapest that meets the budget of {format_time(observation.budget)} at "
            f"{format_rate(factor * peak)}, {factor:g} times the highest recent rate"
        )
    else:
        rate = format_rate(factor * peak)
        reason = f"no deployment meets the budget at {rate}, and this comes closest"
    return explain_rule(observation, target, reason)


define = definition(
    WindowMaxParameters,
    _prepare,
    learn=learn,
    decide=decide,
    explain=_explain,
    needed=("budget", "model.service_mean", "model.service_scv"),
)
