"""Arrival traces as values: how many records/s arrive, slot by slot.

A trace is a one-dimensional array of rates in records/s, finite and not negative, one entry per
slot of time. Nothing here depends on how long a slot lasts (one minute in the published traces).
Functions take a trace and return a new one; `read_trace` reads files, `synthesise_trace` generates
traces.

On disk a trace is plain text: one number per line, one line per slot.

Without the real traces, similar ones can be generated. Each has slots of one minute, begins at
midnight of the real one's first day, and is calibrated on published statistics: means by hour and
weekday, standard deviation, autocorrelation, mean step, share of empty slots. A trace shorter than
the real one is its beginning, so its own statistics may differ; rates are whole records/s.

`taxi`: New York taxi trips per minute over a year. Minute to minute it is a Poisson count, which
alone gives the published step and lag-1 autocorrelation. The means by hour and by weekday
multiply; the nights before Saturday and Sunday last three hours longer, and working days make up
for it so that the means by hour stay as published. Weather and season are a slow factor.

`tweets`: tweets on COVID-19, first half of 2020. A rate that grows over half a year and is nearly
flat over the day, collected through windows of 15 minutes: for the first months a window fills up
and nothing comes until the next one, later on only ripples remain. The fill of three windows in
turn, the drift of their phase and the days' noise were searched for until the published statistics
came out.

Source of the statistics: the traces published with the simulator of Russo Russo, Cardellini, Lo
Presti, ACM TAAS 2023.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import assert_never

import numpy as np
from numpy.typing import ArrayLike, NDArray

from weir_simulator.errors import TraceError
from weir_simulator.whole_files import write_whole

Trace = NDArray[np.float64]
"""Records/s per slot, shape `(n,)`, n >= 1."""

QUANTILES = (0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99, 0.999)
LAGS = (1, 10, 60, 1440, 10080)
"""Slots; with slots of a minute: a minute, ten, an hour, a day, a week."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TraceStatistics:
    """Statistics of a trace; rates in records/s."""

    slots: int
    mean: float
    standard_deviation: float
    minimum: float
    quantiles: Mapping[float, float]
    """Rate by probability, for each of `QUANTILES`."""
    maximum: float
    autocorrelations: Mapping[int, float]
    """By lag in slots, for those of `LAGS` that are shorter than the trace; NaN where every slot
    is equal."""
    mean_step: float
    """Mean absolute difference of neighbouring slots: how bursty the trace is; 0 for one slot."""
    zero_share: float
    """Share of the slots without any arrival, in [0, 1]."""


def as_trace(values: ArrayLike) -> Trace:
    """Return the values as a trace.

    Raises:
        TraceError: There are none, or one is not a finite number >= 0.
    """
    trace = np.asarray(values, dtype=np.float64)
    if trace.ndim != 1 or trace.size == 0:
        raise TraceError(f"Expected a trace of shape (n,) with n >= 1, got shape {trace.shape}")
    wrong = np.flatnonzero(~(np.isfinite(trace) & (trace >= 0)))
    if wrong.size:
        slot = int(wrong[0])
        raise TraceError(
            f"Slot {slot} is {trace[slot]:g}; give a finite number of records/s, 0 or more"
        )
    return trace


def describe(trace: Trace) -> TraceStatistics:
    """Return the statistics of a trace."""
    return TraceStatistics(
        slots=trace.size,
        mean=float(trace.mean()),
        standard_deviation=float(trace.std()),
        minimum=float(trace.min()),
        quantiles=dict(zip(QUANTILES, np.quantile(trace, QUANTILES).tolist(), strict=True)),
        maximum=float(trace.max()),
        autocorrelations={lag: autocorrelation(trace, lag) for lag in LAGS if lag < trace.size},
        mean_step=float(np.abs(np.diff(trace)).mean()) if trace.size > 1 else 0.0,
        zero_share=float((trace == 0).mean()),
    )


def autocorrelation(trace: Trace, lag: int) -> float:
    """Return the correlation of the trace with itself `lag` slots later.

    Both halves are centred on the mean of the whole trace, as is usual for a stationary series.

    Raises:
        TraceError: The lag is not in [1, n).
    """
    if not 1 <= lag < trace.size:
        raise TraceError(f"lag is {lag}; give one from 1 to {trace.size - 1}, the slots less one")
    centred = trace - trace.mean()
    variance = float((centred**2).mean())
    if variance == 0:
        return float("nan")
    return float((centred[lag:] * centred[:-lag]).mean()) / variance


def cut(trace: Trace, *, start: int, slots: int) -> Trace:
    """Return `slots` slots from `start` on, the first being 0.

    Raises:
        TraceError: The stretch is empty or leaves the trace.
    """
    if not 1 <= slots <= trace.size:
        raise TraceError(f"slots is {slots}; give 1 to {trace.size}, as many as the trace has")
    if start < 0 or start + slots > trace.size:
        raise TraceError(
            f"start {start} and slots {slots} exceed the trace, which has "
            f"{trace.size}; give a start from 0 to {trace.size - slots} or fewer slots"
        )
    return trace[start : start + slots].copy()


def scale_to_maximum(trace: Trace, *, maximum: float) -> Trace:
    """Return the trace, multiplied so that its highest rate is `maximum` records/s.

    Raises:
        TraceError: The maximum is not a finite number above 0, or the trace is all zero.
    """
    if not (np.isfinite(maximum) and maximum > 0):
        raise TraceError(f"maximum is {maximum:g}; give a finite number of records/s above 0")
    if not trace.any():
        raise TraceError("Every slot is 0: no factor gives another maximum")
    return as_trace(trace * (maximum / float(trace.max())))


def compress(trace: Trace, *, slots: int) -> Trace:
    """Return the trace with each group of `slots` slots replaced by its average.

    Slots that do not fill a last group are dropped: an average over fewer would be noisier.

    Raises:
        TraceError: There is no full group.
    """
    if not 1 <= slots <= trace.size:
        raise TraceError(f"slots is {slots}; give a group size from 1 to {trace.size}")
    groups = trace.size // slots
    return np.asarray(trace[: groups * slots].reshape(groups, slots).mean(axis=1))


def read_trace(path: Path) -> Trace:
    """Read a trace.

    Raises:
        TraceError: The file cannot be read, has no lines, or one of them is not a finite number
            >= 0; the message names file, line and content.
    """
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()  # editors put marks
    except OSError as error:
        raise TraceError(f"Trace {path} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise TraceError(f"Trace {path} is not text; give one number per line") from error
    if not lines:
        raise TraceError(f"Trace {path} is empty; give one number per line, one line per slot")
    try:
        return as_trace(np.array(lines, dtype=np.float64))
    except (ValueError, TraceError):
        # The fast way does not know the line: look for it one by one.
        for number, line in enumerate(lines, start=1):
            _refuse_wrong(path, number, line)
        raise


def write_trace(path: Path, trace: Trace) -> None:
    """Write a trace so that reading it gives the same numbers, replacing the file at once.

    Raises:
        TraceError: The file cannot be written; what was there before is left as it was.
    """
    # `repr` is the shortest text that reads back exactly; integers are written as such.
    text = "".join(f"{value!r}\n".replace(".0\n", "\n") for value in trace.tolist())
    try:
        write_whole(path, text, shared=True)
    except OSError as error:
        raise TraceError(f"Trace {path} cannot be written: {error.strerror}") from error


def _refuse_wrong(path: Path, number: int, line: str) -> None:
    try:
        as_trace([float(line)])
    except (ValueError, TraceError) as error:
        raise TraceError(
            f"Trace {path}, line {number}: {_shortened(line)!r} is not a rate; "
            "give one finite number of records/s, 0 or more, per line"
        ) from error


def _shortened(line: str) -> str:
    return line if len(line) <= 40 else f"{line[:37]}..."


_DAY = 1440  # slots

# Taxi -------------------------------------------------------------------------------------------

_TAXI_HOURS = np.array([
    216.0, 156.0, 117.0, 89.0, 132.0, 216.0, 293.0, 345.0, 358.0, 365.0, 381.0, 377.0,
    389.0, 382.0, 342.0, 360.0, 433.0, 478.0, 480.0, 474.0, 457.0, 422.0, 363.0, 285.0,
])  # fmt: skip
"""Published mean rate by hour, records/s, shape `(24,)`."""
_TAXI_WEEKDAYS = np.array([326, 336, 346, 360, 351, 288, 300], dtype=np.float64)
"""Published mean rate by day, the first day (a Tuesday) first, shape `(7,)`."""
_TAXI_WEEKEND = (4, 5)
"""Saturday and Sunday among them: the days around the highest and the lowest mean."""
_TAXI_DELAY = 3
"""Hours by which the weekend's day runs later; gives the published 1 % and 5 % quantiles."""
_TAXI_SLOW_DEVIATION = 0.1
_TAXI_SLOW_SLOTS = 2 * _DAY
"""Relative deviation and memory of the slow factor; give the autocorrelation at one week."""

# Tweets -----------------------------------------------------------------------------------------

_TWEETS_SWING, _TWEETS_PEAK = 0.1, 500
"""Half of the published range of the means by hour, relative to their mean, and the slot of the
day at which they are highest, 08:20."""
_TWEETS_DAYS = 169
"""Length of the real trace; the growth and the change of the windows take place over it."""
_TWEETS_FIRST, _TWEETS_LAST = 850.0, 3800.0
"""Mean rate of its first and last day, records/s."""
_TWEETS_DAY_DEVIATION, _TWEETS_DAY_MEMORY = 0.25, 4.0
"""Relative deviation of a day and over how many days it is forgotten."""
_TWEETS_WINDOW = 15
_TWEETS_FILLS = ((11, 0.8), (8, 1.75), (12, 1.65))
"""Slots until a window is full and the relative rate until then, for three windows in turn."""
_TWEETS_DRIFT = 1.7
"""Deviation of the phase after three windows, slots."""
_TWEETS_FULL_SHARE = 0.61
"""Share of the days in which a full window stops the collection."""
_TWEETS_RIPPLE = 0.06
"""What is left of the windows' shape afterwards."""
_TWEETS_NOISE = 0.05
"""Relative deviation of a slot."""
_TWEETS_REST = 0.8
"""Records/s that trickle in while a window is full: most such slots are empty."""


class TraceKind(StrEnum):
    """Which published trace to imitate."""

    TAXI = "taxi"
    """A strong daily and weekly rhythm, smooth from minute to minute."""
    TWEETS = "tweets"
    """No rhythm of the day, bursts and empty slots."""


def synthesise(kind: TraceKind, *, slots: int, rng: np.random.Generator) -> Trace:
    """Make up a trace, shape `(slots,)`.

    Raises:
        TraceError: `slots` is below 1.
    """
    if slots < 1:
        raise TraceError(f"slots is {slots}; give 1 or more")
    match kind:
        case TraceKind.TAXI:
            rate = _taxi_rate(slots, rng)
        case TraceKind.TWEETS:
            rate = _tweets_rate(slots, rng)
        case _:
            assert_never(kind)
    return rng.poisson(rate).astype(np.float64)


def _taxi_rate(slots: int, rng: np.random.Generator) -> Trace:
    slot = np.arange(slots)
    weekday = slot // _DAY % 7
    late = np.roll(_TAXI_HOURS, _TAXI_DELAY)
    # Five working days and two late ones have to give the published mean of every hour.
    early = (7 * _TAXI_HOURS - 2 * late) / 5
    by_hour = np.where(
        np.isin(weekday, _TAXI_WEEKEND), _by_time_of_day(late, slot), _by_time_of_day(early, slot)
    )
    by_day: Trace = (_TAXI_WEEKDAYS / _TAXI_WEEKDAYS.mean())[weekday]
    return by_hour * by_day * _slow_factor(slots, _TAXI_SLOW_DEVIATION, _TAXI_SLOW_SLOTS, rng)


def _tweets_rate(slots: int, rng: np.random.Generator) -> Trace:
    slot = np.arange(slots)
    days = slots // _DAY + 1
    age = np.minimum(np.arange(days) / _TWEETS_DAYS, 1.0)  # 1 from the real trace's end on
    level = _TWEETS_FIRST + (_TWEETS_LAST - _TWEETS_FIRST) * age
    level *= _slow_factor(days, _TWEETS_DAY_DEVIATION, _TWEETS_DAY_MEMORY, rng)
    depth = np.where(age < _TWEETS_FULL_SHARE, 1.0, _TWEETS_RIPPLE)

    day = slot // _DAY
    windows = 1 - depth[day] + depth[day] * _window_factor(slots, rng)
    by_hour = 1 + _TWEETS_SWING * np.cos(2 * np.pi * (slot - _TWEETS_PEAK) / _DAY)
    noise = np.exp(rng.normal(0.0, _TWEETS_NOISE, slots))
    return level[day] * by_hour * windows * noise + _TWEETS_REST


def _window_factor(slots: int, rng: np.random.Generator) -> Trace:
    """Return the shape of the collection's windows over time, mean 1, shape `(slots,)`."""
    shape = np.zeros(len(_TWEETS_FILLS) * _TWEETS_WINDOW)
    for window, (filled_after, relative_rate) in enumerate(_TWEETS_FILLS):
        start = window * _TWEETS_WINDOW
        shape[start : start + filled_after] = relative_rate
    shape /= shape.mean()

    turns = np.arange(slots // shape.size + 2) * shape.size
    drift = np.cumsum(rng.normal(0.0, _TWEETS_DRIFT, turns.size))
    phase = np.interp(np.arange(slots), turns, turns + drift)
    return np.interp(phase, np.arange(shape.size), shape, period=shape.size)


def _by_time_of_day(hours: Trace, slot: np.ndarray) -> Trace:
    """Return the value at each slot, interpolated between the middles of the hours."""
    return np.interp(slot % _DAY / 60, np.arange(24) + 0.5, hours, period=24)


def _slow_factor(steps: int, deviation: float, memory: float, rng: np.random.Generator) -> Trace:
    """Return a random factor of mean 1 that forgets over `memory` steps, shape `(steps,)`.

    The exponential of a stationary first-order autoregression, whose lognormal mean is taken out.
    """
    keep = float(np.exp(-1 / memory))
    shocks = rng.normal(0.0, deviation * np.sqrt(1 - keep**2), steps)
    shocks[0] = rng.normal(0.0, deviation)  # begins as it goes on, not at 0
    # A plain loop takes 0.04 s for 400,000 steps, and scipy.signal 0.5 s and 50 MiB to be imported.
    states = itertools.accumulate(shocks.tolist(), lambda state, shock: keep * state + shock)
    return np.exp(np.fromiter(states, np.float64, steps) - deviation**2 / 2)
