"""Arrival traces as values: how many records/s arrive, slot by slot.

A trace is a one-dimensional array of rates in records/s, finite and not negative, one entry per
slot of time. How long a slot lasts (one minute in the published traces) is its user's business:
nothing here depends on it. Functions take a trace and return a new one; files are the business of
`trace_files`, making traces up that of `trace_synthesis`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from weir_simulator.errors import TraceError

Trace = NDArray[np.float64]
"""Records/s per slot, shape `(n,)`, n >= 1."""

QUANTILES = (0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99, 0.999)
LAGS = (1, 10, 60, 1440, 10080)
"""Slots; with slots of a minute: a minute, ten, an hour, a day, a week."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TraceStatistics:
    """What a trace looks like; rates in records/s."""

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
            f"Slot {slot} holds {trace[slot]:g}; give a finite number of records/s, 0 or more"
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
            f"start {start} and slots {slots} leave the trace, which has {trace.size}; "
            f"give a start from 0 to {trace.size - slots} or fewer slots"
        )
    return trace[start : start + slots].copy()


def scale(trace: Trace, *, factor: float) -> Trace:
    """Return the trace with every rate multiplied.

    Raises:
        TraceError: The factor is not a finite number above 0.
    """
    if not (np.isfinite(factor) and factor > 0):
        raise TraceError(f"factor is {factor:g}; give a finite number above 0")
    return as_trace(trace * factor)


def scale_to_mean(trace: Trace, *, mean: float) -> Trace:
    """Return the trace, multiplied so that its mean is `mean` records/s.

    Raises:
        TraceError: The mean is not a finite number above 0, or the trace is all zero.
    """
    return scale(trace, factor=_ratio("mean", mean, float(trace.mean())))


def scale_to_maximum(trace: Trace, *, maximum: float) -> Trace:
    """Return the trace, multiplied so that its highest rate is `maximum` records/s.

    Raises:
        TraceError: The maximum is not a finite number above 0, or the trace is all zero.
    """
    return scale(trace, factor=_ratio("maximum", maximum, float(trace.max())))


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


def _ratio(name: str, wanted: float, present: float) -> float:
    if not (np.isfinite(wanted) and wanted > 0):
        raise TraceError(f"{name} is {wanted:g}; give a finite number of records/s above 0")
    if present == 0:
        raise TraceError(f"Every slot is 0, so no factor gives a {name} of {wanted:g}")
    return wanted / present
