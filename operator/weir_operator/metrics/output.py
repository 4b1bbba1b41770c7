"""What users of the job saw in a window: records as they arrived at the sinks, over every run.

`measure` looks at one run of the job, so that a decision rests on what runs now. A user does not
care for runs: the interval in which the job was restarted is the one with the gap in it, and its
latecomers are in the next run's counters. Here every run counts, and a counter that begins inside
the window began at zero.
"""

from __future__ import annotations

import math
from dataclasses import replace

from weir_operator.metrics import names
from weir_operator.metrics.rates import counter_rise
from weir_operator.metrics.seam import Series, Window
from weir_operator.metrics.sinks import measure_sinks
from weir_operator.metrics.values import SinkMeasurement

_LATENCIES = frozenset({names.LATENCY_N, names.LATENCY_US, names.LATENCY_US2, names.LATENCY_BUCKET})

FIRST_SAMPLE_WITHIN = 3.0
"""Seconds after the window's start within which an older series must have been scraped; twice the
direct source's period and some."""


def measure_output(window: Window) -> SinkMeasurement:
    """Measure the records that arrived at any sink inside the window.

    Returns:
        NaN throughout where no sink counts latencies, or no record arrived.
    """
    counted = [_from_zero(each, window) for each in window.series if each.name in _LATENCIES]
    arrived = [counter_rise(each).amount for each in counted if each.name == names.LATENCY_N]
    output = measure_sinks([], [{each.name: (each,)} for each in counted])
    length = window.end - window.start
    known = [records for records in arrived if not math.isnan(records)]
    return replace(output, throughput=sum(known) / length if known and length else math.nan)


def _from_zero(series: Series, window: Window) -> Series:
    """Let a counter that began inside the window begin at zero, as Flink's counters do."""
    first = series.times[0]
    if first - window.start <= FIRST_SAMPLE_WITHIN:
        return series
    return replace(series, times=(window.start, *series.times), values=(0.0, *series.values))
