"""What one time series says about a window: its increase, its last value, and demand from both.

Rates come from accumulated counters, never from Flink's per-second gauges, which are averages over
Flink's own minute. Each series is measured over its own samples, so TaskManagers that are scraped
at different moments, or that began inside the window, need no common clock. Fewer than two samples
give NaN.

Quantiles of the end-to-end latency come from cumulative bucket counters. Records are assumed to be
spread evenly inside a bucket, as in Prometheus' `histogram_quantile`. A quantile beyond the last
finite bound is `inf`: that bound shows only that it is larger, and a number would look like a bound
that is met.

The demand is how many records would reach each operator if nothing upstream were blocked. Under
back-pressure, an operator takes in what it can, and Flink throttles everything upstream of it, so
no processed rate shows the demand. Only the sources do: what they took in plus the growth of their
backlog, or, where they report none, what they took in while nothing blocked them. It is passed down
the dataflow with the selectivities measured in the same window.

Series of earlier runs (another `job_id`) and of earlier attempts of a task are left out, so that a
rescale or a restart inside the window does not mix two runs into one rate.

Along an edge from an operator that feeds several others, the share is measured at the receiver if
that is its only feeder (it may get a side output); a receiver with several feeders is assumed to
get everything that each of them emits.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from weir_operator.metrics import names
from weir_operator.metrics.source import Series, Window
from weir_operator.metrics.values import JobLayout
from weir_policies.model.dataflow import Dataflow

US = 1e-6
MS = 1e-3


def quantile(share: float, counts: Mapping[float, float]) -> float:
    """Return the value below which `share` of the records are.

    Args:
        share: In (0, 1), 0.95 for p95.
        counts: Records at or below each upper bound, in the unit of the bounds; `inf` holds all.
            Without `inf` the largest bound is taken to hold all.

    Returns:
        In the unit of the bounds; NaN where no record was counted, `inf` where the quantile lies
        beyond the last finite bound.
    """
    bounds = sorted(counts)
    if not bounds or not counts[bounds[-1]] > 0:
        return math.nan
    wanted = share * counts[bounds[-1]]
    lower, below = 0.0, 0.0
    for bound in bounds:
        # Buckets of different replicas are scraped at different moments: never let them fall.
        up_to = max(counts[bound], below)
        if up_to >= wanted:
            if math.isinf(bound):
                return math.inf
            return lower + (bound - lower) * (wanted - below) / (up_to - below)
        lower, below = bound, up_to
    return math.inf


def bound_of(label: str) -> float:
    """Return the bound that a label `le` means, NaN where it means none.

    Flink mangles label values, so `+Inf` arrives as `_Inf` and `2.5` as `2_5`.
    """
    plain = label.strip("+_")
    try:
        return float(plain.replace("_", "."))
    except ValueError:
        return math.nan


class Rise(NamedTuple):
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
    if sorted(values) == list(values):
        amount = values[-1] - values[0]
    else:
        steps = pairwise(values)
        amount = sum(after - before if after >= before else after for before, after in steps)
    return Rise(amount, times[-1] - times[0])


_COUNTED_EVERY = 6.0
"""Seconds after which Flink has counted an idle stretch in progress: five, and some delay."""


def counted_rise(series: Series | None) -> Rise:
    """Return the rise of an accumulated time like `settled_rise`, without the last seconds.

    In those, Flink counts an idle stretch in progress as busy, which would make a task that is
    nearly idle look busy. Unknown for a series that is shorter than that.
    """
    times, values = _finite(series)
    counted = [place for place, time in enumerate(times) if time <= times[-1] - _COUNTED_EVERY]
    if len(counted) < 2:
        return UNKNOWN
    last = counted[-1]
    return Rise(min(values[last:]) - min(values), times[last] - times[0])


def settled_rise(series: Series | None) -> Rise:
    """Return the rise of an accumulated time that runs ahead and is set back.

    Flink computes busy time as elapsed minus idle minus back-pressured time, and an idle stretch
    is counted only when it ends or at the next update, every 5 s. So the series can fall without a
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
    """Return the newest finite sample, or NaN."""
    _, values = _finite(series)
    return values[-1] if values else math.nan


def mean_value(series: Series | None) -> float:
    """Return the mean of the finite samples, or NaN."""
    _, values = _finite(series)
    return sum(values) / len(values) if values else math.nan


def is_poisoned(series: Series) -> bool:
    """Tell whether a sample that should be a number is NaN or infinite.

    NaN before the first number is no poison: a task that still restores its state reports it.
    """
    if math.isfinite(sum(series.values)):  # see `_finite`
        return False
    finite = [math.isfinite(value) for value in series.values]
    return True in finite and not all(finite[finite.index(True) :])


def mean(values: Iterable[float]) -> float:
    """Return the mean of the numbers that are not NaN, or NaN."""
    known = [value for value in values if not math.isnan(value)]
    return sum(known) / len(known) if known else math.nan


def ratio(numerator: float, denominator: float) -> float:
    """Return the quotient, NaN where the denominator is zero or NaN."""
    return numerator / denominator if denominator else math.nan


def _finite(series: Series | None) -> tuple[Sequence[float], Sequence[float]]:
    if series is None:
        return (), ()
    # A NaN or an infinity makes the sum one, and to sum is faster than to test each. Numbers whose
    # sum overflows are tested below.
    if math.isfinite(sum(series.values)):
        return series.times, series.values
    kept = [
        (time, value)
        for time, value in zip(series.times, series.values, strict=True)
        if math.isfinite(value)
    ]
    return [time for time, _ in kept], [value for _, value in kept]


USUAL_BACK_PRESSURE = 0.1
"""Share of time for which any source may wait for room downstream: bursts do that."""
MAX_BACK_PRESSURE = 0.5
"""Share of time up to which a source's waiting is taken for demand, which is thus at most twice
what it reads: one that reads as fast as it can waits all the time, whatever there is."""
MAX_NEGATIVE = 0.1
"""Part of what a source took in by which its demand may come out below zero: samples of backlog
and intake are not of one instant."""


def arrival_rates(
    flow: Dataflow,
    *,
    processed: Mapping[str, float],
    emitted: Mapping[str, float],
    backlog_growth: Mapping[str, float],
    back_pressure: Mapping[str, float],
) -> dict[str, float]:
    """Return records/s that arrive at each operator, NaN if unknown.

    Args:
        flow: The operators and what feeds them; selectivities do not count.
        processed: Records/s that each operator took in.
        emitted: Records/s that each operator gave out.
        backlog_growth: Records/s by which the backlog of each source grew; NaN where a source
            reports no backlog.
        back_pressure: Share of time that each source waited for room downstream.
    """
    demands = {
        name: source_demand(processed[name], backlog_growth[name], back_pressure[name])
        for name in flow.sources
    }
    return pass_down(demands, flow, processed=processed, emitted=emitted)


def pass_down(
    at_sources: Mapping[str, float],
    flow: Dataflow,
    *,
    processed: Mapping[str, float],
    emitted: Mapping[str, float],
) -> dict[str, float]:
    """Return how much of what is at the sources reaches each operator, NaN if unknown.

    It is in the unit of `at_sources`: records, or records/s. `flow`, `processed` and `emitted` are
    as in `arrival_rates`; selectivities do not count.
    """
    reaching: dict[str, float] = {}
    for name in flow.order:
        upstream = [edge.source for edge in flow.into(name)]
        if not upstream:
            reaching[name] = at_sources[name]
            continue
        reaching[name] = sum(
            _along(
                reaching[feeder],
                processed[feeder],
                received=processed[name]
                if len(upstream) == 1 and len(flow.out_of(feeder)) > 1
                else emitted[feeder],
            )
            for feeder in upstream
        )
    return reaching


def source_demand(processed: float, backlog_growth: float, back_pressure: float) -> float:
    """Return records/s that arrive at a source, NaN if unknown.

    A source without a backlog would have taken in more if it had not waited for room downstream: in
    the rest of the time it took in what it did.

    A backlog that falls by much more than the source takes in was not worked off: records were
    deleted, offsets reset, or the gauge is stale. Arrivals in the meantime are then unknown, not
    zero.

    Args:
        processed: Records/s that it took in.
        backlog_growth: Records/s by which its backlog grew; NaN where it reports none.
        back_pressure: Share of time that it waited for room downstream.
    """
    if math.isnan(backlog_growth):
        if not back_pressure > USUAL_BACK_PRESSURE:
            return processed
        return processed / (1 - min(back_pressure, MAX_BACK_PRESSURE))
    demand = processed + backlog_growth
    if demand < -MAX_NEGATIVE * processed:
        return math.nan
    return 0.0 if demand < 0 else demand


def _along(reaching: float, processed: float, *, received: float) -> float:
    """Scale what passed an edge from what the feeder processed up to what reaches it."""
    if reaching == 0 and received == 0:
        return 0.0
    return reaching * ratio(received, processed)


Scope = Mapping[str, tuple[Series, ...]]
"""Series by name."""

_ATTEMPT = frozenset(
    {
        "task_attempt_id",
        "task_attempt_num",
        "subtask_index",
        "operator_subtask_index",
        "instance",
        "job",
    }
)
"""Labels that may change while the thing that is measured stays the same."""


JobSeries = Mapping[str, tuple[Scope, ...]]
"""The series of one run of a job: of each replica of an operator, in the order of the layout; empty
of one that sent none. A TaskManager's own series (garbage collection) are among them."""


def job_series(window: Window, layout: JobLayout) -> JobSeries:
    """Pick the series of one run out of a window."""
    by_owner: dict[str, list[Series]] = {}
    for series in window.series:
        tm_id = series.labels.get("tm_id")
        if tm_id is not None and series.labels.get("job_id", layout.job_id) == layout.job_id:
            by_owner.setdefault(tm_id, []).append(series)
    return {
        name: tuple(_scope(by_owner.get(names.mangle(each.id), ())) for each in replicas)
        for name, replicas in layout.replicas.items()
    }


def of_vertices(series: Sequence[Series], vertices: frozenset[str]) -> Sequence[Series]:
    """Return the series of these vertices; no vertices means all of them."""
    if not vertices:
        return series
    return [each for each in series if each.labels.get("task_id") in vertices]


def newest_sample(scope: Scope) -> float:
    """Return when the newest sample of the run's tasks was scraped, or NaN."""
    return max(
        (
            series.times[-1]
            for all_series in scope.values()
            for series in all_series
            if "task_id" in series.labels
        ),
        default=math.nan,
    )


def _scope(all_series: Iterable[Series]) -> Scope:
    """Group by name, keeping of each task only the attempt that was seen last."""
    grouped: dict[str, list[Series]] = {}
    for series in all_series:
        grouped.setdefault(series.name, []).append(series)
    # Most names are there once: only the others need their labels compared, which is slow.
    return {
        name: tuple(series if len(series) == 1 else _last_attempts(series))
        for name, series in grouped.items()
    }


def _last_attempts(all_series: Iterable[Series]) -> Iterable[Series]:
    latest: dict[frozenset[tuple[str, str]], Series] = {}
    for series in all_series:
        lasting = frozenset(item for item in series.labels.items() if item[0] not in _ATTEMPT)
        known = latest.get(lasting)
        if known is None or known.times[-1] < series.times[-1]:
            latest[lasting] = series
    return latest.values()
