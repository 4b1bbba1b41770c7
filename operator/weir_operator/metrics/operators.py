"""Every operator of the dataflow, from its replicas and its neighbours.

How long records waited at a source is not said by any metric. The records that wait are the last
that arrived, so the one that is read next came when what arrived since then was as much as waits
now. Little's law, the backlog over the rate at which it is read, would be the wait of a record that
comes now: in a backlog that grows much more, and in one that is worked off less. It stands in for
the time before the first measurement.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

from weir_operator.metrics import names
from weir_operator.metrics.layout import JobLayout, OperatorLayout
from weir_operator.metrics.output import Flow, response_times
from weir_operator.metrics.rates import (
    arrival_rates,
    last_value,
    mean,
    mean_value,
    pass_down,
    ratio,
    slope,
)
from weir_operator.metrics.replica import measure_replica
from weir_operator.metrics.scope import JobSeries, Scope
from weir_operator.metrics.source import Series, Window
from weir_operator.metrics.values import Arrivals, OperatorMeasurement, ReplicaMeasurement

MOST_ARRIVALS = 1000
"""Rates of arrival that are kept of a source: one that never catches up must not fill memory."""


def measure_operators(
    layout: JobLayout, series: JobSeries, window: Window, before: Mapping[str, Arrivals]
) -> dict[str, OperatorMeasurement]:
    """Measure every operator, in the order of the dataflow; `before` arrived until the window.

    Sums over replicas are NaN where one of them is unknown: half of the traffic is not the
    traffic. Means and worst cases are taken over those that are known.
    """
    replicas = {
        name: tuple(
            measure_replica(replica, operator, scope)
            for replica, scope in zip(operator.replicas, series.operators[name], strict=True)
        )
        for name, operator in layout.operators.items()
    }
    processed = {
        name: _total(each.processed_rate for each in own) for name, own in replicas.items()
    }
    emitted = {name: _total(each.emitted_rate for each in own) for name, own in replicas.items()}
    services = {name: _pooled_service(own) for name, own in replicas.items()}
    backlogs = {
        name: _backlog(() if operator.upstream else series.operators[name])
        for name, operator in layout.operators.items()
    }
    arrivals = arrival_rates(
        layout,
        processed=processed,
        emitted=emitted,
        backlog_growth={name: growth for name, (_, growth) in backlogs.items()},
        back_pressure={
            name: mean(each.back_pressure for each in own) for name, own in replicas.items()
        },
    )
    waiting = pass_down(
        {name: pending for name, (pending, _) in backlogs.items()},
        layout,
        processed=processed,
        emitted=emitted,
    )
    service_means = {name: average for name, (average, _) in services.items()}
    arrived = {
        name: _add_arrivals(before.get(name, ()), window.start, arrivals[name])
        for name in layout.sources
    }
    source_waits = dict.fromkeys(layout.operators, 0.0)
    for name in arrived:
        pending = _total(map(mean_value, _pending(series.operators[name])))
        middle = (window.start + window.end) / 2
        source_waits[name] = waited(pending, middle, arrived[name], read=processed[name])
        if not math.isnan(pending):  # else, as after a restart, all of it may wait
            arrived[name] = _drop_older(arrived[name], middle - source_waits[name])
    flow = Flow(
        layout=layout, service_means=service_means, emitted=emitted, source_waits=source_waits
    )
    responses = response_times(flow, series)
    return {
        name: OperatorMeasurement(
            name=name,
            replicas=replicas[name],
            arrival_rate=arrivals[name],
            processed_rate=processed[name],
            emitted_rate=emitted[name],
            selectivity=ratio(emitted[name], processed[name]),
            service_mean=services[name][0],
            service_variance=services[name][1],
            back_pressure=_worst(each.back_pressure for each in replicas[name]),
            queue_buffers=_total(each.queue_buffers for each in replicas[name]),
            queue_records=processed[name] * responses[name].waiting,
            response_time=responses[name].total,
            backlog=backlogs[name][0],
            backlog_growth=backlogs[name][1],
            source_wait=source_waits[name],
            arrivals=arrived.get(name, ()),
            upstream_backlog=waiting[name] if layout.operators[name].upstream else 0.0,
            splits=_splits(layout.operators[name], series.operators[name]),
        )
        for name in layout.order
    }


def _pooled_service(replicas: Sequence[ReplicaMeasurement]) -> tuple[float, float]:
    """Mean and variance over all records that the replicas served."""
    known = [each for each in replicas if each.served > 0 and not math.isnan(each.service_mean)]
    served = sum(each.served for each in known)
    average = ratio(sum(each.served * each.service_mean for each in known), served)
    square = ratio(
        sum(each.served * (each.service_variance + each.service_mean**2) for each in known), served
    )
    return average, max(square - average**2, 0.0) if not math.isnan(square) else math.nan


def _pending(scopes: Sequence[Scope]) -> list[Series]:
    return [series for scope in scopes for series in scope.get(names.PENDING_RECORDS, ())]


def _backlog(scopes: Sequence[Scope]) -> tuple[float, float]:
    """Records pending and their growth per second; subtasks without splits may report none."""
    pending = _pending(scopes)
    return _total(map(last_value, pending)), _total(map(slope, pending))


def _add_arrivals(before: Arrivals, start: float, rate: float) -> Arrivals:
    """Add what arrived since `start`; while nobody knows, as before."""
    known = tuple(each for each in before if each[0] < start)
    return known if math.isnan(rate) else (*known, (start, rate))[-MOST_ARRIVALS:]


def _drop_older(arrivals: Arrivals, since: float) -> Arrivals:
    """Leave out the rates of times that were over before `since`."""
    first = max((place for place, (start, _) in enumerate(arrivals) if start <= since), default=0)
    return arrivals[first:]


def waited(pending: float, now: float, arrivals: Arrivals, *, read: float) -> float:
    """Return how long the oldest record that is pending has waited, s; 0 where nobody knows.

    Of records that came before the first of `arrivals`, a source that reads nothing does not say
    it: nothing comes out then, which is a violation by itself.

    Args:
        pending: Records; NaN where the source does not report them.
        now: Unix time at which they were.
        arrivals: What arrived before.
        read: Records/s that the source reads.
    """
    if not pending > 0:
        return 0.0
    until = now
    for start, rate in reversed(arrivals):
        if until > start:
            came = rate * (until - start)
            if came >= pending:
                return now - until + pending / rate
            pending, until = pending - came, start
    return now - until + (pending / read if read > 0 else 0.0)


def _splits(operator: OperatorLayout, scopes: Sequence[Scope]) -> float:
    """Partitions of the source with the most; NaN where vertices beside it share its replicas.

    NaN, too, where series do not say of which partition they are: all would count as one. A source
    that does not tell its splits ends the subtasks that got none.
    """
    if operator.upstream or operator.entry_vertices:
        return math.nan
    found: dict[tuple[str | None, str | None], set[tuple[str | None, str, str]]] = {}
    for scope in scopes:
        for series in scope.get(names.PARTITION_OFFSET, ()):
            labels = series.labels
            if not {"topic", "partition"} <= labels.keys():
                return math.nan
            source = (labels.get("task_id"), labels.get("operator_id"))
            split = (labels.get(names.GROUP), labels["topic"], labels["partition"])
            found.setdefault(source, set()).add(split)
    if found:
        return max(map(len, found.values()))
    drained = sum(replica.drained for replica in operator.replicas)
    return max(1, len(operator.replicas) - drained) if drained else math.nan


def _total(values: Iterable[float]) -> float:
    """Sum, NaN if there is nothing to sum or an addend is unknown."""
    listed = list(values)
    return sum(listed) if listed else math.nan


def _worst(values: Iterable[float]) -> float:
    return max((value for value in values if not math.isnan(value)), default=math.nan)
