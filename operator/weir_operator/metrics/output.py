"""What users of the job saw in a window: records as they arrived at the sinks, over every run.

`measure` uses only one run of the job, because a decision needs what runs now. Users do not care
about runs: the interval in which the job was restarted is the one with the gap, and its late
records are in the next run's counters. Here, every run counts.

A counter continues from its value in the last window, so nothing falls between two windows. A
counter that no earlier window had belongs to a new run or attempt, and began at zero. In the very
first window, a counter starts at its own first sample.

Response times of operators come from the ages of records on the way. A record's age at the entry of
an operator, minus its age when the operators before had finished it, is its wait in between
(buffers and network included); with the service time, that is the operator's response time. Ages
count from the event time, so nothing is subtracted behind a source: the first operator also
includes the wait at the source, where records pile up if it is too slow. Without the helper, the
agent counts how old records are by the latency markers among them, and where there is no agent,
Flink's own median of the last markers has to do. Sources stamp markers when they emit them, so a
record is older than its marker by its wait at the source (`operators`). Markers queue among the
records but bypass the functions, so a record is older, too, by the work done on it. These are
differences of means over one window: exact in a steady state, and late by the time in between when
the load changes. A source that does not say what is pending has no wait that can be seen.

Times from source to sink come from the helper's latency counters at the sinks, or from the markers.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from weir_operator.metrics import names
from weir_operator.metrics.rates import (
    MS,
    US,
    JobSeries,
    Scope,
    bound_of,
    counter_rise,
    mean,
    mean_value,
    quantile,
    ratio,
)
from weir_operator.metrics.source import Series, Window
from weir_operator.metrics.values import OperatorMeasurement, SinkMeasurement
from weir_policies.model.dataflow import Dataflow
from weir_policies.model.objective import QUANTILES


@dataclass(frozen=True, kw_only=True, slots=True)
class Response:
    """Time at one operator, seconds."""

    waiting: float
    total: float


NO_RESPONSE = Response(waiting=math.nan, total=math.nan)


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


def response_times(flow: Flow, series: JobSeries) -> dict[str, Response]:
    """Return the mean response time of every operator; a source has none.

    Ages are taken where the operator and all that feed it report them, else latency markers.
    """
    missed = flow.missed_by_markers()
    at_sources = dict.fromkeys(flow.dataflow.sources, 0.0)
    kinds = (
        {name: mean_age(own) for name, own in series.operators.items()} | at_sources,
        {name: marker_age(own) + missed[name] for name, own in series.operators.items()}
        | at_sources,
    )
    found = dict.fromkeys(flow.dataflow.operators, NO_RESPONSE)
    for ages in kinds:
        for name in found:
            if name in at_sources or found[name] is not NO_RESPONSE:
                continue
            before = flow.left_feeders(name, ages)
            # Clocks of two nodes may differ by more than the wait between them.
            waiting = ages[name] - before if not ages[name] < before else 0.0
            total = waiting + flow.service_means[name]
            if not math.isnan(total):
                found[name] = Response(waiting=waiting, total=total)
    return found


def mean_age(scopes: Sequence[Scope]) -> float:
    """Return the mean age of records at the entry of an operator's functions, seconds.

    Where several functions of a chain report, the youngest age is that at the entry.
    """
    return min(_counted_ages(scopes, names.AGE_N, names.AGE_US), default=math.nan)


def _counted_ages(scopes: Sequence[Scope], n: str, us: str) -> list[float]:
    """Mean age of records at each function that counts it, or task, seconds."""
    counted: dict[tuple[str, str], list[tuple[float, float]]] = {}
    for scope in scopes:
        sums = {_place(series): series for series in scope.get(us, ())}
        for series in scope.get(n, ()):
            records = counter_rise(series).amount
            if records > 0:
                age = counter_rise(sums.get(_place(series))).amount
                counted.setdefault(_place(series), []).append((records, age))
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
                medians.setdefault(_function(series), []).append((mean_value(series), taken))
    known = [age for age in map(_mean_by_records, medians.values()) if not math.isnan(age)]
    return (pick(known) if known else math.nan) * MS


def _mean_by_records(aged: Sequence[tuple[float, float]]) -> float:
    """Mean of ages over replicas, each by its records; evenly where some are not counted."""
    known = [(age, records) for age, records in aged if not math.isnan(age)]
    counted = sum(records for _, records in known)
    if counted > 0:
        return sum(age * records for age, records in known) / counted
    return mean(age for age, _ in known)


def _function(series: Series) -> str:
    return series.labels.get("operator_id", "")


def _place(series: Series) -> tuple[str, str]:
    return series.labels.get("task_id", ""), _function(series)


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
    square = ratio(_risen(scopes, names.LATENCY_US2) * US * US, n)
    buckets = _buckets(scopes)
    counts = {math.inf: n, **buckets} if buckets else {}  # the helper's last bound is finite
    return SinkMeasurement(
        throughput=sum(_rates(scopes)),
        mean=mean,
        # Rounding can leave a constant latency with a variance just below zero.
        variance=max(square - mean * mean, 0.0) if not math.isnan(square) else math.nan,
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
        variance=math.nan,
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


FORGOTTEN_AFTER = 3600.0
"""Seconds after which a counter that sends nothing is taken for gone."""
ENDED_AFTER = 300.0
"""The same for counters of a job that is followed by another: each restart brings some hundred."""

_LATENCIES = frozenset({names.LATENCY_N, names.LATENCY_US, names.LATENCY_US2, names.LATENCY_BUCKET})

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
    """Prepend to a series the sample that it continues from."""
    if counted is None:
        return series
    time, value = counted.get(identity, (window.start, 0.0))
    if time >= series.times[0]:
        return series
    return replace(series, times=(time, *series.times), values=(value, *series.values))


def _identity(series: Series) -> Identity:
    labels = json.dumps([series.name, *sorted(series.labels.items())]).encode()
    return series.labels.get("job_id", ""), hashlib.blake2b(labels, digest_size=16).digest()
