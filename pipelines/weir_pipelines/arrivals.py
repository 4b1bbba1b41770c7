"""Aggregates tasks to operators: records that arrived, were processed, and waited, per minute.

Parallel tasks are summed to runs of a job, these to tasks, and tasks to operators. Rates of
parallel tasks are scaled by their number: if one of four was not sampled, the others' records count
as three quarters, and `completeness` says so.

What arrived at an operator differs from what it took (see `judge_demand`). Under back-pressure, in
a restart and while a source catches up, the difference goes into its backlog or comes out of it. So
what arrives at a source is what it took plus the growth of its backlog. Whatever blocks or delays
the source scales the flow behind it equally, so what would have arrived at an operator inside the
dataflow is what it took, times what arrived at the sources over what they took. That needs no
dataflow and is exact with one source; several sources are treated as one, as if each had been
blocked as much as all together.

If a source is back-pressured and reports no backlog, all arrivals of the minute are unknown.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from datetime import date

import numpy as np
import pyarrow as pa

from weir_pipelines.faults import Fault
from weir_pipelines.samples import (
    Bools,
    Groups,
    Samples,
    Words,
    begin_ms,
    divide,
    sort_labels,
)
from weir_pipelines.schemas import ARRIVALS
from weir_pipelines.series_minutes import measure_blocks
from weir_pipelines.settings import BLOCKED_FROM
from weir_pipelines.task_minutes import (
    SUBTASK,
    TaskLifetimes,
    TaskMinutes,
    find_task_lifetimes,
    measure_tasks,
)
from weir_policies.model.arrays import Floats


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Demand:
    """What arrived, each of shape `(o, minutes)`."""

    arrived: Floats
    """Records/s; NaN where unknown."""
    is_backlog: Bools
    """At a source: it was taken from its backlog."""
    is_blocked: Bools
    """Unknown, because some source was blocked; the same for all operators of a minute."""


def judge_demand(*, taken: Floats, growth: Floats, blocked: Floats, is_source: Bools) -> Demand:
    """Return what arrived at all operators of one application.

    Args:
        taken: Records/s that each took in, shape `(o, minutes)`; NaN where unknown, as below.
        growth: Records/s by which its backlog grew, same shape; NaN if it reports none.
        blocked: Share of time that it was back-pressured, same shape.
        is_source: Whether it was a source then, same shape.
    """
    under_pressure = is_source & (np.nan_to_num(blocked) > BLOCKED_FROM)
    silent = np.isnan(growth)
    without = under_pressure & silent
    # Backlog and intake are not sampled at one instant: a small negative sum is zero.
    at_source = np.where(without, np.nan, np.maximum(taken + np.nan_to_num(growth), 0.0))
    every = Groups(starts=np.zeros(1, dtype=np.int64), rows=taken.shape[0])
    take = every.total(np.where(is_source, taken, np.nan))  # 1 x minutes
    demand = every.total(np.where(is_source, at_source, np.nan))
    unknown = np.broadcast_to(every.any(without), taken.shape)
    plain = np.isnan(take) | (take == demand)  # no source in sight, or nothing waits before it
    inside = np.where(plain, taken, taken * divide(demand, take))
    return Demand(
        arrived=np.where(is_source, at_source, np.where(unknown, np.nan, inside)),
        is_backlog=under_pressure & ~silent,
        is_blocked=unknown,
    )


def rebuild_arrivals(samples: Samples, series: pa.Table, day: date) -> pa.Table:
    """Return the rates of an application's operators, minute by minute.

    Args:
        samples: Of the day and its margins.
        series: As the table `series`; one that is written on several days may be there repeatedly.
        day: Which day.

    Returns:
        As the table `arrivals`; minutes of which nothing is known are left out.
    """
    blocks = []
    for labels, minutes in measure_blocks(samples, sort_labels(series, *SUBTASK), day):
        tasks = measure_tasks(minutes, labels)
        blocks.append(_sum_operators(tasks, find_task_lifetimes(tasks, day)))
    if not blocks:
        return ARRIVALS.schema.empty_table()
    return _shape(_join(blocks), day)


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class _Operators:
    """What operators did in each minute, each of shape `(o, minutes)`; NaN where unknown."""

    names: Words
    """Shape `(o,)`."""
    present: Bools
    taken: Floats
    given: Floats
    """Records/s."""
    completeness: Floats
    """Share of the minute that samples cover."""
    utilisation: Floats
    blocked: Floats
    """Shares of time, of the task that has most of it."""
    backlog: Floats
    """Records."""
    growth: Floats
    """Of the backlog, records/s."""
    replicas: Floats
    is_source: Bools
    faults: dict[Fault, Bools]


def _join(blocks: list[_Operators]) -> _Operators:
    """Return several blocks of operators as one."""
    arrays = {
        each.name: np.concatenate([getattr(block, each.name) for block in blocks])
        for each in fields(_Operators)
        if each.name != "faults"
    }
    faults = {
        fault: np.concatenate([block.faults[fault] for block in blocks])
        for fault in blocks[0].faults
    }
    return _Operators(**arrays, faults=faults)


def _sum_operators(tasks: TaskMinutes, lives: TaskLifetimes) -> _Operators:
    """Add up parallel tasks, then runs and tasks."""
    labels = tasks.labels
    runs = labels.group("operator", "task", "job_id")
    of_run = labels.take(runs.starts)
    by_task = of_run.group("operator", "task")
    of_task = of_run.take(by_task.starts)
    operators, whole = of_task.group("operator"), labels.group("operator")
    source, parallelism = lives.is_source[:, None], lives.parallelism[:, None]
    sources = lives.is_source[runs.starts[by_task.starts]]
    # Of an operator's tasks, its sources take in its records; where it has none, all of them do.
    has_source = operators.any(sources)[operators.numbers]
    is_entry = np.where(has_source, sources, True)

    # Flink counts no input at a source: what it gives out stands for it.
    taken_rise = runs.total(np.where(source, tasks.out_rise, tasks.in_rise))
    taken_s = runs.total(np.where(source, tasks.out_ms, tasks.in_ms) / parallelism) / 1000
    given_rise = runs.total(tasks.out_rise)
    given_s = runs.total(tasks.out_ms / parallelism) / 1000
    taken = divide(by_task.total(taken_rise), by_task.total(taken_s))
    given = divide(by_task.total(given_rise), by_task.total(given_s))
    # Runs of a task follow each other: together they cover a minute at most.
    covered = np.minimum(by_task.total(taken_s), 60.0)
    there = np.where(tasks.present, parallelism, np.nan)
    flagged = {**tasks.faults, Fault.RESTART: lives.is_restart & tasks.present}
    return _Operators(
        names=of_task["operator"][operators.starts],
        present=whole.any(tasks.present),
        taken=operators.total(_only(is_entry, taken)),
        given=operators.total(given),
        completeness=operators.least(_only(is_entry, covered)) / 60,
        utilisation=operators.most(by_task.mean(runs.mean(tasks.busy))),
        blocked=operators.most(by_task.mean(runs.mean(tasks.blocked))),
        # Of runs that share a minute, the backlog of the one that has most of it.
        backlog=operators.total(
            _only(is_entry, by_task.at_most_of(runs.total(tasks.pending), taken_s))
        ),
        growth=operators.total(by_task.mean(runs.total(tasks.growth))),
        replicas=operators.most(by_task.mean(runs.most(there))),
        is_source=whole.any(tasks.present & source),
        faults={fault: whole.any(each) for fault, each in flagged.items()},
    )


def _only(chosen: Bools, values: Floats) -> Floats:
    """Return the values of some rows, NaN at the others."""
    return values if chosen.all() else np.where(chosen[:, None], values, np.nan)


def _shape(operators: _Operators, day: date) -> pa.Table:
    """Return the rows of the table, by operator and minute."""
    demand = judge_demand(
        taken=operators.taken,
        growth=operators.growth,
        blocked=operators.blocked,
        is_source=operators.is_source,
    )
    found = {
        **operators.faults,
        Fault.BACKLOG: demand.is_backlog,
        Fault.BLOCKED: demand.is_blocked,
    }
    # Sorted by name, as each row's faults are to be.
    faults = [found[fault] & operators.present for fault in sorted(found)]
    completeness = np.nan_to_num(operators.completeness)
    known = operators.present & ((completeness > 0) | np.logical_or.reduce(faults))
    rows, minutes = np.nonzero(known)

    def column(values: Floats) -> pa.Array:
        return pa.array(values[known], from_pandas=True)  # NaN becomes null

    names = pa.DictionaryArray.from_arrays(rows.astype(np.int32), pa.array(operators.names))
    return pa.table(
        [
            names.cast(pa.string()),
            begin_ms(day) // 1000 + 60 * minutes,
            column(demand.arrived),
            column(operators.taken),
            column(operators.given),
            column(operators.backlog),
            column(operators.blocked),
            column(operators.utilisation),
            operators.replicas[known],
            completeness[known],
            _list_faults([each[known] for each in faults], sorted(found)),
        ],
        schema=ARRIVALS.schema,
    )


def _list_faults(flags: list[Bools], faults: list[Fault]) -> pa.Array:
    """Return the names of those faults that each row has."""
    rows, columns = np.nonzero(np.stack(flags, axis=1))
    offsets = np.searchsorted(rows, np.arange(flags[0].size + 1)).astype(np.int32)
    names = pa.array([fault.value for fault in faults])
    return pa.ListArray.from_arrays(offsets, names.take(pa.array(columns)))
