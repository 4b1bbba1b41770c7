"""Turns a window of samples into what the job did in it. Pure.

    window + layout -> series of this run -> replicas -> operators -> source to sink

Values are in `values.py`; each module explains the numbers that it computes.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from weir_operator.metrics import names
from weir_operator.metrics.layout import JobLayout, OperatorLayout, PlacedReplica
from weir_operator.metrics.operators import measure_operators
from weir_operator.metrics.output import Flow, measure_sinks
from weir_operator.metrics.rates import last_value
from weir_operator.metrics.scope import JobSeries, Scope, job_series
from weir_operator.metrics.source import Window
from weir_operator.metrics.values import (
    AppMeasurement,
    OperatorMeasurement,
    ReplicaMeasurement,
    ServiceFrom,
    SinkMeasurement,
)

__all__ = [
    "AppMeasurement",
    "JobLayout",
    "OperatorLayout",
    "OperatorMeasurement",
    "PlacedReplica",
    "ReplicaMeasurement",
    "ServiceFrom",
    "SinkMeasurement",
    "measure",
]


def measure(
    window: Window,
    layout: JobLayout,
    previous: AppMeasurement | None = None,
    *,
    set_by: float = 0.0,
) -> AppMeasurement:
    """Measure one run of a job.

    Args:
        window: Samples of the StreamApp; those of other runs in it are ignored.
        layout: The run that is measured, and who serves what in it.
        previous: What was measured last, of this run or of one before: what waits at a source may
            have arrived then.
        set_by: Seconds by which the clock was set since then.

    Returns:
        Every operator and replica of the layout, NaN for what the window does not show.
    """
    series = job_series(window, layout)
    arrivals = {} if previous is None else previous.arrivals_as_if_set(set_by)
    if len(layout.sources) == len(arrivals) == 1:  # the source may have left its operator since
        arrivals = {layout.sources[0]: next(iter(arrivals.values()))}
    operators = measure_operators(layout, series, window, arrivals)
    missed = Flow(
        layout=layout,
        service_means={name: each.service_mean for name, each in operators.items()},
        emitted={name: each.emitted_rate for name, each in operators.items()},
        source_waits={name: each.source_wait for name, each in operators.items()},
    ).missed_by_markers()
    sinks = {
        name: measure_sinks([operators[name]], series.operators[name], missed=missed)
        for name in layout.sinks
    }
    at_sinks = [scope for name in sinks for scope in series.operators[name]]
    backlogs = [
        operators[name].backlog
        for name in layout.sources
        if not math.isnan(operators[name].backlog)
    ]
    return AppMeasurement(
        job_id=layout.job_id,
        start=window.start,
        end=window.end,
        newest=_newest(operators.values()),
        operators=operators,
        sinks=sinks,
        end_to_end=measure_sinks([operators[name] for name in sinks], at_sinks, missed=missed),
        backlog=sum(backlogs) if backlogs else math.nan,
        restarts=_job_value(series.job, names.RESTARTS),
        missing=_missing(layout, series),
    )


def _newest(operators: Iterable[OperatorMeasurement]) -> float:
    times = [replica.last_sample for operator in operators for replica in operator.replicas]
    return max((time for time in times if not math.isnan(time)), default=math.nan)


def _job_value(job: Scope, name: str) -> float:
    """Newest value of one of the JobManager's series; Flink writes -1 for "none yet"."""
    value = max(map(last_value, job.get(name, ())), default=math.nan)
    return math.nan if value < 0 else value


_STANDS_IN = {names.SERVICE_N: names.TASK_SERVICE_N, names.AGE_N: names.TASK_AGE_N}
"""What the agent reports where there is no helper."""


def _missing(layout: JobLayout, series: JobSeries) -> tuple[str, ...]:
    """Name the optional metrics that no replica of an operator reports, and the job's."""
    missing: list[str] = []
    sinks = layout.sinks
    for name, operator in layout.operators.items():
        optional = [names.SERVICE_N, names.AGE_N] if operator.upstream else [names.PENDING_RECORDS]
        if name in sinks:
            optional += [names.LATENCY_N, names.LATENCY_BUCKET]
        scopes = series.operators[name]
        missing += [
            f"{name}: {metric.removeprefix(names.OPERATOR)}"
            for metric in optional
            if not any(metric in scope or _STANDS_IN.get(metric) in scope for scope in scopes)
        ]
    if names.RESTARTS not in series.job:
        missing.append(f"job: {names.RESTARTS.removeprefix(names.JOB)}")
    return tuple(missing)
