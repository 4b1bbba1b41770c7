"""What a slot does to the operators: records flow, queues fill and drain, replicas come and go.

Without queues, every slot is a steady state (Russo Russo, Cardellini, Lo Presti, ACM TAAS 2023): an
operator that cannot keep up has an infinite response time, which does not affect the next slot.
With queues, unprocessed records wait, and a restart stops the job for a while; then

    W = mean backlog over the slot / records processed per second

is added to the response time (Little's law), with a piecewise linear backlog: it rises while the
job is stopped, and then falls or rises at the rate that is left to the operator. Where a percentile
is bounded (`goals`), the variance of the same quotient over the slot is added to that of the time.
"""

from __future__ import annotations

import numpy as np

from weir_policies.kernels.compiled import compiled
from weir_policies.kernels.percentiles import predict_moments
from weir_policies.kernels.prediction import arrive, capacity_of, predict_one, share_of, water_level
from weir_policies.kernels.steps import total
from weir_policies.kernels.view import AVERAGE, BY_LOAD, View
from weir_policies.model.arrays import Counts, Floats
from weir_simulator.randomness import SPEED, draw_factor
from weir_simulator.state import Goals, Rules, WorldState

NEAR_SATURATION = 0.98
"""Part of what an operator can sustain at which the steady part of its response time is taken when
more arrives: the rest of the time is in the backlog."""


@compiled
def sustain(o: int, truth: View) -> float:
    """Return records/s at which the busiest replica is just always busy."""
    if truth.model[o].sharing == BY_LOAD:
        return capacity_of(o, truth, truth.counts[o])
    _, busiest = predict_one(o, truth, truth.counts[o], 1.0)
    return 1 / busiest


@compiled
def flow_steadily(rate: float, truth: View, state: WorldState) -> None:
    """Fill rates and response times of all operators for a slot in steady state."""
    operators = truth.counts.shape[0]
    for o in range(operators):
        state.rate[o] = rate if state.source[o] else 0.0
        state.offered[o] = state.rate[o]
        state.passed[o] = -1.0
    for edge in range(truth.edges.shape[0]):
        above, below = truth.edges[edge, 0], truth.edges[edge, 1]
        if state.passed[above] < 0:
            capacity = capacity_of(above, truth, truth.counts[above])
            state.passed[above] = min(state.rate[above], capacity)
        state.rate[below] += state.passed[above] * truth.selectivity[edge]
        state.offered[below] += state.offered[above] * truth.selectivity[edge]
    for o in range(operators):
        if state.passed[o] < 0:  # no edge leaves it
            state.passed[o] = min(state.rate[o], capacity_of(o, truth, truth.counts[o]))
        time, _ = predict_one(o, truth, truth.counts[o], state.rate[o])
        state.response[o] = time
        if state.offered[o] != state.rate[o]:
            time, _ = predict_one(o, truth, truth.counts[o], state.offered[o])
        state.offered_response[o] = time


@compiled
def flow_with_queues(
    rate: float, gap: float, rules: Rules, truth: View, state: WorldState, goals: Goals
) -> None:
    """Fill rates, response times and backlogs for a slot that stops for its first `gap` seconds."""
    operators = truth.counts.shape[0]
    for o in range(operators):
        state.rate[o] = rate if state.source[o] else 0.0
        state.passed[o] = -1.0
    for edge in range(truth.edges.shape[0]):
        above, below = truth.edges[edge, 0], truth.edges[edge, 1]
        if state.passed[above] < 0:
            _serve(above, gap, rules, truth, state, goals)
        state.rate[below] += state.passed[above] * truth.selectivity[edge]
    for o in range(operators):
        if state.passed[o] < 0:  # no edge leaves it
            _serve(o, gap, rules, truth, state, goals)
        state.offered[o] = state.rate[o]
        state.offered_response[o] = state.response[o]


@compiled
def _serve(o: int, gap: float, rules: Rules, truth: View, state: WorldState, goals: Goals) -> None:
    """Process a slot at an operator whose rate is known."""
    maximum = sustain(o, truth)
    working = rules.slot - gap
    before = state.backlog[o]
    arrived = state.rate[o] * rules.slot
    processed = min(before + arrived, maximum * working)
    after = before + arrived - processed
    state.backlog[o] = after
    state.passed[o] = processed / rules.slot
    if processed == 0:
        state.response[o] = np.inf if before + arrived > 0 else 0.0
        if rules.ends > 0:
            goals.variance[o] = 0.0  # of an infinite time, none is used
        return
    # What arrives while the job stands still waits at the sources; behind them nothing arrives.
    waiting = before + state.rate[o] * gap if state.source[o] else before
    arriving = state.rate[o] if state.source[o] else arrived / working
    area = gap * (before + waiting) / 2
    emptied = waiting / (maximum - arriving) if maximum > arriving else np.inf
    if emptied < working:
        area += emptied * waiting / 2
    else:
        area += working * (waiting + after) / 2
    rate = min(arriving, NEAR_SATURATION * maximum)
    steady, _ = predict_one(o, truth, truth.counts[o], rate)
    state.response[o] = steady + area / processed
    if rules.ends > 0:
        squares = square_area(before, waiting, gap)
        squares += square_area(waiting, after if emptied >= working else 0.0, min(emptied, working))
        _, variance, _ = predict_moments(o, truth, truth.counts[o], rate)
        waits = rules.slot * squares / processed**2 - (area / processed) ** 2
        goals.variance[o] = variance + max(waits, 0.0)


@compiled
def square_area(begin: float, end: float, seconds: float) -> float:
    """Return the integral of the square of a backlog that changes evenly, records^2 s."""
    return seconds * (begin**2 + begin * end + end**2) / 3


@compiled
def respond(times: Floats, truth: View, state: WorldState) -> float:
    """Return the response time from source to sink, s: the slowest path's sum of `times`."""
    operators = truth.counts.shape[0]
    for o in range(operators):
        state.reach[o] = 0.0  # the slowest path behind the operator
    for edge in range(truth.edges.shape[0] - 1, -1, -1):
        above, below = truth.edges[edge, 0], truth.edges[edge, 1]
        state.reach[above] = max(state.reach[above], times[below] + state.reach[below])
    slowest = 0.0
    for o in range(operators):
        if state.source[o]:
            slowest = max(slowest, times[o] + state.reach[o])
    return slowest


@compiled
def fill_busy(o: int, rate: float, cap: bool, truth: View, view: View) -> float:
    """Write the utilisation per node type into the policy's view; return the greatest.

    Args:
        o: Row of the operator.
        rate: Records/s that arrive.
        cap: Whether utilisation is measured, at most 1, or what the model says.
        truth: The operators as they are.
        view: As the policy sees them.
    """
    counts = truth.counts[o]
    size, speed = 0, 0.0
    for place in range(counts.size):
        size += counts[place]
        speed += counts[place] * truth.speedup[o, place]
    level = water_level(o, truth, counts, rate) if truth.model[o].sharing == BY_LOAD else 0.0
    busiest = 0.0
    for place in range(counts.size):
        busy = 0.0
        if counts[place] > 0:
            share = share_of(o, truth, place, size, speed, rate, level)
            service_mean = truth.model[o].service_mean / truth.speedup[o, place]
            busy = arrive(o, truth, size, rate, share) * service_mean
            if cap:
                busy = min(busy, 1.0)
        view.busy[o, place] = busy
        busiest = max(busiest, busy)
    return busiest


@compiled
def install(o: int, deployment: Counts, rules: Rules, truth: View, state: WorldState) -> None:
    """Give an operator another deployment: the oldest replicas of a node type leave first.

    A resize is seen as a replica of one size leaving and one of another joining.
    """
    joined, factor = truth.joined[o], state.factor[o]
    for place in range(deployment.size):
        leaving = truth.counts[o, place] - deployment[place]
        if leaving > 0:
            kept = 0
            for rank in range(joined.size):
                if joined[rank] == place and leaving > 0:
                    leaving -= 1
                    continue
                joined[kept], factor[kept] = joined[rank], factor[rank]
                kept += 1
            joined[kept:] = -1
    size = 0
    while size < joined.size and joined[size] != -1:
        size += 1
    for place in range(deployment.size):
        for _ in range(deployment[place] - truth.counts[o, place]):
            joined[size] = place
            factor[size] = _draw_speed(o, rules, state)
            size += 1
        truth.counts[o, place] = deployment[place]
    if rules.spread > 0:
        find_speeds(o, truth, state)


@compiled
def replace_lost(o: int, rank: int, rules: Rules, truth: View, state: WorldState) -> None:
    """Replace a lost replica by another of its node type."""
    joined, factor = truth.joined[o], state.factor[o]
    place, size = joined[rank], total(truth.counts[o])
    for other in range(rank, size - 1):
        joined[other], factor[other] = joined[other + 1], factor[other + 1]
    joined[size - 1] = place
    factor[size - 1] = _draw_speed(o, rules, state)
    if rules.spread > 0:
        find_speeds(o, truth, state)


@compiled
def _draw_speed(o: int, rules: Rules, state: WorldState) -> float:
    state.born[o] += 1
    return draw_factor(rules.seed, state.born[o], o, SPEED, rules.spread)


@compiled
def find_speeds(o: int, truth: View, state: WorldState) -> None:
    """Set the speed of each node type from its replicas.

    The slowest counts where the worst replica does and shares are equal, else their mean.
    """
    slowest_counts = truth.model[o].aggregation != AVERAGE and truth.model[o].sharing == 0
    for place in range(truth.counts.shape[1]):
        if truth.counts[o, place] == 0:
            truth.speedup[o, place] = state.nominal[place]
            continue
        minimum, summed = np.inf, 0.0
        for rank in range(truth.joined.shape[1]):
            if truth.joined[o, rank] == place:
                minimum = min(minimum, state.factor[o, rank])
                summed += state.factor[o, rank]
        mean = summed / truth.counts[o, place]
        truth.speedup[o, place] = state.nominal[place] * (minimum if slowest_counts else mean)


@compiled
def first_replicas(o: int, rules: Rules, truth: View, state: WorldState) -> None:
    """Add the replicas of the first deployment, in the order of their node types."""
    size = 0
    for place in range(truth.counts.shape[1]):
        for _ in range(truth.counts[o, place]):
            truth.joined[o, size] = place
            state.factor[o, size] = _draw_speed(o, rules, state)
            size += 1
