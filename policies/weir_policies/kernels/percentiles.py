"""Percentiles of a response time for one deployment, compiled; `model.queueing` has many at once.

The formulas and their sources are explained there; a test compares both.
"""

from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np

from weir_policies.kernels.compiled import compiled, compiled_apart
from weir_policies.kernels.prediction import divide_keys, share_of, wait, water_level
from weir_policies.kernels.view import BY_LOAD, EQUAL, NO_LIMIT, WORST, View
from weir_policies.model.arrays import Counts

PRECISE = 1e-12
"""Relative size of the terms at which a sum is cut off."""
SMOOTH = 1e4
"""Shape from which a gamma law is taken by the cube root of a normal one: its error is below 1e-6
of the percentile."""


@compiled
def wait_variance(waiting: float, busy: float, service_scv: float, arrival_scv: float) -> float:
    """Return the variance of the wait at a replica, s^2; see `model.queueing`."""
    if np.isinf(waiting):
        return np.inf
    if waiting == 0:
        return 0.0
    third = (1 + service_scv) * (1 + 2 * service_scv)
    conditional = 2 * busy - 1 + 4 * (1 - busy) * third / (3 * (1 + service_scv) ** 2)
    square = busy**2 * (4 * arrival_scv + service_scv)
    if arrival_scv <= 1:
        shape = (1 + arrival_scv + busy * service_scv) / (1 + busy * (service_scv - 1) + square)
    else:
        shape = 4 * busy / (arrival_scv + square)
    delayed = busy + (arrival_scv - 1) * busy * (1 - busy) * shape
    return waiting**2 * (conditional + 1 - delayed) / delayed


@compiled
def gamma_part(shape: float, time: float) -> float:
    """Return the part of a gamma law with scale 1 below a time.

    A series below the mean, a continued fraction above it. Source: Abramowitz and Stegun,
    Handbook of Mathematical Functions (1964), 6.5.29 and 6.5.31.
    """
    if time <= 0:
        return 0.0
    factor = math.exp(shape * math.log(time) - time - math.lgamma(shape))
    if time < shape + 1:
        term = 1 / shape
        part, step = term, shape
        while term > part * PRECISE:
            step += 1
            term *= time / step
            part += term
        return part * factor
    # Lentz's method, from the front: no term is known to be the last beforehand.
    below = time + 1 - shape
    upper, lower = 1e300, 1 / below
    rest, step, change = lower, 0.0, 0.0
    while abs(change - 1) > PRECISE:
        step += 1
        term = -step * (step - shape)
        below += 2
        lower = 1 / (term * lower + below)
        upper = below + term / upper
        change = upper * lower
        rest *= change
    return 1 - rest * factor


@compiled
def gamma_quantile(mean: float, variance: float, quantile: float, normal: float) -> float:
    """Return a percentile of the gamma law with these two moments; `normal` is a normal one's."""
    if np.isinf(mean) or variance == 0 or mean == 0:
        return mean
    shape = mean**2 / variance
    cube = 1 - 1 / (9 * shape) + normal / (3 * math.sqrt(shape))
    if shape >= SMOOTH:
        return mean * cube**3
    low, high = 0.0, max(shape, 1.0)
    while gamma_part(shape, high) < quantile:
        low, high = high, 2 * high
    time = shape * max(cube, 0.0) ** 3
    while high - low > high * PRECISE:
        if not low < time < high:
            time = (low + high) / 2
        part = gamma_part(shape, time)
        if part < quantile:
            low = time
        else:
            high = time
        slope = math.exp((shape - 1) * math.log(time) - time - math.lgamma(shape))
        step = (quantile - part) / slope if slope > 0 else np.inf
        if abs(step) <= time * PRECISE:
            break
        time += step
    return time * variance / mean


@compiled_apart
def predict_moments(o: int, view: View, counts: Counts, rate: float) -> tuple[float, float, float]:
    """Return mean, s, and variance, s^2, of the response time, and the busiest replica's use.

    The network time is in neither, because it counts as constant.

    Args:
        o: Row of the operator.
        view: Where its model stands.
        counts: Replicas per node type, `(t,)`, at least one.
        rate: Records/s that arrive.
    """
    size, speed = 0, 0.0
    for place in range(counts.size):
        size += counts[place]
        speed += counts[place] * view.speedup[o, place]
    level = water_level(o, view, counts, rate) if view.model[o].sharing == BY_LOAD else 0.0
    arrival_scv, service_scv = view.model[o].arrival_scv, view.model[o].service_scv
    groups = view.model[o].key_groups
    divided = view.model[o].sharing == EQUAL and view.model[o].keyed != 0 and groups != NO_LIMIT
    worst, spread, first, second, busiest = -1.0, 0.0, 0.0, 0.0, 0.0
    for place in range(counts.size):
        if counts[place] == 0:
            continue
        service = view.model[o].service_mean / view.speedup[o, place]
        full, minimum = 1.0, 0.0
        if divided:
            full, minimum = divide_keys(o, view, size)
        for half in range(2):
            part = full if half == 0 else 1 - full
            share = share_of(o, view, place, size, speed, rate, level)
            if half == 1:
                share = minimum
            if part == 0 or (half == 1 and not divided):
                continue
            busy = rate * share * service
            scv = 1 + (arrival_scv - 1) * share if view.model[o].keyed else arrival_scv / size
            waiting = wait(busy, service, service_scv, scv)
            variance = wait_variance(waiting, busy, service_scv, scv) + service_scv * service**2
            time = waiting + service
            if half == 0:
                busiest = max(busiest, busy)
                if time > worst:
                    worst, spread = time, variance
            if share > 0:
                weight = counts[place] * part * share
                first += weight * time
                second += weight * (variance + time**2)
    mean, variance = worst, spread
    if view.model[o].aggregation != WORST:
        mean = first
        variance = np.inf if np.isinf(first) else max(second - first**2, 0.0)
    return mean, variance, busiest


@compiled_apart
def predict_percentile(
    o: int, view: View, counts: Counts, rate: float, quantile: float, normal: float
) -> tuple[float, float]:
    """Return a percentile of the response time, s, and the busiest replica's utilisation.

    Args:
        o: Row of the operator.
        view: Where its model stands.
        counts: Replicas per node type, `(t,)`, at least one.
        rate: Records/s that arrive.
        quantile: In (0, 1), such as 0.95.
        normal: The same percentile of a standard normal law.
    """
    mean, variance, busiest = predict_moments(o, view, counts, rate)
    percentile = gamma_quantile(mean, variance, quantile, normal)
    return percentile + view.model[o].network_time, busiest


def normal_quantile(quantile: float) -> float:
    """Return a percentile of the standard normal law."""
    return NormalDist().inv_cdf(quantile)
