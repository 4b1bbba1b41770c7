"""How long records spend at each operator, from their ages on the way.

A record's age at the entry of an operator, less its age when the operators before were done with
it, is its wait in between (buffers and wire included); with the service time that is the
operator's response time. Ages count from the event time, so behind a source nothing is taken off:
the first operator also bears the wait at the source, which is where records pile up when it is too
slow. Markers are stamped when the source emits them and do not hold that wait.

These are differences of means over one window: exact in a steady state, late by the time in
between where the load changes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from weir_operator.metrics import names
from weir_operator.metrics.layout import JobLayout
from weir_operator.metrics.rates import counter_rise, last_value, mean, ratio
from weir_operator.metrics.replica import MS, US
from weir_operator.metrics.scope import JobSeries, Scope
from weir_operator.metrics.seam import Series
from weir_operator.metrics.values import ResponseFrom


@dataclass(frozen=True, kw_only=True, slots=True)
class Response:
    """Time at one operator, seconds."""

    waiting: float
    total: float
    origin: ResponseFrom | None


NO_RESPONSE = Response(waiting=math.nan, total=math.nan, origin=None)


def response_times(
    layout: JobLayout,
    series: JobSeries,
    *,
    service_means: Mapping[str, float],
    emitted: Mapping[str, float],
) -> dict[str, Response]:
    """Return the mean response time of every operator; a source has none.

    Ages are taken where the operator and all that feed it report them, else latency markers.
    """
    kinds: tuple[tuple[ResponseFrom, Callable[[list[Scope]], float]], ...] = (
        (ResponseFrom.AGE, mean_age),
        (ResponseFrom.MARKERS, marker_age),
    )
    found = dict.fromkeys(layout.operators, NO_RESPONSE)
    for origin, age_of in kinds:
        ages = {name: age_of(series.of_operator(layout, name)) for name in layout.operators}
        for name, operator in layout.operators.items():
            if not operator.upstream or found[name].origin is not None:
                continue
            left = {
                feeder: ages[feeder] + service_means[feeder]
                if layout.operators[feeder].upstream
                else 0.0
                for feeder in operator.upstream
            }
            before = _weighted(left, emitted)
            # Clocks of two nodes may differ by more than the wait between them.
            waiting = ages[name] - before if not ages[name] < before else 0.0
            total = waiting + service_means[name]
            if not math.isnan(total):
                found[name] = Response(waiting=waiting, total=total, origin=origin)
    return found


def mean_age(scopes: list[Scope]) -> float:
    """Return the mean age of records at the entry of an operator's functions, seconds.

    Where several functions of a chain report, the youngest age is that at the entry.
    """
    counted: dict[str, list[tuple[float, float]]] = {}
    for scope in scopes:
        sums = {_place(series): series for series in scope.get(names.AGE_US, ())}
        for series in scope.get(names.AGE_N, ()):
            n = counter_rise(series).amount
            us = counter_rise(sums.get(_place(series))).amount
            if n > 0:
                counted.setdefault(_function(series), []).append((n, us))
    return min(
        (
            ratio(sum(us for _, us in pairs) * US, sum(n for n, _ in pairs))
            for pairs in counted.values()
        ),
        default=math.nan,
    )


def marker_age(scopes: list[Scope], pick: Callable[[list[float]], float] = min) -> float:
    """Return the median time of latency markers from the source, seconds, over replicas.

    Args:
        scopes: Series of all replicas of an operator.
        pick: Which of its functions is meant: the least age is that at its entry, the greatest that
            at its last function, which in an operator of several vertices lies far behind.
    """
    medians: dict[str, list[float]] = {}
    for scope in scopes:
        for series in scope.get(names.LATENCY_MARKER, ()):
            if series.labels.get("quantile") == names.MARKER_QUANTILE:
                medians.setdefault(_function(series), []).append(last_value(series))
    known = [age for age in map(mean, medians.values()) if not math.isnan(age)]
    return (pick(known) if known else math.nan) * MS


def _weighted(ages: Mapping[str, float], emitted: Mapping[str, float]) -> float:
    """Mean age over the feeders, by how much each gave out."""
    if len(ages) == 1:
        return next(iter(ages.values()))
    given = sum(emitted[feeder] for feeder in ages)
    return ratio(sum(age * emitted[feeder] for feeder, age in ages.items()), given)


def _function(series: Series) -> str:
    return series.labels.get("operator_id", "")


def _place(series: Series) -> tuple[str, str]:
    return series.labels.get("task_id", ""), _function(series)
