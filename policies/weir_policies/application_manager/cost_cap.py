"""Shares a limit on cost among the operators of an application. Pure.

Each operator gets so much money that together they carry the most records that the limit pays for:
all the same multiple of what arrives at them now, each within its budget of response time. So the
shares depend on how the operators' rates relate, not on how high they are, and stay while the rate
rises and falls. What is left over pays for the cheapest larger deployments.

Where floors cost more than the limit, the limit counts: the shares are then those without floors.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from weir_policies.kernels.bounds import CHEAPER
from weir_policies.model.arrays import Counts
from weir_policies.model.queueing import predict_means
from weir_policies.policy import OperatorModel, Sharing

HALVINGS = 24
"""Steps of the search for a capacity: exact to a ten-millionth."""
MOST_MIXES = 2_000
"""Mixes of two node types that are looked at; where there are more, none is."""
AS_GOOD = 0.9
"""Part of the records that shares must carry to be kept: others would take restarts."""


@dataclass(frozen=True, slots=True)
class CapShares:
    """What of the limit each operator may cost."""

    prices: Mapping[str, float]
    """Currency per hour, by operator."""
    keeps_floors: bool
    """Whether the limit pays for the floors."""
    is_enough: bool
    """Whether it pays for the cheapest deployments at all; else each may have its cheapest."""


def share_cap(
    models: Mapping[str, OperatorModel],
    *,
    budgets: Mapping[str, float],
    rates: Mapping[str, float],
    floors: Mapping[str, int],
    money: float,
    before: CapShares | None = None,
) -> CapShares:
    """Return what each operator may cost.

    Args:
        models: What is believed of them.
        budgets: Seconds of mean response time granted to each.
        rates: Records/s that arrive at each; where one is unknown, speeds are compared.
        floors: Replicas that each must have; 1 where it is left out.
        money: Currency per hour for all of them.
        before: Shares that are kept where they are nearly as good.
    """
    for kept in (floors, {}):
        fronts = _list_fronts(models, budgets, rates, kept)
        cheapest = sum(front.prices[0] for front in fronts.values())
        if cheapest <= money * CHEAPER:
            break
    keeps_floors, is_enough = kept is floors or not floors, cheapest <= money * CHEAPER
    if not is_enough:
        prices = {name: front.prices[0] for name, front in fronts.items()}
        return CapShares(prices, keeps_floors=keeps_floors, is_enough=False)
    found = _divide(fronts, money)
    if before is not None and _is_as_good(before, found, fronts, money):
        return CapShares(before.prices, keeps_floors=keeps_floors, is_enough=True)
    return CapShares(found, keeps_floors=keeps_floors, is_enough=True)


@dataclass(frozen=True, slots=True)
class _Front:
    """Deployments that carry more than all that is cheaper, the cheapest first."""

    prices: list[float]
    carries: list[float]
    """Multiples of what arrives."""

    def price_at(self, multiple: float) -> float:
        """Return the price of what carries a multiple, or of the largest."""
        return self.prices[min(bisect_left(self.carries, multiple), len(self.prices) - 1)]

    def carried_for(self, price: float) -> float:
        """Return what a price pays for; below 0 where that is nothing."""
        place = bisect_right(self.prices, price * CHEAPER)
        return self.carries[place - 1] if place else -1.0


def _divide(fronts: Mapping[str, _Front], money: float) -> dict[str, float]:
    multiples = sorted({each for front in fronts.values() for each in front.carries})
    low, high = 0, len(multiples)  # the first is paid for: it takes the cheapest of all
    while high - low > 1:
        middle = (low + high) // 2
        price = sum(front.price_at(multiples[middle]) for front in fronts.values())
        low, high = (middle, high) if price <= money * CHEAPER else (low, middle)
    shares = {name: front.price_at(multiples[low]) for name, front in fronts.items()}
    left = money - sum(shares.values())
    while True:
        steps = [
            (front.prices[place] - shares[name], name)
            for name, front in fronts.items()
            if (place := bisect_right(front.prices, shares[name] * CHEAPER)) < len(front.prices)
        ]
        if not steps or min(steps)[0] > left:
            shares[max(shares, key=shares.__getitem__)] += left
            return shares
        step, name = min(steps)
        shares[name] += step
        left -= step


def _is_as_good(
    before: CapShares, found: Mapping[str, float], fronts: Mapping[str, _Front], money: float
) -> bool:
    if before.prices.keys() != found.keys() or sum(before.prices.values()) > money * CHEAPER:
        return False
    kept = min(front.carried_for(before.prices[name]) for name, front in fronts.items())
    best = min(front.carried_for(found[name]) for name, front in fronts.items())
    return kept >= max(AS_GOOD * best, 0.0)


def _list_fronts(
    models: Mapping[str, OperatorModel],
    budgets: Mapping[str, float],
    rates: Mapping[str, float],
    floors: Mapping[str, int],
) -> dict[str, _Front]:
    known = all(
        np.isfinite(model.service_mean + model.service_scv + budgets.get(name, np.nan))
        and rates.get(name, np.nan) > 0
        for name, model in models.items()
    )
    fronts = {}
    for name, model in models.items():
        rows = _list_deployments(model, floors.get(name, 1))
        prices = rows @ np.array([each.price for each in model.node_types])
        if known:
            carries = _find_capacities(model, rows, budgets[name]) / rates[name]
        else:
            carries = rows @ np.array([each.speedup for each in model.node_types])
        fronts[name] = _front_of(prices, carries)
    return fronts


def _front_of(prices: np.ndarray, carries: np.ndarray) -> _Front:
    order = np.lexsort((-carries, prices.round(12)))
    first = order[0]  # the cheapest, even if it carries nothing
    front = _Front([float(prices[first])], [float(carries[first])])
    for row in order[1:]:
        if carries[row] > front.carries[-1] * (1 + 1e-9) + 1e-12:
            front.prices.append(float(prices[row]))
            front.carries.append(float(carries[row]))
    return front


def _find_capacities(model: OperatorModel, rows: Counts, budget: float) -> np.ndarray:
    """Return records/s at which each deployment just keeps the budget, 0 where it never does."""
    speedups = np.array([each.speedup for each in model.node_types])
    low, high = np.zeros(len(rows)), rows @ speedups / model.service_mean
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        times, _ = predict_means(model, rows, middle)
        keeps = times <= budget
        low, high = np.where(keeps, middle, low), np.where(keeps, high, middle)
    return low


def _list_deployments(model: OperatorModel, floor: int) -> Counts:
    """Return deployments of one node type, and mixes of two where these may be better, `(d, t)`.

    Under equal sharing the slowest replica decides, so that a mix is good only where pools are too
    small. Where no deployment has as many replicas as the floor asks for, the largest are listed.
    """
    types = len(model.node_types)
    most = [
        model.max_replicas if each.pool_limit is None else min(model.max_replicas, each.pool_limit)
        for each in model.node_types
    ]
    rows = [count * np.eye(types, dtype=np.int64)[t] for t in range(types)
            for count in range(1, most[t] + 1)]  # fmt: skip
    small = any(each < model.max_replicas for each in most)
    pairs = [(a, b) for a in range(types) for b in range(a + 1, types)]
    mixed = sum(most[a] * most[b] for a, b in pairs)
    if (small or model.sharing is not Sharing.EQUAL) and mixed <= MOST_MIXES:
        for a, b in pairs:
            one_pool = model.node_types[a].pool == model.node_types[b].pool
            together = min(model.max_replicas, most[a] if one_pool else model.max_replicas)
            for first in range(1, most[a] + 1):
                for second in range(1, min(most[b], together - first) + 1):
                    row = np.zeros(types, dtype=np.int64)
                    row[a], row[b] = first, second
                    rows.append(row)
    listed = np.array(rows)
    size = listed.sum(axis=1)
    return listed[size >= min(floor, int(size.max()))]
