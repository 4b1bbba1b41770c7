"""The queueing model for one deployment, compiled; `model.queueing` has many at once.

The formulas, their sources and the three rules of sharing are explained in `model.queueing` and
`model.sharing`; a test compares both.
"""

from __future__ import annotations

import numpy as np

from weir_policies.kernels.compiled import compiled
from weir_policies.kernels.view import BY_LOAD, EQUAL, NO_LIMIT, WORST, View
from weir_policies.model.arrays import Counts
from weir_policies.model.sharing import FILL_LEVEL


@compiled
def wait(utilisation: float, service_mean: float, service_scv: float, arrival_scv: float) -> float:
    """Return the mean waiting time at one replica, s; `inf` from utilisation 1 on.

    Args:
        utilisation: Of the replica, 0 or more.
        service_mean: Seconds of work per record on it.
        service_scv: Squared coefficient of variation of the service time.
        arrival_scv: The same of the times between arrivals at the replica.
    """
    if utilisation >= 1:
        return np.inf
    variability = arrival_scv + service_scv
    waiting = utilisation / (1 - utilisation) * service_mean * variability / 2
    if arrival_scv < 1 and variability > 0:
        if utilisation == 0:
            return 0.0
        weight = (1 - arrival_scv) ** 2 / variability
        waiting *= np.exp(-2 * (1 - utilisation) * weight / (3 * utilisation))
    return waiting


@compiled
def water_level(o: int, view: View, counts: Counts, rate: float) -> float:
    """Return `water_level_after` for the deployment itself."""
    return water_level_after(o, view, counts, 0, 0, rate)


@compiled
def water_level_after(
    o: int, view: View, counts: Counts, moved: int, change: int, rate: float
) -> float:
    """Return records/s of a replica that is not full, by the law of `ByLoad`.

    Replicas fill slowest first, until the rest can share evenly what is left. `inf` where all are
    full: then shares follow speed.
    """
    left = rate
    sparing = change
    for place in range(counts.size):
        sparing += counts[place]
    filled = 0.0  # caps up to this one are full
    while sparing > 0:
        lowest = np.inf
        for place in range(counts.size):
            cap = FILL_LEVEL * view.speedup[o, place] / view.model[o].service_mean
            count = counts[place] + change if place == moved else counts[place]
            if count > 0 and filled < cap < lowest:
                lowest = cap
        if left / sparing <= lowest:
            return left / sparing
        for place in range(counts.size):
            cap = FILL_LEVEL * view.speedup[o, place] / view.model[o].service_mean
            if cap == lowest:
                count = counts[place] + change if place == moved else counts[place]
                left -= count * cap
                sparing -= count
        filled = lowest
    return np.inf


@compiled
def share_of(
    o: int, view: View, place: int, size: int, speed: float, rate: float, level: float
) -> float:
    """Return the part of the operator's records that a replica gets, the fullest of its type.

    Args:
        o: Row of the operator.
        view: Where its rules stand.
        place: Node type of the replica.
        size: Replicas of the deployment.
        speed: Sum of their speedups.
        rate: Records/s at the operator.
        level: The `water_level`; any number where sharing is not `ByLoad`.
    """
    if view.model[o].sharing == EQUAL:
        groups = view.model[o].key_groups
        if view.model[o].keyed == 0 or groups == NO_LIMIT:
            return 1 / size
        measured = view.fullest[o, min(size, view.fullest.shape[1]) - 1]
        if measured > 0:
            return measured
        even = (groups + size - 1) // size / groups
        hot = view.model[o].hot_share if view.model[o].aggregation == WORST else 0.0
        return hot + (1 - hot) * even
    if view.model[o].sharing == BY_LOAD and level < np.inf:
        if rate == 0:
            return 1 / size
        return min(level, FILL_LEVEL * view.speedup[o, place] / view.model[o].service_mean) / rate
    return view.speedup[o, place] / speed


@compiled
def divide_keys(o: int, view: View, size: int) -> tuple[float, float]:
    """Return what part of the replicas get as much as the fullest, and the share of the others.

    Args:
        o: Row of the operator, which is keyed and has key groups.
        view: Where they stand.
        size: Replicas of the deployment.
    """
    measured = view.fullest[o, min(size, view.fullest.shape[1]) - 1]
    if measured > 0:
        return 1 / size, (1 - measured) / max(size - 1, 1)
    # M mod p replicas hold ceil(M/p) key groups, the others floor(M/p).
    groups = view.model[o].key_groups
    return (groups % size) / size if groups % size else 1.0, groups // size / groups


@compiled
def arrive(o: int, view: View, size: int, rate: float, share: float) -> float:
    """Return records/s at a replica with this share of the operator's rate."""
    if view.model[o].sharing == EQUAL and view.model[o].key_groups == NO_LIMIT:
        return rate / size  # exact where `rate * (1 / size)` is not: thresholds are met exactly
    return rate * share


@compiled
def predict_after(
    o: int, view: View, counts: Counts, moved: int, change: int, rate: float
) -> tuple[float, float]:
    """Return mean response time, s, and the busiest replica's utilisation after a change.

    Args:
        o: Row of the operator.
        view: Where its model stands.
        counts: Replicas per node type, `(t,)`.
        moved: Node type that the change concerns.
        change: How many replicas it gets more, or less where negative; at least one must remain.
        rate: Records/s that arrive.

    Returns:
        The response time is `inf` where a replica cannot keep up; utilisation may exceed 1.
    """
    size, speed = 0, 0.0
    for place in range(counts.size):
        count = counts[place] + change if place == moved else counts[place]
        size += count
        speed += count * view.speedup[o, place]
    level = 0.0
    if view.model[o].sharing == BY_LOAD:
        level = water_level_after(o, view, counts, moved, change, rate)
    arrival_scv = view.model[o].arrival_scv
    service_scv = view.model[o].service_scv
    groups = view.model[o].key_groups
    divided = view.model[o].sharing == EQUAL and view.model[o].keyed != 0 and groups != NO_LIMIT
    worst, average, busiest = 0.0, 0.0, 0.0
    for place in range(counts.size):
        count = counts[place] + change if place == moved else counts[place]
        if count == 0:
            continue
        service_mean = view.model[o].service_mean / view.speedup[o, place]
        share = share_of(o, view, place, size, speed, rate, level)
        utilisation = arrive(o, view, size, rate, share) * service_mean
        scv = 1 + (arrival_scv - 1) * share if view.model[o].keyed else arrival_scv / size
        time = wait(utilisation, service_mean, service_scv, scv) + service_mean
        worst = max(worst, time)
        busiest = max(busiest, utilisation)
        full = 1.0
        if divided:
            full, minimum = divide_keys(o, view, size)
            if full < 1 and minimum > 0:
                scv = 1 + (arrival_scv - 1) * minimum
                fast = wait(rate * minimum * service_mean, service_mean, service_scv, scv)
                average += count * (1 - full) * minimum * (fast + service_mean)
        if share > 0:
            average += count * full * share * time
    response_time = worst if view.model[o].aggregation == WORST else average
    return response_time + view.model[o].network_time, busiest


@compiled
def predict_one(o: int, view: View, counts: Counts, rate: float) -> tuple[float, float]:
    """Return `predict_after` for the deployment itself."""
    return predict_after(o, view, counts, 0, 0, rate)


@compiled
def price_of(o: int, view: View, counts: Counts) -> float:
    """Return what the deployment costs, currency per hour."""
    total = 0.0
    for place in range(counts.size):
        total += counts[place] * view.price[o, place]
    return total


@compiled
def capacity_of(o: int, view: View, counts: Counts) -> float:
    """Return records/s that the deployment could process if all replicas were busy."""
    speed = 0.0
    for place in range(counts.size):
        speed += counts[place] * view.speedup[o, place]
    return speed / view.model[o].service_mean
