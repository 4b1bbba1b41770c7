"""Service times and utilisation of replicas, per operator, pool and minute.

The Java helper counts records, seconds and squared seconds per function; the busiest function of an
operator's day limits it, as in the live controller. Without the helper, busy time per record is
used as the service time, without a variance.
"""

from __future__ import annotations

from datetime import date

import numpy as np
import pyarrow as pa

from weir_pipelines import metrics
from weir_pipelines.samples import Bools, Labels, Samples, begin_ms, share, sort_labels
from weir_pipelines.schemas import WORK
from weir_pipelines.series_minutes import Roles, SeriesMinutes, measure_blocks
from weir_policies.model.arrays import Floats

_US = 1e-6
_KEY = ("operator", "task", "function", "pool", "subtask")

HELPER = "helper"
BUSY_TIME = "busyTime"


def measure_work(samples: Samples, series: pa.Table, day: date) -> pa.Table:
    """Return what each operator's replicas in each pool did in each minute.

    Args:
        samples: Of the day and its margins, of one application.
        series: As the table `series`; one that is written on several days may be there repeatedly.
        day: Which day.

    Returns:
        As the table `work`; minutes in which nothing was served left out.
    """
    blocks = measure_blocks(samples, sort_labels(series, *_KEY), day)
    tables = [_sum_pools(minutes, labels, day) for labels, minutes in blocks]
    rows = pa.concat_tables([WORK.schema.empty_table(), *tables])
    return rows.sort_by([(name, "ascending") for name in WORK.order])


def _sum_pools(minutes: SeriesMinutes, labels: Labels, day: date) -> pa.Table:
    """Add up the functions of some operators to operators and pools."""
    groups = labels.group(*_KEY)
    roles = Roles(metric=labels["metric"], present=minutes.present, groups=groups)
    functions = labels.take(groups.starts)
    seconds = roles.total(metrics.SERVICE_US, minutes.rise) * _US
    limits = _choose_functions(functions, seconds)
    # By pool from here on; what limits is chosen by function, over all pools.
    order = np.lexsort((functions["subtask"], functions["task"], functions["pool"]))
    order = order[np.argsort(functions["operator"][order], kind="stable")]
    ordered = functions.take(order)
    pools = ordered.group("operator", "pool")

    def total(values: Floats) -> Floats:
        return pools.total(values[order])

    def of_limiting(values: Floats) -> Floats:
        return total(np.where(limits[:, None], values, np.nan))

    busy, busy_of = (
        roles.total(metrics.BUSY, each) / 1000 for each in (minutes.change, minutes.change_ms)
    )
    served = of_limiting(roles.total(metrics.SERVICE_N, minutes.rise))
    taken = total(roles.total(metrics.RECORDS_IN, minutes.rise))
    given = total(roles.total(metrics.RECORDS_OUT, minutes.rise))
    counted = ~np.isnan(served)
    # Flink counts no input at a source.
    records = np.where(counted, served, np.where(taken > 0, taken, given))
    spent = np.where(counted, of_limiting(seconds), np.maximum(total(busy), 0.0))
    squares = of_limiting(roles.total(metrics.SERVICE_US2, minutes.rise) * _US * _US)
    which = ordered.take(pools.starts)
    # A replica of an operator of several tasks has a subtask of each: together they count once.
    tasks = functions.take(functions.group("operator", "task").starts).group("operator").sizes
    sampled = _count_replicas(ordered, groups.any(minutes.present)[order])
    replicas = sampled / tasks[which.group("operator").numbers, None]
    known = (records > 0) & ~np.isnan(spent)
    rows, of_day = np.nonzero(known)

    def column(values: Floats) -> pa.Array:
        return pa.array(values[known], from_pandas=True)  # NaN becomes null

    return pa.table(
        [
            which["operator"][rows],
            which["pool"][rows],
            begin_ms(day) // 1000 + 60 * of_day,
            replicas[known],
            column(records),
            column(spent),
            column(np.where(counted, squares, np.nan)),
            column(pools.most(share(busy, busy_of)[order])),
            np.where(counted, HELPER, BUSY_TIME)[known],
            column(total(roles.total(metrics.LATENCY_N, minutes.rise))),
            column(total(roles.total(metrics.LATENCY_US, minutes.rise) * _US)),
        ],
        schema=WORK.schema,
    )


def _choose_functions(functions: Labels, seconds: Floats) -> Bools:
    """Tell which rows are of the function that spent most seconds in its operator's day."""
    one, whole = functions.group("operator", "task", "function"), functions.group("operator")
    known = ~np.isnan(seconds)
    of_day = np.where(np.logical_or.reduce(known, axis=1), np.nansum(seconds, axis=1), np.nan)
    spent = one.total(of_day)[one.numbers]
    return np.equal(spent, whole.most(spent)[whole.numbers])


def _count_replicas(functions: Labels, present: Bools) -> Floats:
    """Return how many replicas of each operator and pool were sampled, in each minute."""
    subtasks = functions.group("operator", "pool", "task", "subtask")
    sampled = subtasks.any(present).astype(np.float64)
    return functions.take(subtasks.starts).group("operator", "pool").total(sampled)
