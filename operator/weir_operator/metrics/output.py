"""What users of the job saw in a window: records as they arrived at the sinks, over every run.

`measure` looks at one run of the job, so that a decision rests on what runs now. A user does not
care for runs: the interval in which the job was restarted is the one with the gap in it, and its
latecomers are in the next run's counters. Here every run counts.

A counter goes on from where the last window saw it, so nothing falls between two windows. One that
no earlier window saw belongs to a new run or attempt, and began at zero. At the very first look
nothing can be told of before: a counter's own first sample is where it begins.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

from weir_operator.metrics import names
from weir_operator.metrics.rates import counter_rise
from weir_operator.metrics.seam import Series, Window
from weir_operator.metrics.sinks import measure_sinks
from weir_operator.metrics.values import SinkMeasurement

FORGOTTEN_AFTER = 3600.0
"""Seconds after which a counter that sends nothing is taken for gone."""

_LATENCIES = frozenset({names.LATENCY_N, names.LATENCY_US, names.LATENCY_US2, names.LATENCY_BUCKET})

Identity = tuple[str, frozenset[tuple[str, str]]]
"""Name and labels of a series."""
Counted = Mapping[Identity, tuple[float, float]]
"""Time and value of the last sample of every counter that was seen."""


def measure_output(
    window: Window, counted: Counted | None = None
) -> tuple[SinkMeasurement, Counted]:
    """Measure the records that arrived at any sink since the last look.

    Args:
        window: Begins where the last one ended.
        counted: What the last look returned; `None` at the first.

    Returns:
        The measurement, NaN throughout where no sink counts latencies or no record arrived, and
        where the counters stand now.
    """
    latencies = [each for each in window.series if each.name in _LATENCIES]
    joined = [_join(each, window, counted) for each in latencies]
    arrived = [counter_rise(each).amount for each in joined if each.name == names.LATENCY_N]
    output = measure_sinks([], [{each.name: (each,)} for each in joined], worked={})
    length = window.end - window.start
    known = [records for records in arrived if not math.isnan(records)]
    throughput = sum(known) / length if known and length else math.nan
    kept = {
        identity: last
        for identity, last in (counted or {}).items()
        if window.end - last[0] < FORGOTTEN_AFTER
    }
    latest = {_identity(each): (each.times[-1], each.values[-1]) for each in latencies}
    return replace(output, throughput=throughput), kept | latest


def _join(series: Series, window: Window, counted: Counted | None) -> Series:
    """Put in front of a series the sample that it goes on from."""
    if counted is None:
        return series
    time, value = counted.get(_identity(series), (window.start, 0.0))
    if time >= series.times[0]:
        return series
    return replace(series, times=(time, *series.times), values=(value, *series.values))


def _identity(series: Series) -> Identity:
    return series.name, frozenset(series.labels.items())
