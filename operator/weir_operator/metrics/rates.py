"""What one time series says about a window: how much it rose, where it stands.

Rates come from accumulated counters, never from Flink's per-second gauges, which are averages over
Flink's own minute. Each series is judged over its own samples, so TaskManagers that are scraped at
different moments, or that began inside the window, need no common clock. Fewer than two samples
give NaN: nothing is known about a rise from one point.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from operator import le

from weir_operator.metrics.seam import Series


@dataclass(frozen=True, slots=True)
class Rise:
    """How much a counter rose between the first and the last usable sample of a window."""

    amount: float
    seconds: float

    @property
    def rate(self) -> float:
        """Rise per second, NaN where the rise is unknown."""
        return self.amount / self.seconds


UNKNOWN = Rise(math.nan, math.nan)


def counter_rise(series: Series | None) -> Rise:
    """Return the rise of a counter; a fall is a restart of the counter at zero."""
    times, values = _finite(series)
    if len(values) < 2:
        return UNKNOWN
    if all(map(le, values, values[1:])):
        amount = values[-1] - values[0]
    else:
        steps = pairwise(values)
        amount = sum(after - before if after >= before else after for before, after in steps)
    return Rise(amount, times[-1] - times[0])


def settled_rise(series: Series | None) -> Rise:
    """Return the rise of an accumulated time that runs ahead and is set back.

    Flink computes busy time as elapsed minus idle minus back-pressured time, and an idle stretch
    is booked only when it ends or at the next update, every 5 s. So the series can fall without a
    restart (which would begin a new series: the attempt is among its labels). A later, lower
    reading bounds all the earlier ones; what the last reading runs ahead cannot be known, at most
    the idle stretch in progress.

    Source: Flink 2.3, `TaskIOMetricGroup.getAccumulatedBusyTime`, `TimerGauge`.
    """
    times, values = _finite(series)
    if len(values) < 2:
        return UNKNOWN
    return Rise(values[-1] - min(values), times[-1] - times[0])


def slope(series: Series | None) -> float:
    """Return how fast a gauge changed from the first to the last sample, per second."""
    times, values = _finite(series)
    if len(values) < 2:
        return math.nan
    return (values[-1] - values[0]) / (times[-1] - times[0])


def last_value(series: Series | None) -> float:
    """Return the newest finite sample, NaN where there is none."""
    _, values = _finite(series)
    return values[-1] if values else math.nan


def mean_value(series: Series | None) -> float:
    """Return the mean of the finite samples, NaN where there is none."""
    _, values = _finite(series)
    return sum(values) / len(values) if values else math.nan


def is_poisoned(series: Series) -> bool:
    """Tell whether a sample that should be a number is NaN or infinite.

    NaN before the first number is no poison: a task that still restores its state reports it.
    """
    finite = [math.isfinite(value) for value in series.values]
    return True in finite and not all(finite[finite.index(True) :])


def mean(values: Iterable[float]) -> float:
    """Return the mean of the numbers that are not NaN, NaN where there is none."""
    known = [value for value in values if not math.isnan(value)]
    return sum(known) / len(known) if known else math.nan


def ratio(numerator: float, denominator: float) -> float:
    """Return the quotient, NaN where the denominator is zero or NaN."""
    return numerator / denominator if denominator else math.nan


def _finite(series: Series | None) -> tuple[Sequence[float], Sequence[float]]:
    """Times and values of the finite samples."""
    if series is None:
        return (), ()
    if all(map(math.isfinite, series.values)):
        return series.times, series.values
    kept = [
        (time, value)
        for time, value in zip(series.times, series.values, strict=True)
        if math.isfinite(value)
    ]
    return [time for time, _ in kept], [value for _, value in kept]
