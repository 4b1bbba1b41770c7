"""The series of a window, sorted by run of the job, TaskManager and task.

Left out: series of earlier runs (another `job_id`) and of earlier attempts of a task, so that a
rescale or a restart inside the window does not mix two runs into one rate.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from weir_operator.metrics import names
from weir_operator.metrics.layout import JobLayout
from weir_operator.metrics.source import Series, Window

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


@dataclass(frozen=True, slots=True)
class JobSeries:
    """The series of one run of a job."""

    operators: Mapping[str, tuple[Scope, ...]]
    """Of each replica of an operator, in the order of the layout; empty of one that sent none. A
    TaskManager's own series (garbage collection) are among them."""
    job: Scope
    """What the JobManager says of the run."""


def job_series(window: Window, layout: JobLayout) -> JobSeries:
    """Pick the series of one run out of a window."""
    by_owner: dict[str, list[Series]] = {}
    job: list[Series] = []
    job_id = layout.job_id
    for series in window.series:
        if series.labels.get("job_id", job_id) != job_id:
            continue
        if series.name.startswith(names.JOB):
            job.append(series)
        elif (tm_id := series.labels.get("tm_id")) is not None:
            by_owner.setdefault(tm_id, []).append(series)
    return JobSeries(
        operators={
            name: tuple(
                _scope(by_owner.get(names.mangle(replica.tm_id), ()))
                for replica in operator.replicas
            )
            for name, operator in layout.operators.items()
        },
        job=_scope(job),
    )


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
    """Return the series of one name, of each task only the attempt that was seen last."""
    latest: dict[frozenset[tuple[str, str]], Series] = {}
    for series in all_series:
        lasting = frozenset(item for item in series.labels.items() if item[0] not in _ATTEMPT)
        known = latest.get(lasting)
        if known is None or known.times[-1] < series.times[-1]:
            latest[lasting] = series
    return latest.values()
