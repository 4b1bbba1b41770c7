"""How long records spend at each operator, from their ages on the way.

A record's age at the entry of an operator, less its age when the operators before were done with
it, is its wait in between (buffers and wire included); with the service time that is the
operator's response time. Ages count from the event time, so behind a source nothing is taken off:
the first operator also bears the wait at the source, which is where records pile up when it is too
slow. Markers are stamped when the source emits them and do not hold that wait. They queue among
the records but pass by the functions, so a record is older than they say by the work done on it.

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


@dataclass(frozen=True, kw_only=True, slots=True)
class Flow:
    """Who feeds whom in a run, how much, and what each does."""

    layout: JobLayout
    service_means: Mapping[str, float]
    """Seconds per record, by operator."""
    emitted: Mapping[str, float]
    """Records/s that each gives out, by which several feeders count."""

    def work_before(self) -> dict[str, float]:
        """Return the mean work done on a record before it reaches each operator, seconds.

        What sources do counts as none: no time of theirs is part of a response time.
        """
        done: dict[str, float] = {}
        for name in self.layout.downstream_order():
            fed = self.layout.operators[name].upstream
            done[name] = self.left_feeders(name, done) if fed else 0.0
        return done

    def left_feeders(self, name: str, entered: Mapping[str, float]) -> float:
        """Return a time at which records left an operator's feeders, from that when they entered.

        It is the mean over the feeders, by how much each gave out; 0 behind a source. One that gave
        out nothing, whose service nobody knows then, does not count beside others.
        """
        left = {
            feeder: entered[feeder] + self.service_means[feeder]
            if self.layout.operators[feeder].upstream
            else 0.0
            for feeder in self.layout.operators[name].upstream
        }
        left = {feeder: time for feeder, time in left.items() if self.emitted[feeder] != 0} or left
        if len(left) == 1:
            return next(iter(left.values()))
        given = sum(self.emitted[feeder] for feeder in left)
        return ratio(sum(time * self.emitted[feeder] for feeder, time in left.items()), given)


def response_times(flow: Flow, series: JobSeries) -> dict[str, Response]:
    """Return the mean response time of every operator; a source has none.

    Ages are taken where the operator and all that feed it report them, else latency markers.
    """
    layout, worked = flow.layout, flow.work_before()
    scopes = {name: series.of_operator(layout, name) for name in layout.operators}
    kinds = {
        ResponseFrom.AGE: {name: mean_age(own) for name, own in scopes.items()},
        ResponseFrom.MARKERS: {
            name: marker_age(own) + worked[name] for name, own in scopes.items()
        },
    }
    found = dict.fromkeys(layout.operators, NO_RESPONSE)
    for origin, ages in kinds.items():
        for name, operator in layout.operators.items():
            if not operator.upstream or found[name].origin is not None:
                continue
            before = flow.left_feeders(name, ages)
            # Clocks of two nodes may differ by more than the wait between them.
            waiting = ages[name] - before if not ages[name] < before else 0.0
            total = waiting + flow.service_means[name]
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


def _function(series: Series) -> str:
    return series.labels.get("operator_id", "")


def _place(series: Series) -> tuple[str, str]:
    return series.labels.get("task_id", ""), _function(series)
