"""Daedalus: the smallest scale-out that carries the forecast and recovers in time.

In each interval, the knowledge is brought up to date:

    capacity  = intercept + slope x (1 - (busiest - mean)), per replica, of a regression of what a
                replica processed over how busy it was; at a number of replicas that was in use it
                is what was found then (half of each new finding), elsewhere in proportion
    forecast  = the rate of the next 15 min, ARIMA; where its last forecast was 25 % off or more, a
                line through the last rates for the next 10 min
    recovery  = the downtime, and the time until the spare capacity has worked off what came in it,
                what came since the last checkpoint, and the backlog

Then the smallest number of replicas is taken whose capacity is above the present rate, with a
recovery of 10 min at most, and a capacity that is enough for the forecast until it has recovered;
and, if it is not the present number, for all of the forecast, so that the change lasts. Where there
is none, it is the largest. Nothing is changed within 3 min of a change, nor within 10 min if the
present capacity is above the rate and the forecast of the next interval.

Source: Pfister, Scheinert, Geldenhuys, Kao, "Daedalus: Self-Adaptive Horizontal Autoscaling for
Resource Efficiency of Distributed Stream Processing Systems", ICPE 2024, and the authors' program,
pfisterb/daedalus: `capacity.py`, `forecasting.py`, `recovery_time.py`, `execution_manager.py`.
Departures:
1. Daedalus scales a whole job; here each operator is scaled as if it were one. The mix of node
   types stays as it is, see `kernels.enumeration`.
2. It has a measurement per second and a regression per worker. Weir has one per interval, and one
   throughput per operator: one regression for all replicas. Before it rests on 60 measurements, as
   theirs does after a minute, the capacity is throughput over busy share.
3. Busy time stands for CPU time.
4. Orders of the ARIMA model are searched for by a library there. Here it is ARIMA(p, 1, 0), p at
   most 5 and chosen by AIC, from Yule-Walker estimates over everything seen, so that it need not be
   trained again when it fails.
5. The line goes through the last 10 intervals, there through the last 60 s of measurements.
6. How long it took to recover is known to an interval; there, anomalies of the throughput are
   looked for. Recovered is an operator before which no more waits than arrives in a second.
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
from weir_policies.kernels.fields import Fields, array
from weir_policies.kernels.policy import Algorithm
from weir_policies.kernels.steps import choose_action, find_action, total
from weir_policies.kernels.view import Memory, View
from weir_policies.kernels.wording import format_rate
from weir_policies.model.arrays import Floats
from weir_policies.model.node_types import Deployment
from weir_policies.parameters import PolicyParameters, read_parameters, setting
from weir_policies.policy import Decision, Observation

STAY = 0
ORDER = 5
"""The largest p of the ARIMA model."""
STEPS = 90
"""Intervals that a forecast has room for: 15 min of 10 s."""
LINE = 10
"""Intervals that the line goes through."""
LINE_HORIZON = 600.0
"""Seconds that it is continued for."""
TRUSTED = 0.25
"""Relative error of the last forecast from which on the line takes its place."""
ENOUGH = 60
"""Measurements of a regression."""
WARM_UP = 120.0
"""Seconds after a change whose throughput is not learned from."""


class DaedalusMemory(Fields):
    """Settings of `daedalus`, and its knowledge."""

    target_recovery: float
    grace: float
    minimum: float
    horizon: float
    checkpoint: float
    up_downtime: float
    """Seconds, learned, as the next."""
    down_downtime: float
    since: float
    """Seconds since the last change."""
    predicted: float
    """Recovery time of the last change, s; 0 where none is watched."""
    direction: int
    """Of the last change: 1 is up, -1 down."""
    measured: int
    """Measurements of the regression."""
    mean_busy: float
    mean_done: float
    """Records/s of a replica."""
    spread: float
    """Sum of squares of the busy share about its mean."""
    shared: float
    """Sum of products of both about their means."""
    each: float
    """Capacity of a replica of the present ones, records/s; 0 where it is unknown."""
    sizes: int
    """Most replicas."""
    found: Floats = array("sizes")
    """Capacity found at each number of replicas, records/s; 0 where there were never so many."""
    rates: int
    """How many rates were seen."""
    line: Floats = array(10)
    """The last of them, `LINE`, in a ring."""
    differences: int
    """Differences between rates that the model rests on."""
    lags: Floats = array(5)
    """The last of them, `ORDER`, the newest first."""
    products: Floats = array(6)
    """Sums of products of differences that are so many intervals apart."""
    weights: Floats = array(5)
    """Of the model, and room for the next three."""
    chosen: Floats = array(5)
    former: Floats = array(5)
    expected: float
    """What the model forecast for the next interval, records/s; NaN where it did not."""
    steps: int
    """Intervals that the forecast covers."""
    forecast: Floats = array(90)
    """Records/s in each of the next `STEPS`."""


@dataclass(frozen=True, kw_only=True, slots=True)
class DaedalusParameters(PolicyParameters):
    """Settings of `daedalus`; the defaults are those of the authors' program.

    Raises:
        ParameterError: One is out of its range.
    """

    target_recovery: float = setting(600.0, low=0, low_allowed=False)
    """Seconds that recovering from a change may take."""
    grace: float = setting(180.0, low=0)
    """Seconds after a change in which nothing is changed."""
    minimum: float = setting(600.0, low=0)
    """Seconds after a change in which only what is needed at once is changed."""
    horizon: float = setting(900.0, low=0, low_allowed=False)
    """Seconds that are forecast."""
    checkpoint: float = setting(10.0, low=0)
    """Seconds between two checkpoints: what came since the last one is done again."""
    up_downtime: float = setting(30.0, low=0)
    """Seconds that adding replicas is thought to stop the operator at first."""
    down_downtime: float = setting(15.0, low=0)
    """Seconds that removing some does."""


def define(values: Mapping[str, Any], *, name: str) -> Algorithm:
    """Return the algorithm registered as `daedalus`, its parameters bound."""
    parameters = read_parameters(DaedalusParameters, values, policy=name)
    return Algorithm(
        prepare=partial(_prepare, parameters),
        learn=learn,
        decide=decide,
        explain=_explain,
        needed=("processed", "backlog"),
    )


def _prepare(parameters: DaedalusParameters, view: View, ticks: int) -> Memory:
    return DaedalusMemory.allocate(
        view,
        target_recovery=parameters.target_recovery,
        grace=parameters.grace,
        minimum=parameters.minimum,
        horizon=parameters.horizon,
        checkpoint=parameters.checkpoint,
        up_downtime=parameters.up_downtime,
        down_downtime=parameters.down_downtime,
        since=parameters.grace,
        sizes=view.model["max_replicas"],
        expected=np.nan,
    )


# Capacity ----------------------------------------------------------------------------------------


@compiled
def measure(o: int, view: View, own: DaedalusMemory) -> None:
    """Add the interval to the regression."""
    seen, size, busy = view.seen[o], total(view.counts[o]), 0.0
    for place in range(view.counts.shape[1]):
        busy += view.counts[o, place] * view.busy[o, place] / size
    # Busy for more than all of the time is what a model says of all that arrives, done or not.
    done = (seen.rate if seen.busiest > 1 else seen.processed) / size
    own.measured += 1
    off_busy, off_done = busy - own.mean_busy, done - own.mean_done
    own.mean_busy += off_busy / own.measured
    own.mean_done += off_done / own.measured
    own.spread += off_busy * (busy - own.mean_busy)
    own.shared += off_busy * (done - own.mean_done)
    if own.mean_busy <= 0:
        return
    most = 1 - (seen.busiest - busy)
    if own.measured < ENOUGH or own.spread <= 0:
        own.each = max(own.mean_done / own.mean_busy * most, 0.0)
    else:
        own.each = max(own.mean_done + own.shared / own.spread * (most - own.mean_busy), 0.0)
    found = own.found
    if found[size - 1] == 0:
        found[size - 1] = own.each * size
    else:
        found[size - 1] = (found[size - 1] + own.each * size) / 2


@compiled
def capacity_at(own: DaedalusMemory, size: int) -> float:
    """Return what so many replicas can process, records/s."""
    found = own.found
    return found[size - 1] if found[size - 1] > 0 else size * own.each


# Forecast ----------------------------------------------------------------------------------------


@compiled
def fit_model(own: DaedalusMemory) -> None:
    """Choose the weights of the differences: Levinson's recursion, the order of least AIC."""
    products, weights, chosen, former = own.products, own.weights, own.chosen, own.former
    weights[:] = 0.0
    chosen[:] = 0.0
    error = products[0]
    if error <= 0:
        return
    least = own.differences * np.log(error)
    for order in range(1, min(ORDER, own.differences - 1) + 1):
        left = products[order]
        for lag in range(1, order):
            left -= weights[lag - 1] * products[order - lag]
        reflection = left / error
        for lag in range(order):
            former[lag] = weights[lag]
        for lag in range(1, order):
            weights[lag - 1] = former[lag - 1] - reflection * former[order - lag - 1]
        weights[order - 1] = reflection
        error *= 1 - reflection * reflection
        if error <= 0:
            return
        criterion = own.differences * np.log(error) + 2 * order
        if criterion < least:
            least = criterion
            for lag in range(ORDER):
                chosen[lag] = weights[lag] if lag < order else 0.0


@compiled
def forecast_by_model(own: DaedalusMemory, rate: float) -> None:
    """Write the model's forecast."""
    forecast, rolled, chosen = own.forecast, own.former, own.chosen
    for lag in range(ORDER):
        rolled[lag] = own.lags[lag]
    level = rate
    for step in range(own.steps):
        change = 0.0
        for lag in range(ORDER):
            change += chosen[lag] * rolled[lag]
        for lag in range(ORDER - 1, 0, -1):
            rolled[lag] = rolled[lag - 1]
        rolled[0] = change
        level += change
        forecast[step] = max(level, 0.0)


@compiled
def forecast_by_line(own: DaedalusMemory) -> None:
    """Write the forecast of the line through the last rates."""
    forecast, line = own.forecast, own.line
    held = min(own.rates, LINE)
    middle, mean = (held - 1) / 2, 0.0
    for age in range(held):
        mean += line[(own.rates - held + age) % LINE] / held
    rise, spread = 0.0, 0.0
    for age in range(held):
        rise += (age - middle) * (line[(own.rates - held + age) % LINE] - mean)
        spread += (age - middle) ** 2
    slope = rise / spread if spread > 0 else 0.0
    for step in range(own.steps):
        forecast[step] = max(mean + slope * (held + step - middle), 0.0)


@compiled
def count_steps(seconds: float, interval: float) -> int:
    """Return how many intervals cover a time, at least one and as many as there is room for."""
    return int(min(max(np.ceil(seconds / interval), 1.0), STEPS))


@compiled
def look_ahead(o: int, view: View, own: DaedalusMemory) -> None:
    """Learn from the rate, and forecast the next ones."""
    seen, line, lags, products = view.seen[o], own.line, own.lags, own.products
    if own.rates > 0:
        change = seen.rate - line[(own.rates - 1) % LINE]
        products[0] += change * change
        for lag in range(1, ORDER + 1):
            products[lag] += change * lags[lag - 1]
        for lag in range(ORDER - 1, 0, -1):
            lags[lag] = lags[lag - 1]
        lags[0] = change
        own.differences += 1
    line[own.rates % LINE] = seen.rate
    own.rates += 1
    trusted = abs(own.expected - seen.rate) < TRUSTED * seen.rate  # False where there was none
    fit_model(own)
    own.steps = count_steps(own.horizon, seen.interval)
    forecast_by_model(own, seen.rate)
    own.expected = own.forecast[0]
    if not trusted:
        own.steps = count_steps(min(own.horizon, LINE_HORIZON), seen.interval)
        forecast_by_line(own)


@compiled
def highest_rate(own: DaedalusMemory, seconds: float, interval: float) -> float:
    """Return the highest rate that is forecast for a time, records/s."""
    highest = 0.0
    for step in range(min(count_steps(seconds, interval), own.steps)):
        highest = max(highest, own.forecast[step])
    return highest


# Recovery ----------------------------------------------------------------------------------------


@compiled
def find_recovery(
    own: DaedalusMemory,
    rate: float,
    backlog: float,
    capacity: float,
    downtime: float,
    interval: float,
) -> float:
    """Return the seconds until what waits is worked off; infinite beyond the forecast."""
    waiting = own.checkpoint * rate + backlog
    for step in range(own.steps):
        begin, arriving = step * interval, own.forecast[step]
        stopped = min(max(downtime - begin, 0.0), interval)
        waiting += stopped * arriving
        spare = max(capacity - arriving, 0.0)
        if stopped < interval and waiting <= spare * (interval - stopped):
            return begin + stopped + (waiting / spare if spare > 0 else 0.0)
        waiting -= spare * (interval - stopped)
    return np.inf


@compiled
def watch_recovery(o: int, view: View, own: DaedalusMemory) -> None:
    """Predict how long the change that was just made takes, before anything is learned."""
    before, size = view.before[o], total(view.counts[o])
    own.direction = 1 if size > total(view.counts_before[o]) else -1
    downtime = own.up_downtime if own.direction > 0 else own.down_downtime
    recovery = find_recovery(
        own, before.rate, before.backlog, capacity_at(own, size), downtime, before.interval
    )
    own.predicted = recovery if recovery < np.inf else 0.0


@compiled
def learn_downtime(o: int, view: View, own: DaedalusMemory) -> None:
    """Correct the downtime by a second where recovering took longer or shorter than predicted."""
    seen = view.seen[o]
    if own.predicted == 0 or seen.backlog > seen.rate:
        return
    off = own.since - np.ceil(own.predicted / seen.interval) * seen.interval
    change = 0.0
    if abs(off) >= seen.interval / 2:
        change = 1.0 if off > 0 else -1.0
    if own.direction > 0:
        own.up_downtime = max(own.up_downtime + change, 0.0)
    else:
        own.down_downtime = max(own.down_downtime + change, 0.0)
    own.predicted = 0.0


# The policy --------------------------------------------------------------------------------------


@compiled
def learn(o: int, view: View, memory: Memory) -> None:
    """Bring the knowledge up to date."""
    own = DaedalusMemory(memory[o])
    if find_action(view.counts_before[o], view.counts[o]) != STAY:
        watch_recovery(o, view, own)
        own.since = 0.0
    own.since += view.seen[o].interval
    learn_downtime(o, view, own)
    if own.since > WARM_UP and total(view.counts[o]) > 0:
        measure(o, view, own)
    look_ahead(o, view, own)


@compiled
def find_scale_out(o: int, view: View, own: DaedalusMemory) -> int:
    """Return the number of replicas to go to; the present one where nothing is to change."""
    seen, size, interval = view.seen[o], total(view.counts[o]), view.seen[o].interval
    if size == 0:
        return 1
    if own.since < own.grace or own.each == 0 or own.steps == 0:
        return size
    here, horizon = capacity_at(own, size), own.steps * interval
    if own.since < own.minimum and here > max(seen.rate, highest_rate(own, 0.0, interval)):
        return size
    for wanted in range(1, view.model[o].max_replicas + 1):
        capacity = capacity_at(own, wanted)
        if capacity <= seen.rate:
            continue
        downtime = own.down_downtime if wanted < size else own.up_downtime
        recovery = find_recovery(own, seen.rate, seen.backlog, capacity, downtime, interval)
        if recovery > own.target_recovery:
            continue
        if capacity < highest_rate(own, recovery, interval):
            continue
        if wanted == size:
            return size
        if wanted < size and here < seen.backlog:
            continue
        if capacity > highest_rate(own, horizon, interval):
            return wanted
    return view.model[o].max_replicas


@compiled
def decide(o: int, view: View, memory: Memory) -> None:
    """Go to the smallest scale-out that carries the forecast and recovers in time."""
    wanted = find_scale_out(o, view, DaedalusMemory(memory[o]))
    if wanted == total(view.counts[o]):
        choose_action(o, view, STAY)
    else:
        scale_mix(o, view, wanted, False)


def _explain(observation: Observation, target: Deployment, view: View, memory: Memory) -> Decision:
    own = DaedalusMemory(memory[0])
    if own.each == 0:
        return explain_rule(observation, target, "the capacity of a replica is not known yet")
    if own.since < own.grace:
        reason = (
            f"{own.since / 60:.0f} of the {own.grace / 60:.0f} min after a change have passed in "
            "which the policy changes nothing"
        )
        return explain_rule(observation, target, reason)
    seconds = own.steps * observation.interval
    highest = max(highest_rate(own, seconds, observation.interval), observation.rate)
    size = max(observation.deployment.size, 1)
    reason = (
        f"up to {format_rate(highest)} are forecast for {seconds / 60:.0f} min, and {size} "
        f"replica{'s' if size > 1 else ''} could process {format_rate(capacity_at(own, size))}"
    )
    wanted = find_scale_out(0, view, own)
    if target.size < wanted:
        reason += f"; {wanted} are needed, but there is room for only {target.size}"
    return explain_rule(observation, target, reason)
