"""When tasks began and ended: how many are parallel, what is a restart, and what is a source.

One run may be rescaled in place, with an attempt after the other: parallel to an attempt are those
that live while it does, even where they are not sampled for a while.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date

import numpy as np

from weir_pipelines.groups import Bools, Groups
from weir_pipelines.samples import day_number
from weir_pipelines.settings import DAY_MINUTES, MINUTE_MS
from weir_pipelines.task_minutes import TaskMinutes
from weir_policies.model.arrays import Floats


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Lives:
    """What the day as a whole says of each task."""

    parallelism: Floats
    """How many tasks are parallel, this one among them, shape `(t,)`."""
    is_source: Bools
    """Whether it gave and was never given any records, shape `(t,)`."""
    is_restart: Bools
    """Whether it begins anew or ends for another in a minute, shape `(t, minutes)`."""


def know_lives(tasks: TaskMinutes, day: date) -> Lives:
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
    return Lives(
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
