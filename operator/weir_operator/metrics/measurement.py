"""Turns a window of samples into what the job did in it. Pure.

    window + layout -> series of this run -> replicas -> operators -> source to sink
    window -> what users of the job saw, over every run (`measure_output`)

A TaskManager has one slot, so every task on it belongs to the replica's operator. If an operator
has several tasks (or several functions with the helper's counters), the busiest one limits it, and
its busy share and service time count as the replica's.

How long records waited at a source is not said by any metric. The records that wait are the last
that arrived, so the one that is read next came when what arrived since then was as much as waits
now. Little's law, the backlog over the rate at which it is read, would be the wait of a record that
comes now: in a backlog that grows much more, and in one that is worked off less. It stands in for
the time before the first measurement.

A source may be slow without being busy: its readers wait for other threads or for a broker. One
that falls behind with time to spare is assumed to read as fast as it can, so its service time is a
replica's time per record (as in the autoscaler of the Flink Kubernetes Operator, FLINK-33306). Its
rate per replica is kept as a maximum, which rises only when a replica reads more; if more replicas
read no more in total, Weir asks for no further ones.

Response times of operators come from the ages of records on the way. A record's age at the entry of
an operator, minus its age when the operators before had finished it, is its wait in between
(buffers and network included); with the service time, that is the operator's response time. Ages
count from the event time, so nothing is subtracted behind a source: the first operator also
includes the wait at the source, where records pile up if it is too slow. Without the helper, the
agent counts how old records are by the latency markers among them, and where there is no agent,
Flink's own median of the last markers has to do. Sources stamp markers when they emit them, so a
record is older than its marker by its wait at the source. Markers queue among the records but
bypass the functions, so a record is older, too, by the work done on it. These are differences of
means over one window: exact in a steady state, and late by the time in between when the load
changes. A source that does not say what is pending has no wait that can be seen. Times from source
to sink come from the helper's latency counters at the sinks, or from the markers.

A decision needs what runs now, so only one run of the job is measured. Users do not care about
runs: the interval in which the job was restarted is the one with the gap, and its late records are
in the next run's counters. For them, every run counts. A counter continues from its value in the
last window, so nothing falls between two windows. A counter that no earlier window had belongs to a
new run or attempt, and began at zero. In the very first window, a counter starts at its own first
sample.
"""

from __future__ import annotations

import hashlib
import json
import math
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from weir_operator.metrics import names
from weir_operator.metrics.rates import (
    MS,
    UNKNOWN,
    US,
    JobSeries,
    Rise,
    Scope,
    arrival_rates,
    bound_of,
    counted_rise,
    counter_rise,
    is_poisoned,
    job_series,
    last_value,
    mean,
    mean_value,
    newest_sample,
    of_vertices,
    pass_down,
    quantile,
    ratio,
    settled_rise,
    slope,
)
from weir_operator.metrics.source import Series, Window
from weir_operator.metrics.values import (
    AppMeasurement,
    Arrivals,
    JobLayout,
    OperatorMeasurement,
    PartitionMeasurement,
    ReplicaMeasurement,
    ServiceFrom,
    SinkMeasurement,
)
from weir_operator.runtime.protocol import Replica
from weir_policies.model.dataflow import Dataflow
from weir_policies.model.objective import QUANTILES


def measure(
    window: Window,
    layout: JobLayout,
    previous: AppMeasurement | None = None,
    *,
    since: float = -math.inf,
    set_by: float = 0.0,
) -> AppMeasurement:
    """Measure one run of a job.

    Args:
        window: Samples of the StreamApp; those of other runs in it are ignored.
        since: Unix time since when the run processes records: what its replicas did before does not
            tell how they serve.
        layout: The run that is measured, and who serves what in it.
        previous: What was measured last, of this run or of one before: what waits at a source may
            have arrived then.
        set_by: Seconds by which the clock was set since then.

    Returns:
        Every operator and replica of the layout, NaN for what the window does not show.
    """
    window = _cut(window, since)
    series = job_series(window, layout)
    arrivals = {} if previous is None else previous.arrivals_as_if_set(set_by)
    sources = layout.flow.sources
    if len(sources) == len(arrivals) == 1:  # the source may have left its operator since
        arrivals = {sources[0]: next(iter(arrivals.values()))}
    operators, missed = measure_operators(layout, series, window, arrivals)
    for name in sources:
        before = None if previous is None else previous.operators.get(name)
        operators[name] = _bound_by_reading(operators[name], before, window.end - window.start)
    sinks = {
        name: measure_sinks([operators[name]], series[name], missed=missed)
        for name in layout.flow.sinks
    }
    at_sinks = [scope for name in sinks for scope in series[name]]
    backlogs = [
        operators[name].backlog for name in sources if not math.isnan(operators[name].backlog)
    ]
    return AppMeasurement(
        job_id=layout.job_id,
        start=window.start,
        end=window.end,
        newest=_newest(operators.values()),
        operators=operators,
        sources=sources,
        sinks=sinks,
        end_to_end=measure_sinks([operators[name] for name in sinks], at_sinks, missed=missed),
        backlog=sum(backlogs) if backlogs else math.nan,
    )


def _cut(window: Window, since: float) -> Window:
    if since <= window.start:
        return window
    kept = []
    for each in window.series:
        first = bisect_left(each.times, since)
        if first < len(each.times):
            kept.append(replace(each, times=each.times[first:], values=each.values[first:]))
    return Window(start=since, end=window.end, series=tuple(kept))


def _newest(operators: Iterable[OperatorMeasurement]) -> float:
    times = [replica.last_sample for operator in operators for replica in operator.replicas]
    return max((time for time in times if not math.isnan(time)), default=math.nan)


MOST_ARRIVALS = 1000
"""Rates of arrival that are kept of a source: one that never catches up must not fill memory."""


def measure_operators(
    layout: JobLayout, series: JobSeries, window: Window, before: Mapping[str, Arrivals]
) -> tuple[dict[str, OperatorMeasurement], dict[str, float]]:
    """Measure every operator, in the order of the dataflow; `before` arrived until the window.

    Also return by how much a record is older than its latency marker at each operator, seconds.

    Sums over replicas are NaN where one of them is unknown: half of the traffic is not the
    traffic. Means and worst cases are taken over those that are known.
    """
    replicas = {
        name: tuple(
            measure_replica(replica, layout, scope)
            for replica, scope in zip(own, series[name], strict=True)
        )
        for name, own in layout.replicas.items()
    }
    processed = {
        name: _total(each.processed_rate for each in own) for name, own in replicas.items()
    }
    emitted = {name: _total(each.emitted_rate for each in own) for name, own in replicas.items()}
    service_means = {name: _mean_service(own) for name, own in replicas.items()}
    backlogs = {
        name: _backlog(series[name] if layout.is_source(name) else ())
        for name in layout.flow.operators
    }
    arrivals = arrival_rates(
        layout.flow,
        processed=processed,
        emitted=emitted,
        backlog_growth={name: growth for name, (_, growth) in backlogs.items()},
        back_pressure={
            name: mean(each.back_pressure for each in own) for name, own in replicas.items()
        },
    )
    waiting = pass_down(
        {name: pending for name, (pending, _) in backlogs.items()},
        layout.flow,
        processed=processed,
        emitted=emitted,
    )
    arrived = {
        name: _add_arrivals(before.get(name, ()), window.start, arrivals[name])
        for name in layout.flow.sources
    }
    source_waits = dict.fromkeys(layout.flow.operators, 0.0)
    for name in arrived:
        pending = _total(map(mean_value, _pending(series[name])))
        middle = (window.start + window.end) / 2
        source_waits[name] = waited(pending, middle, arrived[name], read=processed[name])
        if not math.isnan(pending):  # else, as after a restart, all of it may wait
            arrived[name] = _drop_older(arrived[name], middle - source_waits[name])
    flow = Flow(
        dataflow=layout.flow,
        service_means=service_means,
        emitted=emitted,
        source_waits=source_waits,
    )
    missed = flow.missed_by_markers()
    waits = waiting_times(flow, missed, series)
    operators = {
        name: OperatorMeasurement(
            name=name,
            replicas=replicas[name],
            arrival_rate=arrivals[name],
            processed_rate=processed[name],
            emitted_rate=emitted[name],
            selectivity=ratio(emitted[name], processed[name]),
            service_mean=service_means[name],
            back_pressure=_worst(each.back_pressure for each in replicas[name]),
            queue_records=processed[name] * waits[name],
            response_time=waits[name] + service_means[name],
            backlog=backlogs[name][0],
            backlog_growth=backlogs[name][1],
            source_wait=source_waits[name],
            arrivals=arrived.get(name, ()),
            upstream_backlog=0.0 if layout.is_source(name) else waiting[name],
            splits=_splits(name, layout, series[name]),
            partitions=_partitions(layout.replicas[name], series[name]),
        )
        for name in layout.flow.order
    }
    return operators, missed


BUSY = 0.5
"""Utilisation from which an operator counts as busy."""
TOLERATED_SECONDS = 1.0
"""A backlog may grow in an interval by what the source reads in this many seconds; some records
have always arrived since it last fetched."""
BEHIND_FOR = 3
"""Intervals in a row after which a source that falls behind with time to spare is called slow."""


def falls_behind_idle(source: OperatorMeasurement, seconds: float) -> bool:
    """Return whether a source falls behind though it has time, in an interval of so many seconds.

    One that waits for room downstream is idle for a good reason.
    """
    return (
        source.backlog_growth * seconds > TOLERATED_SECONDS * source.processed_rate
        and max(source.utilisation, default=math.nan) < BUSY
        and not source.back_pressure > BUSY
    )


def _bound_by_reading(
    source: OperatorMeasurement, before: OperatorMeasurement | None, seconds: float
) -> OperatorMeasurement:
    """Return a source with the service time that its reading shows, where busy time does not."""
    intervals, known = (
        (0, math.nan) if before is None else (before.intervals_behind, before.max_read_rate)
    )
    intervals = intervals + 1 if falls_behind_idle(source, seconds) else 0
    reads = source.processed_rate / source.expected if source.replicas else math.nan
    if intervals < BEHIND_FOR and math.isnan(known):
        return replace(source, intervals_behind=intervals)
    rate = max((each for each in (known, reads) if each > 0), default=math.nan)
    replicas = tuple(
        replace(each, service_mean=1 / rate, service_variance=rate**-2)
        if rate > 0 and not each.service_mean >= 1 / rate
        else each
        for each in source.replicas
    )
    return replace(
        source,
        replicas=replicas,
        service_mean=_mean_service(replicas),
        intervals_behind=intervals,
        max_read_rate=rate,
    )


def _mean_service(replicas: Sequence[ReplicaMeasurement]) -> float:
    known = [each for each in replicas if each.served > 0 and not math.isnan(each.service_mean)]
    served = sum(each.served for each in known)
    return ratio(sum(each.served * each.service_mean for each in known), served)


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


def _splits(name: str, layout: JobLayout, scopes: Sequence[Scope]) -> float:
    """Partitions of the source with the most; NaN where vertices beside it share its replicas.

    NaN, too, where series do not say of which partition they are: all would count as one. A source
    that does not tell its splits ends the subtasks that got none.
    """
    if not layout.is_source(name) or name in layout.entries:
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
    replicas = layout.replicas[name]
    drained = sum(replica.id in layout.drained for replica in replicas)
    return max(1, len(replicas) - drained) if drained else math.nan


def _partitions(
    replicas: Sequence[Replica], scopes: Sequence[Scope]
) -> tuple[PartitionMeasurement, ...]:
    found: dict[str, PartitionMeasurement] = {}
    for replica, scope in zip(replicas, scopes, strict=True):
        waiting = _total(map(last_value, _pending([scope])))
        for series in scope.get(names.PARTITION_OFFSET, ()):
            labels = series.labels
            if {"topic", "partition"} <= labels.keys():
                parts = (labels.get(names.GROUP), labels["topic"], labels["partition"])
                name = "-".join(part for part in parts if part)
                found[name] = PartitionMeasurement(
                    name=name, reader=replica.id, rate=counter_rise(series).rate, waiting=waiting
                )
    return tuple(found[name] for name in sorted(found))


def _total(values: Iterable[float]) -> float:
    """Sum, NaN if there is nothing to sum or an addend is unknown."""
    listed = list(values)
    return sum(listed) if listed else math.nan


def _worst(values: Iterable[float]) -> float:
    return max((value for value in values if not math.isnan(value)), default=math.nan)


DRAINED = Rise(0.0, math.inf)
"""What a replica takes in whose tasks have come to their end: nothing, ever after."""


def measure_replica(replica: Replica, layout: JobLayout, scope: Scope) -> ReplicaMeasurement:
    """Measure one replica; everything is NaN where its TaskManager sent nothing."""
    is_source, is_drained = layout.is_source(replica.operator), replica.id in layout.drained
    entries = layout.entries.get(replica.operator, frozenset())
    exits = layout.exits.get(replica.operator, frozenset())
    intake = DRAINED if is_drained else _intake(scope, entries, is_source=is_source)
    busy = _busiest(map(settled_rise, scope.get(names.BUSY_MS, ())))
    idle = is_drained and busy is UNKNOWN
    service = _service(scope, busy, intake)
    # A legacy source reports NaN for its busy time all its life: that is a missing metric there.
    required = [name for name in names.REQUIRED if not (is_source and name == names.BUSY_MS)]
    return ReplicaMeasurement(
        tm_id=replica.id,
        node_type=replica.node_type,
        last_sample=newest_sample(scope),
        span=intake.seconds,
        processed_rate=intake.rate,
        emitted_rate=0.0
        if idle
        else _total(
            counter_rise(each).rate for each in of_vertices(scope.get(names.RECORDS_OUT, ()), exits)
        ),
        utilisation=0.0 if idle else busy.rate * MS,
        back_pressure=_busiest(map(settled_rise, scope.get(names.BACK_PRESSURED_MS, ()))).rate * MS,
        service_mean=service.mean,
        service_variance=service.variance,
        service_from=service.origin,
        served=service.records,
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


def _intake(scope: Scope, entries: frozenset[str], *, is_source: bool) -> Rise:
    """Records taken in.

    Flink counts no task input at a source. There the records given out stand for it, or, where
    the whole job is one chain that gives nothing out, the input of the busiest function in it.
    """
    taken = _add(of_vertices(scope.get(names.RECORDS_IN, ()), entries))
    if not is_source or taken.amount > 0:
        return taken
    given = _add(of_vertices(scope.get(names.RECORDS_OUT, ()), entries))
    if given.amount > 0:
        return given
    functions = of_vertices(scope.get(names.OPERATOR_RECORDS_IN, ()), entries)
    inside = _busiest(map(counter_rise, functions))
    return inside if inside.amount > 0 else taken


def _add(series: Iterable[Series]) -> Rise:
    """Sum counters of tasks that are scraped together."""
    rises = [rise for rise in map(counter_rise, series) if rise.seconds > 0]
    if not rises:
        return UNKNOWN
    return Rise(sum(rise.amount for rise in rises), max(rise.seconds for rise in rises))


def _busiest(rises: Iterable[Rise]) -> Rise:
    known = [rise for rise in rises if rise.seconds > 0]
    return max(known, key=lambda rise: rise.rate, default=UNKNOWN)


def _function(series: Series) -> tuple[str | None, str | None]:
    return series.labels.get("task_id"), series.labels.get("operator_id")


def _work(moments: Moments) -> float:
    return moments.records * moments.mean if moments.records > 0 else 0.0


def measure_busy_vertices(window: Window, layout: JobLayout) -> dict[str, float]:
    """Return the share of time in which the tasks of each vertex were busy, summed over subtasks.

    A vertex with four subtasks that are busy half of the time has 2.0. What reports no busy time,
    such as a source of the old kind, is left out.

    Returns:
        By Flink's id of the vertex.
    """
    series = job_series(window, layout)
    found: dict[str, float] = {}
    for scopes in series.values():
        for scope in scopes:
            for each in scope.get(names.BUSY_MS, ()):
                rise, vertex = counted_rise(each), each.labels.get("task_id")
                if vertex is not None and rise.seconds > 0:
                    found[vertex] = found.get(vertex, 0.0) + rise.rate * MS
    return found


@dataclass(frozen=True, kw_only=True, slots=True)
class Flow:
    """The edges of a run with their rates, and what each operator does."""

    dataflow: Dataflow
    service_means: Mapping[str, float]
    """Seconds per record, by operator."""
    emitted: Mapping[str, float]
    """Records/s that each gives out, by which several feeders count."""
    source_waits: Mapping[str, float]
    """Seconds that a record waits before each source reads it, 0 where nobody knows."""

    def missed_by_markers(self) -> dict[str, float]:
        """Return by how much a record is older than its latency marker at each operator, seconds.

        That is its wait at the source and the work done on it so far. What sources do counts as
        none: no time of theirs is part of a response time.
        """
        missed: dict[str, float] = {}
        for name in self.dataflow.order:
            fed = self.dataflow.into(name)
            missed[name] = self.left_feeders(name, missed) if fed else self.source_waits[name]
        return missed

    def left_feeders(self, name: str, entered: Mapping[str, float]) -> float:
        """Return a time at which records left an operator's feeders, from that when they entered.

        It is the mean over the feeders, by how much each gave out. One that gave out nothing, whose
        service nobody knows then, does not count beside others.
        """
        feeders = [edge.source for edge in self.dataflow.into(name)]
        left = {
            feeder: entered[feeder]
            + (self.service_means[feeder] if self.dataflow.into(feeder) else 0.0)
            for feeder in feeders
        }
        if len(left) > 1:
            giving = {feeder: time for feeder, time in left.items() if self.emitted[feeder] != 0}
            left = giving or left
        if len(left) == 1:
            return next(iter(left.values()))
        given = sum(self.emitted[feeder] for feeder in left)
        return ratio(sum(time * self.emitted[feeder] for feeder, time in left.items()), given)


def waiting_times(flow: Flow, missed: Mapping[str, float], series: JobSeries) -> dict[str, float]:
    """Return how long records wait for every operator, mean, seconds; NaN at a source.

    Ages are taken where the operator and all that feed it report them, else latency markers.
    """
    at_sources = dict.fromkeys(flow.dataflow.sources, 0.0)
    kinds = (
        {name: mean_age(own) for name, own in series.items()} | at_sources,
        {name: marker_age(own) + missed[name] for name, own in series.items()} | at_sources,
    )
    found = dict.fromkeys(flow.dataflow.operators, math.nan)
    for ages in kinds:
        for name in found:
            if name in at_sources or not math.isnan(found[name]):
                continue
            before = flow.left_feeders(name, ages)
            # Clocks of two nodes may differ by more than the wait between them.
            waiting = ages[name] - before if not ages[name] < before else 0.0
            if not math.isnan(flow.service_means[name]):
                found[name] = waiting
    return found


def mean_age(scopes: Sequence[Scope]) -> float:
    """Return the mean age of records at the entry of an operator's functions, seconds.

    Where several functions of a chain report, the youngest age is that at the entry.
    """
    return min(_counted_ages(scopes, names.AGE_N, names.AGE_US), default=math.nan)


def _counted_ages(scopes: Sequence[Scope], n: str, us: str) -> list[float]:
    """Mean age of records at each function that counts it, or task, seconds."""
    counted: dict[tuple[str | None, str | None], list[tuple[float, float]]] = {}
    for scope in scopes:
        sums = {_function(series): series for series in scope.get(us, ())}
        for series in scope.get(n, ()):
            records = counter_rise(series).amount
            if records > 0:
                age = counter_rise(sums.get(_function(series))).amount
                counted.setdefault(_function(series), []).append((records, age))
    return [
        ratio(sum(age for _, age in pairs) * US, sum(records for records, _ in pairs))
        for pairs in counted.values()
    ]


def marker_age(scopes: Sequence[Scope], pick: Callable[[list[float]], float] = min) -> float:
    """Return the time of latency markers from the source, seconds.

    The agent counts it. Without the agent, it is the mean of Flink's medians, by records.

    Args:
        scopes: Series of all replicas of an operator.
        pick: Which of its functions is meant: the least age is that at its entry, the greatest that
            at its last function, which in an operator of several vertices lies far behind.
    """
    if counted := _counted_ages(scopes, names.TASK_AGE_N, names.TASK_AGE_US):
        return pick(counted)
    medians: dict[str, list[tuple[float, float]]] = {}
    for scope in scopes:
        taken = sum(counter_rise(each).amount for each in scope.get(names.RECORDS_IN, ()))
        for series in scope.get(names.LATENCY_MARKER, ()):
            if series.labels.get("quantile") == names.MARKER_QUANTILE:
                medians.setdefault(series.labels.get("operator_id", ""), []).append(
                    (mean_value(series), taken)
                )
    known = [age for age in map(_mean_by_records, medians.values()) if not math.isnan(age)]
    return (pick(known) if known else math.nan) * MS


def _mean_by_records(aged: Sequence[tuple[float, float]]) -> float:
    """Mean of ages over replicas, each by its records; evenly where some are not counted."""
    known = [(age, records) for age, records in aged if not math.isnan(age)]
    counted = sum(records for _, records in known)
    if counted > 0:
        return sum(age * records for age, records in known) / counted
    return mean(age for age, _ in known)


def measure_sinks(
    sinks: Sequence[OperatorMeasurement], scopes: Sequence[Scope], *, missed: Mapping[str, float]
) -> SinkMeasurement:
    """Measure one sink, or several as one.

    Args:
        sinks: The operators that end the dataflow; asked only where no helper counts latencies.
        scopes: The series of all their replicas.
        missed: By how much a record is older than its marker when it reaches each of the sinks,
            seconds.
    """
    n = _risen(scopes, names.LATENCY_N)
    if math.isnan(n):
        return _by_markers(sinks, scopes, missed)
    mean = ratio(_risen(scopes, names.LATENCY_US) * US, n)
    buckets = _buckets(scopes)
    counts = {math.inf: n, **buckets} if buckets else {}  # the helper's last bound is finite
    return SinkMeasurement(
        throughput=sum(
            counter_rise(each).rate for scope in scopes for each in scope.get(names.LATENCY_N, ())
        ),
        mean=mean,
        quantiles={name: quantile(part, counts) * MS for name, part in QUANTILES.items()},
    )


def _by_markers(
    sinks: Sequence[OperatorMeasurement], scopes: Sequence[Scope], missed: Mapping[str, float]
) -> SinkMeasurement:
    """Time to the last functions plus what markers miss; no quantiles of records."""
    served = sum(sink.processed_rate for sink in sinks) if sinks else math.nan
    busy = [sink for sink in sinks if sink.processed_rate != 0]
    work = ratio(
        sum((missed[sink.name] + sink.service_mean) * sink.processed_rate for sink in busy), served
    )
    mean = marker_age(scopes, pick=max) + work
    return SinkMeasurement(
        throughput=served,
        mean=mean,
        quantiles=dict.fromkeys(QUANTILES, math.nan),
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


FORGOTTEN_AFTER = 3600.0
"""Seconds after which a counter that sends nothing is taken for gone."""
ENDED_AFTER = 300.0
"""The same for counters of a job that is followed by another: each restart brings some hundred."""

_LATENCIES = frozenset({names.LATENCY_N, names.LATENCY_US, names.LATENCY_BUCKET})

Identity = tuple[str, bytes]
"""Id of the job that a series is of, and a digest of the series' name and labels."""
Counted = Mapping[Identity, tuple[float, float]]
"""Time and value of the last sample of every counter that was seen."""


def measure_output(
    window: Window, counted: Counted | None = None
) -> tuple[SinkMeasurement, Counted]:
    """Measure the records that arrived at any sink since the last measurement.

    Args:
        window: Begins where the last one ended.
        counted: What the last look returned; `None` at the first.

    Returns:
        The measurement, NaN throughout where no sink counts latencies or no record arrived, and
        where the counters stand now.
    """
    latencies = [(_identity(each), each) for each in window.series if each.name in _LATENCIES]
    joined = [_join(each, identity, window, counted) for identity, each in latencies]
    arrived = [counter_rise(each).amount for each in joined if each.name == names.LATENCY_N]
    output = measure_sinks([], [{each.name: (each,)} for each in joined], missed={})
    length = _observed(window) if counted is None else window.end - window.start
    known = [records for records in arrived if not math.isnan(records)]
    throughput = sum(known) / length if known and length else math.nan
    latest = {identity: (each.times[-1], each.values[-1]) for identity, each in latencies}
    present = {job for job, _ in latest}
    kept = {
        identity: last
        for identity, last in (counted or {}).items()
        if window.end - last[0]
        < (FORGOTTEN_AFTER if not present or identity[0] in present else ENDED_AFTER)
    }
    return replace(output, throughput=throughput), kept | latest


def _observed(window: Window) -> float:
    """Return the seconds between the first and the last sample of anything."""
    first = min((each.times[0] for each in window.series), default=window.end)
    last = max((each.times[-1] for each in window.series), default=window.end)
    return last - first


def _join(series: Series, identity: Identity, window: Window, counted: Counted | None) -> Series:
    if counted is None:
        return series
    time, value = counted.get(identity, (window.start, 0.0))
    if time >= series.times[0]:
        return series
    return replace(series, times=(time, *series.times), values=(value, *series.values))


def _identity(series: Series) -> Identity:
    labels = json.dumps([series.name, *sorted(series.labels.items())]).encode()
    return series.labels.get("job_id", ""), hashlib.blake2b(labels, digest_size=16).digest()
