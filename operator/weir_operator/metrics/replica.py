"""What one replica did in a window, from the series of its TaskManager.

A TaskManager has one slot, so every task on it belongs to the replica's operator. If an operator
has several tasks (or several functions with the helper's counters), the busiest one limits it, and
its busy share and service time count as the replica's.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple

from weir_operator.metrics import names
from weir_operator.metrics.layout import OperatorLayout, PlacedReplica
from weir_operator.metrics.rates import (
    UNKNOWN,
    Rise,
    counter_rise,
    is_poisoned,
    mean_value,
    ratio,
    settled_rise,
)
from weir_operator.metrics.scope import Scope, newest_sample, of_vertices
from weir_operator.metrics.source import Series
from weir_operator.metrics.values import (
    ReplicaMeasurement,
    ServiceFrom,
)

DRAINED = Rise(0.0, math.inf)
"""What a replica takes in whose tasks have come to their end: nothing, ever after."""


US = 1e-6


MS = 1e-3


def measure_replica(
    replica: PlacedReplica, operator: OperatorLayout, scope: Scope
) -> ReplicaMeasurement:
    """Measure one replica; everything is NaN where its TaskManager sent nothing."""
    is_source = not operator.upstream
    intake = DRAINED if replica.drained else _intake(operator, scope)
    busy = _busiest(map(settled_rise, scope.get(names.BUSY_MS, ())))
    idle = replica.drained and busy is UNKNOWN
    service = _service(scope, busy, intake)
    # A legacy source reports NaN for its busy time all its life: that is a missing metric there.
    required = [name for name in names.REQUIRED if not (is_source and name == names.BUSY_MS)]
    return ReplicaMeasurement(
        tm_id=replica.tm_id,
        node_type=replica.node_type,
        last_sample=newest_sample(scope),
        span=intake.seconds,
        processed_rate=intake.rate,
        emitted_rate=0.0
        if idle
        else _total(of_vertices(scope.get(names.RECORDS_OUT, ()), operator.exit_vertices)),
        utilisation=0.0 if idle else busy.rate * MS,
        back_pressure=_busiest(map(settled_rise, scope.get(names.BACK_PRESSURED_MS, ()))).rate * MS,
        service_mean=service.mean,
        service_variance=service.variance,
        service_from=service.origin,
        served=service.records,
        queue_buffers=_sum(
            map(mean_value, of_vertices(scope.get(names.INPUT_QUEUE, ()), operator.entry_vertices))
        ),
        gc_share=_busiest(map(counter_rise, scope.get(names.GC_MS, ()))).rate * MS,
        poisoned=tuple(name for name in required if any(map(is_poisoned, scope.get(name, ())))),
    )


class Moments(NamedTuple):
    """Number, mean and variance of something that counters summed up in a window."""

    records: float
    mean: float
    variance: float


def moments(scope: Scope, n: str, us: str, us2: str) -> Moments | None:
    """Return the moments in seconds of the function that was busiest; `None` without counters."""
    sums = {_function(series): series for series in scope.get(us, ())}
    squares = {_function(series): series for series in scope.get(us2, ())}
    found: Moments | None = None
    for series in scope.get(n, ()):
        function = _function(series)
        records = counter_rise(series).amount
        mean = ratio(counter_rise(sums.get(function)).amount * US, records)
        square = ratio(counter_rise(squares.get(function)).amount * US * US, records)
        # Rounding can leave a constant time with a variance just below zero.
        variance = max(square - mean * mean, 0.0) if not math.isnan(square) else math.nan
        this = Moments(records, mean, variance)
        if found is None or _work(this) > _work(found):
            found = this
    return found


class _Service(NamedTuple):
    records: float
    mean: float
    variance: float
    origin: ServiceFrom | None


def _service(scope: Scope, busy: Rise, intake: Rise) -> _Service:
    """From the helper where it counts, else from the agent, else busy time per record."""
    counted = moments(scope, names.SERVICE_N, names.SERVICE_US, names.SERVICE_US2)
    if counted is not None:
        return _Service(*counted, ServiceFrom.HELPER)
    timed = moments(scope, names.TASK_SERVICE_N, names.TASK_SERVICE_US, names.TASK_SERVICE_US2)
    if timed is not None and timed.records > 0 and intake.amount > 0:
        # Work that belongs to no record is done all the same: windows that fire, timers.
        other = _busiest(map(counter_rise, scope.get(names.TASK_OTHER_US, ()))).amount * US
        beside = 0.0 if math.isnan(other) else other / intake.amount
        return _Service(intake.amount, timed.mean + beside, timed.variance, ServiceFrom.AGENT)
    mean = ratio(busy.rate * MS, intake.rate)
    return _Service(
        intake.amount, mean, math.nan, None if math.isnan(mean) else ServiceFrom.BUSY_TIME
    )


def _intake(operator: OperatorLayout, scope: Scope) -> Rise:
    """Records taken in.

    Flink counts no task input at a source. There the records given out stand for it, or, where
    the whole job is one chain that gives nothing out, the input of the busiest function in it.
    """
    taken = _add(of_vertices(scope.get(names.RECORDS_IN, ()), operator.entry_vertices))
    if operator.upstream or taken.amount > 0:
        return taken
    given = _add(of_vertices(scope.get(names.RECORDS_OUT, ()), operator.entry_vertices))
    if given.amount > 0:
        return given
    functions = of_vertices(scope.get(names.OPERATOR_RECORDS_IN, ()), operator.entry_vertices)
    inside = _busiest(map(counter_rise, functions))
    return inside if inside.amount > 0 else taken


def _add(series: Iterable[Series]) -> Rise:
    """Sum counters of tasks that are scraped together."""
    rises = [rise for rise in map(counter_rise, series) if rise.seconds > 0]
    if not rises:
        return UNKNOWN
    return Rise(sum(rise.amount for rise in rises), max(rise.seconds for rise in rises))


def _total(series: Iterable[Series]) -> float:
    return _sum(counter_rise(each).rate for each in series)


def _sum(values: Iterable[float]) -> float:
    listed = list(values)
    return sum(listed) if listed else math.nan


def _busiest(rises: Iterable[Rise]) -> Rise:
    known = [rise for rise in rises if rise.seconds > 0]
    return max(known, key=lambda rise: rise.rate, default=UNKNOWN)


def _function(series: Series) -> tuple[str | None, str | None]:
    """Which function of which task a series of the operator scope belongs to."""
    return series.labels.get("task_id"), series.labels.get("operator_id")


def _work(moments: Moments) -> float:
    """Seconds spent; nothing where no record came."""
    return moments.records * moments.mean if moments.records > 0 else 0.0
