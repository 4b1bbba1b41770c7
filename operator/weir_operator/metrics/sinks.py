"""Source to sink: what the helper's latency counters at the sinks say, or the markers."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from weir_operator.metrics import names
from weir_operator.metrics.histogram import bound_of, quantile
from weir_operator.metrics.rates import counter_rise, ratio
from weir_operator.metrics.replica import MS, US
from weir_operator.metrics.response import marker_age
from weir_operator.metrics.scope import Scope
from weir_operator.metrics.values import OperatorMeasurement, ResponseFrom, SinkMeasurement


def measure_sinks(
    sinks: Sequence[OperatorMeasurement], scopes: Sequence[Scope], *, worked: Mapping[str, float]
) -> SinkMeasurement:
    """Measure one sink, or several as one.

    Args:
        sinks: The operators that end the dataflow; asked only where no helper counts latencies.
        scopes: The series of all their replicas.
        worked: Mean work done on a record before it reaches each of the sinks, seconds.
    """
    n = _risen(scopes, names.LATENCY_N)
    if math.isnan(n):
        return _by_markers(sinks, scopes, worked)
    mean = ratio(_risen(scopes, names.LATENCY_US) * US, n)
    square = ratio(_risen(scopes, names.LATENCY_US2) * US * US, n)
    buckets = _buckets(scopes)
    counts = {math.inf: n, **buckets} if buckets else {}  # the helper's last bound is finite
    return SinkMeasurement(
        throughput=sum(_rates(scopes)),
        mean=mean,
        # Rounding can leave a constant latency with a variance just below zero.
        variance=max(square - mean * mean, 0.0) if not math.isnan(square) else math.nan,
        p50=quantile(0.50, counts) * MS,
        p95=quantile(0.95, counts) * MS,
        p99=quantile(0.99, counts) * MS,
        response_from=None if math.isnan(mean) else ResponseFrom.AGE,
    )


def _by_markers(
    sinks: Sequence[OperatorMeasurement], scopes: Sequence[Scope], worked: Mapping[str, float]
) -> SinkMeasurement:
    """Time to the last functions plus all work, which markers pass by; no quantiles of records."""
    served = sum(sink.processed_rate for sink in sinks) if sinks else math.nan
    busy = [sink for sink in sinks if sink.processed_rate != 0]
    work = ratio(
        sum((worked[sink.name] + sink.service_mean) * sink.processed_rate for sink in busy), served
    )
    mean = marker_age(list(scopes), pick=max) + work
    return SinkMeasurement(
        throughput=served,
        mean=mean,
        variance=math.nan,
        p50=math.nan,
        p95=math.nan,
        p99=math.nan,
        response_from=None if math.isnan(mean) else ResponseFrom.MARKERS,
    )


def _risen(scopes: Sequence[Scope], name: str) -> float:
    """Rise summed over all replicas that report one, NaN where none does."""
    rises = [
        rise.amount
        for scope in scopes
        for rise in map(counter_rise, scope.get(name, ()))
        if rise.seconds > 0
    ]
    return sum(rises) if rises else math.nan


def _rates(scopes: Sequence[Scope]) -> list[float]:
    return [
        counter_rise(series).rate for scope in scopes for series in scope.get(names.LATENCY_N, ())
    ]


def _buckets(scopes: Sequence[Scope]) -> dict[float, float]:
    """Records at or below each bound, milliseconds, summed over the replicas."""
    counts: dict[float, float] = {}
    for scope in scopes:
        for series in scope.get(names.LATENCY_BUCKET, ()):
            bound = bound_of(series.labels.get("le", ""))
            rise = counter_rise(series)
            if rise.seconds > 0 and not math.isnan(bound):
                counts[bound] = counts.get(bound, 0.0) + rise.amount
    return counts
