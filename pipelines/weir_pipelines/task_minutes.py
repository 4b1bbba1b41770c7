"""From series to tasks: what each parallel task did in each minute, its metrics side by side.

When tasks began and ended: how many are parallel, what is a restart, and what is a source.

One run may be rescaled in place, with an attempt after the other: parallel to an attempt are those
that live while it does, even where they are not sampled for a while.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date

import numpy as np

from weir_pipelines import metrics
from weir_pipelines.faults import Fault
from weir_pipelines.samples import Bools, Groups, Labels, day_number, divide, share
from weir_pipelines.series_minutes import Roles, SeriesMinutes
from weir_pipelines.settings import CLOCK_TOLERANCE, DAY_MINUTES, MINUTE_MS
from weir_policies.model.arrays import Floats

SUBTASK = ("operator", "task", "job_id", "subtask", "attempt")
"""What a task is; labels must be sorted by it."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class TaskMinutes:
    """What each attempt of each parallel task did in each minute, each of shape `(t, minutes)`.

    NaN is what nothing is known of.
    """

    labels: Labels
    """Of each task, shape `(t,)`; only the columns of `SUBTASK` have a meaning."""
    present: Bools
    in_rise: Floats
    in_ms: Floats
    out_rise: Floats
    out_ms: Floats
    """Of records in and out: the rise, and the milliseconds that it covers."""
    busy: Floats
    blocked: Floats
    """Shares of time."""
    pending: Floats
    """The backlog, where the task reports one."""
    growth: Floats
    """Of the backlog, records/s."""
    first_ms: Floats
    last_ms: Floats
    """Of the samples."""
    faults: dict[Fault, Bools]
    """Those that are seen here."""


def measure_tasks(minutes: SeriesMinutes, labels: Labels) -> TaskMinutes:
    """Return what each attempt of each parallel task did in each minute.

    Args:
        minutes: What each series did.
        labels: What each series is, sorted by `SUBTASK`.
    """
    groups = labels.group(*SUBTASK)
    roles = Roles(metric=labels["metric"], present=minutes.present, groups=groups)
    is_clock = np.abs(_clock_difference(roles, minutes)) > CLOCK_TOLERANCE

    def covered(role: str, values: Floats) -> Floats:
        # How long a minute was whose clock was set, is unknown: it covers nothing.
        return np.where(is_clock, 0.0, roles.total(role, values))

    def share_of_time(state: str) -> Floats:
        return share(roles.total(state, minutes.change), roles.total(state, minutes.change_ms))

    # A source of the old kind reports NaN for its busy time all its life.
    countable = (*metrics.COUNTERS, *metrics.GAUGES)
    return TaskMinutes(
        labels=labels.take(groups.starts),
        present=groups.any(minutes.present),
        in_rise=covered(metrics.RECORDS_IN, minutes.rise),
        in_ms=covered(metrics.RECORDS_IN, minutes.rise_ms),
        out_rise=covered(metrics.RECORDS_OUT, minutes.rise),
        out_ms=covered(metrics.RECORDS_OUT, minutes.rise_ms),
        busy=share_of_time(metrics.BUSY),
        blocked=share_of_time(metrics.BLOCKED),
        pending=roles.total(metrics.PENDING, minutes.last),
        # Several functions may each have a backlog: their rates add up.
        growth=roles.total(metrics.PENDING, 1000 * divide(minutes.change, minutes.change_ms)),
        first_ms=groups.least(minutes.first_ms),
        last_ms=groups.most(minutes.last_ms),
        faults={
            Fault.CLOCK: is_clock,
            Fault.DUPLICATE: groups.any(minutes.is_duplicate),
            Fault.GAP: groups.any(minutes.is_gap),
            Fault.LATE: groups.any(minutes.is_late),
            Fault.NOT_A_NUMBER: roles.seen(countable, minutes.is_nan),
            Fault.RESET: roles.seen(metrics.COUNTERS, minutes.is_reset),
        },
    )


def _clock_difference(roles: Roles, minutes: SeriesMinutes) -> Floats:
    """Return seconds by which the task's own clock went ahead of the samples'; NaN if unknown.

    Busy, idle and back-pressured time together are what elapsed at the task, because Flink computes
    the first as the rest. All three must have been sampled together.

    Source: Flink 2.3, `TaskIOMetricGroup.getAccumulatedBusyTime`.
    """
    busy, idle, blocked = (roles.total(state, minutes.elapsed_ms) for state in metrics.STATES)
    own = sum((roles.total(state, minutes.moved) for state in metrics.STATES), np.zeros(1))
    return np.where((busy == idle) & (idle == blocked), (own - busy) / 1000, np.nan)


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class TaskLifetimes:
    """What the day as a whole says of each task."""

    parallelism: Floats
    """How many tasks are parallel, this one among them, shape `(t,)`."""
    is_source: Bools
    """Whether it gave and was never given any records, shape `(t,)`."""
    is_restart: Bools
    """Whether it starts over or ends for another in a minute, shape `(t, minutes)`."""


def find_task_lifetimes(tasks: TaskMinutes, day: date) -> TaskLifetimes:
    """Return what the day says of the tasks of whole operators."""
    labels = tasks.labels
    operators = labels.group("operator")
    begun = np.fmin.reduce(tasks.first_ms, axis=1)
    ended = np.fmax.reduce(tasks.last_ms, axis=1)
    # Compared with what is unknown, nothing is true.
    begins = begun > operators.least(ended)[operators.numbers]
    ends = ended < operators.most(begun)[operators.numbers]
    is_restart = np.zeros(tasks.present.shape, dtype=np.bool_)
    for rows, moments in ((begins, begun), (ends, ended)):
        # A sample on the stroke of the minute ends the minute before.
        minutes = (moments[rows].astype(np.int64) - 1) // MINUTE_MS - day_number(day) * DAY_MINUTES
        is_restart[np.flatnonzero(rows), minutes] = True
    subtasks = labels["subtask"].astype(np.int64)
    runs = labels.group("operator", "task", "job_id")
    return TaskLifetimes(
        parallelism=_count_parallel(subtasks.astype(np.float64), begun, ended, runs),
        is_source=_find_sources(tasks, labels.group("operator", "task")),
        is_restart=is_restart,
    )


def _count_parallel(subtask: Floats, begun: Floats, ended: Floats, runs: Groups) -> Floats:
    """Return one more than the highest subtask of the run whose life overlaps each task's own."""
    highest = subtask.copy()
    for first, size in zip(runs.starts, runs.sizes, strict=True):
        if size > 1:
            run = slice(first, first + size)
            # own x others
            beside = (begun[run] < ended[run, None]) & (begun[run, None] < ended[run])
            others = np.where(beside, subtask[run], -1.0).max(axis=1)
            highest[run] = np.maximum(subtask[run], others)
    return highest + 1


def _find_sources(tasks: TaskMinutes, of_task: Groups) -> Bools:
    was_fed = of_task.total(np.nansum(tasks.in_rise, axis=1)) > 0
    gave = of_task.total(np.nansum(tasks.out_rise, axis=1)) > 0
    return (~was_fed & gave)[of_task.numbers]
